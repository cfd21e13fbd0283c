//! Nodes that are read from: over their transfer port with faults of all kinds, and through their local socket.

use std::{
    fs::File,
    ops::Range,
    os::fd::AsFd,
    sync::{Arc, Mutex},
};

use net::{
    local::{LocalListener, LocalStream},
    transfer::TransferStream,
};
use protocol::{
    NodeId, Reason, RecordFraming, Refusal, SectorPath, SliceId,
    message::{
        byte_runs::ByteRuns,
        local::{CHECKSUMS_PER_MESSAGE_MAX, LocalReply, LocalRequest},
        transfer::{TransferReply, TransferRequest},
    },
    ticket::HolderKey,
    wire::stream_frame,
};

use super::{FakeCloud, World, lock, writing};

/// What befalls those who read from a node.
#[derive(Clone, Debug)]
pub(crate) enum ReadFault {
    /// The byte at this place of the file arrives flipped.
    Flip(u64),
    /// After so many bytes, of all reads together, every connection is cut.
    DieAfter(u64),
    /// After so many bytes nothing more comes, and no connection ends.
    StallAfter(u64),
    /// After so many bytes the file at this path gets other content, the old is removed and the connection cut.
    ReplaceAfter(u64, SectorPath),
}

impl FakeCloud {
    /// A file of these bytes at all nodes.
    pub(crate) fn add_bytes(&self, path: &str, bytes: Vec<u8>) -> SectorPath {
        let path: SectorPath = path.parse().unwrap();
        self.world().put(&path, bytes);
        path
    }

    pub(crate) fn fail(&self, node: &str, fault: ReadFault) {
        self.world().read_faults.insert(NodeId::new(node).unwrap(), fault);
    }

    /// From now on a node tells clients of a local socket; `damage` says which byte of its files is flipped on the
    /// disk.
    pub(crate) fn open_local_door(&self, node: &str, damage: Option<u64>) {
        let node = NodeId::new(node).unwrap();
        let listener = LocalListener::bind().unwrap();
        let world = Arc::clone(&self.world);
        lock(&world).nodes.get_mut(&node).unwrap().local = Some(listener.name().to_owned());
        tokio::spawn(async move {
            while let Ok(stream) = listener.accept().await {
                tokio::spawn(serve_local(Arc::clone(&world), node.clone(), stream, damage));
            }
        });
    }

    /// A node tells clients of a local socket that is not there.
    pub(crate) fn name_a_door_elsewhere(&self, node: &str) {
        let gone = LocalListener::bind().unwrap().name().to_owned();
        self.world().nodes.get_mut(&NodeId::new(node).unwrap()).unwrap().local = Some(gone);
    }

    /// Logged reads over the network, as node and range; forgotten then.
    pub(crate) fn take_reads(&self) -> Vec<(String, Range<u64>)> {
        let log = std::mem::take(&mut self.world().log);
        let read = |line: &String| {
            let mut words = line.strip_prefix("read ")?.split(' ');
            let node = words.next()?.to_owned();
            Some((node, words.next()?.parse().ok()?..words.next()?.parse().ok()?))
        };
        log.iter().filter_map(read).collect()
    }
}

impl World {
    /// New content at a path.
    pub(crate) fn put(&mut self, path: &SectorPath, bytes: Vec<u8>) {
        let slice = self.add_slice(bytes);
        let content = self.content(slice, RecordFraming::File);
        self.files.insert(path.clone(), content);
    }

    /// New content at a path; the old is removed at all nodes.
    pub(crate) fn replace(&mut self, path: &SectorPath, bytes: Vec<u8>) {
        let old = self.files[path].slice;
        self.put(path, bytes);
        self.slices.remove(&old);
    }

    /// What becomes of the next `bytes` bytes from a node.
    fn befall(&mut self, node: &NodeId, bytes: u64) -> Fate {
        let Some(fault) = self.read_faults.get_mut(node) else { return Fate::Send };
        match fault {
            ReadFault::Flip(at) => Fate::Flip(*at),
            ReadFault::DieAfter(left) | ReadFault::StallAfter(left) | ReadFault::ReplaceAfter(left, _)
                if *left >= bytes =>
            {
                *left -= bytes;
                Fate::Send
            }
            ReadFault::StallAfter(_) => Fate::Stall,
            ReadFault::DieAfter(_) => Fate::Die,
            ReadFault::ReplaceAfter(_, path) => {
                let path = path.clone();
                self.read_faults.clear();
                let bytes = self.slices[&self.files[&path].slice].iter().map(|byte| !byte).collect();
                self.replace(&path, bytes);
                Fate::Die
            }
        }
    }
}

enum Fate {
    Send,
    Flip(u64),
    Die,
    Stall,
}

/// The next request of a connection; how it is to go is noted.
pub(super) async fn next_request(
    world: &Mutex<World>,
    stream: &mut TransferStream,
) -> Result<Option<TransferRequest>, net::NetError> {
    loop {
        match stream.receive_or_end().await? {
            Some(TransferRequest::Qos(pace)) => lock(world).log.push(format!("pace {pace:?}")),
            other => return Ok(other),
        }
    }
}

/// Serves reads over one connection, of which the first is known.
pub(super) async fn serve(
    world: &Mutex<World>,
    node: &NodeId,
    mut stream: TransferStream,
    key: HolderKey,
    first: TransferRequest,
) {
    let mut request = first;
    loop {
        let (slice, range) = match request {
            TransferRequest::Read { ticket, slice, from, until } => {
                assert_eq!(ticket.ticket, key.0, "a ticket of another holder than proved its key here");
                (slice, from..until)
            }
            TransferRequest::ReadRuns { ticket, slice, runs } => {
                assert_eq!(ticket.ticket, key.0, "a ticket of another holder than proved its key here");
                if !send_runs(world, node, &mut stream, slice, runs).await {
                    return;
                }
                match next_request(world, &mut stream).await {
                    Ok(Some(next)) => request = next,
                    _ => return,
                }
                continue;
            }
            other => return Box::pin(writing::serve(world, node, stream, key, other)).await,
        };
        lock(world).log.push(format!("read {node} {} {}", range.start, range.end));
        let known = lock(world).slices.contains_key(&slice);
        if known {
            stream.send(&TransferReply::Reading { bytes: range.end - range.start }).await.unwrap();
            begun(&mut lock(world));
            let sent = send(world, node, &mut stream, slice, range).await;
            lock(world).reads_now -= 1;
            if !sent {
                return;
            }
        } else {
            let refusal = Refusal::new(Reason::NotFound, format!("node {node} has no slice {slice}"));
            stream.send(&TransferReply::Refused(refusal)).await.unwrap();
        }
        match next_request(world, &mut stream).await {
            Ok(Some(next)) => request = next,
            _ => return,
        }
    }
}

fn begun(world: &mut World) {
    world.reads_now += 1;
    world.reads_most = world.reads_most.max(world.reads_now);
}

/// Sends runs; false when the connection ends with it.
async fn send_runs(
    world: &Mutex<World>,
    node: &NodeId,
    stream: &mut TransferStream,
    slice: SliceId,
    runs: ByteRuns,
) -> bool {
    let range = runs.range().unwrap();
    let (mut picked, fate) = {
        let mut world = lock(world);
        world.log.push(format!("read {node} {} {} in runs", range.start, range.end));
        let Some(bytes) = world.slices.get(&slice) else { return false };
        let mut picked = Vec::new();
        runs.pick(&bytes[range.start as usize..range.end as usize], &mut picked);
        let fate = world.befall(node, picked.len() as u64);
        (picked, fate)
    };
    if !matches!(fate, Fate::Send) {
        // Announced, and then fewer come.
        picked.truncate(picked.len() / 2);
    }
    stream.send(&TransferReply::Reading { bytes: runs.bytes() }).await.unwrap();
    for frame in picked.chunks(FRAME_BYTES as usize) {
        if stream.send_frame(frame).await.is_err() {
            return false;
        }
    }
    stream.end_frames().await.is_ok() && matches!(fate, Fate::Send)
}

/// Sends a range; false when the connection ends with it.
async fn send(
    world: &Mutex<World>,
    node: &NodeId,
    stream: &mut TransferStream,
    slice: SliceId,
    range: Range<u64>,
) -> bool {
    let mut at = range.start;
    while at < range.end {
        let until = ((at / FRAME_BYTES + 1) * FRAME_BYTES).min(range.end);
        let (mut frame, fate) = {
            let mut world = lock(world);
            let Some(bytes) = world.slices.get(&slice) else { return false };
            let frame = bytes[at as usize..until as usize].to_vec();
            (frame, world.befall(node, until - at))
        };
        let checksums: Vec<u32> = stream_frame::checksums(&frame).collect();
        match fate {
            Fate::Send => {}
            Fate::Flip(bad) if (at..until).contains(&bad) => frame[(bad - at) as usize] ^= 1,
            Fate::Flip(_) => {}
            Fate::Die => return false,
            Fate::Stall => std::future::pending().await,
        }
        if stream.send_checked_frame(&frame, &checksums).await.is_err() {
            return false;
        }
        at = until;
    }
    stream.end_frames().await.is_ok()
}

async fn serve_local(world: Arc<Mutex<World>>, node: NodeId, mut stream: LocalStream, damage: Option<u64>) {
    while let Ok(Some((request, _))) = stream.receive::<LocalRequest>().await {
        match request {
            LocalRequest::Open { slice, .. } => {
                let Some(bytes) = lock(&world).slices.get(&slice).cloned() else {
                    let refusal = Refusal::new(Reason::NotFound, "no such slice");
                    stream.send(&LocalReply::Refused(refusal)).await.unwrap();
                    continue;
                };
                let file = passed_file(&mut lock(&world), &node, slice, &bytes, damage);
                let digest = protocol::Digest(*blake3::hash(&bytes).as_bytes());
                let opened = LocalReply::Opened { bytes: bytes.len() as u64, digest };
                stream.send_with_file(&opened, file.as_fd()).await.unwrap();
                let checksums: Vec<u32> = stream_frame::checksums(&bytes).collect();
                for checksums in checksums.chunks(CHECKSUMS_PER_MESSAGE_MAX) {
                    stream.send(&LocalReply::Checksums(checksums.to_vec())).await.unwrap();
                }
                lock(&world).log.push(format!("passed {slice} at {node}"));
            }
            LocalRequest::ProveKey { .. } => {}
            LocalRequest::Store { .. } => panic!("nothing is stored here"),
            LocalRequest::Suspect { from, until, .. } => {
                lock(&world).log.push(format!("suspect {node} {from} {until}"));
                stream.send(&LocalReply::Done).await.unwrap();
            }
        }
    }
}

/// A slice's file at a node, open for reading.
fn passed_file(world: &mut World, node: &NodeId, slice: SliceId, bytes: &[u8], damage: Option<u64>) -> File {
    let folder = world.folder.get_or_insert_with(|| tempfile::tempdir().unwrap());
    let path = folder.path().join(format!("{node}-{slice}"));
    let mut bytes = bytes.to_vec();
    if let Some(at) = damage {
        bytes[at as usize] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    File::open(&path).unwrap()
}

const FRAME_BYTES: u64 = 1024 * 1024;
