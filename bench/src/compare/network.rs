//! Messages and bulk bytes beside other protocols. `sector oct bench` measures them; here each round is one call of it, so
//! that the page can show least and most.

use std::{env, ffi::OsString, path::PathBuf, process::Command};

use serde_json::Value;

use crate::compare::{
    Plan,
    install::{Tools, says},
    report::{Missing, Peer, Report, Row, Table, Unit},
    stores::{from_root, libraries},
};

/// `compare messages`.
pub(crate) fn messages(plan: &Plan, tools: &Tools) -> Result<Report, String> {
    let mut report = Report { what: "messages", title: "Messages, side by side", ..Report::default() };
    let library = tools.debian(&["libzmq5"]);
    report.missing.extend(missing("ZeroMQ", &library));
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(bench(&["messages", "--rounds", "1"], library.as_ref().ok())?);
    }
    for in_flight in [64, 1] {
        let of = |value: &str| rows(&rounds, MESSAGE_SYSTEMS, value, |figure| figure["in_flight"] == in_flight);
        let title = |what: &str| format!("{what}, {in_flight} in flight");
        report.tables.push(Table { title: title("Rate"), unit: Unit::Rate("messages/s"), rows: of("messages_per_s") });
        if in_flight == 1 {
            let title = title("Round trip, median");
            report.tables.push(Table { title, unit: Unit::Micros, rows: of("p50_us") });
        }
    }
    let version = sector_version();
    let library_version = library.as_ref().map_or_else(|why| why.clone(), |root| zeromq_version(root));
    let peer = |name, version: &str, note| Peer { name, version: version.to_owned(), note };
    report.peers = vec![
        peer(
            "GMP",
            &version,
            "Each request has a task, a deadline, and a seal for each datagram. It is acknowledged, and runs once.",
        ),
        peer(
            "raw UDP",
            "of the kernel",
            "A datagram each way. It seals nothing, and finds neither losses nor duplicates.",
        ),
        peer("TCP, one connection", "of the kernel", "Kept open, and written as one stream. It does not seal."),
        peer("TCP, a connection each", "of the kernel", "A new connection for each message. It does not seal."),
        peer("gRPC", "tonic, of `Cargo.lock`", "Plain text over one HTTP/2 connection."),
        peer(
            "ZeroMQ",
            &library_version,
            "DEALER to ROUTER over TCP. It does not seal, acknowledge, or find duplicates.",
        ),
        peer("ZeroMQ, sealed", &library_version, "The same with CURVE."),
    ];
    report.paragraphs = vec![
        "A request of 100 bytes and its answer, between two processes with a thread each, on this machine. Each system is \
         measured for half a second a round. `sector oct bench messages` does it; every answer is counted."
            .into(),
    ];
    Ok(report)
}

/// `compare transfer`.
pub(crate) fn transfer(plan: &Plan, tools: &Tools) -> Result<Report, String> {
    let mut report = Report { what: "transfer", title: "Transfers, side by side", ..Report::default() };
    let iperf = tools.debian(&["iperf3"]);
    report.missing.extend(missing("iperf3", &iperf));
    for (title, ours, bytes, path) in PATHS {
        let mut rounds = Vec::new();
        for round in 1..=plan.rounds {
            let seed = round.to_string();
            let mut words = vec!["transfer", "--bytes", bytes];
            words.extend(path.iter().copied());
            if !path.is_empty() {
                words.extend(["--seed", seed.as_str()]);
            }
            rounds.push(bench(&words, iperf.as_ref().ok())?);
        }
        for figure in rounds.iter().flatten().filter(|figure| figure["failed"].is_string()) {
            let name = format!("{} ({title})", name_of(figure, TRANSFER_SYSTEMS).unwrap_or("a system"));
            let known = Missing { name, reason: figure["failed"].as_str().unwrap_or_default().to_owned() };
            if !report.missing.contains(&known) {
                report.missing.push(known);
            }
        }
        let rows = rows(&rounds, TRANSFER_SYSTEMS, "goodput_bps", |figure| !figure["failed"].is_string());
        let mut rows: Vec<_> = rows.into_iter().map(in_megabits).collect();
        rows.sort_by_key(|row| row.name != *ours);
        report.tables.push(Table { title: (*title).into(), unit: Unit::Rate("Mbit/s"), rows });
    }
    let version = sector_version();
    let iperf_version = iperf.as_ref().map_or_else(
        |why| why.clone(),
        |root| {
            let said = says(from_root(root, "iperf3").arg("--version"));
            said.split_whitespace().nth(1).unwrap_or("of unknown version").to_owned()
        },
    );
    let peer = |name, version: &str, note| Peer { name, version: version.to_owned(), note };
    report.peers = vec![
        peer("QUIC with UDT", &version, "Our QUIC with our controller. It encrypts."),
        peer("the same, known peer", &version, "The same to a peer whose rate is known from a transfer before."),
        peer("QUIC with BBR", &version, "Our QUIC with BBR. It encrypts."),
        peer("QUIC with CUBIC", &version, "Our QUIC with CUBIC. It encrypts."),
        peer("bare QUIC library", "`noq`, of `Cargo.lock`", "Eight streams with BBR and large windows. It encrypts."),
        peer("TCP with TLS", &version, "Our TCP, with the controller of the kernel. It encrypts."),
        peer("iperf3, CUBIC", &iperf_version, "The kernel's TCP. It does not encrypt."),
        peer("iperf3, BBR", &iperf_version, "The kernel's TCP. It does not encrypt."),
    ];
    report.paragraphs = vec![
        "Bytes from memory to memory, of one flow; handshake, start and end count, except for iperf3, which reports its own \
         time. `sector oct bench transfer` does it, and counts what arrives. Over emulated links, the emulation shares the \
         processors with both ends."
            .into(),
    ];
    Ok(report)
}

/// One call of `sector oct bench … --json`, with programs and libraries of unpacked packages.
fn bench(words: &[&str], root: Option<&PathBuf>) -> Result<Vec<Value>, String> {
    let mut command = Command::new(sector());
    command.args(["oct", "bench"]).args(words).arg("--json");
    if let Some(root) = root {
        let own = env::var_os("PATH").unwrap_or_default();
        let folders = [root.join("usr/bin")].into_iter().chain(env::split_paths(&own));
        command.env("PATH", env::join_paths(folders).map_err(|error| error.to_string())?);
        command.env("LD_LIBRARY_PATH", libraries(root));
    }
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", sector().to_string_lossy()))?;
    if !output.status.success() {
        return Err(format!("bench {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    println!("  bench {}: done", words.join(" "));
    serde_json::from_slice(&output.stdout).map_err(|error| format!("bench {}: {error}", words.join(" ")))
}

fn sector() -> OsString {
    env::var_os("SECTOR").unwrap_or_else(|| "target/release/sector".into())
}

fn sector_version() -> String {
    says(Command::new(sector()).arg("--version")).split_whitespace().nth(1).unwrap_or("of unknown version").to_owned()
}

fn zeromq_version(root: &std::path::Path) -> String {
    let library = std::fs::canonicalize(libraries(root).join("libzmq.so.5"));
    let name = library.ok().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.map_or_else(|| "of unknown version".into(), |name| name.trim_start_matches("libzmq.so.").to_owned())
}

fn missing(name: &str, installed: &Result<PathBuf, String>) -> Option<Missing> {
    installed.as_ref().err().map(|reason| Missing { name: name.into(), reason: reason.clone() })
}

/// A name on the page, and the members that a figure of this system has.
type Known = (&'static str, &'static [(&'static str, &'static str)]);

/// The rows of the rounds' figures that count, one for each known system that has some.
fn rows(rounds: &[Vec<Value>], known: &[Known], member: &str, counts: impl Fn(&Value) -> bool) -> Vec<Row> {
    let row = |(name, _): &Known| Row {
        name,
        values: (rounds.iter().flatten())
            .filter(|figure| counts(figure) && name_of(figure, known) == Some(name))
            .filter_map(|figure| figure[member].as_f64())
            .collect(),
    };
    known.iter().map(row).filter(|row| !row.values.is_empty()).collect()
}

fn name_of(figure: &Value, known: &[Known]) -> Option<&'static str> {
    let is_it = |(_, members): &&Known| {
        members.iter().all(|(member, value)| figure[member].to_string().trim_matches('"') == *value)
    };
    known.iter().find(is_it).map(|(name, _)| *name)
}

fn in_megabits(row: Row) -> Row {
    Row { values: row.values.iter().map(|bits| bits / 1e6).collect(), ..row }
}

const MESSAGE_SYSTEMS: &[Known] = &[
    ("GMP", &[("system", "gmp")]),
    ("raw UDP", &[("system", "udp")]),
    ("TCP, one connection", &[("system", "tcp")]),
    ("TCP, a connection each", &[("system", "tcp-new")]),
    ("gRPC", &[("system", "grpc")]),
    ("ZeroMQ", &[("system", "zeromq")]),
    ("ZeroMQ, sealed", &[("system", "zeromq-curve")]),
];
const TRANSFER_SYSTEMS: &[Known] = &[
    ("QUIC with UDT", &[("system", "sector"), ("controller", "udt"), ("is_known", "false")]),
    ("the same, known peer", &[("system", "sector"), ("controller", "udt"), ("is_known", "true")]),
    ("QUIC with BBR", &[("system", "sector"), ("controller", "bbr")]),
    ("QUIC with CUBIC", &[("system", "sector"), ("carrier", "quic"), ("controller", "cubic")]),
    ("TCP with TLS", &[("system", "sector"), ("carrier", "tcp")]),
    ("bare QUIC library", &[("system", "noq")]),
    ("iperf3, CUBIC", &[("system", "iperf3"), ("controller", "cubic")]),
    ("iperf3, BBR", &[("system", "iperf3"), ("controller", "bbr")]),
];
/// A path: its title, the carrier that we take there, the bytes, and the emulated link.
type BenchPath = (&'static str, &'static str, &'static str, &'static [&'static str]);

const PATHS: &[BenchPath] = &[
    ("Loopback, 2 GB", "TCP with TLS", "2GB", &[]),
    ("1 Gbit/s, 100 ms, 1 GB", "QUIC with UDT", "1GB", &["--rate", "1gbit", "--rtt", "100ms"]),
    (
        "200 Mbit/s, 100 ms, 0.1 % lost, 200 MB",
        "QUIC with UDT",
        "200MB",
        &["--rate", "200mbit", "--rtt", "100ms", "--loss", "0.1%"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_all_rounds_become_a_row_for_each_system() {
        let round = |rate: f64| -> Vec<Value> {
            let text = format!(
                r#"[{{"system":"sector","carrier":"quic","controller":"udt","is_known":false,"goodput_bps":{rate}}},
                {{"system":"sector","carrier":"quic","controller":"udt","is_known":true,"goodput_bps":7e6}},
                {{"system":"sector","carrier":"tcp","controller":"kernel","is_known":false,"goodput_bps":8e6}},
                {{"system":"iperf3","carrier":"tcp","controller":"bbr","is_known":false,"goodput_bps":0.0,"failed":"no"}}]"#
            );
            serde_json::from_str(&text).expect("JSON")
        };
        let counts = |figure: &Value| !figure["failed"].is_string();
        let found = rows(&[round(1e6), round(3e6)], TRANSFER_SYSTEMS, "goodput_bps", counts);
        let found: Vec<_> = found.into_iter().map(in_megabits).map(|row| (row.name, row.values)).collect();
        let expected = [
            ("QUIC with UDT", vec![1.0, 3.0]),
            ("the same, known peer", vec![7.0, 7.0]),
            ("TCP with TLS", vec![8.0, 8.0]),
        ];
        assert_eq!(found, expected);
    }
}
