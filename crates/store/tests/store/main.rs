//! The store as its callers see it, over the operating system's disk and over one that loses power.
#![allow(clippy::unwrap_used)]

mod bad_sectors;
mod concurrent_writers;
mod crash_images;
mod disks;
mod faults;
mod inspecting;
mod partials;
mod quarantine;
mod scrub;
mod slices;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use protocol::{
    RecordFraming, SectorPath, SliceHeader, SliceId, SliceMetadata, UserName, Version, message::node_master::HeldState,
};
use store::{Disk, MemoryDisk, OpenReport, SliceStore, StoreError};

const FOLDER: &str = "/data";
const BLOCK: usize = protocol::limits::BLOCK_BYTES as usize;

fn path(text: &str) -> SectorPath {
    SectorPath::parse(text).unwrap()
}

fn header(slice: u128, at: &str, version: u64) -> SliceHeader {
    SliceHeader {
        slice: SliceId(slice),
        path: path(at),
        version: Version(version),
        owner: UserName::new("alice").unwrap(),
        modified_unix_millis: 1,
        copies: 3,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        journal: protocol::JournalId(1),
        acl: None,
    }
}

/// `count` bytes that no other seed has.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; count];
    rng.fill(&mut bytes);
    bytes
}

fn open(disk: &MemoryDisk) -> (Arc<SliceStore>, OpenReport) {
    SliceStore::open(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap()
}

fn write(store: &Arc<SliceStore>, header: SliceHeader, bytes: &[u8]) -> Result<SliceMetadata, StoreError> {
    let mut writer = store.begin(header)?;
    for part in bytes.chunks(100_000) {
        writer.write(part)?;
    }
    writer.finish(None)
}

fn read(store: &SliceStore, slice: u128) -> Result<Vec<u8>, StoreError> {
    let reader = store.open_slice(SliceId(slice))?;
    let mut buffer = Vec::new();
    reader.read_at(&mut buffer, 0, usize::MAX)?;
    Ok(buffer)
}

/// State and path of each slice held.
fn states(store: &SliceStore) -> Vec<(u128, HeldState, String)> {
    let row = |held: protocol::message::node_master::HeldSlice| {
        let header = held.metadata.header;
        (header.slice.0, held.state, header.path.as_str().to_owned())
    };
    store.held().into_iter().map(row).collect()
}

/// All files below a folder, relative to it, in order.
fn files(disk: &dyn Disk, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in disk.list(folder).unwrap() {
        if item.is_folder {
            found.extend(files(disk, &folder.join(&item.name)).iter().map(|below| format!("{}/{below}", item.name)));
        } else {
            found.push(item.name);
        }
    }
    found.sort();
    found
}
