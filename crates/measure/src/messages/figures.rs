//! Summarises the measured times: medians over the rounds of each round's rate, median and 99th percentile. It never
//! measures anything itself.

use std::time::Duration;

use serde::Serialize;

/// One row of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageFigure {
    /// The system's name.
    pub system: &'static str,
    /// Requests under way at once.
    pub in_flight: usize,
    /// Requests answered in a second: the median of the rounds.
    pub messages_per_s: f64,
    /// Half of the answers came within this many microseconds: the median of the rounds.
    pub p50_us: f64,
    /// 99 of 100 answers came within this many microseconds: the median of the rounds.
    pub p99_us: f64,
}

/// The rounds of every system.
#[derive(Debug, Default)]
pub(super) struct Measured {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    system: &'static str,
    in_flight: usize,
    rates: Vec<f64>,
    p50s: Vec<f64>,
    p99s: Vec<f64>,
}

impl Measured {
    /// Adds a round.
    pub(super) fn add(&mut self, system: &'static str, in_flight: usize, turn: Duration, mut times: Vec<Duration>) {
        times.sort_unstable();
        let known = self.rows.iter().position(|row| row.system == system && row.in_flight == in_flight);
        let at = known.unwrap_or_else(|| {
            self.rows.push(Row { system, in_flight, rates: Vec::new(), p50s: Vec::new(), p99s: Vec::new() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.rates.push(times.len() as f64 / turn.as_secs_f64());
        row.p50s.push(hundredth(&times, 50));
        row.p99s.push(hundredth(&times, 99));
    }

    /// The medians.
    pub(super) fn figures(self) -> Vec<MessageFigure> {
        let figure = |row: Row| MessageFigure {
            system: row.system,
            in_flight: row.in_flight,
            messages_per_s: median(row.rates).round(),
            p50_us: tenths(median(row.p50s)),
            p99_us: tenths(median(row.p99s)),
        };
        self.rows.into_iter().map(figure).collect()
    }
}

/// The time within which this percentage of the answers came, in microseconds; 0 if there are none.
fn hundredth(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_median_of_its_rounds() {
        let mut measured = Measured::default();
        for round in [3, 1, 2] {
            let times = (1..=100).map(|at| Duration::from_micros(at * round)).collect();
            measured.add("gmp", 1, Duration::from_secs(round), times);
        }
        measured.add("udp", 1, Duration::from_secs(1), Vec::new());
        let figures = measured.figures();
        let gmp = MessageFigure { system: "gmp", in_flight: 1, messages_per_s: 50.0, p50_us: 102.0, p99_us: 200.0 };
        let udp = MessageFigure { system: "udp", in_flight: 1, messages_per_s: 0.0, p50_us: 0.0, p99_us: 0.0 };
        assert_eq!(figures, [gmp, udp]);
    }
}
