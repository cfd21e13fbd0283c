//! Answers clients' questions about files and folders, and makes changes that write no bytes. Serves download, listing,
//! `stat`, `mkdir`, `mv`, `rm`, `du`. It never touches a file's bytes.

use protocol::{
    FileId, NodeId, Now, Reason, Refusal, SectorPath, SliceId,
    message::{
        client_master::{
            ClientReply, CopyState, CopyStatus, Entry, EntryKind, EntryStatus, ListPage, Located, NodeState, Source,
        },
        master_security::UserRights,
    },
};

use crate::{
    Master,
    access::{sessions::ClientSession, tickets},
    actions::SessionCaller,
    catalog::{
        memory_files::check_memory_border,
        namespace::{ListedPage, folder_refusal, not_found_refusal},
    },
    fleet::nodes::NodeKey,
    log::journal_writes::Effect,
    replicas::replica_table::{Replica, ReplicaState},
};

impl Master {
    /// A file and the nodes it can be read from: the nearest to the client's address first, then the least busy.
    /// (Paper, 2.2: "close to the client and ... not busy with other services".)
    pub(crate) fn locate(
        &mut self,
        now: Now,
        client: &ClientSession,
        path: &SectorPath,
    ) -> Result<ClientReply, Refusal> {
        let address = client.address;
        let id = self.catalog.names().get_file(path)?;
        let content = self.catalog.names().content(id).ok_or_else(|| folder_refusal(path))?;
        let (slice, bytes, file) = (content.slice, content.bytes, tickets::ticket_file(path, content.version));
        let mut nodes = self.readable_nodes(slice);
        // The random key is drawn once per node: a sort needs keys that do not change.
        let mut ranked: Vec<_> = nodes.drain(..).map(|key| (self.distance_to_reader(key, address), key)).collect();
        ranked.sort_unstable();
        let at = self.client_at(client);
        let source = |key: &NodeKey| {
            let node = self.fleet.nodes.get(*key);
            let of = self.client_bearer(&at, node);
            Source {
                local: node.local_for(address),
                ..self.access.tickets.read(now, node, of, file.clone(), slice, bytes)
            }
        };
        let sources = ranked.iter().map(|(_, key)| source(key)).collect();
        let entry = self.entry(id).ok_or_else(|| not_found_refusal(path))?;
        Ok(ClientReply::Located(Located { entry, sources }))
    }

    /// An entry and the state of its copies.
    pub(crate) fn stat(&self, path: &SectorPath) -> Result<ClientReply, Refusal> {
        let id = self.catalog.names().get(path)?;
        let entry = self.entry(id).ok_or_else(|| not_found_refusal(path))?;
        let mut copies = Vec::new();
        if let EntryKind::File(content) = &entry.kind {
            let replicas = self.replicas.table.of(content.slice);
            copies.extend(replicas.iter().filter_map(|replica| self.copy_status(replica)));
            for target in self.replicas.queue.targets(content.slice) {
                copies.push(self.status_at(target, CopyState::Writing));
            }
        }
        copies.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(ClientReply::Status(EntryStatus { entry, copies }))
    }

    /// A page of a folder.
    pub(crate) fn list(
        &self,
        by: &UserRights,
        folder: &SectorPath,
        recursive: bool,
        after: Option<&SectorPath>,
        with_nodes: bool,
    ) -> Result<ClientReply, Refusal> {
        let ListedPage { mut entries, more, next } = self.catalog.visible_page(by, folder, recursive, after)?;
        for entry in &mut entries {
            self.fill_copies(entry);
            if with_nodes {
                self.fill_nodes(entry);
            }
        }
        Ok(ClientReply::Page(ListPage { entries, more, next }))
    }

    pub(crate) fn make_folder(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        path: &SectorPath,
        parents: bool,
    ) -> Result<Option<ClientReply>, Refusal> {
        let change = self.catalog.make_folder(now, path, parents, &by.user)?;
        self.save(now, change.rows, vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    pub(crate) fn rename(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        from: &SectorPath,
        to: &SectorPath,
    ) -> Result<Option<ClientReply>, Refusal> {
        let id = self.catalog.names().get(from)?;
        check_memory_border(from, to)?;
        self.catalog.check_moved_quotas(id, to)?;
        let old = self.content_to_keep(to);
        let (former, was_there) = (self.catalog.audience(id), self.catalog.names().find(to).is_some());
        let mut change = self.catalog.move_entry(from, to)?;
        self.note_renamed(now, &by.user, (id, was_there), from, former);
        self.catalog.keep_replaced(now, &by.user, old, &mut change);
        self.note_missed_change(&mut change.rows, id);
        self.note_missed_changes_of_touched(&mut change);
        let moved_slice = self.catalog.names().content(id).map(|content| content.slice);
        let mut effects = vec![Effect::Reply(caller, ClientReply::Done)];
        if let Some(slice) = moved_slice {
            effects.extend(change.freed.iter().map(|old| Effect::Supersede(*old, slice)));
        }
        effects.extend(moved_slice.into_iter().chain(change.freed).chain(change.touched).map(Effect::Reconcile));
        if moved_slice.is_none() {
            effects.push(Effect::Moved(id));
        }
        self.save(now, change.rows, effects);
        Ok(None)
    }

    pub(crate) fn remove(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        path: &SectorPath,
        (recursive, for_good): (bool, bool),
    ) -> Result<Option<ClientReply>, Refusal> {
        let id = self.catalog.names().get(path)?;
        let removed = (self.catalog.usage_below(id), self.catalog.audience(id));
        let mut change = self.catalog.discard(now, id, path, recursive, for_good)?;
        self.note_removed_entry(now, path, Some(&by.user), removed);
        self.note_missed_change(&mut change.rows, id);
        let mut effects = vec![Effect::Reply(caller, ClientReply::Done)];
        // In the trash it has another path; removed, it belongs to nobody.
        let moved = self.catalog.names().content(id).map(|content| content.slice);
        effects.extend(moved.into_iter().chain(change.freed).map(Effect::Reconcile));
        if self.catalog.names().is_folder(id) {
            effects.push(Effect::Moved(id));
        }
        self.save(now, change.rows, effects);
        Ok(None)
    }

    pub(crate) fn usage(&self, by: &UserRights, path: &SectorPath) -> Result<ClientReply, Refusal> {
        let id = self.catalog.names().get(path)?;
        Ok(ClientReply::Usage(self.catalog.readable_usage(by, id)))
    }

    /// An entry as clients see it, without its nodes.
    pub(crate) fn entry(&self, id: FileId) -> Option<Entry> {
        let mut entry = self.catalog.names().entry(id)?;
        self.fill_copies(&mut entry);
        Some(entry)
    }

    /// A ticket for importing native files at a node. They may belong to anyone, so only administrators get one.
    pub(crate) fn import(&self, now: Now, client: &ClientSession, node: &NodeId) -> Result<ClientReply, Refusal> {
        let by = &client.rights;
        if !by.admin {
            let message = format!("{} is no administrator: only one may import files from a node's disk", by.user);
            return Err(Refusal::new(Reason::NoRight, message));
        }
        let unknown = || Refusal::new(Reason::NotFound, format!("there is no node {node}; `sector nodes` shows them"));
        let key = self.fleet.nodes.of_id(node).ok_or_else(unknown)?;
        if !self.fleet.nodes.get(key).is_up() {
            return Err(Refusal::new(Reason::Unavailable, format!("the node {node} cannot be reached now")));
        }
        let node = self.fleet.nodes.get(key);
        Ok(ClientReply::Source(self.access.tickets.import(
            now,
            node,
            self.client_bearer(&self.client_at(client), node),
        )))
    }

    /// The reachable nodes with a good copy.
    fn readable_nodes(&self, slice: SliceId) -> Vec<NodeKey> {
        let is_readable = |replica: &&Replica| replica.is_good() && self.fleet.nodes.get(replica.node).is_reachable();
        self.replicas.table.of(slice).iter().filter(is_readable).map(|replica| replica.node).collect()
    }

    /// How many copies are wanted with the policies of all folders: a row has only the file's own setting.
    fn fill_copies(&self, entry: &mut Entry) {
        if let EntryKind::File(content) = &mut entry.kind {
            content.copies = self.policy_replication(entry.id).copies;
        }
    }

    fn fill_nodes(&self, entry: &mut Entry) {
        if let EntryKind::File(content) = &entry.kind {
            let nodes = self.readable_nodes(content.slice);
            entry.nodes = nodes.into_iter().map(|key| self.fleet.nodes.get(key).id.clone()).collect();
            entry.nodes.sort();
        }
    }

    pub(crate) fn copy_status(&self, replica: &Replica) -> Option<CopyStatus> {
        let state = match replica.state {
            ReplicaState::Excess => return None,
            ReplicaState::Corrupt { .. } => CopyState::Corrupt,
            _ if self.fleet.nodes.get(replica.node).state == NodeState::Lost => CopyState::Stale,
            _ => CopyState::Ok,
        };
        Some(self.status_at(replica.node, state))
    }

    fn status_at(&self, key: NodeKey, state: CopyState) -> CopyStatus {
        let node = self.fleet.nodes.get(key);
        CopyStatus { node: node.id.clone(), place: node.place.clone(), state }
    }
}
