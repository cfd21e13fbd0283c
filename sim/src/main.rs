//! The command that runs simulations: `sector-sim --seeds N [--from SEED] [-v] [--sabotage NAME]`. Exit code 0: all
//! held; 1: safety violated; 2: liveness violated; 64: wrong use. It prints the line that repeats the first failing
//! seed, and never goes on after it.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
    time::Instant,
};

use sim::{Options, Sabotage, SimulationReport};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Wanted::parse(&arguments) {
        Ok(wanted) => run(&wanted).unwrap_or(ExitCode::FAILURE),
        Err(why) => {
            let _ = writeln!(io::stderr(), "{why}\n\n{USAGE}");
            ExitCode::from(WRONG_USE)
        }
    }
}

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    seeds: u64,
    from: u64,
    is_shown: bool,
    sabotage: Option<Sabotage>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut wanted = Self { seeds: SEEDS_DEFAULT, from: 0, is_shown: false, sabotage: None };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || {
                let text = rest.next().ok_or_else(|| format!("`{argument}` needs a number behind it"))?;
                text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"))
            };
            match argument.as_str() {
                "--seeds" => wanted.seeds = number()?,
                "--from" => wanted.from = number()?,
                "-v" | "--verbose" => wanted.is_shown = true,
                "--sabotage" => {
                    let name = rest.next().ok_or("`--sabotage` needs a name behind it")?;
                    let found = Sabotage::ALL.into_iter().find(|sabotage| format!("{sabotage:?}") == *name);
                    wanted.sabotage = Some(found.ok_or_else(|| format!("there is no sabotage `{name}`"))?);
                }
                other => return Err(format!("`{other}` is not known here")),
            }
        }
        Ok(wanted)
    }
}

fn run(wanted: &Wanted) -> io::Result<ExitCode> {
    let begun = Instant::now();
    let mut sum = Sum::default();
    for seed in wanted.from..wanted.from.saturating_add(wanted.seeds) {
        let Wanted { is_shown, sabotage, .. } = *wanted;
        let report = sim::run(&Options { seed, is_shown, sabotage });
        sum.add(&report);
        if let Some(violation) = &report.violation {
            let mut out = io::stdout().lock();
            writeln!(out, "seed {seed}: {violation}")?;
            writeln!(out, "repeat it with: cargo xtask sim --seeds 1 --from {seed}")?;
            return Ok(ExitCode::from(violation.kind.exit_code()));
        }
    }
    sum.print(begun.elapsed().as_secs_f64())?;
    Ok(ExitCode::SUCCESS)
}

/// Sums over all runs.
#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    events: u64,
    simulated_seconds: f64,
    jobs: u64,
    taken_over: u64,
    appended: u64,
    resumed: u64,
    /// How often each fault fired, by its name.
    fired: BTreeMap<&'static str, u64>,
    network: sim::DatagramCounts,
}

impl Sum {
    fn add(&mut self, report: &SimulationReport) {
        self.seeds += 1;
        self.events += report.events;
        self.simulated_seconds += report.simulated.as_secs_f64();
        self.jobs += u64::from(report.jobs_done);
        self.taken_over += u64::from(report.taken_over);
        self.appended += u64::from(report.appended);
        self.resumed += u64::from(report.resumed);
        for (name, count) in report.fired.by_name() {
            *self.fired.entry(name).or_default() += count;
        }
        self.network.sent += report.network.sent;
        self.network.lost += report.network.lost;
        self.network.doubled += report.network.doubled;
    }

    fn print(&self, seconds: f64) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{} seeds held: {:.0} simulated s and {} events in {seconds:.1} s",
            self.seeds, self.simulated_seconds, self.events
        )?;
        let fired: Vec<_> = self.fired.iter().map(|(name, count)| format!("{count} {name}")).collect();
        writeln!(out, "fired: {}", fired.join(", "))?;
        let sim::DatagramCounts { sent, lost, doubled } = self.network;
        let (jobs, taken_over, appended, resumed) = (self.jobs, self.taken_over, self.appended, self.resumed);
        writeln!(out, "{lost} of {sent} datagrams lost, {doubled} doubled")?;
        writeln!(out, "{jobs} jobs done, {taken_over} taken over, {appended} appends, {resumed} uploads gone on with")
    }
}

const USAGE: &str = "usage: sector-sim [--seeds N] [--from SEED] [-v] [--sabotage NAME]
  --seeds N     run N seeds, one after the other (default 20)
  --from SEED   begin with this seed (default 0)
  -v            print all that happens
  --sabotage NAME  break what `Sabotage` in sim/src/lib.rs says, to see an invariant find it";
/// Number of seeds by default: some seconds.
const SEEDS_DEFAULT: u64 = 20;
/// The value from `sysexits.h`.
const WRONG_USE: u8 = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<Wanted, String> {
        Wanted::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_and_nonsense_is_named() {
        assert_eq!(
            parse("--seeds 5 --from 7 -v").unwrap(),
            Wanted { seeds: 5, from: 7, is_shown: true, sabotage: None }
        );
        assert_eq!(parse("").unwrap().seeds, SEEDS_DEFAULT);
        assert!(parse("--seeds").unwrap_err().contains("needs a number"));
        assert!(parse("--from x").unwrap_err().contains("not a number"));
        assert_eq!(parse("--sabotage DisksForget").unwrap().sabotage, Some(Sabotage::DisksForget));
        assert!(parse("--sabotage nothing").is_err());
        assert!(parse("--help").is_err());
    }
}
