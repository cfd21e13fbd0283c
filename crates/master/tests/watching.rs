//! What it costs a master to be watched: a day of what nodes and links did, and those who follow events. Memory is counted at
//! the allocator, so that nothing is forgotten and no page rounds it up. `NODES=1000` and `FOLLOWERS=1000` measure whole
//! clouds, in a release build.

#![allow(clippy::unwrap_used, unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    net::IpAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use master::{
    ClientJoin, Master, MasterAction, MasterCompletion, MasterConfig, MasterMessage, NodeJoin, SessionCaller,
    SignTickets,
};
use protocol::{
    CredentialId, NodeId, Now, Place, SessionId, UserName,
    message::{
        client_master::{ClientReply, ClientRequest},
        events::EVENTS_WAIT_MILLIS_MAX,
        links::{LinkReport, LinkSample, LinkSecond},
        load::{DiskLoad, LoadMetric, LoadReport, LoadSample, MachineSize, ProcessLoad, SAMPLES_MAX},
        marks::{MarkChange, MarkSubject},
        master_security::{KnownUser, UserRights},
        node_master::Report,
        request::{ChangeMarkRequest, EventsFrom, EventsRequest},
    },
    ticket::{HolderKey, SignedTicket, Ticket, TicketKeys},
};

/// Nodes and followers of a usual run; figures are per node and per follower.
const USUAL: u64 = 10;
const SITES: u64 = 10;
/// The last of them is from the second day, when every ring has wrapped.
const SECONDS: u64 = 86_400 + 3_600;
/// 100 MB for a thousand nodes.
const NODE_BYTES_MAX: usize = 100_000;
/// A link in one direction: five numbers of four bytes at each of 1,140 moments, and the room that the rings keep free.
const LINK_BYTES: usize = 23_300;
/// What waits for a follower at the master, and not its session.
const FOLLOWER_BYTES_MAX: usize = 1_000;

#[test]
fn a_day_of_a_thousand_nodes_takes_less_than_a_hundred_megabytes() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let nodes = wanted("NODES");
    let mut cloud = TestCloud::new();
    for number in 0..nodes {
        cloud.join(number);
    }
    let (before, begun) = (allocated(), Instant::now());
    for minute in 1..=SECONDS / 60 {
        cloud.now = at(minute * 60);
        for number in 0..nodes {
            cloud.report(number, Report::Load(load()));
            let last = minute * 60 - 1;
            let seconds = vec![link_second(number, last)];
            cloud.report(number, Report::Links(LinkReport { run: 1, number: last, seconds }));
        }
    }
    // Links are of pairs of sites, however many nodes there are.
    let links = (SITES * (SITES - 1)) as usize;
    let node_bytes = (allocated() - before).saturating_sub(links * LINK_BYTES) / nodes as usize;
    let report_micros = begun.elapsed().as_micros() as f64 / (SECONDS * nodes) as f64;
    println!("a day of {nodes} nodes: {node_bytes} bytes a node, and {} of links", links * LINK_BYTES);
    println!("{report_micros:.2} µs a node and second");
    assert!(node_bytes <= NODE_BYTES_MAX, "{node_bytes} bytes");
    assert!(node_bytes > 60_000, "{node_bytes} bytes: less than the samples of a day");
}

#[test]
fn a_thousand_followers_of_events_take_a_megabyte_and_all_hear_within_a_second() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let followers = wanted("FOLLOWERS");
    let mut cloud = TestCloud::new();
    cloud.join(0);
    for number in 0..=followers {
        cloud.log_in(number);
    }
    let before = allocated();
    for number in 1..=followers {
        cloud.follow(number);
    }
    assert_eq!(cloud.figures_followers(), followers);
    let follower_bytes = (allocated() - before) / followers as usize;
    let (event_at, begun) = (cloud.now.monotonic, Instant::now());
    let change = MarkChange::Add("for a measurement".into());
    let subject = MarkSubject::Node(NodeId::new("node-0").unwrap());
    cloud.ask(0, ClientRequest::ChangeMark(ChangeMarkRequest { subject, change }));
    while cloud.events_heard < followers {
        let due = cloud.master.next_timeout().max(cloud.now.monotonic + Duration::from_millis(1));
        cloud.now = Now { monotonic: due, ..cloud.now };
        cloud.master.handle_timeout(cloud.now);
        cloud.perform();
    }
    let (heard_in, took) = (cloud.now.monotonic - event_at, begun.elapsed());
    println!("{followers} followers: {follower_bytes} bytes each; all heard in {heard_in:?}, with {took:?} of work");
    assert!(follower_bytes <= FOLLOWER_BYTES_MAX, "{follower_bytes} bytes");
    let bound = Duration::from_millis(1_000 * followers.div_ceil(1_000));
    assert!(heard_in <= bound, "{heard_in:?} of the cloud's time, which a rule bounds");
}

/// A master without a disk or a network, on a clock that is moved by hand.
struct TestCloud {
    master: Master,
    now: Now,
    /// Events that were told to those who follow.
    events_heard: u64,
    requests: u64,
}

impl TestCloud {
    fn new() -> Self {
        // Nodes say nothing but what is measured here.
        let config = MasterConfig { node_lost_after: Duration::from_secs(1_000_000), ..MasterConfig::default() };
        let master = Master::new(at(1), config, 1, Box::new(NoSignature), []).unwrap();
        let mut cloud = Self { master, now: at(1), events_heard: 0, requests: 0 };
        cloud.perform();
        cloud
    }

    fn join(&mut self, number: u64) {
        let address = IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
        let join = NodeJoin {
            node: NodeId::new(format!("node-{number}")).unwrap(),
            place: Place::new(site(number), "rack"),
            transfer: (address, 7410).into(),
            spe_slots: 1,
            pid: 1,
            folder: "/data".into(),
            local: None,
            address,
        };
        self.master.open_node_session(self.now, node_session(number), join).unwrap();
        self.report(number, Report::Inventory { slices: Vec::new(), last: true });
    }

    fn log_in(&mut self, number: u64) {
        let address = IpAddr::from([10, 1, 0, 1]);
        let rights = UserRights { user: UserName::new("admin").unwrap(), groups: Vec::new(), admin: true };
        let user = KnownUser { rights, credential: CredentialId(number), until_unix_millis: None };
        let holder = HolderKey([1; 32]);
        let join = ClientJoin { user, address, holder, proved_from: address, drives: None };
        self.master.open_client_session(self.now, client_session(number), join);
        self.perform();
    }

    fn report(&mut self, node: u64, report: Report) {
        self.requests += 1;
        let from = SessionCaller { session: node_session(node), request: Some(self.requests) };
        self.master.handle_message(self.now, from, MasterMessage::Node(report));
        self.perform();
    }

    fn ask(&mut self, client: u64, request: ClientRequest) {
        self.requests += 1;
        let from = SessionCaller { session: client_session(client), request: Some(self.requests) };
        self.master.handle_message(self.now, from, MasterMessage::Client(request));
        self.perform();
    }

    fn follow(&mut self, client: u64) {
        let wait_millis = EVENTS_WAIT_MILLIS_MAX;
        let request = EventsRequest { from: EventsFrom::Now, kinds: Vec::new(), below: None, wait_millis };
        self.ask(client, ClientRequest::Events(request));
    }

    fn figures_followers(&self) -> u64 {
        self.master.figures().event_followers
    }

    fn perform(&mut self) {
        while let Some(action) = self.master.poll_action() {
            match action {
                MasterAction::Save { batch, .. } => {
                    self.master.handle_completion(self.now, MasterCompletion::Saved { batch });
                }
                MasterAction::Reply { reply: ClientReply::Events(page), .. } => {
                    self.events_heard += page.events.len() as u64;
                }
                _ => {}
            }
        }
    }
}

/// A minute of a node with four disks and eight SPEs.
fn load() -> LoadReport {
    let mut sample = LoadSample::default();
    LoadMetric::ALL.into_iter().for_each(|metric| sample.set(metric, 1_000));
    LoadReport {
        machine: MachineSize { processors: 8, memory_bytes: 1 << 36 },
        samples: vec![sample; SAMPLES_MAX],
        disks: vec![Some(DiskLoad::default()); 4],
        processes: (0..8).map(|pid| ProcessLoad { pid, processor_thousandths: 900, memory_bytes: 1 << 30 }).collect(),
    }
}

/// What a node exchanges with all other sites in a second.
fn link_second(node: u64, number: u64) -> LinkSecond {
    let others = (0..SITES).filter(|other| site(*other) != site(node));
    let sample = |other: u64| LinkSample {
        site: site(other),
        sent_bytes: 1_000_000,
        received_bytes: 1_000,
        sent_packets: 700,
        lost_packets: 1,
        retransmitted_bytes: 1_400,
        round_trip_micros: 16_000,
    };
    LinkSecond { number, links: others.map(sample).collect() }
}

fn site(number: u64) -> String {
    format!("site-{}", number % SITES)
}

fn node_session(number: u64) -> SessionId {
    SessionId(number)
}

fn client_session(number: u64) -> SessionId {
    SessionId((1 << 32) + number)
}

fn wanted(name: &str) -> u64 {
    std::env::var(name).map_or(USUAL, |text| text.parse().unwrap())
}

fn at(second: u64) -> Now {
    Now { monotonic: Duration::from_secs(second), unix_millis: 1_700_000_000_000 + second * 1_000 }
}

struct NoSignature;

impl SignTickets for NoSignature {
    fn sign(&self, _ticket: &Ticket) -> SignedTicket {
        SignedTicket { ticket: Vec::new(), signature: Vec::new(), delegation: None }
    }

    fn public_keys(&self) -> TicketKeys {
        TicketKeys { current: [0; 32], next: [0; 32] }
    }

    fn roll(&mut self) {}
}

/// What one test allocates must not be counted as another's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn allocated() -> usize {
    ALLOCATED_BYTES.load(Ordering::Relaxed)
}

/// The system's allocator, with a counter.
struct Counting;

static ALLOCATED_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
