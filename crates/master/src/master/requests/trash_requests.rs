//! Requests about the trash, and removals that nobody asks for: expired files, old entries of the trash, and the oldest
//! ones of a full cloud. Serves `trash` and lifetimes. It never decides what has expired: the catalogue does.

use protocol::{
    Now, Refusal, SectorPath,
    message::{client_master::ClientReply, master_security::UserRights},
};

use crate::{
    Master,
    actions::SessionCaller,
    catalog::lifetimes::Expiry,
    catalog::namespace::{change::NamespaceChange, not_found_refusal},
    log::journal_writes::Effect,
    replicas::sweeps::Sweep,
};

impl Master {
    /// Restores an entry.
    pub(crate) fn restore(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        path: &SectorPath,
        to: Option<SectorPath>,
    ) -> Result<Option<ClientReply>, Refusal> {
        let mut change = self.catalog.restore(now, by, path, to)?;
        let found = change.entry.and_then(|id| Some((id, self.entry(id)?)));
        let (id, entry) = found.ok_or_else(|| not_found_refusal(path))?;
        self.note_restored(now, &by.user, id);
        self.note_missed_change(&mut change.rows, id);
        let follows = match self.catalog.names().slice_of(id) {
            Some(slice) => Effect::Reconcile(slice),
            None => Effect::Moved(id),
        };
        self.save(now, change.rows, vec![Effect::Reply(caller, ClientReply::Entry(entry)), follows]);
        Ok(None)
    }

    /// Gives up restorable entries.
    pub(crate) fn empty_trash(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        all_users: bool,
    ) -> Result<Option<ClientReply>, Refusal> {
        let rows = self.catalog.empty_trash(by, all_users)?;
        self.save(now, rows, vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    /// Begins to remove what has expired, if there is anything.
    pub(crate) fn begin_expiry(&mut self, now: Now) {
        let is_under_way = self.replicas.sweeps.iter().any(|sweep| matches!(sweep, Sweep::Expire(_)));
        if !is_under_way && self.catalog.has_ended(now) {
            self.replicas.sweeps.push_back(Sweep::Expire(TICK_REMOVALS_MAX));
        }
    }

    /// Removes some of what has expired, `left` entries at most before the next tick.
    pub(crate) fn sweep_expired(&mut self, now: Now, left: usize) -> Option<Sweep> {
        let step = left.min(EXPIRY_STEP);
        let mut done = 0;
        while done < step
            && let Some(Expiry { change, removed }) = self.catalog.expire_next(now)
        {
            if let Some((path, audience, usage)) = removed {
                self.note_removed_entry(now, &path, None, (usage, audience));
            }
            self.save_removal(now, change);
            done += 1;
        }
        let (purged, change) = self.catalog.purge(now, step - done);
        self.save_removal(now, change);
        done += purged;
        (done > 0 && left > done).then(|| Sweep::Expire(left - done))
    }

    /// Gives up the oldest restorable entries if the nodes are nearly full. The room of a node that is away counts
    /// until its files are copied elsewhere. An entry that would free nothing at a node that is up is not given up.
    pub(crate) fn free_space_from_trash(&mut self, now: Now) {
        let (mut used, mut room) = (0_u64, 0_u64);
        for (_, node) in
            self.fleet.nodes.iter().filter(|(_, node)| node.is_up() || !(node.is_dead || node.is_removed()))
        {
            used = used.saturating_add(node.filled_bytes());
            room = room.saturating_add(node.room_bytes().saturating_sub(self.config.reserve_bytes));
        }
        if self.fleet.nodes.up_count() == 0 || room > used.saturating_add(room) / FULL_WHEN_LEFT {
            return;
        }
        let (nodes, replicas) = (&self.fleet.nodes, &self.replicas.table);
        let rows = self
            .catalog
            .give_up_oldest(|slice| replicas.of(slice).iter().any(|replica| nodes.get(replica.node).is_up()));
        self.save(now, rows, Vec::new());
    }

    /// Saves a removal that nobody asked for just now. A file that went to the trash has another path there.
    fn save_removal(&mut self, now: Now, change: NamespaceChange) {
        let moved = change.entry.and_then(|id| self.catalog.names().slice_of(id));
        let effects = moved.into_iter().chain(change.freed).map(Effect::Reconcile).collect();
        self.save(now, change.rows, effects);
    }
}

/// The nodes are nearly full when only one byte in this many is left.
const FULL_WHEN_LEFT: u64 = 20;
/// Entries removed in one step: a few milliseconds.
const EXPIRY_STEP: usize = 64;
/// Entries removed from one tick to the next: some two thousand a second. That leaves a journal on a slow disk room for
/// clients' work.
const TICK_REMOVALS_MAX: usize = 1_024;
