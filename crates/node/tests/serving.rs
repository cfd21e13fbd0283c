//! A node at its doors 4 and 5, over real connections: reading, writing, pieces, tickets, copies and orders.
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{
    fs::File,
    io::{Read, Seek, Write},
};

use fake_cloud::{FakeCloud, JOB, SOME_NODE, content, damage, get, header, path, put, write_right};
use net::{local::LocalStream, transfer::TransferStream};
use protocol::{
    CarrierChoice, JobId, JournalId, NodeId, SliceHeader, SliceId, Status, TransferQos,
    message::{
        local::{LocalReply, LocalRequest},
        node_master::{Ack, HeldState, Order, Report},
        rebuild::{MirrorBase, MirrorPosition, MirrorRow, MirrorUpdate},
        spe::{BucketId, PieceId, SealOrder, SpeReply, SpeRequest, Winner},
        transfer::{TransferReply, TransferRequest},
    },
    ticket::{Delegate, SignedTicket, TicketRight},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_is_read_back_in_whole_and_in_part() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(3_000_017);
    cloud.put(&node, 1, &bytes).await;
    assert!(cloud.get(&node, 1).await.unwrap() == bytes);
    // One connection serves request after request.
    let mut stream = cloud.connect(&node).await;
    for (from, until) in
        [(0, 0), (0, 1), (65_535, 65_537), (1_048_575, 2_100_000), (2_999_999, 9_000_000), (9_000_000, 9_000_001)]
    {
        let part = get(&mut stream, cloud.read_ticket(&node, 1), 1, from..until).await.unwrap();
        let expected = &bytes[(from as usize).min(bytes.len())..(until as usize).min(bytes.len())];
        assert!(part == expected, "{from}..{until}");
    }
}

// Promise 26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_refuses_a_transfer_without_a_ticket_that_allows_just_that() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let other_node = NodeId::new("n2").unwrap();
    let read = |from, until| TicketRight::Read { slice: SliceId(1), from, until };
    let forged = SignedTicket { signature: vec![7; 64], ..cloud.read_ticket(&node, 1) };
    let bad = [
        forged,
        cloud.ticket(&other_node, read(0, 100)),
        cloud.ticket_until(&node.id, read(0, 100), 1),
        cloud.read_ticket(&node, 2),
        cloud.write_ticket(&node, 1),
        cloud.compute_ticket(&node),
        cloud.ticket(&node.id, read(0, 5)),
        cloud.ticket(&node.id, read(5, 10)),
    ];
    let mut stream = cloud.connect(&node).await;
    for (at, ticket) in bad.into_iter().enumerate() {
        let refusal = get(&mut stream, ticket, 1, 0..10).await.unwrap_err();
        assert_eq!(refusal.status(), Status::Refused, "ticket {at}: {refusal}");
    }
    let reading = cloud.read_ticket(&node, 3);
    assert!(matches!(put(&mut stream, reading, b"x").await, TransferReply::Refused(_)));
    assert!(
        get(&mut stream, cloud.ticket(&node.id, read(0, 10)), 1, 0..10).await.is_ok(),
        "the connection is still good"
    );
}

// Promise 26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_ticket_is_good_for_one_slice_once() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"first").await;
    let mut stream = cloud.connect(&node).await;
    let again = put(&mut stream, cloud.write_ticket(&node, 1), b"other").await;
    assert!(matches!(&again, TransferReply::Refused(refusal) if refusal.status() == Status::Refused), "{again:?}");
    assert_eq!(cloud.order(&node, Order::Remove(SliceId(1))).await, Ack::Done);
    assert_eq!(cloud.report(node.session).await, Report::Removed(SliceId(1)));
    let after_removal = put(&mut stream, cloud.write_ticket(&node, 1), b"other").await;
    assert!(matches!(after_removal, TransferReply::Refused(_)), "{after_removal:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_writer_that_goes_away_nothing_remains_and_it_may_come_back() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let mut stream = cloud.connect(&node).await;
    stream.send(&TransferRequest::Write { ticket: cloud.write_ticket(&node, 1), chain: vec![] }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Ready);
    stream.send_frame(&content(200_000)).await.unwrap();
    drop(stream);
    assert_eq!(cloud.get(&node, 1).await.unwrap_err().status(), Status::NotFound);
    // The first report is that of the second try.
    cloud.put(&node, 1, b"whole").await;
    assert_eq!(cloud.get(&node, 1).await.unwrap(), b"whole");
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_slice_is_never_served_and_is_reported() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(3_000_000);
    cloud.put(&node, 1, &bytes).await;
    damage(&node.file_with(&bytes), 2_500_000);
    let mut stream = cloud.connect(&node).await;
    let good = get(&mut stream, cloud.read_ticket(&node, 1), 1, 0..1_000_000).await.unwrap();
    assert!(good == bytes[..1_000_000], "blocks that are whole are served");
    let request =
        TransferRequest::Read { ticket: cloud.read_ticket(&node, 1), slice: SliceId(1), from: 0, until: 3_000_000 };
    stream.send(&request).await.unwrap();
    assert!(matches!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { .. }));
    let received = drain(&mut stream).await;
    assert!(received < 3_000_000, "the connection breaks off before the bad block, after {received} bytes");
    assert_eq!(cloud.report(node.session).await, Report::Corrupt(SliceId(1)));
    assert_eq!(cloud.get(&node, 1).await.unwrap_err().status(), Status::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_first_block_is_said_in_words() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(100_000);
    cloud.put(&node, 1, &bytes).await;
    damage(&node.file_with(&bytes), 70_000);
    let refusal = cloud.get(&node, 1).await.unwrap_err();
    assert_eq!(refusal.status(), Status::Corrupt, "{refusal}");
    assert_eq!(cloud.report(node.session).await, Report::Corrupt(SliceId(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_this_machine_gets_the_file_itself_for_reading_with_its_checksums() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(300_017);
    cloud.put(&node, 1, &bytes).await;
    let mut door = cloud.connect_local(&node).await;
    for _ in 0..2 {
        let (file, checksums) = open_locally(&mut door, cloud.read_ticket(&node, 1), 1).await.unwrap();
        let mut found = Vec::new();
        (&file).read_to_end(&mut found).unwrap();
        assert!(found == bytes);
        assert_eq!(checksums, protocol::wire::stream_frame::checksums(&bytes).collect::<Vec<_>>());
        assert!((&file).write_all(b"x").is_err(), "nobody writes through it");
        (&file).rewind().unwrap();
    }
}

// Promise 26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_is_passed_without_a_ticket_for_all_of_that_slice_at_this_node() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let read = |from, until| TicketRight::Read { slice: SliceId(1), from, until };
    let bad = [
        SignedTicket { signature: vec![7; 64], ..cloud.read_ticket(&node, 1) },
        SignedTicket { ticket: vec![], signature: vec![], delegation: None },
        cloud.ticket(&NodeId::new("n2").unwrap(), read(0, 100)),
        cloud.ticket_until(&node.id, read(0, 100), 1),
        cloud.read_ticket(&node, 2),
        cloud.write_ticket(&node, 1),
        cloud.ticket(&node.id, read(0, 9)),
        cloud.ticket(&node.id, read(1, 10)),
    ];
    let mut door = cloud.connect_local(&node).await;
    for (at, ticket) in bad.into_iter().enumerate() {
        let refusal = open_locally(&mut door, ticket.clone(), 1).await.err().unwrap();
        assert_eq!(refusal.status(), Status::Refused, "ticket {at}: {refusal}");
        if at < 6 {
            let request = LocalRequest::Suspect { ticket, slice: SliceId(1), from: 0, until: 1 };
            door.send(&request).await.unwrap();
            let (reply, _) = door.receive::<LocalReply>().await.unwrap().unwrap();
            assert!(matches!(&reply, LocalReply::Refused(_)), "ticket {at}: {reply:?}");
        }
    }
    assert!(open_locally(&mut door, cloud.ticket(&node.id, read(0, 10)), 1).await.is_ok(), "the door is still open");
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspicion_is_looked_at_and_only_a_bad_copy_is_put_aside() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(300_000);
    cloud.put(&node, 1, &bytes).await;
    let mut door = cloud.connect_local(&node).await;
    let suspect =
        LocalRequest::Suspect { ticket: cloud.read_ticket(&node, 1), slice: SliceId(1), from: 0, until: 65_536 };
    door.send(&suspect).await.unwrap();
    assert_eq!(door.receive::<LocalReply>().await.unwrap().unwrap().0, LocalReply::Done);
    assert!(cloud.get(&node, 1).await.unwrap() == bytes, "a client's word alone costs no copy");
    damage(&node.file_with(&bytes), 40_000);
    door.send(&suspect).await.unwrap();
    // Whoever tells of it may be a command that ends at once.
    drop(door);
    assert_eq!(cloud.report(node.session).await, Report::Corrupt(SliceId(1)));
    let mut door = cloud.connect_local(&node).await;
    let refusal = open_locally(&mut door, cloud.read_ticket(&node, 1), 1).await.err().unwrap();
    assert_eq!(refusal.status(), Status::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_or_malformed_client_of_the_local_socket_affects_only_itself() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let _silent = LocalStream::connect(&node.local).await.unwrap();
    let mut mad = LocalStream::connect(&node.local).await.unwrap();
    mad.send(&"no request of ours".to_owned()).await.unwrap();
    assert!(!matches!(mad.receive::<LocalReply>().await, Ok(Some(_))), "it is hung up on");
    let mut door = cloud.connect_local(&node).await;
    assert!(open_locally(&mut door, cloud.read_ticket(&node, 1), 1).await.is_ok());
    node.stop().await;
}

// Promise 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_connection_has_open_stays_readable_on_it_when_the_slice_is_removed() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(300_000);
    cloud.put(&node, 1, &bytes).await;
    let ticket = cloud.read_ticket(&node, 1);
    let (mut reading, mut other) = (cloud.connect(&node).await, cloud.connect(&node).await);
    assert!(get(&mut reading, ticket.clone(), 1, 0..10).await.unwrap() == bytes[..10]);
    assert_eq!(cloud.order(&node, Order::Remove(SliceId(1))).await, Ack::Done);
    assert_eq!(cloud.report(node.session).await, Report::Removed(SliceId(1)));
    assert!(get(&mut reading, ticket.clone(), 1, 100_000..300_000).await.unwrap() == bytes[100_000..]);
    assert_eq!(get(&mut other, ticket, 1, 0..10).await.unwrap_err().status(), Status::NotFound);
    // What is open is not open to everyone: the ticket counts as much as before.
    let foreign = cloud.read_ticket(&node, 2);
    assert_eq!(get(&mut reading, foreign, 1, 0..10).await.unwrap_err().status(), Status::Refused);
    let part = cloud.ticket(&node.id, TicketRight::Read { slice: SliceId(1), from: 0, until: 10 });
    assert_eq!(get(&mut reading, part.clone(), 1, 0..20).await.unwrap_err().status(), Status::Refused);
    assert!(get(&mut reading, part, 1, 0..10).await.unwrap() == bytes[..10]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remade_copy_is_not_blamed_for_the_bad_one_a_connection_has_open() {
    let mut cloud = FakeCloud::start().await;
    let (first, second) = (cloud.node("n1").await, cloud.node("n2").await);
    let bytes = content(2_500_000);
    cloud.put(&first, 1, &bytes).await;
    let copy =
        |from| Order::Replicate { header: header(1), bytes: bytes.len() as u64, from, qos: TransferQos::default() };
    assert_eq!(cloud.order(&second, copy(cloud.source(&second, &first, 1))).await, Ack::Done);
    assert!(matches!(cloud.report(second.session).await, Report::Stored(_)));
    let (mut early, mut midway) = (cloud.connect(&first).await, cloud.connect(&first).await);
    for stream in [&mut early, &mut midway] {
        assert!(get(stream, cloud.read_ticket(&first, 1), 1, 0..10).await.is_ok());
    }
    damage(&first.file_with(&bytes), 2_400_000);
    assert_eq!(
        get(&mut cloud.connect(&first).await, cloud.read_ticket(&first, 1), 1, 2_400_000..2_400_001)
            .await
            .unwrap_err()
            .status(),
        Status::Corrupt
    );
    assert_eq!(cloud.report(first.session).await, Report::Corrupt(SliceId(1)));
    assert_eq!(cloud.order(&first, copy(cloud.source(&first, &second, 1))).await, Ack::Done);
    assert!(matches!(cloud.report(first.session).await, Report::Stored(_)));
    let part = get(&mut early, cloud.read_ticket(&first, 1), 1, 2_400_000..2_400_010).await.unwrap();
    assert!(part == bytes[2_400_000..2_400_010], "the new copy is read");
    // Bad bytes that are met halfway cut the connection; the copy that is here now stays.
    let ticket = cloud.read_ticket(&first, 1);
    midway.send(&TransferRequest::Read { ticket, slice: SliceId(1), from: 0, until: 2_500_000 }).await.unwrap();
    assert!(matches!(midway.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { .. }));
    assert!(drain(&mut midway).await < 2_500_000);
    assert!(cloud.get(&first, 1).await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_small_reads_of_many_slices_over_one_connection_are_all_right() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(200_000);
    for slice in 1..=6 {
        cloud.put(&node, slice, &bytes[slice as usize..]).await;
    }
    let tickets: Vec<_> = (0..=6).map(|slice| cloud.read_ticket(&node, slice)).collect();
    let mut stream = cloud.connect(&node).await;
    for step in 0..300usize {
        let (slice, from) = (step * 7 % 6 + 1, step * 641);
        let part = get(&mut stream, tickets[slice].clone(), slice as u128, from as u64..from as u64 + 100).await;
        assert!(part.unwrap() == bytes[slice + from..(slice + from + 100).min(bytes.len())], "step {step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_makes_a_copy_that_survives_a_restart() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        copy_and_restart(FakeCloud::start_with(carrier).await).await;
    }
}

async fn copy_and_restart(mut cloud: FakeCloud) {
    let (from, to) = (cloud.node("n1").await, cloud.node("n2").await);
    let bytes = content(2_500_000);
    cloud.put(&from, 1, &bytes).await;
    let order = Order::Replicate {
        header: header(1),
        bytes: bytes.len() as u64,
        from: cloud.source(&to, &from, 1),
        qos: TransferQos { rate_bytes_per_second: Some(1 << 40), ..TransferQos::default() },
    };
    assert_eq!(cloud.order(&to, order.clone()).await, Ack::Done);
    let stored = cloud.report(to.session).await;
    assert!(matches!(&stored, Report::Stored(stored) if stored.bytes == bytes.len() as u64), "{stored:?}");
    // Ordered again, it is told again and not copied.
    from.stop().await;
    assert_eq!(cloud.order(&to, order).await, Ack::Done);
    assert_eq!(cloud.report(to.session).await, stored);
    assert!(cloud.get(&to, 1).await.unwrap() == bytes);
    let place = Order::Place { header: SliceHeader { path: path("/new/place"), ..header(1) } };
    assert_eq!(cloud.order(&to, place).await, Ack::Done);
    to.stop().await;
    let (again, held) = cloud.node_with_inventory("n2").await;
    assert_eq!(
        (held.len(), held[0].state, held[0].metadata.header.path.as_str()),
        (1, HeldState::Placed, "/new/place")
    );
    assert!(cloud.get(&again, 1).await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_one_master_gave_are_told_to_the_next() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let mark = MirrorPosition { journal: JournalId(7), generation: 1, sequence: 3 };
    let rows = vec![MirrorRow { table: "names".into(), key: vec![1], value: Some(vec![2]) }];
    let onto = MirrorBase::Page { page: 0, last: true };
    assert_eq!(
        cloud.order(&node, Order::Mirror(MirrorUpdate { position: mark, base: onto, rows: rows.clone() })).await,
        Ack::Done
    );
    let other = MirrorUpdate {
        position: MirrorPosition { sequence: 9, ..mark },
        base: MirrorBase::Change(8),
        rows: rows.clone(),
    };
    assert!(matches!(cloud.order(&node, Order::Mirror(other)).await, Ack::Refused(_)), "it has not got as far");
    let node = cloud.restart(node).await;
    assert_eq!(cloud.order(&node, Order::ReadMirror { after: None }).await, Ack::Done);
    assert_eq!(cloud.report(node.session).await, Report::MirrorPage { position: mark, after: None, rows, last: true });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native_files_are_listed_and_imported_with_a_ticket_for_that_alone() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let folder = node.folder.join("import");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("f"), content(300_000)).unwrap();
    let ticket = cloud.ticket(&node.id, TicketRight::Import);
    let mut stream = cloud.connect(&node).await;
    let ask = async |stream: &mut TransferStream, request: TransferRequest| {
        stream.send(&request).await.unwrap();
        stream.receive::<TransferReply>().await.unwrap()
    };
    let list = |ticket| TransferRequest::ListFiles { ticket, folder: ".".into(), after: None };
    let import = |ticket, write| TransferRequest::ImportFile {
        ticket,
        write,
        folder: ".".into(),
        file: "f".into(),
        keep: false,
    };
    let (read, write) = (cloud.read_ticket(&node, 1), cloud.write_ticket(&node, 1));
    for request in [list(read.clone()), import(read.clone(), write.clone()), import(ticket.clone(), read)] {
        let reply = ask(&mut stream, request).await;
        assert!(matches!(&reply, TransferReply::Refused(refusal) if refusal.status() == Status::Refused), "{reply:?}");
    }
    let reply = ask(&mut stream, list(ticket.clone())).await;
    assert!(matches!(&reply, TransferReply::Files { files, more: false } if files[0].bytes == 300_000), "{reply:?}");
    let reply = ask(&mut stream, import(ticket.clone(), write)).await;
    assert!(matches!(reply, TransferReply::Stored { bytes: 300_000, .. }), "{reply:?}");
    assert!(matches!(cloud.report(node.session).await, Report::Stored(metadata) if metadata.bytes == 300_000));
    assert!(folder.join("f").exists(), "until it is published");
    let leave = TransferRequest::UnlinkFile { ticket, folder: ".".into(), file: "f".into(), slice: SliceId(1) };
    assert_eq!(ask(&mut stream, leave).await, TransferReply::Ready);
    assert!(!folder.join("f").exists());
    assert!(cloud.get(&node, 1).await.unwrap() == content(300_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_from_a_node_without_the_slice_fails_with_its_words() {
    let mut cloud = FakeCloud::start().await;
    let (from, to) = (cloud.node("n1").await, cloud.node("n2").await);
    let order = Order::Replicate {
        header: header(1),
        bytes: 3,
        from: cloud.source(&to, &from, 1),
        qos: TransferQos::default(),
    };
    assert_eq!(cloud.order(&to, order).await, Ack::Done);
    let report = cloud.report(to.session).await;
    let Report::ReplicateFailed { slice: SliceId(1), refusal, .. } = report else { panic!("{report:?}") };
    assert_eq!(refusal.status(), Status::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_master_joins_again_and_tells_what_it_holds() {
    let mut cloud = FakeCloud::start().await;
    let mut node = cloud.node("n1").await;
    cloud.put(&node, 1, b"bytes").await;
    cloud.forget(&node);
    node.session = cloud.joined("n1").await;
    let held = cloud.inventory(node.session).await;
    assert_eq!(held.iter().map(|held| held.metadata.header.slice).collect::<Vec<_>>(), [SliceId(1)]);
    cloud.put(&node, 2, b"more").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_cannot_be_carried_out_is_refused() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let ack = cloud.order(&node, Order::Place { header: header(9) }).await;
    assert!(matches!(&ack, Ack::Refused(refusal) if refusal.status() == Status::NotFound), "{ack:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_is_taken_once_whole_and_only_for_its_job() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let mut stream = cloud.connect_as_node(&node).await;
    let bytes = content(1_500_000);
    assert_eq!(give(&mut stream, cloud.handed_compute_ticket(&node), piece(0), &bytes).await, TransferReply::Taken);
    stream
        .send(&TransferRequest::Piece { ticket: cloud.handed_compute_ticket(&node), piece: piece(0), bytes: 1_500_000 })
        .await
        .unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Taken, "at once");
    let short = give_announcing(&mut stream, cloud.handed_compute_ticket(&node), piece(1), &bytes, 1_500_001).await;
    assert!(matches!(short, TransferReply::Refused(_)), "{short:?}");
    let mut of_another = piece(2);
    of_another.bucket.job = JobId(8);
    let refused = give(&mut stream, cloud.handed_compute_ticket(&node), of_another, b"x").await;
    assert!(matches!(&refused, TransferReply::Refused(refusal) if refusal.status() == Status::Refused), "{refused:?}");

    let mut driver = cloud.drive(&node).await;
    let missing = driver.ask(SpeRequest::Seal(seal(&[(0, 1_500_000), (1, 1_500_001)]))).await;
    assert!(matches!(&missing, SpeReply::Refused(refusal) if refusal.status() == Status::NotFound), "{missing:?}");
    let sealed = driver.ask(SpeRequest::Seal(seal(&[(0, 1_500_000)]))).await;
    assert_eq!(sealed, SpeReply::Sealed { bytes: 1_500_000, order: vec![0] });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_node_may_deliver_with_a_ticket_that_ended_while_its_task_ran() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let minute_ago = net::clock::Clock::start().now().unix_millis - 60_000;
    let ended = cloud.ticket_until(&node.id, TicketRight::Compute { job: JOB }, minute_ago);
    let mut client = cloud.connect(&node).await;
    let refused = give(&mut client, ended.clone(), piece(0), b"x").await;
    assert!(matches!(&refused, TransferReply::Refused(refusal) if refusal.status() == Status::Refused), "{refused:?}");
    let mut other_node = cloud.connect_as_node(&node).await;
    let refused = give(&mut other_node, ended.clone(), piece(0), b"x").await;
    assert!(matches!(&refused, TransferReply::Refused(_)), "it was not handed to it: {refused:?}");
    let to = || Delegate::Node(NodeId::new(SOME_NODE).unwrap());
    let handed = cloud.handed_to(&ended, to());
    assert_eq!(give(&mut other_node, handed, piece(0), b"x").await, TransferReply::Taken);
    let ancient = cloud.handed_to(&cloud.ticket_until(&node.id, TicketRight::Compute { job: JOB }, 1), to());
    assert!(matches!(give(&mut other_node, ancient, piece(1), b"x").await, TransferReply::Refused(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_becomes_a_slice_and_the_job_is_forgotten() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let mut stream = cloud.connect_as_node(&node).await;
    assert_eq!(give(&mut stream, cloud.handed_compute_ticket(&node), piece(0), b"result").await, TransferReply::Taken);
    let mut driver = cloud.drive(&node).await;
    let mut order = seal(&[(0, 6)]);
    order.publish = true;
    assert_eq!(driver.ask(SpeRequest::Seal(order)).await, SpeReply::Sealed { bytes: 6, order: vec![0] });
    assert_eq!(driver.ask(SpeRequest::Fetch(piece(0).bucket)).await, SpeReply::Bytes(b"result".to_vec()));
    let ticket = cloud.ticket(&node.id, write_right(5));
    let publish = SpeRequest::Publish { bucket: piece(0).bucket, ticket };
    let published = driver.ask(publish.clone()).await;
    assert!(matches!(published, SpeReply::Published { bytes: 6, .. }), "{published:?}");
    assert!(matches!(cloud.report(node.session).await, Report::Stored(stored) if stored.header.slice == SliceId(5)));
    assert_eq!(driver.ask(publish).await, published, "asked again, because the answer may have been lost");
    assert_eq!(cloud.get(&node, 5).await.unwrap(), b"result");

    assert_eq!(cloud.order(&node, Order::ForgetJob(JOB)).await, Ack::Done);
    let late = give(&mut stream, cloud.handed_compute_ticket(&node), piece(1), b"late").await;
    assert!(matches!(late, TransferReply::Refused(_)), "{late:?}");
    assert_eq!(cloud.get(&node, 5).await.unwrap(), b"result", "what was published stays");
}

/// The file and the checksums that the local door gives.
async fn open_locally(
    door: &mut LocalStream,
    ticket: SignedTicket,
    slice: u128,
) -> Result<(File, Vec<u32>), protocol::Refusal> {
    door.send(&LocalRequest::Open { ticket, slice: SliceId(slice) }).await.unwrap();
    let (bytes, file) = match door.receive::<LocalReply>().await.unwrap().unwrap() {
        (LocalReply::Opened { bytes, .. }, Some(file)) => (bytes, File::from(file)),
        (LocalReply::Refused(refusal), None) => return Err(refusal),
        (other, file) => panic!("{other:?} {file:?}"),
    };
    let mut checksums = Vec::new();
    while (checksums.len() as u64) < protocol::slice::block_count(bytes) {
        match door.receive::<LocalReply>().await.unwrap().unwrap().0 {
            LocalReply::Checksums(more) => checksums.extend(more),
            other => panic!("{other:?}"),
        }
    }
    Ok((file, checksums))
}

fn piece(task: u32) -> PieceId {
    PieceId { bucket: BucketId { job: JOB, stage: 0, epoch: 0, bucket: 3, generation: 0 }, task, attempt: 0 }
}

fn seal(winners: &[(u32, u64)]) -> SealOrder {
    let winners = winners.iter().map(|(task, bytes)| Winner { task: *task, attempt: 0, bytes: *bytes }).collect();
    SealOrder { bucket: piece(0).bucket, winners, publish: false, in_order: false }
}

async fn give(stream: &mut TransferStream, ticket: SignedTicket, piece: PieceId, bytes: &[u8]) -> TransferReply {
    give_announcing(stream, ticket, piece, bytes, bytes.len() as u64).await
}

async fn give_announcing(
    stream: &mut TransferStream,
    ticket: SignedTicket,
    piece: PieceId,
    content: &[u8],
    bytes: u64,
) -> TransferReply {
    stream.send(&TransferRequest::Piece { ticket, piece, bytes }).await.unwrap();
    match stream.receive::<TransferReply>().await.unwrap() {
        TransferReply::Ready => {}
        other => return other,
    }
    for frame in content.chunks(500_000) {
        stream.send_frame(frame).await.unwrap();
    }
    stream.end_frames().await.unwrap();
    stream.receive().await.unwrap()
}

/// Receives until the connection breaks off; the bytes that came.
async fn drain(stream: &mut TransferStream) -> usize {
    let (mut bytes, mut frame) = (0, net::transfer::StreamFrame::default());
    loop {
        match stream.receive_frame(&mut frame).await {
            Ok(true) => bytes += frame.payload.len(),
            Ok(false) => panic!("the data ended in order"),
            Err(_) => return bytes,
        }
    }
}

// Promise 14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_breaks_off_goes_on_where_it_stood_from_another_node() {
    let mut cloud = FakeCloud::start().await;
    let (first, second, to) = (cloud.node("n1").await, cloud.node("n2").await, cloud.node("n3").await);
    let bytes = content(9_000_000);
    for node in [&first, &second] {
        cloud.put(node, 1, &bytes).await;
    }
    // The one is bad near its end, the other at its beginning: neither could give the whole.
    damage(&first.file_with(&bytes), 8_000_000);
    damage(&second.file_with(&bytes), 10);
    let copy =
        |from| Order::Replicate { header: header(1), bytes: bytes.len() as u64, from, qos: TransferQos::default() };
    assert_eq!(cloud.order(&to, copy(cloud.source(&to, &first, 1))).await, Ack::Done);
    let report = cloud.report(to.session).await;
    let Report::ReplicateFailed { kept_bytes, .. } = report else { panic!("{report:?}") };
    assert!((4_000_000..8_000_000).contains(&kept_bytes), "{kept_bytes}");
    assert_eq!(cloud.order(&to, copy(cloud.source(&to, &second, 1))).await, Ack::Done);
    let report = cloud.report(to.session).await;
    assert!(matches!(&report, Report::Stored(stored) if stored.bytes == bytes.len() as u64), "{report:?}");
    assert!(cloud.get(&to, 1).await.unwrap() == bytes);
}
