//! Messages: a request of [`PAYLOAD_BYTES`] and an answer of as many, over GMP and over its alternatives. It serves
//! `sector bench messages`, and never talks to a running cloud.

mod emulated_socket;
mod figures;
mod gmp;
mod grpc;
mod latency;
mod system;
mod tcp;
mod udp;
mod zeromq;

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use figures::Measured;
pub use figures::MessageFigure;
use latency::MeasurementWindow;
use system::{Announce, System, io};
pub use system::{MANY_IN_FLIGHT, MeasureError, PAYLOAD_BYTES, WARM_UP};
use tokio::runtime::{Builder, Runtime};

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
