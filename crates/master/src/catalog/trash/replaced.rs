//! Replaced content, which the file's owner can have back for a while. Serves every write, copy and rename that takes a
//! file's place. It is an entry of the trash of its own, marked as replaced (decision 0043 has the rules). Where it
//! would go beyond a quota or a bound, the oldest replaced content goes; what a user removed never does.

use protocol::{
    Acl, FileId, Now, Policy, Refusal, SectorPath, SliceId, UserName, limits,
    message::{
        client_master::{FileContent, FileVersion},
        master_security::UserRights,
    },
};

use super::{is_in_trash, stamp_of};
use crate::catalog::{
    Catalog,
    memory_files::{is_in_job_folder, is_memory_path},
    namespace::{ROOT, change::NamespaceChange},
    quota_table::{QuotaLimits, StorageUsage},
    trash_table::{Replaced, Trashed},
};

/// The content of a file that may be replaced, with all that its entry in the trash will need.
#[derive(Debug)]
pub(crate) struct ReplacedContent {
    path: SectorPath,
    owner: UserName,
    content: FileContent,
    modified_unix_millis: u64,
    acl: Option<Acl>,
    policy: Option<Policy>,
    inherited: Policy,
    kept_seconds: u64,
}

impl ReplacedContent {
    pub(crate) fn slice(&self) -> SliceId {
        self.content.slice
    }

    /// Whether other content says the same: it was written again.
    fn is_same(&self, other: &FileContent) -> bool {
        let said = |content: &FileContent| (content.bytes, content.digest, content.records);
        said(&self.content) == said(other) && self.content.user == other.user
    }
}

impl Catalog {
    /// The content at a path, if it is to be kept once it is replaced. The caller asks before the change, and passes it
    /// to [`keep_replaced`](Self::keep_replaced) after it.
    pub(crate) fn content_to_keep(&self, path: &SectorPath) -> Option<ReplacedContent> {
        if is_in_trash(path) || is_memory_path(path) || is_in_job_folder(path) {
            return None;
        }
        let id = self.names.find(path)?;
        let content = self.names.content(id).filter(|content| content.bytes > 0)?;
        let wished = self.effective_policy(id).into_policy().versions_seconds;
        let kept_seconds = wished.unwrap_or(self.config.versions.as_secs());
        if kept_seconds == 0 {
            return None;
        }
        Some(ReplacedContent {
            path: path.clone(),
            owner: self.names.owner(id)?.clone(),
            content,
            modified_unix_millis: self.names.modified(id)?,
            acl: self.names.own_acl(id).cloned(),
            policy: self.policies.get(id).cloned(),
            inherited: self.inherited_in_trash(self.names.parent(id).unwrap_or(ROOT)),
            kept_seconds,
        })
    }

    /// Puts content that a change has replaced into the trash, and makes room for what the change has added. Its rows
    /// and slices join those of the change.
    pub(crate) fn keep_replaced(
        &mut self,
        now: Now,
        by: &UserName,
        old: Option<ReplacedContent>,
        change: &mut NamespaceChange,
    ) {
        let new = change.entry.and_then(|id| self.names.content(id));
        let is_gone = |old: &ReplacedContent| {
            change.freed.contains(&old.content.slice) && new.as_ref().is_none_or(|new| !old.is_same(new))
        };
        if let Some(old) = old.filter(|old| is_gone(old) && self.has_room_for(old)) {
            let (slice, path) = (old.content.slice, old.path.clone());
            // Where its path would be too long in the trash, it goes at once: nobody's write is refused for it.
            if let Some(kept) = self.move_content(now, by, old) {
                change.rows.extend(kept.rows);
                change.freed.retain(|freed| *freed != slice);
                change.touched.push(slice);
                self.drop_surplus(&path, change);
            }
        }
        if let Some(owner) = change.entry.and_then(|id| self.names.owner(id)).cloned() {
            self.make_room(&owner, change);
        }
    }

    /// The replaced contents of a path that a user may see, oldest first.
    pub(crate) fn versions(&self, by: &UserRights, path: &SectorPath) -> Vec<FileVersion> {
        let visible = self.trash.replaced_at(path).filter(|(_, item)| by.admin || item.user == by.user);
        let mut versions: Vec<_> = visible.filter_map(|(id, item)| self.file_version(id, item)).collect();
        versions.sort_by_key(|version| stamp_of(&version.at));
        versions
    }

    /// Refuses to take replaced content back where its owner may not keep that much: in the trash it would give way.
    pub(super) fn check_restored_quota(&self, id: FileId, to: &SectorPath) -> Result<(), Refusal> {
        match self.trash.replaced(id).and_then(|_| self.names.owner(id).zip(self.file_usage(id))) {
            Some((owner, usage)) => self.check_user_quota(to, owner, usage),
            None => Ok(()),
        }
    }

    /// Whether quotas have room for it once all other replaced content is gone.
    fn has_room_for(&self, old: &ReplacedContent) -> bool {
        let usage = StorageUsage { bytes: old.content.bytes, files: 1 };
        let of_user = self.quotas.of_users.get(&old.owner).map(|most| (*most, self.user_usage_that_stays(&old.owner)));
        let of_all = self.policies.get(ROOT).map(QuotaLimits::of_folder).zip(self.folder_usage_that_stays(ROOT));
        of_user.into_iter().chain(of_all).all(|(most, used)| most.exceeded(used, usage).is_none())
    }

    /// Makes replaced content a file of the trash. `None` where that is not possible; then nothing has changed.
    fn move_content(&mut self, now: Now, by: &UserName, old: ReplacedContent) -> Option<NamespaceChange> {
        let at = self.place_in_trash(now, &old.owner, &old.path)?;
        let replaced = Replaced { by: by.clone(), bytes: old.content.bytes, kept_seconds: old.kept_seconds };
        let made = self.with_folders(&at, |catalog| {
            let mut rows = catalog.make_trash_folders(now, &old.owner, &at)?;
            let mut change = catalog.put_entry(now, &at, false, &old.owner, old.content, old.modified_unix_millis)?;
            rows.append(&mut change.rows);
            Ok(NamespaceChange { rows, ..change })
        });
        let mut change = made.ok()?;
        let id = change.entry?;
        let item = Trashed {
            user: old.owner,
            from: old.path,
            removed_unix_millis: self.clock.date(now),
            inherited: old.inherited,
            replaced: Some(replaced),
        };
        change.rows.push(self.add_trashed(id, item));
        change.rows.extend(self.names.set_acl(id, old.acl));
        change.rows.extend(old.policy.and_then(|policy| self.policies.set(id, policy)));
        Some(change)
    }

    /// Drops the oldest contents of a path beyond the number that is kept. By their numbers in the trash, which only
    /// grow: dates do not where the clock went back.
    fn drop_surplus(&mut self, path: &SectorPath, change: &mut NamespaceChange) {
        let kept: Vec<_> = self.trash.replaced_at(path).map(|(id, _)| id).collect();
        let surplus = kept.len().saturating_sub(limits::VERSIONS_KEPT_MAX);
        if surplus == 0 {
            return;
        }
        let stamp = |id: FileId| self.names.path(id).and_then(|at| stamp_of(&at));
        let mut kept: Vec<_> = kept.into_iter().map(|id| (stamp(id), id)).collect();
        kept.sort_unstable();
        for (_, id) in kept.into_iter().take(surplus) {
            self.drop_replaced(id, change);
        }
    }

    /// Drops replaced content that is in the way. What a single change cannot drop goes with the next one; no quota
    /// counts it meanwhile.
    fn make_room(&mut self, owner: &UserName, change: &mut NamespaceChange) {
        for _ in 0..DROPPED_AT_ONCE {
            let Some(oldest) = self.next_in_the_way(owner) else { break };
            if !self.drop_replaced(oldest, change) {
                break;
            }
        }
    }

    /// The oldest replaced content of a user whose quota is exceeded, or of all where the root's is. Where there is too
    /// much of it, that of the user who has most: nobody's goes for the number of another's.
    fn next_in_the_way(&self, owner: &UserName) -> Option<FileId> {
        let kept = &self.trash.replaced;
        let over_quota = [Some(owner), None].into_iter().filter(|user| self.is_over_quota(*user));
        let too_many = (kept.by_time.len() > self.versions_max).then(|| kept.greediest());
        let mut keys = over_quota.filter_map(|user| kept.keys(user)).chain(too_many.flatten());
        keys.find_map(|keys| keys.first()).map(|key| key.file)
    }

    /// Whether a user keeps more than allowed, or without one the whole cloud.
    fn is_over_quota(&self, user: Option<&UserName>) -> bool {
        let (most, used) = match user {
            Some(user) => (self.quotas.of_users.get(user).copied(), self.quotas.used.get(user).copied()),
            None => (self.policies.get(ROOT).map(QuotaLimits::of_folder), self.quotas.folder(ROOT)),
        };
        most.zip(used).is_some_and(|(most, used)| most.is_below(used))
    }

    /// Removes one replaced content for good; returns whether it did. Its bytes wait for what has replaced it, like
    /// those of any content that is not kept.
    fn drop_replaced(&mut self, id: FileId, change: &mut NamespaceChange) -> bool {
        // A cut-off entry still has its old path, where another entry may stand by now.
        let at = self.names.path(id).filter(|at| self.names.find(at) == Some(id));
        let removed = at.and_then(|at| Some((self.remove_entry(&at, false).ok()?, at)));
        let Some((removed, at)) = removed else { return false };
        change.rows.extend(removed.rows);
        change.rows.extend(self.prune(&at));
        change.freed.extend(removed.freed);
        true
    }

    fn file_version(&self, id: FileId, item: &Trashed) -> Option<FileVersion> {
        let replaced = item.replaced.as_ref()?;
        Some(FileVersion {
            at: self.names.path(id)?,
            user: item.user.clone(),
            version: self.names.content(id)?.version,
            bytes: replaced.bytes,
            replaced_unix_millis: item.removed_unix_millis,
            replaced_by: replaced.by.clone(),
            until_unix_millis: self.end_in_trash(item),
        })
    }
}

/// Replaced contents that one change drops to make room: a millisecond's work.
const DROPPED_AT_ONCE: usize = 64;
