//! One node as the master knows it: what it reported, what was promised to it, and how much it can still take. Serves
//! placement, reading and replication. It never looks at another node.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use protocol::{
    NodeId, Now, Place, SessionId, UserName,
    disk::{DiskState, DiskStatus},
    message::{
        audit::RefusedTickets,
        client_master::{NodeState, NodeStatus, is_nearly_full},
        cluster::Membership,
        node_master::{LinkShare, LinkUse},
        work::WorkItem,
    },
    sandbox::SandboxLayer,
};

use super::keys::{EPOCHS, RackKey, SiteKey};
use crate::{
    access::per_user::PerUser,
    fleet::{link_history::LinkProgress, load_history::LoadHistory},
    jobs::job_histories::FailureMarks,
};

/// A node that was not removed.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// Its place by the topology.
    pub(crate) place: Place,
    /// The place it reports itself.
    pub(super) reported_place: Place,
    pub(crate) site: SiteKey,
    pub(crate) rack: RackKey,
    /// Its transfer address.
    pub(crate) address: SocketAddr,
    /// The address it joined from.
    pub(crate) ip: IpAddr,
    pub(crate) spe_slots: u32,
    pub(super) pid: u32,
    pub(super) folder: String,
    /// Name of its local socket.
    pub(super) local: Option<String>,
    /// Its session while it is not lost.
    pub(crate) session: Option<SessionId>,
    pub(crate) state: NodeState,
    /// Whether it stays.
    pub(crate) membership: Membership,
    /// Removed from the cloud; only its number is left.
    pub(super) removed: bool,
    /// Whether it joined in this master's life.
    pub(crate) has_joined: bool,
    pub(crate) last_heartbeat: Duration,
    /// When it was lost.
    pub(crate) lost_at: Option<Duration>,
    /// Lost for so long that its copies are made again elsewhere.
    pub(crate) is_dead: bool,
    /// Counts its inventories, modulo [`EPOCHS`]: a replica not named in the newest complete one no longer exists.
    pub(crate) epoch: u32,
    /// Whether pages of an inventory are still to come.
    pub(crate) inventory_open: bool,
    /// Slices that the replica map names it for.
    pub(crate) slice_count: u64,
    pub(super) used_bytes: u64,
    /// `None` until it first reported.
    pub(super) free_bytes: Option<u64>,
    /// The same for its memory for files.
    pub(crate) memory_free_bytes: Option<u64>,
    pub(super) reported_transfers: u32,
    /// Its disks, as it last reported them.
    pub(crate) disks: Vec<DiskStatus>,
    /// Layers of its sandbox that are missing, as it reported.
    pub(crate) sandbox_missing: Option<Vec<SandboxLayer>>,
    /// Its transfers with other sites, as it last reported.
    pub(crate) links: Vec<LinkUse>,
    /// Its background work as last reported, and when.
    pub(crate) work: (u64, Vec<WorkItem>),
    /// How busy it was in the last day.
    pub(crate) load_history: LoadHistory,
    /// How much of its reports about links is counted.
    pub(crate) link_progress: LinkProgress,
    /// Reports of job drivers about it.
    pub(crate) marks: FailureMarks,
    /// Its shares of limits between sites, as last ordered or to be ordered.
    pub(crate) link_shares: Vec<LinkShare>,
    /// Tickets it has refused since it was started, as last reported.
    pub(crate) refused_tickets: RefusedTickets,
    /// Bytes that leases and running copies will still bring.
    pub(crate) promised_bytes: u64,
    /// How many of these are promised to uploads, by user.
    pub(super) promised_to: PerUser,
    /// Whether it reports the progress of writes.
    pub(crate) is_reporting_writes: bool,
    /// Leases whose bytes it receives, and copies it makes.
    pub(crate) incoming: u32,
    /// Copies that others fetch from it.
    pub(crate) outgoing: u32,
    /// Recent rate of incoming copies, in bytes per second; 0 until one was measured.
    pub(super) rate_bytes_per_second: f64,
    /// That rate relative to the average of all nodes.
    pub(super) speed: f64,
    /// Whether it is marked as slow.
    pub(crate) is_slow: bool,
    /// Folders of its disks that are marked as slow, as last ordered or to be ordered.
    pub(crate) slow_disks: Vec<String>,
    /// Its row in the journal, as last saved.
    pub(super) row: Vec<u8>,
}

impl Node {
    /// Whether it can be given work.
    pub(crate) fn is_up(&self) -> bool {
        self.state == NodeState::Up
    }

    /// Whether its replicas can be read now.
    pub(crate) fn is_reachable(&self) -> bool {
        self.state != NodeState::Lost
    }

    /// The name of its local socket, if the asker is on its machine, as far as addresses tell. Either it joined from
    /// the asker's address, or both came over the loopback. Elsewhere the name would be of no use.
    pub(crate) fn local_for(&self, asker: IpAddr) -> Option<String> {
        let is_same_machine = self.ip == asker || (self.ip.is_loopback() && asker.is_loopback());
        self.local.clone().filter(|_| is_same_machine)
    }

    /// Whether it stays, so that new slices may go to it if there is room.
    pub(crate) fn is_active(&self) -> bool {
        self.membership == Membership::Active && !self.removed
    }

    /// Whether it was removed from the cloud.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed
    }

    /// A new inventory begins.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch = (self.epoch + 1) % EPOCHS;
    }

    /// The largest slice that still fits here, in bytes, as far as is known: a slice lies on one disk, whole.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.free_bytes.unwrap_or(u64::MAX).saturating_sub(self.promised_bytes).min(self.largest_free_bytes())
    }

    /// The same, but each other user's promises count only up to a fair part of the free space. So nobody blocks room
    /// by announcing writes. `user` is the one asking; `None`: a copy that the cloud makes.
    fn fair_room_bytes(&self, user: Option<&UserName>, reserve_bytes: u64) -> u64 {
        let free = self.free_bytes.unwrap_or(u64::MAX);
        let is_among = user.is_some_and(|user| self.promised_to.has(user) > 0);
        let part = free.saturating_sub(reserve_bytes) / (self.promised_to.users() + u64::from(!is_among)).max(1);
        let counted = |(of, bytes): (&UserName, u64)| if Some(of) == user { bytes } else { bytes.min(part) };
        let uploads = self.promised_to.iter().map(counted).fold(0, u64::saturating_add);
        let copies = self.promised_bytes.saturating_sub(self.promised_to.total());
        free.saturating_sub(uploads).saturating_sub(copies).min(self.largest_free_bytes())
    }

    fn largest_free_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.free_bytes).max().unwrap_or(u64::MAX)
    }

    /// Whether one more slice of this many bytes fits here, as far as is known: on a disk above the reserve, or in
    /// memory.
    pub(crate) fn has_room(&self, bytes: u64, reserve_bytes: u64, in_memory: bool) -> bool {
        if in_memory {
            self.memory_free_bytes.is_none_or(|free| free > 0 && free >= bytes)
        } else {
            self.room_bytes() >= bytes.saturating_add(reserve_bytes).max(1)
        }
    }

    /// The same for a user who gets a fair part at least, whatever others were promised.
    pub(crate) fn has_fair_room(
        &self,
        user: Option<&UserName>,
        bytes: u64,
        reserve_bytes: u64,
        in_memory: bool,
    ) -> bool {
        let fits = || self.fair_room_bytes(user, reserve_bytes) >= bytes.saturating_add(reserve_bytes).max(1);
        self.has_room(bytes, reserve_bytes, in_memory) || (!in_memory && fits())
    }

    /// If it would have room with nothing promised to the uploads of others: the bytes that are.
    pub(crate) fn promised_in_the_way(&self, user: &UserName, bytes: u64, reserve_bytes: u64) -> Option<u64> {
        let others = self.promised_to.total().saturating_sub(self.promised_to.has(user));
        let stays = self.promised_bytes.saturating_sub(others);
        let free = self.free_bytes?.min(self.largest_free_bytes());
        let would_fit = free.saturating_sub(stays) >= bytes.saturating_add(reserve_bytes).max(1);
        would_fit.then_some(others)
    }

    /// Whether it gets no new slices: no disk has `reserve_bytes` free, or all are completely full.
    pub(crate) fn is_full(&self, reserve_bytes: u64) -> bool {
        self.free_bytes.is_some_and(|free| free.min(self.largest_free_bytes()) < reserve_bytes.max(1))
    }

    /// Whether it will soon be full.
    pub(crate) fn is_nearly_full(&self, reserve_bytes: u64) -> bool {
        self.free_bytes.is_some_and(|free| is_nearly_full(self.used_bytes, free, reserve_bytes))
    }

    /// Its load: as reported, or as known from the master's own orders.
    pub(crate) fn load(&self) -> u32 {
        self.reported_transfers.max(self.incoming + self.outgoing)
    }

    /// Bytes its slices take, and those that are promised.
    pub(crate) fn filled_bytes(&self) -> u64 {
        self.used_bytes.saturating_add(self.promised_bytes)
    }

    /// Bytes that slices could take in all; `None` until it reported.
    pub(crate) fn capacity_bytes(&self) -> Option<u64> {
        self.free_bytes.map(|free| self.used_bytes.saturating_add(free))
    }

    /// How full it is, with what is promised, from 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        match self.capacity_bytes() {
            Some(capacity) if capacity > 0 => (self.filled_bytes() as f64 / capacity as f64).min(1.0),
            Some(_) => 1.0,
            None => 0.0,
        }
    }

    /// Which part of it is marked as slow: all of it, or some of its disks.
    pub(crate) fn slow_share(&self) -> f64 {
        match self.is_slow {
            true => 1.0,
            false => (self.slow_disks.len() as f64 / self.disks.len().max(1) as f64).min(1.0),
        }
    }

    /// Whether it is read from, and runs SPEs, only after others: it is marked, or half of its disks are.
    pub(crate) fn is_mostly_slow(&self) -> bool {
        self.slow_share() >= 0.5
    }

    /// The cost of giving it one thing more. It grows with its load relative to its speed, and with its fullness
    /// relative to its size. So an idle cloud of unlike nodes fills evenly, and in a busy one the fast nodes get more.
    /// One that is marked as slow gets something when others are several times as busy, or nearly full.
    pub(crate) fn cost(&self) -> f64 {
        let free_share = (1.0 - self.fill()).max(FREE_SHARE_LEAST);
        let slow_times = 1.0 + (SLOW_TIMES - 1.0) * self.slow_share();
        slow_times * f64::from(self.load() + 1) / (self.speed * free_share)
    }

    /// Takes a status report.
    pub(crate) fn note_status(&mut self, used_bytes: u64, free_bytes: u64, transfers: u32) {
        (self.used_bytes, self.free_bytes, self.reported_transfers) = (used_bytes, Some(free_bytes), transfers);
    }

    /// Transfers that it has with a site.
    pub(crate) fn conversations_with(&self, site: &str) -> u32 {
        self.links.iter().find(|link| link.site == site).map_or(0, |link| link.conversations)
    }

    /// Takes the state of its disks, and returns those that are newly out of service.
    pub(crate) fn note_disks(&mut self, disks: Vec<DiskStatus>) -> Vec<DiskStatus> {
        let was_bad = |disk: &DiskStatus| {
            self.disks.iter().any(|known| known.folder == disk.folder && known.state != DiskState::Ok)
        };
        let is_new = |disk: &&DiskStatus| disk.state != DiskState::Ok && !was_bad(disk);
        let failed = disks.iter().filter(is_new).cloned().collect();
        self.disks = disks;
        failed
    }

    /// Notes that a slice was stored here. It is counted at once, since the next status may be seconds away. Otherwise
    /// many small files would all go to the node that was emptiest then.
    pub(crate) fn note_stored(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        self.free_bytes = self.free_bytes.map(|free| free.saturating_sub(bytes));
    }

    /// A slice is no longer here.
    pub(crate) fn note_removed(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
        self.free_bytes = self.free_bytes.map(|free| free.saturating_add(bytes));
    }

    /// A copy of this many bytes came in this long after it was ordered. Small ones tell more about the network than
    /// about the disk.
    pub(crate) fn note_rate(&mut self, bytes: u64, took: Duration) {
        if bytes < MEASURED_BYTES_MIN || took.is_zero() {
            return;
        }
        let rate = bytes as f64 / took.as_secs_f64();
        let old = if self.rate_bytes_per_second > 0.0 { self.rate_bytes_per_second } else { rate };
        self.rate_bytes_per_second = old * 0.75 + rate * 0.25;
    }

    pub(crate) fn begin_incoming(&mut self, bytes: u64) {
        self.incoming += 1;
        self.promised_bytes = self.promised_bytes.saturating_add(bytes);
    }

    /// An upload of a user was sent here.
    pub(crate) fn begin_upload(&mut self, user: &UserName, bytes: u64) {
        self.begin_incoming(bytes);
        self.promised_to.add(user, bytes);
    }

    pub(crate) fn end_upload(&mut self, user: &UserName, bytes: u64) {
        self.end_incoming(bytes);
        self.promised_to.take(user, bytes);
    }

    pub(crate) fn end_incoming(&mut self, bytes: u64) {
        self.incoming = self.incoming.saturating_sub(1);
        self.promised_bytes = self.promised_bytes.saturating_sub(bytes);
    }

    pub(crate) fn status(&self, now: Now, reserve_bytes: u64) -> NodeStatus {
        NodeStatus {
            node: self.id.clone(),
            place: self.place.clone(),
            address: self.address,
            state: self.state,
            used_bytes: self.used_bytes,
            free_bytes: self.free_bytes.unwrap_or(0),
            pid: self.pid,
            folder: self.folder.clone(),
            membership: self.membership,
            reserve_bytes,
            is_full: self.is_full(reserve_bytes),
            slices: self.slice_count,
            disks: self.disks.clone(),
            sandbox_missing: self.sandbox_missing.clone(),
            refused_tickets: self.refused_tickets.clone(),
            links: self.links.clone(),
            marks: self.marks.recent(now),
        }
    }

    pub(super) fn new(id: NodeId, said: Place, address: SocketAddr, ip: IpAddr) -> Self {
        Self {
            id,
            place: said.clone(),
            reported_place: said,
            site: SiteKey::default(),
            rack: RackKey::default(),
            address,
            ip,
            spe_slots: 0,
            pid: 0,
            folder: String::new(),
            local: None,
            session: None,
            state: NodeState::Lost,
            membership: Membership::Active,
            removed: false,
            has_joined: false,
            last_heartbeat: Duration::ZERO,
            lost_at: None,
            is_dead: false,
            epoch: 0,
            inventory_open: true,
            slice_count: 0,
            used_bytes: 0,
            free_bytes: None,
            memory_free_bytes: None,
            disks: Vec::new(),
            sandbox_missing: None,
            refused_tickets: RefusedTickets::new(),
            links: Vec::new(),
            work: (0, Vec::new()),
            load_history: LoadHistory::default(),
            link_progress: LinkProgress::default(),
            marks: FailureMarks::default(),
            link_shares: Vec::new(),
            reported_transfers: 0,
            promised_bytes: 0,
            promised_to: PerUser::default(),
            is_reporting_writes: false,
            incoming: 0,
            outgoing: 0,
            rate_bytes_per_second: 0.0,
            speed: 1.0,
            is_slow: false,
            slow_disks: Vec::new(),
            row: Vec::new(),
        }
    }
}

/// The free share below which a node counts as no worse: it keeps the cost finite.
const FREE_SHARE_LEAST: f64 = 1e-3;

/// How many times as much a node costs that is marked as slow.
const SLOW_TIMES: f64 = 8.0;

/// Smallest copy whose duration is used to measure a node's speed, in bytes.
const MEASURED_BYTES_MIN: u64 = 1 << 20;
