//! One flow over many links: goodput as a share of the link's raw rate, headers, handshake and start included.
//!
//! Every run of the tests compares the small matrix with `matrix.txt` (`UPDATE_MATRIX=1` writes it anew). The large one
//! is shown in `docs/performance.md` and printed by `cargo test --release -p sector-net --test controllers -- --ignored
//! --nocapture`.

use std::{env, fmt::Write, fs, time::Duration};

use testbed::link::{LinkRules, Loss};

use crate::world::{Flow, Kind, World};

/// A link and how much is sent over it.
#[derive(Clone, Debug)]
struct Cell {
    rate_mbit: u64,
    round_trip: Duration,
    loss: Loss,
    reorder: f64,
    /// Queue as a multiple of what the rate brings in a round trip.
    queue: f64,
    bytes: u64,
}

/// How a flow did.
struct Outcome {
    goodput: f64,
    full_after: Option<Duration>,
    queue_mean: Duration,
}

impl Cell {
    fn clean(rate_mbit: u64, round_trip_ms: u64, bytes: u64) -> Self {
        let round_trip = Duration::from_millis(round_trip_ms);
        Self { rate_mbit, round_trip, loss: Loss::None, reorder: 0.0, queue: 1.0, bytes }
    }

    fn lossy(self, percent: f64) -> Self {
        Self { loss: Loss::Random(percent / 100.0), ..self }
    }

    fn bursts(self, percent: f64) -> Self {
        Self { loss: Loss::Bursts { share: percent / 100.0, length: 8.0 }, ..self }
    }

    fn reordered(self, percent: f64) -> Self {
        Self { reorder: percent / 100.0, ..self }
    }

    fn queue(self, queue: f64) -> Self {
        Self { queue, ..self }
    }

    fn rules(&self) -> LinkRules {
        let mut rules = LinkRules::clean(self.rate_mbit * 1_000_000, self.round_trip / 2);
        rules.queue_bytes = (rules.queue_bytes as f64 * self.queue) as u64;
        rules.loss = self.loss;
        rules.reorder = self.reorder;
        rules.reorder_by = Duration::from_millis(2);
        rules
    }

    fn name(&self) -> String {
        let fault = match self.loss {
            Loss::None if self.reorder > 0.0 => format!("{} % overtaken", self.reorder * 100.0),
            Loss::None => "clean".to_owned(),
            Loss::Random(share) => format!("{} % lost", share * 100.0),
            Loss::Bursts { share, length } => format!("{} % lost, {length} in a row", share * 100.0),
        };
        let queue = if self.queue < 1.0 { format!(", queue of {} round trips", self.queue) } else { String::new() };
        format!("{} Mbit/s, {} ms, {fault}{queue}", self.rate_mbit, self.round_trip.as_millis())
    }

    fn run(&self, kind: Kind, seed: u64) -> Outcome {
        let mut world = World::new(self.rules(), seed, &[Flow::of(kind, self.bytes)]);
        let rate = self.rate_mbit as f64 * 1e6 / 8.0;
        // A flow slower than a quarter of the raw rate has shown enough by then.
        let end = Duration::from_secs_f64(self.bytes as f64 / rate * PATIENCE);
        world.run(end);
        let took = world.took(0).unwrap_or(end);
        let arrived = world.arrived_bytes(0, Duration::ZERO, end + Duration::from_secs(1));
        Outcome {
            goodput: arrived as f64 / rate / took.as_secs_f64(),
            full_after: world.reached(0, rate * PAYLOAD_SHARE * 0.9, Duration::from_millis(250)),
            queue_mean: world.queue.mean(),
        }
    }
}

/// A line of the matrix; with several seeds the median of each controller.
fn line(cell: &Cell, kinds: &[Kind], seeds: &[u64]) -> String {
    let median = |kind: &Kind| {
        let mut outcomes: Vec<Outcome> = seeds.iter().map(|seed| cell.run(*kind, *seed)).collect();
        outcomes.sort_by(|one, other| one.goodput.total_cmp(&other.goodput));
        outcomes.swap_remove(outcomes.len() / 2)
    };
    let outcomes: Vec<Outcome> = kinds.iter().map(median).collect();
    let mut line = format!("| {} |", cell.name());
    for outcome in &outcomes {
        write!(line, " {:.2} |", outcome.goodput).unwrap();
    }
    let udt = &outcomes[0];
    let full = udt.full_after.map_or("never".to_owned(), |after| format!("{:.2} s", after.as_secs_f64()));
    write!(line, " {full} | {:.0} ms |", udt.queue_mean.as_secs_f64() * 1e3).unwrap();
    line
}

#[test]
fn the_small_matrix_is_as_it_was() {
    let clean = Cell::clean(50, 100, 15_000_000);
    let cells = [
        clean.clone(),
        clean.clone().lossy(0.1),
        clean.clone().lossy(1.0),
        clean.clone().bursts(1.0),
        clean.clone().reordered(1.0),
        clean.queue(0.25),
        Cell::clean(50, 10, 10_000_000).lossy(1.0),
        Cell::clean(50, 200, 15_000_000).lossy(1.0),
    ];
    let mut table =
        String::from("| link | UDT | CUBIC | UDT at full rate after | mean queue of UDT |\n|---|---|---|---|---|\n");
    for cell in &cells {
        writeln!(table, "{}", line(cell, &[Kind::Udt(None), Kind::Cubic], &[1])).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/controllers/matrix.txt");
    if env::var_os("UPDATE_MATRIX").is_some() {
        fs::write(path, &table).unwrap();
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(before, table, "the controllers do otherwise than they did; if that is meant, run with UPDATE_MATRIX=1");
}

#[test]
#[ignore = "takes minutes, and only in release"]
fn print_the_large_matrix() {
    let usual = Cell::clean(200, 100, 1_000_000_000);
    let cells = [
        Cell::clean(1_000, 100, 4_000_000_000),
        Cell::clean(1_000, 100, 1_000_000_000).lossy(0.1),
        Cell::clean(1_000, 100, 1_000_000_000).lossy(1.0),
        usual.clone(),
        usual.clone().lossy(0.1),
        usual.clone().lossy(1.0),
        usual.clone().bursts(0.1),
        usual.clone().bursts(1.0),
        usual.clone().reordered(1.0),
        usual.clone().queue(0.25),
        usual.queue(0.25).lossy(1.0),
        Cell::clean(200, 10, 500_000_000),
        Cell::clean(200, 10, 500_000_000).lossy(1.0),
        Cell::clean(200, 50, 500_000_000).lossy(1.0),
        Cell::clean(200, 200, 1_000_000_000),
        Cell::clean(200, 200, 1_000_000_000).lossy(1.0),
        Cell::clean(10, 50, 50_000_000).lossy(1.0),
    ];
    let seeds = if env::var_os("SEEDS").is_some() { vec![1, 2, 3] } else { vec![1] };
    // `CELLS="200 Mbit/s, 100 ms"` prints only the cells of that name.
    let wanted = env::var("CELLS").unwrap_or_default();
    for cell in cells.into_iter().filter(|cell| cell.name().contains(&wanted)) {
        println!("{}", line(&cell, &[Kind::Udt(None), Kind::Bbr3, Kind::Cubic], &seeds));
    }
}

/// How many times as long as at the raw rate a transfer may take before it is ended.
const PATIENCE: f64 = 4.0;
/// Share of a packet of 1,500 bytes that is payload.
pub(crate) const PAYLOAD_SHARE: f64 = 0.954;
