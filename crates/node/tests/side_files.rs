//! Side files at a node. It has one copy of each for all SPEs of a job, and gives it to nobody that the master did not
//! name.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use std::fs;

use fake_cloud::{Driver, FakeCloud, FakeNode, JOB, content, damage, path};
use protocol::{
    RecordFraming, Refusal, SideFileName, SliceId, Status,
    message::{
        client_master::Source,
        node_master::{Ack, Order, Report},
        spe::{
            AttemptId, BucketId, FunctionCode, FunctionSpec, LoadOrder, OutputPlacement, PartOrder, PythonCode,
            PythonFunction, SealOrder, SegmentOrder, SegmentSource, SideFileOrder, SpeReply, SpeRequest, TaskOrder,
            Winner,
        },
    },
};

// Promise 20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_side_file_is_fetched_once_for_all_spes_of_a_job_and_goes_with_it() {
    let mut cloud = FakeCloud::start().await;
    let (here, there) = (cloud.node("n1").await, cloud.node("n2").await);
    let words = content(300_000);
    cloud.put(&here, 1, b"x\n").await;
    cloud.put(&there, 2, &words).await;
    let order = || load(&cloud, &here, vec![side(2, &words, Some(handed(&cloud, &here, &there)))]);
    let mut drivers = [cloud.drive(&here).await, cloud.drive(&here).await, cloud.drive(&here).await];
    let [a, b, c] = &mut drivers;
    let loaded = tokio::join!(a.ask(order()), b.ask(order()), c.ask(order()));
    assert_eq!(loaded, (SpeReply::Loaded, SpeReply::Loaded, SpeReply::Loaded));
    assert_eq!(fetched(&here).len(), 1);
    assert!(fs::read(&fetched(&here)[0]).unwrap() == words);
    for (number, driver) in (0..).zip(&mut drivers) {
        assert!(run(driver, number).await == words);
    }
    assert_eq!(fetched(&here).len(), 1);
    assert_eq!(cloud.order(&here, Order::ForgetJob(JOB)).await, Ack::Done);
    while here.folder.join("jobs").join(JOB.to_string()).exists() {
        tokio::task::yield_now().await;
    }
    let refusal = refused(cloud.drive(&here).await.ask(order()).await);
    assert!(refusal.status() == Status::Refused && refusal.message.contains("has ended"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_failed_is_tried_again_by_the_next_and_no_reason_to_end_the_job() {
    let mut cloud = FakeCloud::start().await;
    let (here, there) = (cloud.node("n1").await, cloud.node("n2").await);
    cloud.put(&here, 1, b"x\n").await;
    let words = content(70_000);
    let order = || load(&cloud, &here, vec![side(2, &words, Some(handed(&cloud, &here, &there)))]);
    let mut driver = cloud.drive(&here).await;
    let refusal = refused(driver.ask(order()).await);
    assert!(refusal.status() == Status::Unavailable && refusal.message.contains("`words`"), "{refusal}");
    assert_eq!(fetched(&here).len(), 0);
    let order = order();
    cloud.put(&there, 2, &words).await;
    assert_eq!(driver.ask(order).await, SpeReply::Loaded);
    assert!(run(&mut driver, 0).await == words);
}

// Promise 20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_side_file_that_lies_here_is_verified_and_has_the_length_that_was_said() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let (good, bad) = (content(200_000), content(300_000));
    cloud.put(&node, 1, b"x\n").await;
    cloud.put(&node, 2, &good).await;
    cloud.put(&node, 3, &bad).await;
    damage(&node.file_with(&bad), 250_000);
    let mut driver = cloud.drive(&node).await;
    let refusal = refused(driver.ask(load(&cloud, &node, vec![side(3, &bad, None)])).await);
    // Not an error for every node: another one has a good copy.
    assert_eq!(refusal.status(), Status::Unavailable, "{refusal}");
    assert_eq!(cloud.report(node.session).await, Report::Corrupt(SliceId(3)));
    let refusal = refused(driver.ask(load(&cloud, &node, vec![side(2, &good[1..], None)])).await);
    assert!(refusal.status() == Status::Unavailable && refusal.message.contains("199999"), "{refusal}");
    assert_eq!(driver.ask(load(&cloud, &node, vec![side(2, &good, None)])).await, SpeReply::Loaded);
    assert!(run(&mut driver, 0).await == good);
    assert_eq!(fetched(&node).len(), 0, "it is read where it lies");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_side_file_is_opened_by_the_drivers_word_alone() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let words = content(1_000);
    cloud.put(&node, 2, &words).await;
    cloud.put(&node, 9, &words).await;
    let mut allowed = cloud.drive(&node).await;
    assert_eq!(allowed.ask(load(&cloud, &node, vec![side(2, &words, None)])).await, SpeReply::Loaded);
    // It is here by now, for jobs that may read it.
    let mut driver = cloud.drive(&node).await;
    let without = LoadOrder { inputs: None, ..load_order(&cloud, &node, vec![side(2, &words, None)]) };
    assert_eq!(refused(driver.ask(SpeRequest::Load(without)).await).status(), Status::Refused);
    let other =
        load(&cloud, &node, vec![side(2, &words, None), SideFileOrder { name: name("b"), ..side(9, &words, None) }]);
    let refusal = refused(driver.ask(other).await);
    assert!(refusal.status() == Status::Refused && refusal.message.contains(&SliceId(9).to_string()), "{refusal}");
    let unloaded = driver.ask(SpeRequest::Run(task(0))).await;
    assert_eq!(refused(unloaded).status(), Status::Usage);
}

/// An order to load a function that returns its side file `words`; its job may read the slices 1 to 4.
fn load(cloud: &FakeCloud, node: &FakeNode, side: Vec<SideFileOrder>) -> SpeRequest {
    SpeRequest::Load(load_order(cloud, node, side))
}

fn load_order(cloud: &FakeCloud, node: &FakeNode, side: Vec<SideFileOrder>) -> LoadOrder {
    let text = "def f(segment, out): out.write(segment.side['words'])".to_owned();
    let code = PythonCode::Source { file: "f.py".into(), text };
    let code = FunctionCode::Python(PythonFunction { name: "f".into(), code, requires: vec![] });
    let inputs = Some(cloud.inputs_ticket(node, &[1, 2, 3, 4]));
    LoadOrder { function: FunctionSpec { code, parameters: vec![] }, side_files: side, inputs }
}

fn side(slice: u128, bytes: &[u8], from: Option<Source>) -> SideFileOrder {
    SideFileOrder { name: name("words"), slice: SliceId(slice), bytes: bytes.len() as u64, from: from.map(Box::new) }
}

fn name(text: &str) -> SideFileName {
    SideFileName::new(text).unwrap()
}

/// Slice 2 at `there`, with the driver's own ticket assigned to `here`.
fn handed(cloud: &FakeCloud, here: &FakeNode, there: &FakeNode) -> Source {
    Source { ticket: cloud.handed(&cloud.read_ticket(there, 2), here), ..cloud.source(here, there, 2) }
}

/// What lies in the scratch folder of the job, except for the folders of SPEs.
fn fetched(node: &FakeNode) -> Vec<std::path::PathBuf> {
    let scratch = node.folder.join("jobs").join(JOB.to_string()).join("scratch");
    let Ok(entries) = fs::read_dir(scratch) else { return vec![] };
    let found = entries.map(|entry| entry.unwrap().path());
    found.filter(|path| !path.file_name().unwrap().to_str().unwrap().starts_with("spe-")).collect()
}

fn attempt(task: u32) -> AttemptId {
    AttemptId { job: JOB, stage: 0, epoch: 0, task, attempt: 0 }
}

fn segment(number: u64, bytes: u64) -> SegmentOrder {
    let source = SegmentSource::Local(SliceId(1));
    SegmentOrder::single(number, PartOrder::plain(source, path("/in"), 0, bytes, RecordFraming::Lines))
}

/// A task over slice 1.
fn task(number: u32) -> TaskOrder {
    TaskOrder { attempt: attempt(number), segments: vec![segment(0, 2)], output: OutputPlacement::Local, inputs: None }
}

/// Runs a task, and returns its results.
async fn run(driver: &mut Driver, number: u32) -> Vec<u8> {
    let SpeReply::Finished(result) = driver.ask(SpeRequest::Run(task(number))).await else { panic!("not finished") };
    let bucket = BucketId { job: JOB, stage: 0, epoch: 0, bucket: number, generation: 0 };
    let winners = vec![Winner { task: number, attempt: 0, bytes: result.pieces[0].bytes }];
    let seal = SealOrder { bucket, winners, publish: false, in_order: false };
    assert!(matches!(driver.ask(SpeRequest::Seal(seal)).await, SpeReply::Sealed { .. }));
    match driver.ask(SpeRequest::Fetch(bucket)).await {
        SpeReply::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn refused(reply: SpeReply) -> Refusal {
    match reply {
        SpeReply::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}
