//! A node at door 6: a driver runs tasks over slices and buckets, here and on other nodes (paper, 3.3 and 3.5.2).
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{collections::BTreeMap, os::fd::OwnedFd, path::Path, process::Command};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use fake_cloud::{Driver, FakeCloud, FakeNode, JOB, content, damage, path};
use protocol::{
    CarrierChoice, JobId, RecordFraming, SliceId, Status,
    message::{
        node_master::{Ack, Order, Report},
        spe::{
            AttemptId, BucketId, BucketTarget, DeliveryOrder, FunctionCode, FunctionSpec, LoadOrder, OutputPlacement,
            PartOrder, PieceResult, SealOrder, SegmentOrder, SegmentSource, SpeReply, SpeRequest, TaskOrder,
            TaskResult, Winner,
        },
    },
    ticket::TicketRight,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_over_a_local_slice_leaves_its_results_in_a_bucket_of_its_number() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(500_000);
    cloud.put(&node, 1, &bytes).await;
    let mut driver = cloud.drive(&node).await;
    load(&mut driver, "copy", &[]).await;
    let result = run(
        &mut driver,
        task(4, 0, vec![segment(local(1), 0, 500_000, RecordFraming::Fixed(100))], OutputPlacement::Local),
    )
    .await;
    assert_eq!((result.records_in, result.bytes_in, pieces(&result)), (5_000, 500_000, vec![(4, 500_000)]));
    assert!(sealed(&mut driver, 4, &[(4, 0, 500_000)]).await == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_reach_the_buckets_of_every_node_once() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        results_reach_the_buckets(FakeCloud::start_with(carrier).await).await;
    }
}

async fn results_reach_the_buckets(mut cloud: FakeCloud) {
    let nodes = [cloud.node("n1").await, cloud.node("n2").await, cloud.node("n3").await];
    let bytes = content(800_000);
    cloud.put(&nodes[0], 1, &bytes).await;
    let places = || OutputPlacement::Buckets((0..5).map(|bucket| cloud.bucket_place(&nodes[bucket % 3])).collect());
    let mut driver = cloud.drive(&nodes[0]).await;
    load(&mut driver, "hash", &[("key", "0:10")]).await;
    // Two attempts of the first task, as after a broken connection; the first wins.
    let mut pieces: BTreeMap<u32, Vec<Winner>> = BTreeMap::new();
    for (task_number, attempt, from, until) in [(0, 0, 0, 400_000), (0, 1, 0, 400_000), (1, 0, 400_000, 800_000)] {
        let order =
            task(task_number, attempt, vec![segment(local(1), from, until, RecordFraming::Fixed(100))], places());
        let result = run(&mut driver, order).await;
        assert_eq!(result.pieces.iter().map(|piece| piece.bytes).sum::<u64>(), until - from);
        for (bucket, bytes) in self::pieces(&result) {
            if attempt == 0 {
                pieces.entry(bucket).or_default().push(Winner { task: task_number, attempt, bytes });
            }
        }
    }
    let mut found = Vec::new();
    for (bucket, winners) in pieces {
        let mut driver = cloud.drive(&nodes[bucket as usize % 3]).await;
        let winners: Vec<_> = winners.iter().map(|winner| (winner.task, winner.attempt, winner.bytes)).collect();
        let content = sealed(&mut driver, bucket, &winners).await;
        found.extend(content.chunks(100).map(<[u8]>::to_vec));
    }
    let mut expected: Vec<_> = bytes.chunks(100).map(<[u8]>::to_vec).collect();
    found.sort();
    expected.sort();
    assert!(found == expected, "each record in exactly one bucket, once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_of_another_node_is_read_as_if_it_were_here() {
    let mut cloud = FakeCloud::start().await;
    let (here, there) = (cloud.node("n1").await, cloud.node("n2").await);
    // Lines of all lengths, one of them longer than what is fetched ahead.
    let mut text = Vec::new();
    for line in 0..2_000_usize {
        text.extend(std::iter::repeat_n(b'a' + (line % 26) as u8, line % 200));
        text.push(b'\n');
    }
    let long_from = text.len() as u64;
    text.extend(std::iter::repeat_n(b'x', 2_500_000));
    text.extend_from_slice(b"\nlast line without an end");
    let end = text.len() as u64;
    cloud.put(&there, 1, &text).await;
    let cuts = [0, 1, 77_777, 150_000, long_from + 10, end - 3, end];
    let mut driver = cloud.drive(&here).await;
    load(&mut driver, "copy", &[]).await;
    let (mut joined, mut records) = (Vec::new(), 0);
    for (number, part) in cuts.windows(2).enumerate() {
        let source = SegmentSource::Remote { slice: SliceId(1), from: Box::new(handed(&cloud, &here, &there)) };
        let order = task(
            number as u32,
            0,
            vec![segment(source, part[0], part[1], RecordFraming::Lines)],
            OutputPlacement::Local,
        );
        let result = run(&mut driver, order).await;
        records += result.records_in;
        if let [(bucket, bytes)] = pieces(&result)[..] {
            joined.extend(published(&mut driver, bucket, &[(bucket, 0, bytes)], &cloud, &here).await);
        }
    }
    assert_eq!(records, 2_002);
    // `copy` ends every line that it emits.
    text.push(b'\n');
    assert!(joined == text, "every line once, {} of {} bytes", joined.len(), text.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_with_few_results_reuse_a_scratch_file_and_none_of_its_old_bytes() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"cherry\napple\nbanana\n").await;
    let mut driver = cloud.drive(&node).await;
    let whole = || vec![segment(local(1), 0, 20, RecordFraming::Lines)];
    let bucket = || OutputPlacement::Buckets(vec![cloud.bucket_place(&node)]);
    // Nothing after nothing, little after nothing, nothing after little; also as results of its own.
    for (number, contains, bytes) in [(0, "plum", 0), (1, "plum", 0), (2, "pp", 6), (3, "plum", 0), (4, "an", 7)] {
        load(&mut driver, "filter", &[("contains", contains)]).await;
        for output in [bucket(), OutputPlacement::Local] {
            let attempt = u32::from(matches!(output, OutputPlacement::Local));
            let result = run(&mut driver, task(number, attempt, whole(), output)).await;
            assert_eq!(result.pieces.iter().map(|piece| piece.bytes).sum::<u64>(), bytes, "task {number}");
        }
    }
    assert_eq!(sealed(&mut driver, 0, &[(2, 0, 6), (4, 0, 7)]).await, b"apple\nbanana\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_bucket_is_the_input_of_the_next_stage() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"cherry\napple\nbanana\n").await;
    let mut driver = cloud.drive(&node).await;
    load(&mut driver, "copy", &[]).await;
    run(&mut driver, task(0, 0, vec![segment(local(1), 0, 20, RecordFraming::Lines)], OutputPlacement::Local)).await;
    sealed(&mut driver, 0, &[(0, 0, 20)]).await;
    load(&mut driver, "count", &[]).await;
    let mut order = task(
        0,
        0,
        vec![segment(SegmentSource::Bucket(bucket(0)), 0, 20, RecordFraming::Lines)],
        OutputPlacement::Local,
    );
    order.attempt.stage = 1;
    let result = run(&mut driver, order).await;
    assert_eq!((result.records_in, result.bytes_in), (3, 20));
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_slice_is_not_given_to_a_function() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(300_000);
    cloud.put(&node, 1, &bytes).await;
    damage(&node.file_with(&bytes), 250_000);
    let mut driver = cloud.drive(&node).await;
    load(&mut driver, "copy", &[]).await;
    let order =
        task(0, 0, vec![segment(local(1), 200_000, 300_000, RecordFraming::Fixed(100))], OutputPlacement::Local);
    let refusal = refused(driver.ask(SpeRequest::Run(order)).await);
    assert_eq!(refusal, Status::Corrupt);
    assert_eq!(cloud.report(node.session).await, Report::Corrupt(SliceId(1)));
    // The SPE lives on.
    cloud.put(&node, 2, b"fine").await;
    run(&mut driver, task(1, 0, vec![segment(local(2), 0, 4, RecordFraming::File)], OutputPlacement::Local)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_of_the_tickets_job_or_makes_no_sense_is_refused() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let mut driver = cloud.drive(&node).await;
    let one = || vec![segment(local(1), 0, 4, RecordFraming::File)];
    let unloaded = driver.ask(SpeRequest::Run(task(0, 0, one(), OutputPlacement::Local))).await;
    assert_eq!(refused(unloaded), Status::Usage);
    load(&mut driver, "copy", &[]).await;
    let mut foreign = task(0, 0, one(), OutputPlacement::Local);
    foreign.attempt.job = JobId(8);
    assert_eq!(refused(driver.ask(SpeRequest::Run(foreign)).await), Status::Refused);
    let bucket_of_another = SegmentSource::Bucket(BucketId { job: JobId(8), ..bucket(0) });
    let order = task(0, 0, vec![segment(bucket_of_another, 0, 4, RecordFraming::File)], OutputPlacement::Local);
    assert_eq!(refused(driver.ask(SpeRequest::Run(order)).await), Status::Refused);
    let fetch = SpeRequest::Fetch(BucketId { job: JobId(8), ..bucket(0) });
    assert_eq!(refused(driver.ask(fetch).await), Status::Refused);
    assert_eq!(
        refused(driver.ask(SpeRequest::Run(task(0, 0, one(), OutputPlacement::Buckets(vec![])))).await),
        Status::Usage
    );
    assert_eq!(refused(driver.ask(SpeRequest::Run(task(0, 0, one(), OutputPlacement::Local))).await), Status::NotFound);
    let backwards = task(0, 0, vec![segment(local(1), 5, 4, RecordFraming::File)], OutputPlacement::Local);
    assert_eq!(refused(driver.ask(SpeRequest::Run(backwards)).await), Status::Usage);
    let unknown = FunctionSpec { code: FunctionCode::BuiltIn("no such function".into()), parameters: vec![] };
    assert!(matches!(driver.ask(SpeRequest::Load(LoadOrder::plain(unknown))).await, SpeReply::Refused(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_scratch_files_only_what_went_to_another_node_is_kept() {
    let mut cloud = FakeCloud::start().await;
    let (here, there) = (cloud.node("n1").await, cloud.node("n2").await);
    cloud.put(&there, 1, &content(10_000)).await;
    let mut driver = cloud.drive(&here).await;
    load(&mut driver, "copy", &[]).await;
    let (own, others) = (vec![cloud.bucket_place(&here)], vec![cloud.bucket_place(&there)]);
    for (number, output) in
        [(0, OutputPlacement::Local), (1, OutputPlacement::Buckets(own)), (2, OutputPlacement::Buckets(others))]
    {
        let source = SegmentSource::Remote { slice: SliceId(1), from: Box::new(cloud.source(&here, &there, 1)) };
        run(&mut driver, task(number, 0, vec![segment(source, 0, 10_000, RecordFraming::Fixed(100))], output)).await;
    }
    let scratch = here.folder.join("jobs").join(JOB.to_string()).join("scratch");
    let left = std::fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The folder of the SPE stays as long as the SPE.
    assert_eq!(left.filter(|name| !name.starts_with("spe-")).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_spe_that_was_killed_fails_the_attempt_and_a_fresh_one_runs_the_next() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let mut driver = cloud.drive(&node).await;
    load(&mut driver, "copy", &[]).await;
    kill_process(spe_of(&node), Signal::KILL).unwrap();
    let order = |attempt| task(0, attempt, vec![segment(local(1), 0, 10, RecordFraming::File)], OutputPlacement::Local);
    let died = driver.ask(SpeRequest::Run(order(0))).await;
    assert!(
        matches!(&died, SpeReply::Refused(why) if why.status() == Status::Unavailable && why.message.contains("SPE")),
        "{died:?}"
    );
    assert_eq!(pieces(&run(&mut driver, order(1)).await), [(0, 10)]);
}

// Promise 18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_cannot_change_its_results_and_the_node_computes_their_sums_itself() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, &content(100)).await;
    // Small results, which are copied, and large ones, for which the process is ended.
    for (times, first) in [(1usize, 0), (300_000, 2)] {
        let text = "what was computed and is true ";
        let mut driver = cloud.drive(&node).await;
        let parameters = [("text", text.to_owned()), ("times", times.to_string())];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let code = FunctionCode::Native { library: attacks(), symbol: "rewrites".into() };
        let load = SpeRequest::Load(LoadOrder::plain(FunctionSpec { code, parameters }));
        assert_eq!(driver.ask(load).await, SpeReply::Loaded);
        let expected = text.repeat(times).into_bytes();
        let bytes = expected.len() as u64;
        for number in [first, first + 1] {
            let segments = vec![segment(local(1), 0, 100, RecordFraming::File)];
            let result = run(&mut driver, task(number, 0, segments, OutputPlacement::Local)).await;
            assert_eq!(pieces(&result), vec![(number, bytes)]);
            assert_eq!(result.pieces[0].checksum, crc32c::crc32c(&expected));
        }
        // The same for other results: what went to a bucket and is kept is what was first there.
        let segments = vec![segment(local(1), 0, 100, RecordFraming::File)];
        let spread = BucketTarget { generation: 7 + first, ..cloud.bucket_place(&node) };
        let spread = OutputPlacement::Buckets(vec![spread]);
        let result =
            run(&mut driver, TaskOrder { output: spread, ..task(100 + first, 0, segments, OutputPlacement::Local) })
                .await;
        assert_eq!(result.pieces[0].checksum, crc32c::crc32c(&expected));
        for number in [first, first + 1] {
            let found = published(&mut driver, number, &[(number, 0, bytes)], &cloud, &node).await;
            assert!(found == expected, "{times} times: {:?}", String::from_utf8_lossy(&found[..30]));
        }
    }
}

// Promise 23.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_goes_away_ends_its_spe() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let mut driver = cloud.drive(&node).await;
    load(&mut driver, "copy", &[]).await;
    let spe = spe_of(&node);
    let handle = pidfd_open(spe, PidfdFlags::empty()).unwrap();
    halt(spe);
    let order = task(0, 0, vec![segment(local(1), 0, 10, RecordFraming::File)], OutputPlacement::Local);
    driver.tell(SpeRequest::Run(order)).await;
    // The node works on the task, and says so.
    assert_eq!(driver.stream.receive::<SpeReply>().await.unwrap(), SpeReply::Progress { bytes: 0 });
    drop(driver);
    assert!(has_ended(handle).await, "the process was left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgetting_a_job_ends_what_still_runs_for_it() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let mut driver = cloud.drive(&node).await;
    load(&mut driver, "copy", &[]).await;
    let spe = spe_of(&node);
    let handle = pidfd_open(spe, PidfdFlags::empty()).unwrap();
    halt(spe);
    let order = task(0, 0, vec![segment(local(1), 0, 10, RecordFraming::File)], OutputPlacement::Local);
    driver.tell(SpeRequest::Run(order)).await;
    assert_eq!(driver.stream.receive::<SpeReply>().await.unwrap(), SpeReply::Progress { bytes: 0 });
    assert_eq!(cloud.order(&node, Order::ForgetJob(JOB)).await, Ack::Done);
    let last = loop {
        match driver.stream.receive::<SpeReply>().await.unwrap() {
            SpeReply::Progress { .. } => {}
            reply => break reply,
        }
    };
    assert_eq!(refused(last), Status::Refused);
    assert!(has_ended(handle).await, "the process was left behind, although its driver is still there");
}

// Promise 53.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_node_that_was_restarted_is_reached_over_a_new_connection() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        restart_a_bucket_node(FakeCloud::start_with(carrier).await).await;
    }
}

async fn restart_a_bucket_node(mut cloud: FakeCloud) {
    let (here, there) = (cloud.node("n1").await, cloud.node("n2").await);
    cloud.put(&here, 1, &content(10_000)).await;
    let mut driver = cloud.drive(&here).await;
    load(&mut driver, "copy", &[]).await;
    let order = |number, cloud: &FakeCloud, there: &FakeNode| {
        let output = OutputPlacement::Buckets(vec![cloud.bucket_place(there)]);
        task(number, 0, vec![segment(local(1), 0, 10_000, RecordFraming::Fixed(100))], output)
    };
    run(&mut driver, order(0, &cloud, &there)).await;
    let there = cloud.restart(there).await;
    let result = run(&mut driver, order(1, &cloud, &there)).await;
    assert_eq!(pieces(&result), [(0, 10_000)]);
}

/// The paper, 3.5.2: "if one node is down, the result can be sent to the same buckets on other nodes".
// Promise 18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_could_not_take_is_kept_and_sent_to_another() {
    let mut cloud = FakeCloud::start().await;
    let (here, dead, other) = (cloud.node("n1").await, cloud.node("n2").await, cloud.node("n3").await);
    let bytes = content(100_000);
    cloud.put(&here, 1, &bytes).await;
    let places = OutputPlacement::Buckets(vec![cloud.bucket_place(&here), cloud.bucket_place(&dead)]);
    let mut driver = cloud.drive(&here).await;
    load(&mut driver, "hash", &[("key", "0:10")]).await;
    dead.stop().await;
    let order =
        |attempt, output| task(0, attempt, vec![segment(local(1), 0, 100_000, RecordFraming::Fixed(100))], output);
    let result = run(&mut driver, order(0, places)).await;
    let delivered: Vec<_> = result.pieces.iter().map(|piece| (piece.bucket, piece.is_delivered)).collect();
    assert_eq!(delivered, [(0, true), (1, false)], "{result:?}");
    // Only that piece is requested, at another place and in a new generation.
    let place = BucketTarget { generation: 1, ..cloud.bucket_place(&other) };
    let deliver = |attempt, place: &BucketTarget| {
        let attempt = AttemptId { job: JOB, stage: 0, epoch: 0, task: 0, attempt };
        SpeRequest::Deliver(DeliveryOrder { attempt, targets: vec![(1, place.clone())] })
    };
    assert_eq!(driver.ask(deliver(0, &place)).await, SpeReply::Delivered);
    assert_eq!(driver.ask(deliver(0, &place)).await, SpeReply::Delivered, "twice is once");
    assert_eq!(refused(driver.ask(deliver(7, &place)).await), Status::NotFound);
    let mut there = cloud.drive(&other).await;
    let winner = Winner { task: 0, attempt: 0, bytes: result.pieces[1].bytes };
    let bucket = BucketId { generation: 1, ..bucket(1) };
    let seal = SealOrder { bucket, winners: vec![winner], publish: false, in_order: true };
    let sealed = there.ask(SpeRequest::Seal(seal)).await;
    assert_eq!(sealed, SpeReply::Sealed { bytes: winner.bytes, order: vec![0] });
    let SpeReply::Bytes(sent) = there.ask(SpeRequest::Fetch(bucket)).await else { panic!("no bytes") };
    assert_eq!(crc32c::crc32c(&sent), result.pieces[1].checksum);
    // Run again for that bucket alone: the same result, reported but not sent.
    let unwanted = BucketTarget { is_wanted: false, ..cloud.bucket_place(&here) };
    let places = vec![unwanted, BucketTarget { generation: 2, ..place }];
    let again = run(&mut driver, order(1, OutputPlacement::Buckets(places))).await;
    let told = |piece: &PieceResult| (piece.bucket, piece.bytes, piece.checksum);
    assert_eq!(again.pieces.iter().map(told).collect::<Vec<_>>(), result.pieces.iter().map(told).collect::<Vec<_>>());
    assert_eq!(again.pieces.iter().map(|piece| piece.is_delivered).collect::<Vec<_>>(), [false, true]);
}

// Promise 23.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_reads_no_slice_that_the_master_did_not_name_whatever_its_driver_says() {
    let mut cloud = FakeCloud::start().await;
    let (here, there) = (cloud.node("n1").await, cloud.node("n2").await);
    cloud.put(&here, 1, b"of this job").await;
    cloud.put(&here, 2, b"of another user").await;
    cloud.put(&there, 3, b"of another user, elsewhere").await;
    let mut driver = cloud.drive(&here).await;
    load(&mut driver, "copy", &[]).await;
    let remote = SegmentSource::Remote { slice: SliceId(3), from: Box::new(cloud.source(&here, &there, 3)) };
    let allowed = || segment(local(1), 0, 11, RecordFraming::File);
    let secret = || segment(local(2), 0, 15, RecordFraming::File);
    let other_job = cloud.ticket(&here.id, TicketRight::Inputs { job: JobId(77), slices: vec![SliceId(2)] });
    let late = cloud.ticket_until(&here.id, TicketRight::Inputs { job: JOB, slices: vec![SliceId(2)] }, 1);
    for (segments, ticket) in [
        // Its ticket to compute is good only for starting SPEs.
        (vec![secret()], Some(cloud.compute_ticket(&here))),
        (vec![secret()], Some(cloud.read_ticket(&here, 2))),
        (vec![secret()], Some(cloud.inputs_ticket(&here, &[1]))),
        (vec![allowed(), secret()], Some(cloud.inputs_ticket(&here, &[1]))),
        (vec![secret()], Some(other_job)),
        (vec![secret()], Some(late)),
        (vec![secret()], Some(cloud.inputs_ticket(&there, &[2]))),
        (vec![segment(remote, 0, 26, RecordFraming::File)], Some(cloud.inputs_ticket(&here, &[1]))),
        (vec![secret()], None),
    ] {
        let order = TaskOrder { inputs: ticket, ..task(0, 0, segments, OutputPlacement::Local) };
        driver.stream.send(&SpeRequest::Run(order.clone())).await.unwrap();
        assert_eq!(refused(driver.stream.receive().await.unwrap()), Status::Refused, "{order:?}");
    }
    let order = TaskOrder {
        inputs: Some(cloud.inputs_ticket(&here, &[1])),
        ..task(0, 0, vec![allowed()], OutputPlacement::Local)
    };
    assert_eq!(pieces(&run(&mut driver, order).await), [(0, 11)]);
}

/// Stops a process of ours, and waits until all of its threads have stopped.
fn halt(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    let stands = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| stat.contains(") T "))
    };
    let tasks = || std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap();
    while !tasks().all(|task| stands(task.unwrap())) {
        std::thread::yield_now();
    }
}

/// Whether a process ends within the time limit.
async fn has_ended(handle: OwnedFd) -> bool {
    let ended = tokio::task::spawn_blocking(move || {
        let patience = Timespec { tv_sec: fake_cloud::PATIENCE.as_secs() as i64, tv_nsec: 0 };
        // A process's descriptor is readable when it has ended. Other children that end meanwhile interrupt the call.
        retry_on_intr(|| poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&patience))).unwrap()
    });
    ended.await.unwrap() == 1
}

/// The process in which functions of this node run. Candidates have a working folder in its SPE's folder, or a scratch
/// folder of its size in memory. The process is the one whose parent (the supervisor) is a candidate too, and that is
/// not the first in a process namespace. The SPE with which a node tests its sandbox may look the same; the loop waits
/// until it is gone.
fn spe_of(node: &FakeNode) -> Pid {
    let size = format!("size={}k", node.spe_scratch_bytes >> 10);
    let folder = node.folder.join("jobs").join(JOB.to_string()).join("scratch");
    loop {
        let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
        let processes = entries.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let is_in_folder =
                || std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
            let mounts = std::fs::read_to_string(entry.path().join("mountinfo")).ok()?;
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let last =
                |name| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().last()?.parse().ok());
            let (parent, own_number): (i32, i32) = (last("PPid:")?, last("NSpid:")?);
            (mounts.contains(&size) || is_in_folder()).then_some((pid, (parent, own_number)))
        });
        let processes: BTreeMap<_, _> = processes.collect();
        let is_worker = |(parent, own_number): (i32, i32)| processes.contains_key(&parent) && own_number != 1;
        let found: Vec<i32> = processes.iter().filter(|(_, of)| is_worker(**of)).map(|(pid, _)| *pid).collect();
        if let [one] = found[..] {
            return Pid::from_raw(one).unwrap();
        }
        std::thread::yield_now();
    }
}

/// The library of the attacks on an SPE, `attacks.c`.
fn attacks() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (here, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.path().join("attacks.so"));
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-shared", "-fPIC", "-pthread", "-I"]).arg(here.join("../udf/include"));
    let compiled = compile.arg("-o").arg(&library).arg(here.join("../spe/tests/escape/attacks.c")).status();
    assert!(compiled.unwrap().success());
    std::fs::read(library).unwrap()
}

fn local(slice: u128) -> SegmentSource {
    SegmentSource::Local(SliceId(slice))
}

fn segment(source: SegmentSource, from: u64, until: u64, records: RecordFraming) -> SegmentOrder {
    SegmentOrder::single(0, PartOrder::plain(source, path("/in/file"), from, until, records))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_function_prints_comes_to_its_driver_before_its_results() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"first\nsecond\n").await;
    let mut driver = cloud.drive(&node).await;
    let words = ["sh", "-c", "read line; echo I read $line >&2"].map(str::to_owned).to_vec();
    let function = FunctionSpec { code: FunctionCode::Program { words }, parameters: vec![] };
    assert_eq!(driver.ask(SpeRequest::Load(LoadOrder::plain(function))).await, SpeReply::Loaded);
    assert!(driver.printed.is_empty(), "nothing is told where nothing was printed");
    let segments = vec![
        segment(local(1), 0, 6, RecordFraming::Lines),
        SegmentOrder { segment: 9, ..segment(local(1), 6, 13, RecordFraming::Lines) },
    ];
    run(&mut driver, task(0, 0, segments, OutputPlacement::Local)).await;
    let [printed] = &driver.printed[..] else { panic!("{:?}", driver.printed) };
    let texts: Vec<_> = printed.segments.iter().map(|output| (output.segment, output.text())).collect();
    assert_eq!(texts, [(Some(0), "I read first".to_owned()), (Some(9), "I read second".to_owned())]);
}

fn task(task: u32, attempt: u32, segments: Vec<SegmentOrder>, output: OutputPlacement) -> TaskOrder {
    TaskOrder { attempt: AttemptId { job: JOB, stage: 0, epoch: 0, task, attempt }, segments, output, inputs: None }
}

fn bucket(bucket: u32) -> BucketId {
    BucketId { job: JOB, stage: 0, epoch: 0, bucket, generation: 0 }
}

/// The pieces that reached their bucket, or were already there.
fn pieces(result: &TaskResult) -> Vec<(u32, u64)> {
    assert!(result.pieces.iter().all(|piece| piece.is_delivered), "{result:?}");
    result.pieces.iter().map(|piece| (piece.bucket, piece.bytes)).collect()
}

fn refused(reply: SpeReply) -> Status {
    let SpeReply::Refused(refusal) = reply else { panic!("{reply:?}") };
    refusal.status()
}

async fn load(driver: &mut Driver, name: &str, parameters: &[(&str, &str)]) {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let function = FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters };
    assert_eq!(driver.ask(SpeRequest::Load(LoadOrder::plain(function))).await, SpeReply::Loaded);
}

async fn run(driver: &mut Driver, order: TaskOrder) -> TaskResult {
    match driver.ask(SpeRequest::Run(order)).await {
        SpeReply::Finished(result) => result,
        other => panic!("{other:?}"),
    }
}

fn seal(number: u32, winners: &[(u32, u32, u64)]) -> SpeRequest {
    let winner = |(task, attempt, bytes): &(u32, u32, u64)| Winner { task: *task, attempt: *attempt, bytes: *bytes };
    SpeRequest::Seal(SealOrder {
        bucket: bucket(number),
        winners: winners.iter().map(winner).collect(),
        publish: false,
        in_order: false,
    })
}

/// Seals a small bucket and returns its bytes.
async fn sealed(driver: &mut Driver, number: u32, winners: &[(u32, u32, u64)]) -> Vec<u8> {
    let bytes = winners.iter().map(|winner| winner.2).sum();
    let order = winners.iter().map(|winner| winner.0).collect();
    assert_eq!(driver.ask(seal(number, winners)).await, SpeReply::Sealed { bytes, order });
    match driver.ask(SpeRequest::Fetch(bucket(number))).await {
        SpeReply::Bytes(content) => content,
        other => panic!("{other:?}"),
    }
}

/// The same for a bucket of any length: it is published, and read as a slice.
async fn published(
    driver: &mut Driver,
    number: u32,
    winners: &[(u32, u32, u64)],
    cloud: &FakeCloud,
    node: &FakeNode,
) -> Vec<u8> {
    let bytes = winners.iter().map(|winner| winner.2).sum();
    let order = winners.iter().map(|winner| winner.0).collect();
    assert_eq!(driver.ask(seal(number, winners)).await, SpeReply::Sealed { bytes, order });
    let slice = 1_000 + u128::from(number);
    let publish = SpeRequest::Publish { bucket: bucket(number), ticket: cloud.write_ticket(node, slice) };
    let published = driver.ask(publish).await;
    assert!(matches!(published, SpeReply::Published { .. }), "{published:?}");
    cloud.get(node, slice).await.unwrap()
}

/// Slice 1 at `there`, with the driver's own ticket assigned to `here`.
fn handed(cloud: &FakeCloud, here: &FakeNode, there: &FakeNode) -> protocol::message::client_master::Source {
    let ticket = cloud.handed(&cloud.read_ticket(there, 1), here);
    protocol::message::client_master::Source { ticket, ..cloud.source(here, there, 1) }
}
