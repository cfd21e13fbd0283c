//! Removed entries that can still be restored. Serves `rm`, `trash`, and expired files. A removal is a rename to
//! `/.trash/OWNER/UNIX-MILLIS/` plus the entry's own path; after a while it becomes final (`lifetimes` says when). A
//! table by [`FileId`] records each entry's former place and the replication policy of its folders. Replaced content
//! goes there too ([`replaced`]). Users see and restore their own, administrators all; an entry is never written there.

pub(crate) mod replaced;
mod trash_access;

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    FileId, Now, Policy, Reason, Refusal, Rights, SectorPath, SliceId, UserName,
    message::{client_master::TrashKey, master_security::UserRights, request::Need},
};
use store::RowChange;
use trash_access::check_all_users;
pub(crate) use trash_access::is_hidden_from;

use crate::catalog::{
    Catalog,
    memory_files::is_memory_path,
    namespace::{ROOT, change::NamespaceChange, not_found_refusal},
    trash_table::{LastStamp, Trashed},
};

impl Catalog {
    /// Removes an entry as a user does: to the trash, or for good.
    pub(crate) fn discard(
        &mut self,
        now: Now,
        id: FileId,
        path: &SectorPath,
        recursive: bool,
        for_good: bool,
    ) -> Result<NamespaceChange, Refusal> {
        let is_refused = !recursive && self.names.is_folder(id) && !self.names.is_empty_folder(id);
        let has_trash = !self.config.trash.is_zero() && !is_memory_path(path);
        if !for_good && !is_refused && has_trash {
            return self.move_to_trash(now, id, path);
        }
        let mut change = self.remove_entry(path, recursive)?;
        change.rows.extend(self.prune(path));
        Ok(change)
    }

    /// Moves an entry to its owner's trash.
    fn move_to_trash(&mut self, now: Now, id: FileId, path: &SectorPath) -> Result<NamespaceChange, Refusal> {
        let too_long = || {
            let message = format!("`{path}` cannot go to the trash, where a path would be too long; use `--now`");
            Refusal::new(Reason::NotPermitted, message)
        };
        let owner = self.names.owner(id).ok_or_else(|| not_found_refusal(path))?.clone();
        let folder = self.names.parent(id).unwrap_or(ROOT);
        let inherited = self.inherited_in_trash(folder);
        let at = self.place_in_trash(now, &owner, path).ok_or_else(too_long)?;
        if !self.names.fits_below(id, path, &at) {
            return Err(too_long());
        }
        let mut change = self.move_with_folders(path, &at, |catalog| catalog.make_trash_folders(now, &owner, &at))?;
        let removed_unix_millis = self.clock.date(now);
        let item = Trashed { user: owner, from: path.clone(), removed_unix_millis, inherited, replaced: None };
        change.rows.push(self.add_trashed(id, item));
        Ok(change)
    }

    /// The policy of a folder for what goes from it to the trash: as much as matters there.
    fn inherited_in_trash(&self, folder: FileId) -> Policy {
        let policy = self.effective_policy(folder).into_policy();
        Policy { lifetime_seconds: None, colocated: None, versions_seconds: None, ..policy }
    }

    /// Notes that an entry lies in the trash now; returns its row.
    fn add_trashed(&mut self, id: FileId, item: Trashed) -> RowChange {
        let end = self.end_in_trash(&item);
        self.trash.add(id, item, end)
    }

    /// When an entry of the trash goes for good, in milliseconds since the Unix epoch.
    fn end_in_trash(&self, item: &Trashed) -> u64 {
        if item.removed_unix_millis == 0 {
            return 0;
        }
        let kept = match &item.replaced {
            Some(replaced) => replaced.kept_seconds.saturating_mul(1_000),
            None => u64::try_from(self.config.trash.as_millis()).unwrap_or(u64::MAX),
        };
        self.clock.to_current_date(item.removed_unix_millis).saturating_add(kept)
    }

    /// Notes when an entry of the trash goes for good: it was loaded, or its end was put off.
    pub(crate) fn note_trash_end(&mut self, id: FileId) {
        if let Some(end) = self.trash.items.get(&id).map(|item| self.end_in_trash(item)) {
            self.trash.ends.set(id, end);
        }
    }

    /// Moves an entry once `make` has made the folders that it needs.
    fn move_with_folders(
        &mut self,
        from: &SectorPath,
        to: &SectorPath,
        make: impl FnOnce(&mut Self) -> Result<Vec<RowChange>, Refusal>,
    ) -> Result<NamespaceChange, Refusal> {
        self.with_folders(to, |catalog| {
            let mut rows = make(catalog)?;
            let mut change = catalog.move_entry(from, to)?;
            rows.append(&mut change.rows);
            Ok(NamespaceChange { rows, ..change })
        })
    }

    /// Makes an entry at `to` with the folders that it needs. Where that is refused, nothing stays made.
    fn with_folders(
        &mut self,
        to: &SectorPath,
        make: impl FnOnce(&mut Self) -> Result<NamespaceChange, Refusal>,
    ) -> Result<NamespaceChange, Refusal> {
        let first_made = std::iter::successors(to.parent(), SectorPath::parent)
            .take_while(|folder| self.names.find(folder).is_none())
            .last();
        let made = make(self);
        if made.is_err() {
            // In memory alone, so that nothing of it remains: none of these rows is ever saved.
            first_made.map(|made| self.names.remove(&made, true));
        }
        made
    }

    /// Restores an entry.
    pub(crate) fn restore(
        &mut self,
        now: Now,
        by: &UserRights,
        path: &SectorPath,
        to: Option<SectorPath>,
    ) -> Result<NamespaceChange, Refusal> {
        let (id, from) = self.find_removed(by, path)?;
        let at = self.names.path(id).ok_or_else(|| not_found_refusal(path))?;
        self.check_need(by, Need::On(&at, Rights::WRITE))?;
        let to = to.unwrap_or(from);
        self.check_restored_quota(id, &to)?;
        let mut change = self.put_back(now, by, id, &at, &to)?;
        change.rows.extend(self.trash.forget(id));
        change.rows.extend(self.prune(&at));
        Ok(change)
    }

    /// Gives up restorable entries.
    pub(crate) fn empty_trash(&mut self, by: &UserRights, all_users: bool) -> Result<Vec<RowChange>, Refusal> {
        check_all_users(by, all_users)?;
        let user = if all_users { None } else { Some(&by.user) };
        let keys = [&self.trash.removed, &self.trash.replaced].into_iter().filter_map(|index| index.keys(user));
        let items: Vec<_> = keys.flatten().map(|key| key.file).collect();
        Ok(items.into_iter().filter_map(|id| self.trash.expire_now(id)).collect())
    }

    /// Entries of the trash whose time is over up to here go for good, in milliseconds since the Unix epoch. While the
    /// clock is in doubt, only entries that were given up do.
    pub(crate) fn trash_limit(&self, now: Now) -> u64 {
        self.clock.limit(now).unwrap_or(0)
    }

    /// An entry of the trash whose time is over. The clock may have jumped since its end was noted.
    fn ended_in_trash(&mut self, limit: u64) -> Option<FileId> {
        while let Some(id) = self.trash.ends.ended(limit) {
            match self.trash.items.get(&id).map(|item| self.end_in_trash(item)) {
                Some(end) if end > limit => self.trash.ends.set(id, end),
                Some(_) => return Some(id),
                None => self.trash.ends.forget(id),
            }
        }
        None
    }

    /// Removes for good some entries that have been in the trash for long enough, leaves first; returns how many.
    pub(crate) fn purge(&mut self, now: Now, budget: usize) -> (usize, NamespaceChange) {
        let limit = self.trash_limit(now);
        let (mut done, mut purged) = (0, NamespaceChange::default());
        while done < budget
            && let Some(id) = self.ended_in_trash(limit)
        {
            let (before, path) = (done, self.names.path(id));
            let Some((path, entries)) =
                path.and_then(|path| Some((path.clone(), self.names.list(&path, true, None).ok()?.0)))
            else {
                purged.rows.extend(self.trash.forget(id));
                continue;
            };
            let inside = entries.iter().rev().map(|entry| &entry.path);
            // The folder itself if it is empty; if it is a file, it is its own listing.
            let itself = entries.is_empty().then_some(&path);
            for path in inside.chain(itself) {
                if done == budget {
                    break;
                }
                // A folder with more entries than the page waits for the next one.
                let Ok(change) = self.remove_entry(path, false) else { continue };
                purged.rows.extend(change.rows);
                purged.freed.extend(change.freed);
                done += 1;
            }
            if self.names.find(&path).is_none() {
                purged.rows.extend(self.prune(&path));
            }
            if done == before {
                break;
            }
        }
        (done, purged)
    }

    /// Gives up the oldest entries that have a slice of which `frees_room` says so: replaced content first.
    pub(crate) fn give_up_oldest(&mut self, frees_room: impl Fn(SliceId) -> bool) -> Vec<RowChange> {
        let mut oldest = Vec::new();
        for index in [&self.trash.replaced, &self.trash.removed] {
            let mut steps = LOOKED_AT;
            for key in &index.by_time {
                if steps == 0 || oldest.len() == GIVEN_UP_AT_ONCE {
                    break;
                }
                oldest.extend(Some(key.file).filter(|id| self.has_slice(*id, &mut steps, &frees_room)));
            }
        }
        oldest.into_iter().filter_map(|id| self.trash.expire_now(id)).collect()
    }

    /// Whether an entry is such a file, or a folder of one, as far as `steps` reach.
    fn has_slice(&self, id: FileId, steps: &mut usize, is_meant: impl Fn(SliceId) -> bool) -> bool {
        let mut rest = vec![id];
        while let Some(id) = rest.pop().filter(|_| *steps > 0) {
            *steps -= 1;
            rest.extend(self.names.children_after(id, None, *steps));
            if self.names.slice_of(id).is_some_and(&is_meant) {
                return true;
            }
        }
        false
    }

    /// Whether an entry lies in the trash.
    pub(crate) fn is_trash(&self, id: FileId) -> bool {
        let Some(root) = self.names.find(&trash_root()) else { return false };
        std::iter::successors(Some(id), |at| self.names.parent(*at)).any(|at| at == root)
    }

    /// Notes a file that a master without a journal found in the trash. Neither it nor a folder above it may be known
    /// as removed. It can be restored by itself.
    pub(crate) fn adopt_trash(&mut self, now: Now, file: FileId, path: &SectorPath) -> Option<RowChange> {
        let mut names = path.components().skip(1);
        let user = UserName::new(names.next()?).ok()?;
        let removed_unix_millis = names.next()?.parse().unwrap_or(self.clock.date(now));
        let from = SectorPath::parse(&format!("/{}", names.collect::<Vec<_>>().join("/"))).ok()?;
        let mut above = std::iter::successors(Some(file), |at| self.names.parent(*at));
        if !is_in_trash(path) || from.is_root() || above.any(|at| self.trash.items.contains_key(&at)) {
            return None;
        }
        let item = Trashed { user, from, removed_unix_millis, inherited: Policy::default(), replaced: None };
        Some(self.add_trashed(file, item))
    }

    /// A free path for an entry in its owner's trash. Of two entries from one path, the later one is in the folder with
    /// the larger number, whatever the clock said. That is how the order is known.
    fn place_in_trash(&mut self, now: Now, owner: &UserName, path: &SectorPath) -> Option<SectorPath> {
        let at = |stamp: u64| SectorPath::parse(&format!("{TRASH}/{owner}/{stamp}{path}")).ok();
        let last = self.trash.last_stamps.get(owner).copied();
        // A folder for each removal would mean three names for each file.
        if let Some(last) = last.filter(|last| now.monotonic < last.begun + STAMP_SHARED)
            && self.is_free(&at(last.stamp)?)
        {
            return at(last.stamp);
        }
        let last = last.map_or_else(|| self.last_stamp_of(owner), |last| last.stamp);
        let mut stamp = self.clock.date(now).max(last + 1);
        while self.names.find(&SectorPath::parse(&format!("{TRASH}/{owner}/{stamp}")).ok()?).is_some() {
            stamp += 1;
        }
        self.trash.last_stamps.insert(owner.clone(), LastStamp { stamp, begun: now.monotonic });
        at(stamp)
    }

    /// The largest number of a folder in an owner's trash: an earlier life's last one, if it still exists.
    fn last_stamp_of(&self, owner: &UserName) -> u64 {
        let folder = trash_root().join(owner.as_str()).ok().and_then(|folder| self.names.find(&folder));
        let folders = folder.into_iter().flat_map(|folder| self.names.children(folder));
        let stamps = folders.filter_map(|folder| self.names.name(folder).parse().ok());
        stamps.filter(|stamp| *stamp < STAMP_MAX).max().unwrap_or(0)
    }

    /// The entry last removed from a path: of one user, or of anyone. Within one owner's trash the folder numbers
    /// decide, which only grow. Between owners, whose folders are separate, the date does.
    fn last_removed(&self, from: &SectorPath, user: Option<&UserName>) -> Option<FileId> {
        let mut last: BTreeMap<&UserName, (u64, TrashKey)> = BTreeMap::new();
        for (owner, key) in self.trash.removed_from(from, user) {
            let stamp = self.names.path(key.file).and_then(|at| stamp_of(&at)).unwrap_or(0);
            let newest = last.entry(owner).or_insert((stamp, key));
            *newest = (*newest).max((stamp, key));
        }
        last.into_values().map(|(_, key)| key).max().map(|key| key.file)
    }

    /// Whether an entry can be put at a path of the trash without landing inside another removed entry.
    fn is_free(&self, at: &SectorPath) -> bool {
        let (nearest, missing) = self.names.deepest_existing(at);
        let mut above = std::iter::successors(Some(nearest), |at| self.names.parent(*at));
        missing > 0 && self.names.is_folder(nearest) && above.all(|at| !self.trash.items.contains_key(&at))
    }

    fn make_trash_folders(&mut self, now: Now, owner: &UserName, at: &SectorPath) -> Result<Vec<RowChange>, Refusal> {
        let mut rows = Vec::new();
        if self.names.find(&trash_root()).is_none()
            && let Some(root_owner) = self.names.owner(ROOT).cloned()
        {
            rows = self.names.make_folder(now, &trash_root(), false, &root_owner)?.rows;
        }
        let folder = at.parent().unwrap_or_else(trash_root);
        rows.extend(self.names.make_folder(now, &folder, true, owner)?.rows);
        Ok(rows)
    }

    /// Removes the empty folders above a path of the trash.
    fn prune(&mut self, path: &SectorPath) -> Vec<RowChange> {
        let mut rows = Vec::new();
        let mut above = std::iter::successors(Some(self.names.deepest_existing(path).0), |at| self.names.parent(*at));
        if above.any(|at| self.trash.items.contains_key(&at)) {
            // It is in a removed folder, which may be restored with all its content.
            return rows;
        }
        let above = std::iter::successors(path.parent(), SectorPath::parent);
        for folder in above.take_while(|folder| is_in_trash(folder) && *folder != trash_root()) {
            let Some(id) = self.names.find(&folder) else { continue };
            if !self.names.is_empty_folder(id) {
                break;
            }
            let Ok(change) = self.remove_entry(&folder, false) else { break };
            rows.extend(change.rows);
        }
        rows
    }

    /// The entry meant by `path`, in the trash or at its former place, and its former path.
    fn find_removed(&self, by: &UserRights, path: &SectorPath) -> Result<(FileId, SectorPath), Refusal> {
        let nothing = || {
            let message = format!(
                "nothing in the trash was removed from `{path}`; `sector trash list` shows what there is, and \
                 `sector versions {path}` what was replaced there"
            );
            Refusal::new(Reason::NotFound, message)
        };
        if !is_in_trash(path) {
            let own = self.last_removed(path, Some(&by.user));
            let any = || if by.admin { self.last_removed(path, None) } else { None };
            return Ok((own.or_else(any).ok_or_else(nothing)?, path.clone()));
        }
        // A removed entry, or a part of one.
        let id = self.names.get(path)?;
        let mut above = std::iter::successors(Some(id), |at| self.names.parent(*at));
        let item = above.find(|at| self.trash.items.contains_key(at)).ok_or_else(nothing)?;
        let removed = self.trash.items.get(&item).filter(|item| item.removed_unix_millis > 0).ok_or_else(nothing)?;
        let at = self.names.path(item).ok_or_else(nothing)?;
        let from = format!("{}{}", removed.from, &path.as_str()[at.as_str().len()..]);
        Ok((id, SectorPath::parse(&from).map_err(|error| Refusal::new(Reason::Invalid, error.to_string()))?))
    }

    /// Moves an entry out of the trash, and creates all folders it needs.
    fn put_back(
        &mut self,
        now: Now,
        by: &UserRights,
        id: FileId,
        at: &SectorPath,
        to: &SectorPath,
    ) -> Result<NamespaceChange, Refusal> {
        if self.names.find(to).is_some() {
            let message = match self.trash.replaced(id) {
                None => format!("`{to}` exists already; move it away, or restore to another path with `--to`"),
                Some(_) => format!(
                    "`{to}` exists already, with newer content; `sector cp {at} {to}` replaces that, or restore to \
                     another path with `--to`"
                ),
            };
            return Err(Refusal::new(Reason::Exists, message));
        }
        self.names.check_parent(to, true)?;
        let (nearest, _) = self.names.deepest_existing(to);
        self.check_need(by, Need::Make(to))?;
        if self.quotas.has_folders() {
            self.check_folder_quotas(to, nearest, self.usage_below(id), &self.quota_folders_above(id))?;
        }
        let folder = to.parent().unwrap_or_else(SectorPath::root);
        self.move_with_folders(at, to, |catalog| Ok(catalog.names.make_folder(now, &folder, true, &by.user)?.rows))
    }
}

/// The folder of all removed entries.
pub(crate) fn trash_root() -> SectorPath {
    // A constant that is a valid path; every test of this file uses it.
    #[allow(clippy::expect_used)]
    SectorPath::parse(TRASH).expect("a valid path")
}

/// Whether a path is the trash or lies in it.
pub(crate) fn is_in_trash(path: &SectorPath) -> bool {
    path.as_str().strip_prefix(TRASH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The number of the folder in which a removed entry lies.
fn stamp_of(at: &SectorPath) -> Option<u64> {
    at.components().nth(2)?.parse().ok()
}

const TRASH: &str = "/.trash";
/// Removals of one user within this time share a folder.
const STAMP_SHARED: Duration = Duration::from_secs(10);
/// No clock ever reads this: a folder with such a number is an error, and would leave no number for the next.
const STAMP_MAX: u64 = 1 << 62;
/// Entries given up at once; the freed space shows before the next time.
const GIVEN_UP_AT_ONCE: usize = 64;
/// Entries examined to find some that free space.
const LOOKED_AT: usize = 20_000;
