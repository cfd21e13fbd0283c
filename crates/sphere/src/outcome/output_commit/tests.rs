//! The last step of a job over a world of three folders, with answers that are lost at every point.
#![allow(clippy::unwrap_used)]

use protocol::{JobId, NodeId, Reason, message::spe::BucketId};

use super::*;
use crate::OutputBucket;

const JOB: JobId = JobId(1);

fn outcome(parts: &[(u32, u64, Option<u128>)]) -> Outcome {
    let output = |(number, bytes, slice): &(u32, u64, Option<u128>)| OutputBucket {
        bucket: BucketId { job: JOB, stage: 0, epoch: 0, bucket: *number, generation: 0 },
        node: NodeId::new("a").unwrap(),
        bytes: *bytes,
        slice: slice.map(SliceId),
    };
    Outcome { epoch: 0, buckets: 9, outputs: parts.iter().map(output).collect(), skipped_segments: vec![] }
}

fn file(name: &str, bytes: u64, slice: u128) -> OutputEntry {
    OutputEntry { name: name.into(), bytes, slice: Some(SliceId(slice)) }
}

/// Three folders, and what a master does to them.
#[derive(Clone, Default)]
struct World {
    seen: OutputSnapshot,
    log: Vec<String>,
}

impl World {
    fn hiding(files: &[OutputEntry]) -> Self {
        Self { seen: OutputSnapshot { staging: Some(files.to_vec()), ..OutputSnapshot::default() }, log: vec![] }
    }

    fn apply(&mut self, action: &CommitAction) -> Result<(), Refusal> {
        let not_found = || Refusal::new(Reason::NotFound, "nothing there");
        let exists = || Refusal::new(Reason::Exists, "exists already");
        self.log.push(format!("{action:?}"));
        let OutputSnapshot { staging: hidden, gathered, target: place } = &mut self.seen;
        let move_to = |from: &mut Option<Vec<OutputEntry>>, to: &mut Option<Vec<OutputEntry>>| match (&from, &to) {
            (None, _) => Err(not_found()),
            (_, Some(_)) => Err(exists()),
            _ => {
                *to = from.take();
                Ok(())
            }
        };
        match action {
            CommitAction::Gather => move_to(hidden, gathered),
            CommitAction::Rename => move_to(gathered, place),
            CommitAction::WriteErrors => {
                let files = gathered.as_mut().ok_or_else(not_found)?;
                files.retain(|file| file.name != "errors.jsonl");
                files.push(file("errors.jsonl", 1, 99));
                Ok(())
            }
            CommitAction::Remove(name) => {
                let files = gathered.as_mut().ok_or_else(not_found)?;
                let before = files.len();
                files.retain(|file| file.name != *name);
                if files.len() == before { Err(not_found()) } else { Ok(()) }
            }
            CommitAction::RemoveEmptyTarget => match place.take() {
                Some(files) if files.is_empty() => Ok(()),
                other => {
                    *place = other;
                    Err(exists())
                }
            },
            CommitAction::Inspect | CommitAction::Finished(_) => Ok(()),
        }
    }

    fn names(&self) -> Vec<&str> {
        self.seen.target.iter().flatten().map(|file| file.name.as_str()).collect()
    }
}

/// One action; whether it was the last, and how that ended. `is_lost`: nobody hears of what was done.
fn step(reveal: &mut OutputCommit, world: &mut World, now: &mut Now, is_lost: bool) -> Option<Result<(), Refusal>> {
    let Some(action) = reveal.poll_action() else {
        let next = reveal.next_timeout().expect("it waits for something");
        *now = now.after(next.saturating_sub(now.monotonic));
        reveal.handle_timeout(*now);
        return None;
    };
    let applied = world.apply(&action);
    match action {
        CommitAction::Finished(result) => return Some(result),
        _ if is_lost => reveal.refused(*now, Refusal::new(Reason::Unavailable, "no answer")),
        CommitAction::Inspect => reveal.handle_inspected(&world.seen),
        _ => match applied {
            Ok(()) => reveal.done(),
            Err(refusal) => reveal.refused(*now, refusal),
        },
    }
    None
}

fn run(mut reveal: OutputCommit, world: &mut World, lost: impl Fn(usize) -> bool) -> Result<(), Refusal> {
    let mut now = Now::default();
    for number in 0..10_000 {
        if let Some(result) = step(&mut reveal, world, &mut now, lost(number)) {
            assert_eq!(reveal.poll_action(), None);
            return result;
        }
    }
    panic!("it does not end: {:?}", world.log);
}

fn two_parts() -> (Outcome, Vec<OutputEntry>) {
    (outcome(&[(0, 10, Some(1)), (3, 20, Some(2))]), vec![file("part-00000", 10, 1), file("part-00003", 20, 2)])
}

#[test]
fn what_is_no_part_of_the_outcome_is_not_revealed() {
    let (outcome, mut files) = two_parts();
    files.push(file("part-00001", 10, 7));
    files.push(OutputEntry { name: "folder".into(), bytes: 0, slice: None });
    let mut world = World::hiding(&files);
    run(OutputCommit::new(Now::default(), &outcome, None, false), &mut world, |_| false).unwrap();
    assert_eq!(world.names(), ["part-00000", "part-00003"]);
    assert_eq!(
        world.log,
        ["Gather", "Inspect", "Remove(\"part-00001\")", "Remove(\"folder\")", "Rename", "Finished(Ok(()))"]
    );
}

// Promise 18.
#[test]
fn a_commit_that_comes_late_is_not_revealed_whenever_it_comes() {
    let (outcome, files) = two_parts();
    for late_at in 0..6 {
        let (mut world, mut now) = (World::hiding(&files), Now::default());
        let mut reveal = OutputCommit::new(now, &outcome, None, false);
        let ended = (0..20).find_map(|number| {
            if number == late_at {
                world.seen.staging.get_or_insert_default().push(file("part-00001", 10, 7));
            }
            step(&mut reveal, &mut world, &mut now, false)
        });
        assert_eq!(ended, Some(Ok(())), "at {late_at}");
        assert_eq!(world.names(), ["part-00000", "part-00003"], "at {late_at}");
    }
}

// Promise 18.
#[test]
fn a_part_that_is_missing_or_replaced_fails_the_job_and_is_named() {
    let (outcome, files) = two_parts();
    for bad in [vec![files[0].clone()], vec![files[0].clone(), file("part-00003", 20, 8)]] {
        let mut world = World::hiding(&bad);
        let refusal = run(OutputCommit::new(Now::default(), &outcome, None, false), &mut world, |_| false).unwrap_err();
        assert_eq!(refusal.status(), Status::Failed);
        assert!(refusal.message.contains("`part-00003`"), "{refusal}");
        assert_eq!(world.names(), Vec::<&str>::new());
    }
}

#[test]
fn of_parts_whose_slices_nobody_told_the_length_must_be_right() {
    let outcome = outcome(&[(0, 10, None)]);
    let reveal = || OutputCommit::new(Now::default(), &outcome, None, false);
    run(reveal(), &mut World::hiding(&[file("part-00000", 10, 5)]), |_| false).unwrap();
    run(reveal(), &mut World::hiding(&[file("part-00000", 11, 5)]), |_| false).unwrap_err();
}

// Promise 19.
#[test]
fn an_answer_that_is_lost_at_any_step_is_no_failure() {
    let (outcome, files) = two_parts();
    for lost in 0..12 {
        for lost_for in 1..4 {
            let mut world = World::hiding(&[files.clone(), vec![file("part-00001", 10, 7)]].concat());
            world.seen.target = Some(vec![]);
            let reveal = OutputCommit::new(Now::default(), &outcome, Some("errors.jsonl".into()), true);
            run(reveal, &mut world, |step| (lost..lost + lost_for).contains(&step)).unwrap();
            assert_eq!(
                world.names(),
                ["part-00000", "part-00003", "errors.jsonl"],
                "{lost}, {lost_for}: {:?}",
                world.log
            );
        }
    }
}

// Promise 19.
#[test]
fn two_drivers_in_the_last_step_both_end_well_however_they_meet() {
    let (outcome, files) = two_parts();
    for seed in 0..2_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut world, mut now) = (World::hiding(&files), Now::default());
        world.seen.staging.as_mut().unwrap().push(file("part-00001", 10, 7));
        let new = || OutputCommit::new(Now::default(), &outcome, None, false);
        let (mut drivers, mut ended) = ([new(), new()], [None, None]);
        while ended.contains(&None) {
            let which = rng.usize(0..2);
            if ended[which].is_none() {
                ended[which] = step(&mut drivers[which], &mut world, &mut now, rng.u8(0..5) == 0);
            }
        }
        assert_eq!(ended, [Some(Ok(())), Some(Ok(()))], "seed {seed}: {:?}", world.log);
        assert_eq!(world.names(), ["part-00000", "part-00003"], "seed {seed}");
    }
}

#[test]
fn what_was_put_in_the_place_meanwhile_stays_and_the_job_fails() {
    let (outcome, files) = two_parts();
    for (place, may_make_room) in [(vec![file("part-00000", 10, 55)], true), (vec![], false)] {
        let mut world = World::hiding(&files);
        world.seen.target = Some(place.clone());
        let reveal = OutputCommit::new(Now::default(), &outcome, None, may_make_room);
        assert_eq!(run(reveal, &mut world, |_| false).unwrap_err().status(), Status::Exists);
        assert_eq!(world.seen.target, Some(place));
    }
}

#[test]
fn what_may_not_be_is_asked_for_once_and_told() {
    let (outcome, files) = two_parts();
    for denied in [CommitAction::Gather, CommitAction::Rename] {
        let (mut world, now) = (World::hiding(&files), Now::default());
        let mut reveal = OutputCommit::new(now, &outcome, None, false);
        let ended = loop {
            match reveal.poll_action().unwrap() {
                CommitAction::Finished(result) => break result,
                CommitAction::Inspect => reveal.handle_inspected(&world.seen),
                action if action == denied => reveal.refused(now, Refusal::new(Reason::NoRight, "you may not")),
                action => {
                    world.apply(&action).unwrap();
                    reveal.done();
                }
            }
        };
        assert_eq!(ended.unwrap_err().message, "you may not");
    }
}

#[test]
fn a_master_that_stays_away_is_waited_for_for_ten_minutes() {
    let (outcome, files) = two_parts();
    let mut world = World::hiding(&files);
    let refusal = run(OutputCommit::new(Now::default(), &outcome, None, false), &mut world, |_| true).unwrap_err();
    assert_eq!(refusal.status(), Status::Unavailable);
    assert_eq!(world.log.len(), 602, "once a second, and the end");
}

#[test]
fn an_output_that_is_nowhere_is_told() {
    let (outcome, _) = two_parts();
    let refusal =
        run(OutputCommit::new(Now::default(), &outcome, None, false), &mut World::default(), |_| false).unwrap_err();
    assert_eq!(refusal.status(), Status::NotFound);
}
