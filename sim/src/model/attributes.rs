//! Everything beside names: owners and rights of folders, quotas, and removed entries that can be restored. It covers a
//! few folders of ordinary users, which are made once and stay. It is slow and obvious, and written from
//! `docs/semantics.md` alone, never from the product's code.

use std::{collections::BTreeMap, time::Duration};

use protocol::{Acl, Policy, Rights, SectorPath, UserName, message::master_security::UserRights};

use super::{Accounts, ContentId, Setting, TrashModel, Tree};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// Rights of everyone if no list names any.
    pub(crate) everyone: Rights,
    pub(crate) folders: Vec<FolderAttributes>,
    /// How much users may keep.
    pub(crate) quotas: BTreeMap<UserName, Setting<Most>>,
    pub(crate) trash: TrashModel,
    pub(crate) accounts: Accounts,
    /// The state of folders in the last check of all of them.
    pub(crate) found: BTreeMap<SectorPath, Found>,
    /// A rebuild may be running: a copy may name a folder's owner of long ago.
    is_in_doubt: bool,
    /// When the restored journal was taken. Until the rebuild ends, rights may be those of that time
    /// (`docs/decisions/0032-older-journal.md`).
    put_back_from: Option<Duration>,
    /// When a journal was last lost, or an older one restored.
    last_loss: Duration,
    /// And in the trash.
    pub(crate) found_trash: Vec<(UserName, SectorPath, ContentId)>,
}

/// Most bytes and files that a user may keep.
pub(crate) type Most = (Option<u64>, Option<u64>);

/// A folder.
#[derive(Debug)]
pub(crate) struct FolderAttributes {
    pub(crate) path: SectorPath,
    /// The region that it is in.
    pub(crate) region: usize,
    /// The maker, who owns all files in it too.
    pub(crate) maker: UserName,
    pub(crate) owner: Setting<UserName>,
    pub(crate) acl: Setting<Option<Acl>>,
    pub(crate) policy: Setting<Policy>,
}

/// The master's answer about a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) owner: UserName,
    pub(crate) acl: Option<Acl>,
    pub(crate) policy: Policy,
}

impl FolderAttributes {
    pub(crate) fn new(path: SectorPath, region: usize, maker: UserName) -> Self {
        let owner = Setting::new(maker.clone());
        Self { path, region, maker, owner, acl: Setting::new(None), policy: Setting::new(Policy::default()) }
    }

    /// It is made, for the first time or again after it was lost.
    pub(crate) fn made(&mut self, now: Duration) {
        self.owner.renew(now, self.maker.clone());
        self.acl.renew(now, None);
        self.policy.renew(now, Policy::default());
    }
}

impl Attributes {
    /// The number of a folder.
    pub(crate) fn folder_at(&self, path: &SectorPath) -> Option<usize> {
        self.folders.iter().position(|folder| folder.path == *path)
    }

    /// Whether a path lies in one of the folders, or is one.
    pub(crate) fn knows(&self, path: &SectorPath) -> bool {
        self.folders.iter().any(|folder| path.is_within(&folder.path))
    }

    /// The rights that a user may have had on the entry at a path between two moments: each possible set. Files belong
    /// to the maker of their folder.
    pub(crate) fn rights(&self, by: &UserRights, path: &SectorPath, since: Duration, until: Duration) -> Vec<Rights> {
        let above = |path: &SectorPath| self.folders.iter().rfind(|folder| path.is_within(&folder.path));
        let Some(folder) = above(path) else { return vec![self.everyone] };
        if by.admin || (folder.path != *path && folder.maker == by.user) {
            return vec![Rights::ALL];
        }
        let mut possible = Vec::new();
        let owned_since = if self.is_in_doubt { Duration::ZERO } else { since };
        let since = self.put_back_from.map_or(since, |taken| taken.min(since));
        for owner in folder.owner.between(owned_since, until) {
            if owner == by.user {
                possible.push(Rights::ALL);
                continue;
            }
            for acl in folder.acl.between(since, until) {
                match acl {
                    Some(acl) => possible.push(acl.rights_of(by)),
                    None => {
                        let parent = folder.path.parent().filter(|parent| self.folder_at(parent).is_some());
                        possible.extend(match parent {
                            Some(parent) => self.rights(by, &parent, since, until),
                            None => vec![self.everyone],
                        });
                    }
                }
            }
        }
        possible
    }

    /// The journal was lost, or one taken at that time was restored. Nodes keep rows that were acknowledged before
    /// `kept_until`.
    pub(crate) fn lose(
        &mut self,
        now: Duration,
        kept_until: Duration,
        put_back: Option<Duration>,
        is_there: impl Fn(&SectorPath) -> bool,
    ) {
        self.is_in_doubt = true;
        // Of two forked lines the older one may stay. That is so if the journal dates from before another loss, or is
        // lost before the restored one had heard all nodes (`docs/decisions/0032-older-journal.md`).
        let parted = put_back.filter(|taken| *taken < self.last_loss).into_iter().chain(self.put_back_from).min();
        let since = parted.map_or(kept_until, |parted| parted.min(kept_until));
        for folder in &mut self.folders {
            folder.owner.lose(now, since);
            folder.acl.lose(now, since);
            folder.policy.lose(now, since);
        }
        self.quotas.values_mut().for_each(|quota| quota.lose(now, since));
        // An entry removed since may be on the line that is not taken, and at its path again (`docs/semantics.md`).
        let removed_until = self.put_back_from.map_or(kept_until, |taken| taken.min(kept_until));
        self.trash.lose(removed_until, is_there);
        self.last_loss = now;
        self.put_back_from = put_back.into_iter().chain(self.put_back_from).min();
    }

    /// Whether an older journal was restored, and not all is well yet.
    pub(crate) fn is_put_back(&self) -> bool {
        self.put_back_from.is_some()
    }

    /// All is well: the state found counts from now on.
    pub(crate) fn reset(&mut self, now: Duration) {
        (self.is_in_doubt, self.put_back_from) = (false, None);
        for folder in &mut self.folders {
            let Some(found) = self.found.get(&folder.path).cloned() else { continue };
            folder.owner.reset(now, found.owner);
            folder.acl.reset(now, found.acl);
            folder.policy.reset(now, found.policy);
        }
        let found = std::mem::take(&mut self.found_trash);
        self.trash.reset(now, found);
    }

    /// Folders of a region that do not exist.
    pub(crate) fn unmade(&self, region: usize, tree: &Tree) -> Option<usize> {
        self.folders.iter().position(|folder| folder.region == region && !tree.0.contains_key(&folder.path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{AclEntry, Principal};

    use super::*;
    use crate::model::{Contents, Outcome, path};

    fn user(name: &str) -> UserRights {
        UserRights { user: UserName::new(name).unwrap(), groups: Vec::new(), admin: false }
    }

    #[test]
    fn what_was_asked_for_before_a_folder_was_made_may_come_after_that() {
        let (ann, ben, at) = (user("ann").user, user("ben").user, Duration::from_secs);
        let mut folder = FolderAttributes::new(path("/ann/lent"), 0, ann.clone());
        let begun = folder.owner.begin(at(1), &ben);
        folder.made(at(2));
        assert_eq!(folder.owner.between(at(3), at(3)), [ann, ben.clone()]);
        folder.owner.end(at(4), begun, &ben, Outcome::Done);
        assert_eq!(folder.owner.possible(), [ben]);
    }

    #[test]
    fn the_nearest_list_has_its_way_and_owners_may_do_everything() {
        let (ann, ben) = (user("ann"), user("ben"));
        let mut estate = Attributes { everyone: Rights::READ, ..Attributes::default() };
        for at in ["/ann", "/ann/shut"] {
            estate.folders.push(FolderAttributes::new(path(at), 0, ann.user.clone()));
        }
        let at = Duration::from_secs;
        let rights = |estate: &Attributes, by, text| estate.rights(by, &path(text), at(9), at(9));
        assert_eq!(rights(&estate, &ben, "/ann/shut/f"), [Rights::READ]);
        assert_eq!(rights(&estate, &ann, "/ann/shut"), [Rights::ALL]);
        let begun = estate.folders[1].acl.begin(at(1), &Some(Acl::default()));
        assert_eq!(rights(&estate, &ben, "/ann/shut/f"), [Rights::READ, Rights::default()]);
        estate.folders[1].acl.end(at(2), begun, &Some(Acl::default()), Outcome::Done);
        assert_eq!(rights(&estate, &ben, "/ann/shut/f"), [Rights::default()]);
        let everyone = Acl::new(vec![AclEntry { principal: Principal::Everyone, rights: Rights::WRITE }]).unwrap();
        let begun = estate.folders[0].acl.begin(at(3), &Some(everyone.clone()));
        estate.folders[0].acl.end(at(4), begun, &Some(everyone), Outcome::Done);
        assert_eq!(rights(&estate, &ben, "/ann/f"), [Rights::WRITE]);
        assert_eq!(rights(&estate, &ben, "/ann/shut/f"), [Rights::default()]);
        let begun = estate.folders[1].owner.begin(at(5), &ben.user);
        estate.folders[1].owner.end(at(6), begun, &ben.user, Outcome::Done);
        assert_eq!(rights(&estate, &ben, "/ann/shut/f"), [Rights::ALL]);
        assert_eq!(rights(&estate, &ann, "/ann/shut"), [Rights::default()]);
        assert_eq!(rights(&estate, &ann, "/ann/shut/f"), [Rights::ALL], "files keep their owner");
    }
    #[test]
    fn what_was_removed_on_a_line_that_parted_is_not_certain() {
        let (ann, at) = (user("ann").user, Duration::from_secs);
        let (early, late) = (path("/ann/early"), path("/ann/late"));
        let mut contents = Contents::default();
        let (one, two) = (contents.add(vec![1]), contents.add(vec![2]));
        let mut estate = Attributes::default();
        (estate.trash.is_there, estate.trash.lasts) = (true, true);
        estate.trash.end(at(1), &ann, &early, one, true);
        estate.trash.end(at(3), &ann, &late, two, true);
        let certain = |estate: &Attributes| estate.trash.certain().map(|item| item.from.clone()).collect::<Vec<_>>();
        estate.lose(at(5), at(4), Some(at(2)), |_| false);
        assert_eq!(certain(&estate), [early.clone(), late], "nodes that know it come by and by");
        estate.lose(at(7), at(6), None, |_| false);
        assert_eq!(certain(&estate), [early], "no node that knew the other need have come between");
    }
}
