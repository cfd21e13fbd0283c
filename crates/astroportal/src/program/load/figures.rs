//! Figures of a load: rates, response times, and how evenly clients were served (DiPerF, as the AstroPortal report used
//! it). It never measures.

use std::time::Duration;

use serde::Serialize;

/// What one client has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// How long each answer took.
    pub(super) times: Vec<Duration>,
    /// Answers by the storage level that served them, the nearest first.
    pub(super) levels: [u64; 3],
    /// Requests that failed, or were refused.
    pub(super) failed: u64,
}

/// Figures of so many clients at once (contract: `--json`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LoadFigure {
    pub(super) clients: u32,
    /// Cutouts that were served.
    pub(super) cutouts: u64,
    pub(super) failed: u64,
    pub(super) per_s: f64,
    /// Requests that were to be sent each second; none where each client sends the next one after an answer.
    pub(super) offered_per_s: Option<f64>,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    /// Jain's index of the cutouts of each client: 1 if all got the same.
    pub(super) fairness: f64,
    /// Parts that came from levels 1, 2 and 3.
    pub(super) levels: [f64; 3],
}

impl LoadFigure {
    pub(super) fn of(seen: &[Seen], took: Duration, offered_per_s: Option<f64>) -> Self {
        let mut times: Vec<Duration> = seen.iter().flat_map(|seen| seen.times.iter().copied()).collect();
        times.sort_unstable();
        let cutouts = times.len() as u64;
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            let time = times.get(((times.len() as f64 * share) as usize).min(last));
            time.map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
        };
        let level = |at: usize| {
            let served: u64 = seen.iter().map(|seen| seen.levels[at]).sum();
            served as f64 / cutouts.max(1) as f64
        };
        Self {
            clients: u32::try_from(seen.len()).unwrap_or(u32::MAX),
            cutouts,
            failed: seen.iter().map(|seen| seen.failed).sum(),
            per_s: cutouts as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE),
            offered_per_s,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            fairness: fairness(seen.iter().map(|seen| seen.times.len() as f64)),
            levels: [level(0), level(1), level(2)],
        }
    }
}

/// Jain's index: 1 where all are alike, 1/n where one has all.
fn fairness(each: impl Iterator<Item = f64>) -> f64 {
    let (mut clients, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in each {
        clients += 1.0;
        sum += x;
        squares += x * x;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (clients * squares) }
}

/// The fewest clients that get nearly all that is to be had: more of them only wait longer.
pub(super) fn knee(figures: &[LoadFigure]) -> Option<u32> {
    let most = figures.iter().map(|figure| figure.per_s).fold(0.0, f64::max);
    figures.iter().find(|figure| figure.per_s >= KNEE_SHARE * most).map(|figure| figure.clients)
}

/// What part of the most that is served counts as nearly all.
const KNEE_SHARE: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(millis: &[u64]) -> Seen {
        let times: Vec<_> = millis.iter().copied().map(Duration::from_millis).collect();
        Seen { levels: [times.len() as u64, 0, 0], times, failed: 1 }
    }

    #[test]
    fn figures_are_of_all_clients_together() {
        let mut all = vec![seen(&[1, 3, 2]), seen(&[100])];
        all[1].levels = [0, 0, 1];
        let figure = LoadFigure::of(&all, Duration::from_secs(2), None);
        assert_eq!((figure.clients, figure.cutouts, figure.failed, figure.per_s), (2, 4, 2, 2.0));
        assert_eq!((figure.p50_ms, figure.p95_ms, figure.p99_ms), (3.0, 100.0, 100.0));
        assert_eq!(figure.levels, [0.75, 0.0, 0.25]);
        // (3 + 1)² / (2 (9 + 1)).
        assert!((figure.fairness - 0.8).abs() < 1e-12);
        let nothing = LoadFigure::of(&[], Duration::ZERO, Some(5.0));
        assert_eq!((nothing.cutouts, nothing.p99_ms, nothing.fairness), (0, 0.0, 1.0));
    }

    #[test]
    fn the_knee_is_where_more_clients_bring_hardly_more() {
        let figure = |clients, per_s| LoadFigure {
            per_s,
            ..LoadFigure::of(&vec![Seen::default(); clients], Duration::from_secs(1), None)
        };
        assert_eq!(knee(&[figure(1, 100.0), figure(2, 190.0), figure(4, 210.0), figure(8, 205.0)]), Some(2));
        assert_eq!(knee(&[]), None);
    }
}
