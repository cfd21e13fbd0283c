//! Messages: a request of [`PAYLOAD_BYTES`] and an answer of as many, over GMP and over its alternatives. It serves
//! `sector bench messages`, and never talks to a running cloud.

mod emulated_socket;
mod figures;
mod gmp;
mod grpc;
mod latency;
mod tcp;
mod udp;
mod zeromq;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    pin::Pin,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

pub use figures::MessageFigure;

use figures::Measured;
use latency::MeasurementWindow;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct MessagesPlan {
    /// Rounds; each system has its turn in each.
    pub rounds: u32,
    /// How long each turn is measured; [`WARM_UP`] comes before it.
    pub turn: Duration,
    /// Threads of each end's runtime.
    pub threads: usize,
    /// Whether GMP is measured over emulated links too, which lose nothing, 1 % and 10 %.
    pub far: bool,
}

/// What a comparison gives.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// One row for each system and number of requests in flight, GMP first.
    pub figures: Vec<MessageFigure>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Why a measurement failed.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A system has no such name.
    #[error("there is no messaging system called `{0}` to measure")]
    NoSuchSystem(String),
    /// What a system needs is not on this machine.
    #[error("{0}")]
    Missing(String),
    /// The end that answers did not start.
    #[error("the answering end of {system} did not say where it is: run the command again, and look at its messages")]
    Mute {
        /// Which one.
        system: &'static str,
    },
    /// A call of the system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// GMP failed.
    #[error(transparent)]
    Gmp(#[from] net::NetError),
    /// Another system failed.
    #[error("{system} failed: {reason}")]
    System {
        /// Which one.
        system: &'static str,
        /// In its own words.
        reason: String,
    },
}

/// Measures every system. `end` makes the command that runs [`answer`] with the name that it is given.
///
/// Every system has the same setup. The answering end is a process of its own, the requesting end is this process.
/// Each has a runtime with [`MessagesPlan::threads`] threads. Connections are made before the measurement begins,
/// except where a new connection per message is what is measured. Systems take turns, round by round. One request in
/// flight shows the latency, [`MANY_IN_FLIGHT`] show the rate.
pub fn compare(plan: MessagesPlan, end: impl Fn(&'static str) -> Command) -> Result<Comparison, MeasureError> {
    let runtime = runtime(plan.threads)?;
    let (mut lines, mut left_out) = (Vec::new(), Vec::new());
    let far = if plan.far { emulated_socket::systems() } else { Vec::new() };
    for system in near_systems().into_iter().chain(far) {
        if let Err(MeasureError::Missing(why)) = system.is_here() {
            left_out.push(why);
            continue;
        }
        let answering = ResponderProcess::start(system.name(), end(system.name()))?;
        let (peer, connecting) = (answering.address, Arc::clone(&system));
        let line = on(&runtime, async move { connecting.connect(peer).await })?;
        lines.push((system, line, answering));
    }
    let mut measured = Measured::default();
    for _ in 0..plan.rounds {
        for in_flight in [1, MANY_IN_FLIGHT] {
            for (system, line, _) in &lines {
                let (line, turn) = (Arc::clone(line), plan.turn * system.turns());
                let times = on(&runtime, async move { line.ask(MeasurementWindow::begin(in_flight, turn)).await })?;
                measured.add(system.name(), in_flight, turn, times);
            }
        }
    }
    for (system, line, _) in lines {
        on(&runtime, async move { line.check().await })?;
        drop(system);
    }
    Ok(Comparison { figures: measured.figures(), left_out })
}

/// Runs the answering end of a system until standard input ends, which happens when the process that started it ends.
pub fn answer(system: &str, threads: usize) -> Result<(), MeasureError> {
    let found = near_systems().into_iter().chain(emulated_socket::systems()).find(|known| known.name() == system);
    let system = found.ok_or_else(|| MeasureError::NoSuchSystem(system.to_owned()))?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    on(&runtime(threads)?, async move { system.answer(Announce).await })
}

/// A system that carries messages: its two ends.
trait System: Send + Sync {
    /// Its name in the figures.
    fn name(&self) -> &'static str;
    /// Whether this machine has what it needs.
    fn is_here(&self) -> Result<(), MeasureError> {
        Ok(())
    }
    /// How many turns' time one turn of this system takes: more where few messages fit into one.
    fn turns(&self) -> u32 {
        1
    }
    /// Runs the answering end on the loopback: announces its address, and answers until the process ends.
    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()>;
    /// Makes the requesting end.
    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>>;
}

/// The requesting end of a system, connected if the system has connections.
trait Requester: Send + Sync {
    /// Sends requests until the window is over; returns how long each answer took.
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>>;
    /// Checks that every request ran, and ran once.
    fn check(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What an end returns, later.
type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, MeasureError>> + Send>>;

/// Announces the address of this end to the process that started it.
struct Announce;

impl Announce {
    fn say(self, address: SocketAddr) -> Result<(), MeasureError> {
        let mut out = std::io::stdout();
        writeln!(out, "{address}").and_then(|()| out.flush()).map_err(io("saying where the answering end is"))
    }
}

/// The process of an answering end; dropping this ends it.
struct ResponderProcess {
    process: Child,
    address: SocketAddr,
}

impl ResponderProcess {
    fn start(system: &'static str, mut command: Command) -> Result<Self, MeasureError> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(io("starting an answering end"))?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(io("hearing from an answering end"))?;
        }
        match line.trim().parse() {
            Ok(address) => Ok(Self { process, address }),
            Err(_) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(MeasureError::Mute { system })
            }
        }
    }
}

impl Drop for ResponderProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn near_systems() -> Vec<Arc<dyn System>> {
    vec![
        Arc::new(gmp::Gmp::loopback()),
        Arc::new(udp::Udp),
        Arc::new(tcp::Tcp),
        Arc::new(tcp::TcpPerMessage),
        Arc::new(grpc::Grpc),
        Arc::new(zeromq::ZeroMq::plain()),
        Arc::new(zeromq::ZeroMq::sealed()),
    ]
}

fn runtime(threads: usize) -> Result<Runtime, MeasureError> {
    let built = Builder::new_multi_thread().worker_threads(threads.max(1)).enable_all().build();
    built.map_err(io("starting a runtime"))
}

/// Runs work on the runtime's own threads, as servers do. The thread that waits here would have to be woken for each
/// datagram.
fn on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, MeasureError>> + Send + 'static,
) -> Result<T, MeasureError> {
    let done = runtime.block_on(async { tokio::spawn(work).await });
    done.unwrap_or_else(|error| Err(MeasureError::System { system: "the runtime", reason: error.to_string() }))
}

fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> MeasureError {
    move |source| MeasureError::Io { what, source }
}

/// Where every end is bound.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Bytes of a request, and of its answer.
pub const PAYLOAD_BYTES: usize = 100;
/// Requests under way at once where the rate is measured.
pub const MANY_IN_FLIGHT: usize = 64;
/// Unmeasured time before each turn, in which connections and caches get warm.
pub const WARM_UP: Duration = Duration::from_millis(50);
