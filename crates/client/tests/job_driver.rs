//! The job driver against a fake cloud that is real on the wire: what it asks and what it leaves. The tests also check
//! what it does when SPEs, nodes, functions or people interfere. The rules themselves are tested in `sphere`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use client::{
    AttemptEnd, AttemptRecord, EntryKind, JobState, NodeMarks, RecordFraming,
    job::{JobOutput, JobProgress, JobSpec, StageSpec},
};
use fake_cloud::{FakeCloud, Fault, JOB, RECORD_BYTES, records};
use protocol::{
    Reason, Refusal, Status,
    message::{
        client_master::Entry,
        spe::{FunctionCode, FunctionSpec},
    },
};

fn function(name: &str) -> FunctionSpec {
    FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters: vec![] }
}

/// A shuffle into 3 buckets, then a stage on each bucket; 100-byte segments.
fn two_stages(inputs: Vec<Entry>, output: JobOutput) -> JobSpec {
    let records = RecordFraming::Fixed(RECORD_BYTES as u32);
    let stages = vec![
        StageSpec::shuffle(function("first"), 3).with_records(records),
        StageSpec::local(function("second")).with_records(records),
    ];
    JobSpec { segment_bytes: Some((100, 100)), ..JobSpec::new("test", inputs, stages, output) }
}

fn folder(path: &str) -> JobOutput {
    JobOutput::Folder(path.parse().unwrap())
}

fn nothing(_: &JobProgress) {}

// Promise 19.
#[tokio::test]
async fn a_job_of_two_stages_leaves_its_output_and_nothing_else() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let all = records(60);
    let inputs = vec![cloud.add_file("/in/1", &all[..35], &["a"]), cloud.add_file("/in/2", &all[35..], &["b"])];
    let mut shown = Vec::new();
    let client = cloud.client().await;
    let outcome =
        client.run_job(two_stages(inputs, folder("/out")), |progress| shown.push(progress.clone())).await.unwrap();

    assert_eq!(cloud.records_below("/out"), all);
    assert_eq!(cloud.world().paths(), ["/in/1", "/in/2", "/out/part-00000", "/out/part-00001", "/out/part-00002"]);
    let names: Vec<String> = outcome.outputs.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(names, ["/out/part-00000", "/out/part-00001", "/out/part-00002"]);
    assert!(outcome.outputs.iter().all(|entry| matches!(&entry.kind,
        EntryKind::File(content) if content.records == RecordFraming::Fixed(RECORD_BYTES as u32))));

    assert_eq!((outcome.job, outcome.record.state), (JOB, JobState::Done));
    let bytes = (all.len() * RECORD_BYTES) as u64;
    for stage in &outcome.record.stages {
        assert_eq!((stage.done, stage.failed, stage.bytes_in, stage.bytes_out), (stage.segments, 0, bytes, bytes));
        assert_eq!(stage.local, stage.segments, "every segment where it lies");
    }
    assert_eq!(cloud.world().record.clone(), Some(outcome.record));
    let last = shown.last().unwrap();
    assert_eq!((last.job, last.record.state, last.stage, last.bytes_done), (JOB, JobState::Done, 1, bytes));
}

#[tokio::test]
async fn each_conversation_loads_a_stage_once() {
    let cloud = FakeCloud::start(&["a"]).await;
    let input = cloud.add_file("/in/1", &records(100), &["a"]);
    cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap();
    let loads: Vec<String> = cloud.world().log.iter().filter(|line| line.starts_with("load")).cloned().collect();
    assert_eq!(loads, ["load BuiltIn(first) at a", "load BuiltIn(second) at a"]);
}

#[tokio::test]
async fn results_are_returned_in_the_order_of_buckets_with_empty_ones_empty() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let all: Vec<Vec<u8>> = ["a23456789-", "d23456789-", "c23456789-"].map(|text| text.as_bytes().to_vec()).into();
    let input = cloud.add_file("/in/1", &all, &["b"]);
    let stages = vec![StageSpec::shuffle(function("only"), 3)];
    let spec = JobSpec::new("test", vec![input], stages, JobOutput::Return);
    let outcome = cloud.client().await.run_job(spec, nothing).await.unwrap();
    // `a`, `d`, `c` are 97, 100 and 99: buckets 1, 1 and 0.
    assert_eq!(outcome.returned, [b"c23456789-".to_vec(), b"a23456789-d23456789-".to_vec(), vec![]]);
    assert_eq!((outcome.outputs, cloud.world().paths()), (vec![], vec!["/in/1".to_owned()]));
}

// Promise 18.
#[tokio::test]
async fn an_spe_that_dies_with_half_its_results_delivered_changes_nothing() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let all = records(60);
    let input = cloud.add_file("/in/1", &all, &["a"]);
    cloud.world().faults.extend([Fault::Die, Fault::Die]);
    let outcome = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap();
    assert_eq!(cloud.records_below("/out"), all);
    assert_eq!(outcome.record.stages[0].retried, 2);
}

#[tokio::test]
async fn a_jobs_end_is_reported_with_every_attempt_and_the_node_that_failed() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let input = cloud.add_file("/in/1", &records(30), &["a"]);
    cloud.world().faults.extend([Fault::Die]);
    let outcome = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap();
    let history = cloud.world().history.clone().unwrap();
    let tasks: u64 = outcome.record.stages.iter().map(|stage| stage.segments).sum();
    assert_eq!((history.attempts.len() as u64, history.left_out), (tasks + 1, 0));
    let failed: Vec<_> = history.attempts.iter().filter(|attempt| attempt.end == AttemptEnd::Failed).collect();
    let [failed] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!((failed.stage, failed.slice.as_str(), failed.bytes), (0, "/in/1", 100));
    assert_eq!(history.marks, [(failed.node.clone(), NodeMarks { failed: 1, overtaken: 0 })]);
    let again = |attempt: &&AttemptRecord| (attempt.stage, attempt.segment) == (0, failed.segment);
    let ends: Vec<_> = history.attempts.iter().filter(again).map(|attempt| attempt.end).collect();
    assert_eq!(ends, [AttemptEnd::Failed, AttemptEnd::Done]);
}

// Promise 18.
#[tokio::test]
async fn of_a_node_that_dies_only_its_buckets_are_made_again() {
    let cloud = FakeCloud::start(&["a", "b", "c"]).await;
    let all = records(60);
    let input = cloud.add_file("/in/1", &all, &["a", "b"]);
    cloud.world().faults.push_back(Fault::NodeDies);
    let mut runs = 0;
    let client = cloud.client().await;
    client.run_job(two_stages(vec![input], folder("/out")), |progress| runs = progress.epoch).await.unwrap();
    assert_eq!(cloud.records_below("/out"), all);
    assert_eq!(runs, 0);
    let hidden = cloud.world().paths().iter().any(|path| path.contains(".sphere"));
    assert!(!hidden, "only the output is left");
}

// Promise 19.
#[tokio::test]
async fn a_function_error_is_told_with_its_place_and_leaves_no_output() {
    let cloud = FakeCloud::start(&["a"]).await;
    let input = cloud.add_file("/in/1", &records(10), &["a"]);
    cloud.world().faults.push_back(Fault::Err("bad pixel".into()));
    let error = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
    let message = "the function `stack` failed on `/in/1`, segment 0, record 4 (which begins \"bad\"): bad pixel";
    assert_eq!((error.status(), error.to_string().as_str()), (Status::Failed, message));
    let world = cloud.world();
    let record = world.record.clone().unwrap();
    assert_eq!((record.state, record.errors), (JobState::Failed, vec![message.to_owned()]));
    assert_eq!(world.paths(), ["/in/1"]);
}

#[tokio::test]
async fn a_cancelled_job_stops_and_says_by_whom() {
    // Whoever tells the driver of it first.
    for fault in [Fault::Cancel, Fault::CancelBeforeLoad] {
        let cloud = FakeCloud::start(&["a"]).await;
        let input = cloud.add_file("/in/1", &records(10), &["a"]);
        cloud.world().faults.push_back(fault);
        let error = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
        assert_eq!((error.status(), error.to_string().as_str()), (Status::Failed, "the job was cancelled by bob"));
        assert_eq!(cloud.world().record.as_ref().unwrap().state, JobState::Cancelled);
    }
}

// Promise 27.
#[tokio::test]
async fn the_job_of_a_user_who_was_put_out_stops_and_is_refused() {
    let cloud = FakeCloud::start(&["a"]).await;
    let input = cloud.add_file("/in/1", &records(10), &["a"]);
    cloud.world().faults.push_back(Fault::PutOut);
    let error = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
    assert_eq!((error.status(), error.to_string().as_str()), (Status::Refused, "the session has ended"));
}

#[tokio::test]
async fn an_output_folder_that_holds_something_is_refused_before_the_job_begins() {
    let cloud = FakeCloud::start(&["a"]).await;
    let input = cloud.add_file("/in/1", &records(10), &["a"]);
    cloud.add_file("/out/old", &records(1), &["a"]);
    let client = cloud.client().await;
    for output in ["/out", "/out/old", "/"] {
        let error = client.run_job(two_stages(vec![input.clone()], folder(output)), nothing).await.unwrap_err();
        let wanted = if output == "/" { Status::Usage } else { Status::Exists };
        assert_eq!(error.status(), wanted, "{error}");
    }
    assert!(cloud.world().log.is_empty(), "no job was admitted");
}

// Promise 18.
#[tokio::test]
async fn what_is_no_part_of_the_outcome_does_not_come_into_the_output() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let all = records(60);
    let input = cloud.add_file("/in/1", &all, &["a"]);
    cloud.world().stray = Some("part-00099".into());
    let outcome = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap();
    assert_eq!(cloud.records_below("/out"), all);
    assert_eq!(cloud.world().paths(), ["/in/1", "/out/part-00000", "/out/part-00001", "/out/part-00002"]);
    assert_eq!(outcome.outputs.len(), 3);
}

// Promise 18.
#[tokio::test]
async fn an_output_that_lacks_a_part_is_not_revealed() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let input = cloud.add_file("/in/1", &records(60), &["a"]);
    cloud.world().loses_part = true;
    let error = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
    assert_eq!(error.status(), Status::Failed);
    assert!(error.to_string().contains("`part-0000"), "{error}");
    assert_eq!(cloud.world().paths(), ["/in/1"], "and nothing is left of it");
    assert_eq!(cloud.world().record.as_ref().unwrap().state, JobState::Failed);
}

#[tokio::test]
async fn what_is_written_is_not_given_up_because_its_publication_has_to_wait() {
    let cloud = FakeCloud::start(&["a"]).await;
    let all = records(60);
    let input = cloud.add_file("/in/1", &all, &["a"]);
    cloud.world().commits_deferred = 3;
    cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap();
    assert_eq!(cloud.records_below("/out"), all);
    let world = cloud.world();
    assert_eq!(world.commits_deferred, 0);
    let parts = world.paths().iter().filter(|path| path.starts_with("/out/")).count();
    assert_eq!(world.log.iter().filter(|line| *line == "publish").count(), parts, "each once");
}

/// `NotFound` is the answer to the slower of two drivers, `Unavailable` that of a driver whose answer was lost.
// Promise 19.
#[tokio::test]
async fn a_last_rename_whose_answer_is_lost_is_no_failure() {
    for denied in [vec![Reason::NotFound], vec![Reason::NotFound; 2], vec![Reason::Unavailable; 2]] {
        let cloud = FakeCloud::start(&["a", "b"]).await;
        let all = records(60);
        let input = cloud.add_file("/in/1", &all, &["a"]);
        cloud.world().renames_denied.extend(denied.clone());
        let outcome = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{denied:?}: {error}"));
        assert_eq!((outcome.record.state, cloud.records_below("/out")), (JobState::Done, all), "{denied:?}");
        assert_eq!(cloud.world().paths().len(), 4, "only input and output are left");
        assert_eq!(cloud.world().record.as_ref().unwrap().state, JobState::Done);
    }
}

#[tokio::test]
async fn a_plan_that_cannot_work_is_refused_and_the_master_told() {
    let cloud = FakeCloud::start(&["a"]).await;
    let mut input = cloud.add_file("/in/1", &records(10), &["a"]);
    if let EntryKind::File(content) = &mut input.kind {
        content.records = RecordFraming::Fixed(7);
    }
    let client = cloud.client().await;
    let error = client.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
    assert_eq!(error.status(), Status::Usage);
    for part in ["/in/1", "100", "7"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(cloud.world().record.as_ref().unwrap().state, JobState::Failed);
    let error = client.run_job(two_stages(vec![], folder("/out")), nothing).await.unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
}

// Promise 20.
#[tokio::test]
async fn an_input_that_was_overwritten_is_not_mixed_with_the_new_one() {
    let cloud = FakeCloud::start(&["a"]).await;
    // No node of the job has it: the driver must ask where it is.
    let input = cloud.add_file("/in/1", &records(10), &["elsewhere"]);
    cloud.add_file("/in/1", &records(20), &["elsewhere"]);
    let error = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
    assert!(error.to_string().contains("`/in/1` was changed"), "{error}");
}

// Promise 23.
#[tokio::test]
async fn a_job_whose_input_may_not_be_read_fails_at_once_and_says_so() {
    let cloud = FakeCloud::start(&["a"]).await;
    let input = cloud.add_file("/in/1", &records(10), &["a"]);
    let refusal = Refusal::new(Reason::NoRight, "`/in/1` belongs to ann: bob may not run jobs on it; ask ann");
    cloud.world().inputs_refused = Some(refusal);
    let error = cloud.client().await.run_job(two_stages(vec![input], folder("/out")), nothing).await.unwrap_err();
    assert!(error.to_string().contains("may not run jobs on it"), "{error}");
    assert_eq!(error.status(), Status::Refused);
    assert_eq!(cloud.world().paths(), ["/in/1"], "and nothing is left of it");
}

#[tokio::test]
async fn a_dropped_driver_ends_its_conversations() {
    let cloud = FakeCloud::start(&["a"]).await;
    let input = cloud.add_file("/in/1", &records(10), &["a"]);
    cloud.world().faults.push_back(Fault::Hang);
    let client = cloud.client().await;
    tokio::select! {
        _ = client.run_job(two_stages(vec![input], folder("/out")), nothing) => panic!("its task is never answered"),
        () = cloud.until_logged("hanging") => {}
    }
    // The client lives on, only the job's future is gone.
    cloud.until_logged("conversation ended").await;
    assert_eq!(cloud.world().paths(), ["/in/1"]);
}

/// The first Sector had one job at a time for each client object.
#[tokio::test]
async fn a_client_runs_a_job_while_another_of_its_jobs_stands_still() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let all = records(60);
    // The first has only one task: there is nothing to compare its speed with.
    let (first, second) = (cloud.add_file("/in/1", &all[..10], &["a"]), cloud.add_file("/in/2", &all, &["b"]));
    cloud.world().faults.push_back(Fault::Hang);
    let client = cloud.client().await;
    let standing = {
        let client = client.clone();
        tokio::spawn(async move { client.run_job(two_stages(vec![first], folder("/out-1")), nothing).await })
    };
    cloud.until_logged("hanging").await;
    let outcome = client.run_job(two_stages(vec![second], folder("/out-2")), nothing).await.unwrap();
    assert_eq!((outcome.record.state, cloud.records_below("/out-2")), (JobState::Done, all));
    assert_ne!(outcome.job, JOB, "that is the one which stands still");
    assert!(!standing.is_finished());
    standing.abort();
    cloud.until_logged("conversation ended").await;
}

#[tokio::test]
async fn what_functions_print_is_told_once_with_where_they_failed() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    cloud.world().prints = true;
    let input = cloud.add_file("/in/1", &records(30), &["a"]);
    let outcome = cloud.client().await.run_job(two_stages(vec![input.clone()], folder("/out")), nothing).await.unwrap();
    let logs = std::mem::take(&mut cloud.world().logs);
    let mut keys: Vec<_> = logs.iter().map(client::SegmentLog::key).collect();
    keys.sort_unstable();
    let stages = (0..).zip(&outcome.record.stages);
    let expected: Vec<_> = stages
        .flat_map(|(stage, record)| {
            std::iter::once((stage, None)).chain((0..record.segments).map(move |segment| (stage, Some(segment))))
        })
        .collect();
    assert_eq!(keys, expected, "of each segment once, and of each stage's function while it was loaded");
    assert!(
        logs.iter()
            .all(|log| !log.failed && (log.output.segment.is_none() || log.output.text().starts_with("segment ")))
    );

    cloud.world().faults.push_back(Fault::Err("no".into()));
    cloud.client().await.run_job(two_stages(vec![input], folder("/again")), nothing).await.unwrap_err();
    let failed: Vec<_> = cloud.world().logs.iter().filter(|log| log.failed).map(|log| log.output.segment).collect();
    assert_eq!(failed.len(), 1);
}

#[tokio::test]
async fn a_reduction_alone_is_given_a_stage_that_brings_its_keys_together() {
    let cloud = FakeCloud::start(&["a", "b"]).await;
    let input = cloud.add_file("/in/1", &records(30), &["a"]);
    let mut reduce = function("reduce");
    reduce.parameters = vec![("reduction".into(), "first".into()), ("key".into(), "0:1".into())];
    let spec = JobSpec::new("test", vec![input], vec![StageSpec::shuffle(reduce, 3)], folder("/out"));
    let outcome = cloud.client().await.run_job(spec, nothing).await.unwrap();
    assert_eq!(outcome.record.stages.len(), 2);
    let loads: Vec<String> =
        cloud.world().log.iter().filter(|line| line.starts_with("load BuiltIn(hash)")).cloned().collect();
    assert!(!loads.is_empty());
}
