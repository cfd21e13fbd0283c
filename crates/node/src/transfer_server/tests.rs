//! The door on a disk in memory and a connection in memory: what happens when the disk is full or all turns are taken.
//! The rest is in `tests/serving.rs`, over real connections.
#![allow(clippy::unwrap_used)]

use protocol::Status;
use std::{collections::BTreeMap, path::Path};

use daemon::{settings::ThirdPartyFrom, shutdown::TaskGroup};
use net::{
    clock::Clock,
    identity::{Authority, HolderKeyPair, TicketSigner, TlsIdentity},
    transfer::{CarrierSettings, Carriers, StreamFrame},
};
use protocol::{
    LeaseId, NodeId, RecordFraming, Refusal, SectorPath, SliceHeader, SliceId, UserName, Version,
    message::{
        byte_runs::ByteRuns,
        node_master::{LinkShare, Revocation},
    },
    ticket::{Holder, SignedTicket, Ticket, TicketRight},
};
use spe::{Sandbox, SandboxSettings, SpeProgram};
use store::{DataFolder, DiskFault, DiskSet, MemoryDisk};
use tokio::sync::mpsc;

use super::*;
use crate::{
    bucket::BucketStore,
    disks::{import::ImportFolders, scrub_statuses::ScrubStatuses, storage::Storage, upload_locks::UploadLocks},
    load::{LoadSamples, evidence::Evidence, links::LinkSamples},
    metadata_mirror::MetadataMirror,
    node_context::{
        event::{Event, EventSender},
        gauge::Gauge,
    },
    rules::NodeCompletion,
    session::master_location::MasterLocation,
    task::{
        driver_process::DriverProgram,
        environments::Environments,
        fair_scheduler::{FairScheduler, FairSharing},
        spes::Spes,
    },
    tickets::TicketAuthorizer,
    transfer::{
        connection_pool::ConnectionPool,
        peers::Peers,
        pull::{address_policy::AddressPolicy, foreign_cloud_policy::ForeignCloudPolicy},
        site_limiters::SiteLimiters,
        transfer_limits::TransferLimits,
    },
};

pub(crate) struct Fixture {
    pub(crate) context: Arc<NodeContext>,
    pub(crate) disk: Arc<MemoryDisk>,
    signer: TicketSigner,
    holder: HolderKeyPair,
    pub(crate) clock: Clock,
    pub(crate) events: mpsc::Receiver<Event>,
    stop: TaskGroup,
}

pub(crate) fn fixture() -> Fixture {
    let (clock, signer, disk) = (Clock::start(), TicketSigner::generate(), Arc::new(MemoryDisk::new(1)));
    let watched = Arc::clone(&disk) as Arc<dyn store::Disk>;
    let folder = DataFolder { disk: watched, folder: "/node".into(), known: false, memory_bytes: None };
    let (store, _) = DiskSet::open(vec![folder], 0).unwrap();
    let node = NodeId::new("here").unwrap();
    let tickets = TicketAuthorizer::new(node.clone(), "uic".into(), clock);
    tickets.set_keys(signer.public_keys());
    let authority = Authority::create("test").unwrap();
    let identity = TlsIdentity::client(authority.certificate_pem()).unwrap();
    let (sender, events) = EventSender::channel();
    let kept = Arc::new(MemoryDisk::new(2));
    let context = NodeContext {
        node,
        tickets,
        storage: Storage {
            buckets: Arc::new(BucketStore::new(Arc::clone(&store))),
            slices: store,
            scrub_statuses: ScrubStatuses::default(),
            mirror: Arc::new(
                MetadataMirror::from_journal(store::Journal::open_on(kept, Path::new("/kept.redb")).unwrap()).unwrap(),
            ),
            import: Arc::new(ImportFolders::new(Path::new("/node"), &[])),
            upload_locks: UploadLocks::default(),
            events: sender.clone(),
        },
        peers: Peers {
            site: "uic".into(),
            connections: ConnectionPool::new(Carriers::new(identity, CarrierSettings::default())),
            foreign_clouds: ForeignCloudPolicy {
                from: ThirdPartyFrom::Any,
                addresses: AddressPolicy::of(([127, 0, 0, 1], 9).into()),
                carrier: protocol::CarrierChoice::Auto,
                controller: protocol::ControllerKind::Udt,
            },
            site_limiters: SiteLimiters::default(),
        },
        limits: TransferLimits::new(1),
        spes: Spes {
            program: SpeProgram { executable: "none".into(), arguments: vec![] },
            drivers: DriverProgram {
                executable: "none".into(),
                master: Arc::new(MasterLocation::new("127.0.0.1:1".parse().unwrap())),
                authority: String::new(),
            },
            sandbox: Arc::new(Sandbox::new(&SandboxSettings::default())),
            slots: FairScheduler::new(clock, 1, FairSharing { user_max: u32::MAX, weights: BTreeMap::new() }),
            running: Gauge::default(),
            environments: Arc::new(Environments::open("/nonexistent".into(), 0)),
            processes: Arc::new(Semaphore::new(1)),
        },
        load: LoadSamples::default(),
        links: LinkSamples::new(1),
        evidence: Evidence::default(),
        events: sender,
    };
    Fixture {
        context: Arc::new(context),
        disk,
        signer,
        holder: HolderKeyPair::generate(),
        clock,
        events,
        stop: TaskGroup::new(),
    }
}

impl Fixture {
    /// Stores a slice as a client does.
    pub(crate) async fn store(&mut self, slice: u128, bytes: usize) {
        let stored = put(&mut self.connect().await, self.write_ticket(slice), bytes).await;
        assert!(matches!(stored, TransferReply::Stored { .. }), "{stored:?}");
        assert!(matches!(self.events.recv().await.unwrap(), Event::Completion(NodeCompletion::Stored(_))));
    }

    fn ticket(&self, right: TicketRight) -> SignedTicket {
        let (user, node) = (UserName::new("alice").unwrap(), self.context.node.clone());
        let until_unix_millis = self.clock.now().unix_millis + 60_000;
        let holder = Holder::Client(self.holder.public());
        self.signer.sign(&Ticket {
            number: 1,
            user,
            holder,
            node,
            right,
            file: None,
            plain_within: None,
            holder_site: Some("jhu".into()),
            until_unix_millis,
        })
    }

    fn write_ticket(&self, slice: u128) -> SignedTicket {
        let header = SliceHeader {
            slice: SliceId(slice),
            path: SectorPath::parse("/a").unwrap(),
            version: Version(1),
            owner: UserName::new("alice").unwrap(),
            modified_unix_millis: 0,
            copies: 1,
            records: RecordFraming::File,
            user: BTreeMap::new(),
            journal: protocol::JournalId(1),
            acl: None,
        };
        self.ticket(TicketRight::Write { lease: LeaseId(1), header, resume: None, base: None })
    }

    /// The other end of a connection that the door serves.
    async fn connect(&self) -> TransferStream {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let end = |stream| TransferStream::in_memory(Box::new(stream), ([127, 0, 0, 1], 9).into(), None, [1; 32]);
        let (context, stream, stopping) = (Arc::clone(&self.context), end(there), self.stop.token());
        let room = Arc::new(Semaphore::new(1));
        tokio::spawn(async move { answer_requests(&context, stream, &room, &stopping).await });
        let mut here = end(here);
        let proof = self.holder.prove(&here).unwrap();
        here.queue(&TransferRequest::ProveKey { key: self.holder.public(), proof }).await.unwrap();
        here
    }
}

async fn put(stream: &mut TransferStream, ticket: SignedTicket, bytes: usize) -> TransferReply {
    stream.send(&TransferRequest::Write { ticket, chain: vec![] }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Ready);
    for _ in 0..bytes / 100_000 {
        stream.send_frame(&[7; 100_000]).await.unwrap();
    }
    stream.end_frames().await.unwrap();
    stream.receive().await.unwrap()
}

#[tokio::test]
async fn a_full_disk_sends_the_writer_elsewhere_and_keeps_the_connection() {
    let mut made = fixture();
    let mut stream = made.connect().await;
    made.disk.set_free_bytes(1_000_000);
    let full = put(&mut stream, made.write_ticket(1), 3_000_000).await;
    assert!(matches!(&full, TransferReply::Refused(why) if why.status() == Status::Unavailable), "{full:?}");
    assert!(made.context.storage.slices.held().is_empty());
    let stored = put(&mut stream, made.write_ticket(2), 300_000).await;
    assert!(
        matches!(stored, TransferReply::Stored { bytes: 300_000, .. }),
        "nothing of the first remained: {stored:?}"
    );
    let told = made.events.recv().await.unwrap();
    assert!(matches!(told, Event::Completion(NodeCompletion::Stored(slice)) if slice.header.slice == SliceId(2)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gets_no_turn_is_told_to_come_back() {
    let made = fixture();
    let (mut slow, mut second) = (made.connect().await, made.connect().await);
    slow.send(&TransferRequest::Write { ticket: made.write_ticket(1), chain: vec![] }).await.unwrap();
    assert_eq!(slow.receive::<TransferReply>().await.unwrap(), TransferReply::Ready);
    assert_eq!(made.context.limits.transfers_running.value(), 1);
    let ticket = made.ticket(TicketRight::Read { slice: SliceId(1), from: 0, until: 10 });
    let request = TransferRequest::Read { ticket, slice: SliceId(1), from: 0, until: 10 };
    second.send(&request).await.unwrap();
    let reply = second.receive::<TransferReply>().await.unwrap();
    assert!(matches!(&reply, TransferReply::Refused(why) if why.status() == Status::Unavailable), "{reply:?}");
    // The first one's turn ends with its connection.
    drop(slow);
    second.send(&request).await.unwrap();
    let reply = second.receive::<TransferReply>().await.unwrap();
    assert!(matches!(&reply, TransferReply::Refused(why) if why.status() == Status::NotFound), "{reply:?}");
}

#[tokio::test]
async fn a_read_of_a_part_ends_with_the_part() {
    let made = fixture();
    let mut stream = made.connect().await;
    put(&mut stream, made.write_ticket(1), 300_000).await;
    let ticket = made.ticket(TicketRight::Read { slice: SliceId(1), from: 10, until: 20 });
    stream.send(&TransferRequest::Read { ticket, slice: SliceId(1), from: 12, until: 17 }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { bytes: 5 });
    let mut frame = StreamFrame::default();
    assert!(stream.receive_frame(&mut frame).await.unwrap());
    assert_eq!(frame.payload, [7; 5]);
    assert!(!stream.receive_frame(&mut frame).await.unwrap());
}

/// Asks for runs, and gives their bytes.
async fn read_runs(stream: &mut TransferStream, ticket: SignedTicket, runs: ByteRuns) -> Result<Vec<u8>, Refusal> {
    stream.send(&TransferRequest::ReadRuns { ticket, slice: SliceId(1), runs }).await.unwrap();
    let announced = match stream.receive::<TransferReply>().await.unwrap() {
        TransferReply::Reading { bytes } => bytes,
        TransferReply::Refused(refusal) => return Err(refusal),
        other => panic!("{other:?}"),
    };
    let (mut all, mut frame) = (Vec::new(), StreamFrame::default());
    while stream.receive_frame(&mut frame).await.unwrap() {
        assert!(!frame.payload.is_empty());
        all.extend_from_slice(&frame.payload);
    }
    assert_eq!(all.len() as u64, announced);
    Ok(all)
}

#[tokio::test]
async fn of_runs_nothing_between_them_is_sent() {
    let made = fixture();
    let mut stream = made.connect().await;
    let content: Vec<u8> = (0..5_000_000_u32).map(|at| (at / 3) as u8).collect();
    stream.send(&TransferRequest::Write { ticket: made.write_ticket(1), chain: vec![] }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Ready);
    for payload in content.chunks(1 << 20) {
        stream.send_frame(payload).await.unwrap();
    }
    stream.end_frames().await.unwrap();
    assert!(matches!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Stored { .. }));
    let ticket = || made.ticket(TicketRight::Read { slice: SliceId(1), from: 1_000, until: 5_000_000 });
    let rows = ByteRuns { from: 70_001, run_bytes: 200, stride_bytes: 4_096, runs: 1_000 };
    // One frame, several frames, and runs that are far apart.
    for runs in [
        ByteRuns { runs: 3, ..rows },
        rows,
        ByteRuns { run_bytes: 2_000, ..rows },
        ByteRuns { stride_bytes: 700_000, runs: 7, ..rows },
    ] {
        let expected: Vec<u8> = (0..runs.runs)
            .flat_map(|run| content[(runs.from + run * runs.stride_bytes) as usize..][..runs.run_bytes as usize].iter())
            .copied()
            .collect();
        assert_eq!(read_runs(&mut stream, ticket(), runs).await.unwrap(), expected, "{runs:?}");
    }
    for (runs, status) in [
        (ByteRuns { from: 999, ..rows }, Status::Refused),
        (ByteRuns { runs: 2_000, ..rows }, Status::Usage),
        (ByteRuns { run_bytes: 0, ..rows }, Status::Usage),
        (ByteRuns { runs: u64::MAX, ..rows }, Status::Usage),
    ] {
        assert_eq!(read_runs(&mut stream, ticket(), runs).await.map_err(|why| why.status()), Err(status), "{runs:?}");
    }
}

#[tokio::test]
async fn a_node_that_stops_closes_idle_connections() {
    let made = fixture();
    let mut stream = made.connect().await;
    put(&mut stream, made.write_ticket(1), 100_000).await;
    made.stop.cancel();
    assert!(stream.receive_or_end::<TransferReply>().await.unwrap().is_none());
}

async fn verify(stream: &mut TransferStream, ticket: SignedTicket) -> (u64, TransferReply) {
    stream.send(&TransferRequest::Verify { ticket, slice: SliceId(1) }).await.unwrap();
    let mut told = 0;
    loop {
        match stream.receive::<TransferReply>().await.unwrap() {
            TransferReply::Verifying { bytes } => {
                assert!(bytes > told);
                told = bytes;
            }
            last => return (told, last),
        }
    }
}

#[tokio::test]
async fn a_check_reads_the_whole_slice_and_a_bad_one_is_quarantined_and_reported() {
    let mut made = fixture();
    made.store(1, 20_000_000).await;
    let read = |until| TicketRight::Read { slice: SliceId(1), from: 0, until };
    let mut stream = made.connect().await;
    let (told, verified) = verify(&mut stream, made.ticket(read(20_000_000))).await;
    let digest = made.context.storage.slices.held()[0].metadata.digest;
    assert_eq!((told, verified), (16 << 20, TransferReply::Verified { digest }));
    let (_, part) = verify(&mut stream, made.ticket(read(19_999_999))).await;
    assert!(matches!(&part, TransferReply::Refused(why) if why.status() == Status::Refused), "{part:?}");
    let file = format!("/node/staging/{}", SliceId(1));
    made.disk.flip_bit(Path::new(&file), 19_999_999).unwrap();
    let (_, bad) = verify(&mut stream, made.ticket(read(20_000_000))).await;
    assert!(matches!(&bad, TransferReply::Refused(why) if why.status() == Status::Corrupt), "{bad:?}");
    let told = made.events.recv().await.unwrap();
    assert!(matches!(told, Event::Completion(NodeCompletion::FoundCorrupt(SliceId(1)))), "{told:?}");
    let (_, gone) = verify(&mut stream, made.ticket(read(20_000_000))).await;
    assert!(matches!(&gone, TransferReply::Refused(why) if why.status() == Status::NotFound), "{gone:?}");
}

// Promise 34.
#[tokio::test]
async fn a_bad_sector_costs_its_slice_and_the_node_serves_and_takes_all_others() {
    let mut made = fixture();
    for slice in 1..=3 {
        made.store(slice, 200_000).await;
    }
    let sidecar = format!("/node/staging/{}.sector", SliceId(1));
    made.disk.set_bad_sector(Path::new(&sidecar), Some(0)).unwrap();
    let mut stream = made.connect().await;
    let ticket = made.ticket(TicketRight::Read { slice: SliceId(1), from: 0, until: 200_000 });
    stream.send(&TransferRequest::Read { ticket, slice: SliceId(1), from: 0, until: 200_000 }).await.unwrap();
    let reply = stream.receive::<TransferReply>().await.unwrap();
    assert!(matches!(&reply, TransferReply::Refused(why) if why.status() == Status::Corrupt), "{reply:?}");
    let told = made.events.recv().await.unwrap();
    assert!(matches!(told, Event::Completion(NodeCompletion::FoundCorrupt(SliceId(1)))), "{told:?}");
    crate::disks::DiskWatch::new(Arc::clone(&made.context)).check().await.unwrap();
    assert!(made.events.try_recv().is_err(), "nothing else is given up");
    let ticket = made.ticket(TicketRight::Read { slice: SliceId(2), from: 0, until: 200_000 });
    stream.send(&TransferRequest::Read { ticket, slice: SliceId(2), from: 0, until: 200_000 }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { bytes: 200_000 });
    let mut frame = StreamFrame::default();
    while stream.receive_frame(&mut frame).await.unwrap() {
        assert!(frame.payload.iter().all(|byte| *byte == 7));
    }
    made.store(4, 200_000).await;
    // A second file that cannot be read is the disk's end.
    let bytes = format!("/node/staging/{}", SliceId(3));
    made.disk.set_bad_sector(Path::new(&bytes), Some(150_000)).unwrap();
    let mut stream = made.connect().await;
    let ticket = made.ticket(TicketRight::Read { slice: SliceId(3), from: 0, until: 200_000 });
    stream.send(&TransferRequest::Read { ticket, slice: SliceId(3), from: 0, until: 200_000 }).await.unwrap();
    let reply = stream.receive::<TransferReply>().await.unwrap();
    assert!(matches!(&reply, TransferReply::Refused(_)), "{reply:?}");
    crate::disks::DiskWatch::new(Arc::clone(&made.context)).check().await.unwrap();
    let told = made.events.recv().await.unwrap();
    assert!(matches!(&told, Event::Completion(NodeCompletion::SlicesLost(slices)) if slices.len() == 3), "{told:?}");
}

#[tokio::test]
async fn an_upload_whose_disk_fails_is_refused_and_not_reported() {
    let mut made = fixture();
    made.store(1, 100_000).await;
    let mut stream = made.connect().await;
    stream.send(&TransferRequest::Write { ticket: made.write_ticket(2), chain: Vec::new() }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Ready);
    stream.send_frame(&[7; 100_000]).await.unwrap();
    made.disk.set_fault(Some(DiskFault::Changes(5)));
    stream.send_frame(&[7; 100_000]).await.unwrap();
    stream.end_frames().await.unwrap();
    let reply = stream.receive::<TransferReply>().await.unwrap();
    assert!(matches!(reply, TransferReply::Refused(_)), "{reply:?}");
    crate::disks::DiskWatch::new(Arc::clone(&made.context)).check().await.unwrap();
    let told = made.events.recv().await.unwrap();
    assert!(
        matches!(&told, Event::Completion(NodeCompletion::SlicesLost(slices)) if *slices == [SliceId(1)]),
        "{told:?}"
    );
}

// Promise 14, 46.
#[tokio::test(start_paused = true)]
async fn a_node_sends_no_faster_than_it_is_asked_to_and_the_next_request_is_free_again() {
    let mut fixture = fixture();
    fixture.store(1, 3_000_000).await;
    let ticket = fixture.ticket(TicketRight::Read { slice: SliceId(1), from: 0, until: 3_000_000 });
    let mut stream = fixture.connect().await;
    let mut spans = Vec::new();
    for rate_bytes_per_second in [Some(100_000), None] {
        let begun = tokio::time::Instant::now();
        if rate_bytes_per_second.is_some() {
            stream
                .queue(&TransferRequest::Qos(TransferQos { rate_bytes_per_second, ..TransferQos::default() }))
                .await
                .unwrap();
        }
        let request = TransferRequest::Read { ticket: ticket.clone(), slice: SliceId(1), from: 0, until: 3_000_000 };
        stream.send(&request).await.unwrap();
        assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { bytes: 3_000_000 });
        let (mut frame, mut bytes) = (StreamFrame::default(), 0);
        while stream.receive_frame(&mut frame).await.unwrap() {
            bytes += frame.payload.len();
        }
        assert_eq!(bytes, 3_000_000);
        spans.push(begun.elapsed());
    }
    assert!((Duration::from_secs(29)..Duration::from_secs(31)).contains(&spans[0]), "{spans:?}");
    assert!(spans[1] < Duration::from_secs(1), "{spans:?}");
}

// Promise 48.
#[tokio::test(start_paused = true)]
async fn a_clients_reads_and_writes_keep_to_the_nodes_share_of_the_link_limit() {
    let mut fixture = fixture();
    let share = |site: &str| LinkShare { site: site.into(), rate_bytes_per_second: 100_000 };
    fixture.context.peers.site_limiters.set_shares(&[share("jhu"), share("starlight")]);
    let begun = tokio::time::Instant::now();
    fixture.store(1, 3_000_000).await;
    let wrote = begun.elapsed();
    let ticket = fixture.ticket(TicketRight::Read { slice: SliceId(1), from: 0, until: 3_000_000 });
    let mut stream = fixture.connect().await;
    let (begun, mut frame, mut bytes) = (tokio::time::Instant::now(), StreamFrame::default(), 0);
    stream.send(&TransferRequest::Read { ticket, slice: SliceId(1), from: 0, until: 3_000_000 }).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { bytes: 3_000_000 });
    while stream.receive_frame(&mut frame).await.unwrap() {
        bytes += frame.payload.len();
        if bytes > 1_500_000 && begun.elapsed() < Duration::from_secs(20) {
            // It holds at once for what is under way.
            fixture.context.peers.site_limiters.set_shares(&[]);
        }
    }
    let read = begun.elapsed();
    assert_eq!(bytes, 3_000_000);
    assert!((Duration::from_secs(28)..Duration::from_secs(31)).contains(&wrote), "{wrote:?}");
    assert!((Duration::from_secs(14)..Duration::from_secs(17)).contains(&read), "{read:?}");
    assert_eq!(fixture.context.peers.site_limiters.uses(), []);
    let totals = fixture.context.peers.site_limiters.links.totals();
    let carried: Vec<_> =
        totals.iter().map(|(site, link)| (site.as_str(), link.sent_bytes, link.received_bytes)).collect();
    assert_eq!(carried, [("jhu", 3_000_000, 3_000_000)], "each byte counts once, limited or not");
}

// Promise 27.
#[tokio::test]
async fn a_revocation_comes_before_whatever_is_asked_behind_it_on_an_open_connection() {
    let mut made = fixture();
    made.store(1, 100_000).await;
    let ticket = made.ticket(TicketRight::Read { slice: SliceId(1), from: 0, until: 100_000 });
    let request = TransferRequest::Read { ticket, slice: SliceId(1), from: 0, until: 5 };
    let mut streams = Vec::new();
    for _ in 0..32 {
        let mut stream = made.connect().await;
        stream.send(&request).await.unwrap();
        assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Reading { bytes: 5 });
        let mut frame = StreamFrame::default();
        while stream.receive_frame(&mut frame).await.unwrap() {}
        streams.push(stream);
    }
    let now = made.clock.now();
    let revocation = Revocation { user: UserName::new("alice").unwrap(), last_ticket: u64::MAX };
    made.context.tickets.revocations().revoke(now, revocation);
    for mut stream in streams {
        stream.send(&request).await.unwrap();
        let answer = stream.receive_or_end::<TransferReply>().await;
        assert!(!matches!(answer, Ok(Some(TransferReply::Reading { .. }))), "{answer:?}");
    }
}
