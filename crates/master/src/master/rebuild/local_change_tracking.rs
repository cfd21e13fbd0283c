//! Changes made under a journal before it met one that knows more; they stand beside those of the other. Files keep
//! their paths and folders their owners. Of two lists of rights both hold, so a merge never opens what either one
//! closed.

use std::collections::BTreeMap;

use protocol::{Now, Policy, acl::Acl, message::cluster::Membership};
use store::RowChange;

use crate::{
    Master,
    actions::{NAMES_TABLE, POLICIES_TABLE, QUOTAS_TABLE},
    catalog::namespace::{ROOT, decode_row, file_key, parse_file_key},
    fleet::nodes::NodeKey,
    log::rebuild::{
        local_changes::{LocalChanges, LocalFolder, MEMBERSHIPS},
        rebuild_rows,
    },
};

impl Master {
    /// The local changes that stand in a rebuild. With `all`, that is everything there is. Otherwise only changes of
    /// lives that had not heard all nodes count. Also returns the life of each, by key.
    pub(super) fn collect_local_changes(&self, all: bool) -> (LocalChanges, BTreeMap<Vec<u8>, u64>) {
        let this_life = self.log.lineage.first_change().unwrap_or(u64::MAX);
        let touched =
            |table, key| if all { Some(this_life) } else { self.log.rebuild.changed_rows.incarnation(table, key) };
        let written = |version| match version > self.log.rebuild.version_at_start {
            true => Some(this_life),
            false => self.log.rebuild.incarnation_of(version),
        };
        let (mut own, mut lives) = (LocalChanges::default(), BTreeMap::new());
        let mut note = |kind, key: &[u8], life| _ = lives.insert(rebuild_rows::local_change_key(kind, key), life);
        for entry in self.entries_below_root().into_iter().chain(self.catalog.names().entry(ROOT)) {
            let of_entry = touched(NAMES_TABLE, file_key(entry.id));
            let of_policy = touched(POLICIES_TABLE, file_key(entry.id));
            if let Some((policy, life)) = self.catalog.policies().get(entry.id).zip(of_policy) {
                note(rebuild_rows::LOCAL_POLICY, entry.path.as_str().as_bytes(), life);
                own.policies.insert(entry.path.clone(), policy.clone());
            }
            match (self.catalog.names().content(entry.id), of_entry) {
                (Some(content), of_entry) => {
                    if let Some(life) = of_entry.max(written(content.version)) {
                        note(rebuild_rows::LOCAL_SLICE, &content.slice.0.to_be_bytes(), life);
                        own.slices.insert(content.slice);
                    }
                }
                (None, Some(life)) => {
                    let acl = self.catalog.names().own_acl(entry.id).cloned();
                    note(rebuild_rows::LOCAL_FOLDER, entry.path.as_str().as_bytes(), life);
                    own.folders.insert(entry.path, LocalFolder { owner: entry.owner, acl });
                }
                (None, None) => {}
            }
        }
        for (user, value) in self.catalog.quotas().stored() {
            if let Some(life) = touched(QUOTAS_TABLE, user.as_str().as_bytes().to_vec()) {
                note(rebuild_rows::LOCAL_QUOTA, user.as_str().as_bytes(), life);
                own.quotas.insert(user, value);
            }
        }
        for (_, node) in self.fleet.nodes.iter() {
            let said = self.log.rebuild.changed_rows.incarnation(MEMBERSHIPS, node.id.as_str().into());
            if let Some(life) = said.or((all && node.membership != Membership::Active).then_some(this_life)) {
                note(rebuild_rows::LOCAL_MEMBERSHIP, node.id.as_str().as_bytes(), life);
                own.memberships.insert(node.id.clone(), node.membership);
            }
        }
        (own, lives)
    }

    /// An operator has said whether a node leaves: returns the rows that record so, while not all nodes have reported.
    pub(crate) fn note_membership_change(&mut self, node: NodeKey) -> Vec<RowChange> {
        let key = self.fleet.nodes.get(node).id.as_str().into();
        self.note_changed_rows(&[RowChange::Remove { table: MEMBERSHIPS, key }])
    }

    /// Reapplies what operators said of nodes, whatever a copy says.
    pub(super) fn reapply_memberships(&mut self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (id, standing) in self.log.rebuild.local_changes.memberships.clone() {
            let Some(key) = self.fleet.nodes.of_id(&id) else { continue };
            self.fleet.nodes.set_membership(key, standing);
            changes.extend(self.fleet.nodes.row_change(key));
        }
        changes
    }

    /// Makes the folders that stand, with their rights.
    pub(super) fn reapply_folders(&mut self, now: Now) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (path, LocalFolder { owner, acl }) in self.log.rebuild.local_changes.folders.clone() {
            let Ok(change) = self.catalog.make_folder(now, &path, true, &owner) else { continue };
            changes.extend(change.rows);
            changes.extend(change.entry.map(|id| self.intersect_acl(id, acl)).unwrap_or_default());
        }
        changes
    }

    /// Reapplies policies and quotas that stand, once files have their names.
    pub(super) fn reapply_policies(&mut self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (path, policy) in self.log.rebuild.local_changes.policies.clone() {
            changes.extend(self.catalog.names().find(&path).and_then(|id| self.catalog.restore_policy(id, policy)));
        }
        for (user, value) in self.log.rebuild.local_changes.quotas.clone() {
            changes.extend(self.catalog.restore_quota(user, &value));
        }
        changes
    }

    /// Two sides have different rights for a folder, and both may be right: only what both grant holds.
    pub(super) fn intersect_acl(&mut self, folder: protocol::FileId, other: Option<Acl>) -> Vec<RowChange> {
        let acl = match (self.catalog.names().own_acl(folder), other) {
            (Some(one), Some(other)) => Some(one.common(&other)),
            (one, other) => one.cloned().or(other),
        };
        self.catalog.set_acl(folder, acl)
    }

    /// Adds content of another journal's copy that contradicts nothing here: folders, rights, policies, quotas.
    /// Existing entries stay. Trash entries of the copy are found by their sidecars.
    pub(super) fn merge_tree(
        &mut self,
        now: Now,
        tree: &crate::catalog::namespace::Namespace,
        policies: &[(Vec<u8>, Vec<u8>)],
    ) -> Vec<RowChange> {
        let mut changes = Vec::new();
        let mut rest = vec![ROOT];
        while let Some(id) = rest.pop() {
            rest.extend(tree.children(id).into_iter().filter(|child| tree.is_folder(*child)));
            let Some((path, owner)) = tree.path(id).zip(tree.owner(id)) else { continue };
            let is_new = self.catalog.names().find(&path).is_none();
            // If a file stands there now, its folder no longer exists.
            let Ok(change) = self.catalog.make_folder(now, &path, true, owner) else { continue };
            changes.extend(change.rows);
            self.log.rebuild.folders += u64::from(is_new);
            let acl = tree.own_acl(id).cloned();
            changes.extend(change.entry.map(|here| self.intersect_acl(here, acl)).unwrap_or_default());
        }
        for (key, value) in policies {
            let path = parse_file_key(key).and_then(|id| tree.path(id));
            let here = path
                .and_then(|path| self.catalog.names().find(&path))
                .filter(|here| self.catalog.policies().get(*here).is_none());
            let Some((here, policy)) = here.zip(decode_row::<Policy>(value)) else { continue };
            changes.extend(self.catalog.restore_policy(here, policy));
        }
        changes
    }
}
