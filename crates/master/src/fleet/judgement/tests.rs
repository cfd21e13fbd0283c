//! The judge over whole clouds: who is marked, when, and who never is.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use protocol::{JobId, UserName, message::marks::MarkState};

use super::{comparison::VERDICTS_MIN, mark_table::MARK_LIFE, *};

/// A cloud whose links carry what they are told to.
#[derive(Default)]
struct World {
    judgement: Judgement,
    rates: BTreeMap<(String, String), f64>,
    second: u64,
    gone: Vec<MarkSubject>,
}

struct Seen<'a>(&'a BTreeMap<(String, String), f64>, &'a [MarkSubject]);

impl JudgedCloud for Seen<'_> {
    fn disk_folder(&self, _node: &NodeId, number: usize) -> Option<String> {
        Some(format!("/disk-{number}"))
    }

    fn link_rate(&self, from: &str, to: &str, _second: u64) -> Option<f64> {
        self.0.get(&(from.to_owned(), to.to_owned())).copied()
    }

    fn is_gone(&self, subject: &MarkSubject) -> bool {
        self.1.contains(subject)
    }
}

fn node(number: usize) -> NodeId {
    NodeId::new(format!("n{number}")).unwrap()
}

impl World {
    fn now(&self) -> Now {
        Now { monotonic: Duration::from_secs(self.second), unix_millis: 1_800_000_000_000 + self.second * 1_000 }
    }

    /// So many seconds pass, in each of which something is told.
    fn pass(&mut self, seconds: u64, mut tell: impl FnMut(&mut Judgement, Now)) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for _ in 0..seconds {
            self.second += 1;
            let now = self.now();
            tell(&mut self.judgement, now);
            if self.judgement.is_due(now) {
                changes.extend(self.judgement.judge(now, &Seen(&self.rates, &self.gone)));
            }
        }
        changes
    }

    /// Nodes work for so many seconds in jobs of half a minute. A cost of two is twice as slow.
    fn work(&mut self, seconds: u64, costs: &[f64], rng: &mut Rng) -> Vec<RowChange> {
        self.pass(seconds, |judgement, now| {
            for (number, cost) in costs.iter().enumerate().filter(|(_, cost)| **cost > 0.0) {
                let noise = 0.6 + 0.8 * rng.f64();
                let (job, bytes) = (JobId(now.monotonic.as_secs() / 30), (1e7 / (cost * noise)) as u64);
                let work = StageWork { job, stage: 0, bytes, busy_micros: 1_000_000 };
                judgement.note_stages(now, &node(number), &[work]);
            }
        })
    }

    /// Disks of one node work for so many seconds, with these latencies in milliseconds.
    fn disks(&mut self, seconds: u64, millis: &[u64]) -> Vec<RowChange> {
        self.pass(seconds, |judgement, _| {
            let load = |millis: &u64| {
                (*millis > 0).then(|| DiskLoad {
                    written_bytes: 50 << 16,
                    latency_micros: millis * 1_000,
                    queue_hundredths: 50 * millis / 10,
                    ..DiskLoad::default()
                })
            };
            judgement.note_disks(&node(3), &millis.iter().map(load).collect::<Vec<_>>());
        })
    }

    fn slow(&self) -> Vec<String> {
        self.judgement.marks.slow().map(ToString::to_string).collect()
    }

    fn reason(&self) -> String {
        self.judgement.marks.list(self.now())[0].reason.clone()
    }
}

#[test]
fn a_node_at_a_fifth_of_the_speed_is_marked_and_says_why() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(1));
    world.work(15, &[1.0, 1.0, 5.0, 1.0], &mut rng);
    assert!(world.slow().is_empty(), "a few seconds mark nobody");
    world.work(60, &[1.0, 1.0, 5.0, 1.0], &mut rng);
    assert_eq!(world.slow(), ["node n2"]);
    let reason = world.reason();
    assert!(reason.starts_with("an SPE of n2 takes ") && reason.contains("the median of 3 other nodes"), "{reason}");
}

#[test]
fn two_of_four_are_marked_and_of_two_or_of_equals_or_of_idle_ones_none() {
    let marked = |seed, costs: &[f64]| {
        let (mut world, mut rng) = (World::default(), Rng::with_seed(seed));
        world.work(600, costs, &mut rng);
        world.slow()
    };
    for seed in 0..20 {
        assert_eq!(marked(seed, &[1.0, 5.0, 5.0, 1.0]), ["node n1", "node n2"], "seed {seed}");
        assert!(marked(seed, &[1.0, 5.0]).is_empty());
        assert!(marked(seed, &[1.0; 6]).is_empty(), "seed {seed}");
        assert!(marked(seed, &[0.0; 6]).is_empty());
        assert_eq!(marked(seed, &[1.0, 0.0, 0.0, 5.0, 1.0]), ["node n3"], "idle ones are no peers");
    }
}

#[test]
fn one_slow_second_marks_nobody_and_one_stage_does_not_either() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(3));
    for _ in 0..20 {
        world.work(29, &[1.0, 1.0, 1.0, 1.0], &mut rng);
        world.work(1, &[1.0, 1.0, 1.0, 50.0], &mut rng);
    }
    assert!(world.slow().is_empty());
    // One stage that goes on for minutes: its records may be uneven.
    world.pass(300, |judgement, now| {
        for number in 0..4 {
            let bytes = if number == 3 { 1_000 } else { 10_000 };
            let work = StageWork { job: JobId(1), stage: 7, bytes, busy_micros: 1_000_000 };
            judgement.note_stages(now, &node(number), &[work]);
        }
    });
    assert!(world.slow().is_empty());
}

#[test]
fn a_new_node_is_judged_like_any_other_and_one_that_recovers_is_cleared() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(4));
    world.work(300, &[1.0, 1.0, 1.0], &mut rng);
    world.work(100, &[1.0, 1.0, 1.0, 6.0], &mut rng);
    assert_eq!(world.slow(), ["node n3"]);
    let changes = world.work(100, &[1.0; 4], &mut rng);
    assert!(world.slow().is_empty());
    assert!(changes.iter().any(|change| matches!(change, RowChange::Remove { .. })));
}

#[test]
fn a_mark_expires_without_evidence_and_goes_with_its_node() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(5));
    world.work(100, &[1.0, 1.0, 1.0, 6.0], &mut rng);
    assert_eq!(world.slow(), ["node n3"]);
    world.work(MARK_LIFE.as_secs() - 30, &[1.0, 1.0, 1.0, 0.0], &mut rng);
    assert_eq!(world.slow(), ["node n3"], "it got no work");
    world.work(60, &[1.0, 1.0, 1.0, 0.0], &mut rng);
    assert!(world.slow().is_empty());
    world.work(100, &[1.0, 1.0, 1.0, 6.0], &mut rng);
    assert_eq!(world.slow(), ["node n3"]);
    world.gone.push(MarkSubject::Node(node(3)));
    world.pass(10, |_, _| {});
    assert!(world.slow().is_empty());
}

#[test]
fn a_slow_disk_is_named_and_not_held_against_its_node() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(6));
    world.work(100, &[1.0, 1.0, 1.0, 6.0], &mut rng);
    assert_eq!(world.slow(), ["node n3"]);
    world.disks(40, &[3, 41, 3, 4]);
    assert_eq!(world.slow(), ["node n3", "disk n3 /disk-1"]);
    world.work(20, &[1.0, 1.0, 1.0, 6.0], &mut rng);
    assert_eq!(world.slow(), ["disk n3 /disk-1"], "its disk is the reason");
    assert_eq!(
        world.reason(),
        "disk 2 of n3 (`/disk-1`) takes 41 ms an operation; the median of 3 disks under like load is 3.0 ms"
    );
    world.disks(100, &[3, 3, 3, 4]);
    assert!(world.slow().is_empty());
}

#[test]
fn a_link_that_carries_a_tenth_when_full_is_marked_once_for_both_directions() {
    let mut world = World::default();
    let sites = [("a", "b", 1e6), ("b", "a", 1e6), ("a", "c", 1e7), ("c", "a", 1.1e7), ("b", "c", 1.2e7)];
    for (from, to, rate) in sites {
        world.rates.insert((from.into(), to.into()), rate);
    }
    world.pass(15, |judgement, now| sites.iter().for_each(|(from, to, _)| judgement.note_full_link(now, from, to)));
    assert!(world.slow().is_empty());
    world.pass(60, |judgement, now| sites.iter().for_each(|(from, to, _)| judgement.note_full_link(now, from, to)));
    assert_eq!(world.slow(), ["link a b"]);
    assert!(
        world.reason().ends_with("MB/s when it is full; the median of 3 others is 11.0 MB/s"),
        "{}",
        world.reason()
    );
    assert_eq!(world.judgement.capacity("b", "c"), Some(24_000_000));
}

#[test]
fn a_pause_of_the_master_discards_what_came_in_a_heap() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(7));
    for _ in 0..50 {
        world.work(4, &[1.0, 1.0, 1.0, 9.0], &mut rng);
        // Suspended: nobody judged for an hour.
        world.second += 3_600;
    }
    assert!(world.slow().is_empty());
}

#[test]
fn what_an_administrator_has_cleared_needs_evidence_anew_and_what_is_ignored_stays_so() {
    let (mut world, mut rng) = (World::default(), Rng::with_seed(8));
    let (subject, costs) = (MarkSubject::Node(node(3)), [1.0, 1.0, 1.0, 6.0]);
    world.work(100, &costs, &mut rng);
    assert!(world.judgement.clear(&subject).is_some());
    world.work(5 * (VERDICTS_MIN as u64 - 2), &costs, &mut rng);
    assert!(world.slow().is_empty());
    world.work(100, &costs, &mut rng);
    assert_eq!(world.slow(), ["node n3"]);
    let ignored = (MarkState::Ignored, UserName::new("admin").unwrap(), "an old machine".to_owned());
    let now = world.now();
    assert!(world.judgement.marks.set(now, &subject, ignored).is_some());
    world.work(200, &costs, &mut rng);
    assert!(world.slow().is_empty());
}
