//! iperf3: the kernel's TCP without encryption, with a given congestion controller. Both ends are iperf3 processes,
//! and the figures are those that it reports. This process never carries the bytes itself.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde::Deserialize;

use super::{
    bench_network::{BenchNetwork, End},
    flow::{Amount, System, TransferError, TransferRun, TransferSpec},
};

/// Whether iperf3 can be started.
pub(super) fn is_here() -> bool {
    Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// One run of iperf3.
pub(super) fn run(
    place: &BenchNetwork,
    rate_bits_per_s: Option<u64>,
    controller: &'static str,
    course: TransferSpec,
    began: Instant,
) -> Result<TransferRun, TransferError> {
    let failed = |reason: String| TransferError::System { system: System::Iperf(controller), reason };
    let mut receiver = place.run(End::Receiver, listening)?.map_err(&failed)?;
    let mut sender = Command::new(PROGRAM);
    sender.args(["--client", &place.receiver().to_string(), "--json", "--interval", "0.1"]);
    sender.args(["--congestion", controller, "--parallel", &course.flows.to_string()]);
    match (course.amount, rate_bits_per_s) {
        (Amount::Bytes(bytes), None) => sender.args(["--bytes", &bytes.to_string()]),
        // As long as the bytes take at the full rate: with a controller that starves, a number of bytes would take
        // for ever.
        (Amount::Bytes(bytes), Some(rate)) => sender.args(["--time", &(bytes * 8).div_ceil(rate).to_string()]),
        (Amount::Time(time), _) => sender.args(["--time", &time.as_secs().to_string()]),
    };
    let before = began.elapsed().as_secs_f64();
    let said = place.run(End::Sender, || sender.stderr(Stdio::null()).output());
    let _ = receiver.kill();
    let _ = receiver.wait();
    let said = said?.map_err(|error| failed(error.to_string()))?;
    let report: Report = serde_json::from_slice(&said.stdout).map_err(|error| failed(error.to_string()))?;
    if let Some(error) = report.error {
        return Err(failed(error));
    }
    Ok(report.end.ok_or_else(|| failed("it says nothing of the end".into()))?.run(&report.intervals, before))
}

/// A receiver that listens for one sender.
fn listening() -> Result<Child, String> {
    let mut receiver = Command::new(PROGRAM)
        .args(["--server", "--one-off", "--forceflush"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    // It reports when it listens.
    let mut lines = BufReader::new(receiver.stdout.take().ok_or("it has no output")?).lines();
    let listens = lines.any(|line| line.is_ok_and(|line| line.contains("listening")));
    // The rest of its output is read and dropped, so that it never blocks on a full pipe.
    std::thread::spawn(move || lines.count());
    if listens { Ok(receiver) } else { Err("its receiver does not listen: is its port taken?".into()) }
}

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    end: Option<Ending>,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
}

#[derive(Deserialize)]
struct Ending {
    sum_received: Sum,
    cpu_utilization_percent: Processor,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    #[serde(default)]
    end: f64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Processor {
    host_total: f64,
    remote_total: f64,
}

impl Ending {
    fn run(&self, intervals: &[Interval], before: f64) -> TransferRun {
        let mut bytes = 0;
        let sample = |interval: &Interval| {
            bytes += interval.sum.bytes;
            (before + interval.sum.end, bytes)
        };
        let percent = self.cpu_utilization_percent.host_total + self.cpu_utilization_percent.remote_total;
        TransferRun {
            bytes: self.sum_received.bytes,
            took: std::time::Duration::from_secs_f64(self.sum_received.seconds),
            processor_s: percent / 100.0 * self.sum_received.seconds,
            samples: intervals.iter().map(sample).collect(),
            from_s: before,
        }
    }
}

/// Its name.
const PROGRAM: &str = "iperf3";
