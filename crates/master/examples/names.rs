//! Measures what names cost. It builds a journal of N files in a temporary folder and loads it into a master. Three
//! nodes then report that they hold every file. Prints the time to load, and the resident memory per file, with names
//! alone and with replicas. Needs no cloud: `cargo run --release -p sector-master --example names -- 10000000`.

// A measurement, not a server: any failure ends it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    net::IpAddr,
    process::Command,
    time::{Duration, Instant},
};

use master::{
    JournalLoader, Master, MasterAction, MasterCompletion, MasterConfig, MasterMessage, NodeJoin, SessionCaller,
    SignTickets, TABLES,
};
use protocol::{
    Digest, NodeId, Now, Place, RecordFraming, SectorPath, SessionId, SliceHeader, SliceId, SliceMetadata, UserName,
    Version,
    message::{
        client_master::FileContent,
        node_master::{HeldSlice, HeldState, Report},
    },
    ticket::{SignedTicket, Ticket, TicketKeys},
};
use store::{Journal, RowChange};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let files: u64 = arguments.next().map_or(10_000_000, |text| text.parse().unwrap());
    if let Some(file) = arguments.next() {
        return build(&Journal::open(file.as_ref()).unwrap(), files);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.redb");
    let begun = Instant::now();
    // In another process: memory that building has freed here would make the names look smaller than they are.
    let mut building = Command::new(std::env::current_exe().unwrap());
    assert!(building.arg(files.to_string()).arg(&file).status().unwrap().success());
    let built = begun.elapsed();
    let journal_bytes = fs::metadata(&file).unwrap().len();

    let before = resident_bytes();
    let begun = Instant::now();
    let journal = Journal::open(&file).unwrap();
    let mut loading = JournalLoader::new();
    for table in TABLES {
        let mut take = |key: &[u8], value: &[u8]| loading.add_row(table, key, value).unwrap();
        journal.load(table, &mut take).unwrap();
    }
    let read = begun.elapsed();
    // Past the time for which a master waits for nodes, so that no work is left for the end.
    let mut master = Master::load(now(), MasterConfig::default(), 1, Box::new(NoSignature), loading).unwrap();
    let loaded = begun.elapsed();
    // The journal's own memory is bounded and does not depend on the number of names.
    drop(journal);
    let with_names = resident_bytes();

    let begun = Instant::now();
    report(&mut master, files);
    let reported = begun.elapsed();
    let with_replicas = resident_bytes();
    let a_file = |bytes: u64| bytes.saturating_sub(before) as f64 / files as f64;
    println!("files                          {files}");
    println!(
        "journal                        {:.2} GB, built in {:.1} s",
        journal_bytes as f64 / 1e9,
        built.as_secs_f64()
    );
    println!(
        "loaded in                      {:.1} s ({:.1} s of it reading rows)",
        loaded.as_secs_f64(),
        read.as_secs_f64()
    );
    println!("memory a file, names           {:.0} bytes", a_file(with_names));
    println!("memory a file, with 3 replicas {:.0} bytes", a_file(with_replicas));
    println!("3 inventories taken in         {:.1} s", reported.as_secs_f64());
    assert_eq!(master.names().usage(master::namespace::ROOT).files, files);
}

/// Writes the journal as a master would have.
fn build(journal: &Journal, files: u64) {
    let mut rows = Vec::new();
    let mut master = Master::new(now(), MasterConfig::default(), 1, Box::new(NoSignature), []).unwrap();
    while let Some(action) = master.poll_action() {
        if let MasterAction::Save { changes, .. } = action {
            rows.extend(changes);
        }
    }
    for number in 0..files {
        if number % FILES_PER_FOLDER == 0 {
            rows.push(folder_row(number));
        }
        rows.push(file_row(number));
        if rows.len() >= ROWS_PER_COMMIT {
            journal.commit(&std::mem::take(&mut rows)).unwrap();
        }
    }
    journal.commit(&rows).unwrap();
}

/// The row of the folder that begins with this file, as in `docs/formats-on-disk.md`.
fn folder_row(number: u64) -> RowChange {
    let folder = 0u8;
    let row = (master::namespace::ROOT.0, folder_name(number), "ann", folder, BORN_UNIX_MILLIS);
    set(folder_id(number), postcard::to_extend(&row, vec![ROW_VERSION]).unwrap())
}

fn file_row(number: u64) -> RowChange {
    let content = content(number);
    let (file, no_user, modified_after_version) = (1u8, 0u8, 0i64);
    let place = (folder_id(number), name(number), "ann", file);
    let bytes = (content.slice.0.to_be_bytes(), content.version, modified_after_version, content.bytes, content.digest);
    let row = (place, bytes, content.records, content.copies, no_user);
    set(file_id(number), postcard::to_extend(&row, vec![ROW_VERSION]).unwrap())
}

fn set(id: u64, value: Vec<u8>) -> RowChange {
    RowChange::Set { table: TABLES[0], key: id.to_be_bytes().to_vec(), value }
}

/// Three nodes report, page by page, that they hold all files. The pages are large, so that the master's own walk over
/// all files runs after them and finds nothing missing.
fn report(master: &mut Master, files: u64) {
    for node in 0..3u8 {
        let address = IpAddr::from([10, 0, 0, node]);
        let join = NodeJoin {
            node: NodeId::new(format!("node-{node}")).unwrap(),
            place: Place::new(format!("site-{node}"), "rack"),
            transfer: (address, 7410).into(),
            spe_slots: 1,
            pid: 1,
            folder: "/data".into(),
            local: None,
            address,
        };
        master.open_node_session(now(), SessionId(node.into()), join).unwrap();
    }
    for first in (0..files).step_by(SLICES_PER_PAGE) {
        let until = files.min(first + SLICES_PER_PAGE as u64);
        for node in 0..3 {
            let slices = (first..until).map(held).collect();
            let report = Report::Inventory { slices, last: until == files };
            let from = SessionCaller { session: SessionId(node), request: Some(first) };
            master.handle_message(now(), from, MasterMessage::Node(report));
            while let Some(action) = master.poll_action() {
                if let MasterAction::Save { batch, .. } = action {
                    master.handle_completion(now(), MasterCompletion::Saved { batch });
                }
            }
        }
    }
}

fn held(number: u64) -> HeldSlice {
    let content = content(number);
    let path = SectorPath::parse(&format!("/{}/{}", folder_name(number), name(number))).unwrap();
    let header = SliceHeader {
        slice: content.slice,
        path,
        version: content.version,
        owner: UserName::new("ann").unwrap(),
        modified_unix_millis: content.version.0,
        copies: content.copies,
        records: content.records,
        user: content.user,
        journal: protocol::JournalId(1),
        acl: None,
    };
    let metadata = SliceMetadata { header, bytes: content.bytes, digest: content.digest };
    HeldSlice { metadata, state: HeldState::Placed }
}

fn content(number: u64) -> FileContent {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&mixed(number).to_be_bytes());
    FileContent {
        slice: SliceId(u128::from(mixed(number)) << 64 | u128::from(mixed(number + 1))),
        version: Version(BORN_UNIX_MILLIS + number),
        bytes: 1_000_000 + number,
        digest: Digest(digest),
        records: RecordFraming::File,
        copies: 3,
        user: std::collections::BTreeMap::new(),
    }
}

/// A name of 25 bytes, in no order. With the folder's 15 bytes, the path has 40.
fn name(number: u64) -> String {
    format!("{:020}.part", mixed(number))
}

fn folder_name(number: u64) -> String {
    format!("folder-{:08}", number / FILES_PER_FOLDER)
}

fn folder_id(number: u64) -> u64 {
    file_id(number - number % FILES_PER_FOLDER) - 1
}

fn file_id(number: u64) -> u64 {
    ((BORN_UNIX_MILLIS + number) << 10) + 1
}

/// A number that looks random.
fn mixed(number: u64) -> u64 {
    fastrand::Rng::with_seed(number).u64(..)
}

fn now() -> Now {
    Now { monotonic: Duration::from_secs(1), unix_millis: BORN_UNIX_MILLIS }
}

fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
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

const ROW_VERSION: u8 = 2;
const FILES_PER_FOLDER: u64 = 1_000;
const ROWS_PER_COMMIT: usize = 100_000;
const SLICES_PER_PAGE: usize = 10_000;
const BORN_UNIX_MILLIS: u64 = 1_700_000_000_000;
