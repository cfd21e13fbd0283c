//! Owners, rights, policies, quotas and the trash are as acknowledged, also after a rebuild without a journal. The
//! usage counted for quotas equals the sum of the files. (`docs/semantics.md`: wishes, trash and quotas; when the
//! master is gone.) A check never changes anything in the cloud.

// Promise 17, 30, 30b, 31.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    Acl, Policy, SectorPath, UserName,
    limits::VERSIONS_KEPT_MAX,
    message::{
        access::AclStatus,
        client_master::{Entry, EntryKind, QuotaOf, QuotaStatus, TrashItem},
    },
};

use super::{
    bytes::{self, is_in_trash},
    names::item_of,
};
use crate::{
    ViolationKind,
    environment::Environment,
    model::{ContentId, FolderAttributes, Found, Item, Setting, TrashedFile},
};

/// What is wrong with the master's answer about a folder, asked when nobody changed anything.
pub(crate) fn check_folder(env: &mut Environment, status: &AclStatus, policy: &Policy) -> Option<String> {
    let is_recovered = env.model.recovered.is_some();
    let is_firm = env.model.recovered.as_ref().is_none_or(|recovered| recovered.folders().contains(&status.path));
    let estate = &mut env.model.attributes;
    let number = estate.folder_at(&status.path)?;
    let folder = &estate.folders[number];
    let found = Found { owner: status.owner.clone(), acl: status.own.clone(), policy: policy.clone() };
    // A folder that was not kept may have been made for a file found in it. Then it has no list, or is closed.
    let is_closed = found.acl.as_ref().is_none_or(|acl| acl.is_empty());
    let owner_fits = folder.owner.possible().contains(&found.owner) || !is_firm && found.owner == folder.maker;
    let is_less = env.model.has_old_journal && grants_no_more(found.acl.as_ref(), folder);
    let acl_fits = folder.acl.possible().contains(&found.acl) || !is_firm && is_closed || is_less;
    let policy_fits = folder.policy.possible().contains(&found.policy) || !is_firm && found.policy.is_empty();
    let at = &status.path;
    let wrong = if !owner_fits {
        Some(format!("{at} belongs to {}, and should to one of {:?}", found.owner, folder.owner.possible()))
    } else if !acl_fits {
        Some(format!("the rights of {at} are {:?}, and should be one of {:?}", found.acl, folder.acl.possible()))
    } else if !policy_fits {
        let possible = folder.policy.possible();
        Some(format!("the policy of {at} is {:?}, and should be one of {possible:?}", found.policy))
    } else {
        None
    };
    if wrong.is_none() && !is_recovered {
        let now = env.now.monotonic;
        let folder = &mut estate.folders[number];
        narrow(&mut folder.owner, now, &found.owner);
        narrow(&mut folder.acl, now, &found.acl);
        narrow(&mut folder.policy, now, &found.policy);
    }
    estate.found.insert(status.path.clone(), found);
    wrong
}

fn narrow<T: Clone + PartialEq>(setting: &mut Setting<T>, now: Duration, value: &T) {
    if setting.possible().len() > 1 {
        setting.reset(now, value.clone());
    }
}

/// What is wrong with the quotas, compared with all existing files but replaced content.
pub(crate) fn check_quotas(
    env: &Environment,
    quotas: &[QuotaStatus],
    items: &[TrashItem],
    entries: &[Entry],
) -> Option<String> {
    let is_replaced = |at: &SectorPath| is_in_trash(at) && !items.iter().any(|item| at.is_within(&item.at));
    let counted = entries.iter().filter(|entry| !is_replaced(&entry.path));
    let files = counted.filter_map(|entry| match &entry.kind {
        EntryKind::File(content) => Some((&entry.path, &entry.owner, content.bytes)),
        EntryKind::Folder => None,
    });
    let files: Vec<_> = files.collect();
    let sum = |is_meant: &dyn Fn(&SectorPath, &UserName) -> bool| {
        let meant = files.iter().filter(|(path, owner, _)| is_meant(path, owner));
        meant.fold((0, 0), |(bytes, count), (_, _, more)| (bytes + more, count + 1))
    };
    for quota in quotas {
        let (bytes, count) = match &quota.of {
            QuotaOf::User(user) => sum(&|_, owner| owner == user),
            QuotaOf::Folder(folder) => sum(&|path, _| path.is_within(folder)),
        };
        if (quota.used_bytes, quota.used_files) != (bytes, count) {
            let (of, told) = (&quota.of, (quota.used_bytes, quota.used_files));
            return Some(format!("{of:?} is said to keep {told:?}, and its files sum up to {:?}", (bytes, count)));
        }
    }
    for user in env.model.attributes.quotas.keys() {
        let told = quotas.iter().find(|quota| quota.of == QuotaOf::User(user.clone()));
        if told.is_none() && files.iter().any(|(_, owner, _)| *owner == user) {
            return Some(format!("{user} has files, and no quota counts them"));
        }
    }
    None
}

/// Whether a list grants no more than one of the expected lists. After a restored journal, of two lists only what both
/// grant counts (`docs/decisions/0032-older-journal.md`).
fn grants_no_more(found: Option<&Acl>, folder: &FolderAttributes) -> bool {
    let Some(found) = found else { return false };
    let within = |list: &Acl| found.common(list) == *found;
    folder.acl.possible().iter().any(|possible| possible.as_ref().is_none_or(within))
}

/// What is wrong with the users' limits.
pub(crate) fn check_most(env: &Environment, quotas: &[QuotaStatus]) -> Option<String> {
    env.model.attributes.quotas.iter().find_map(|(user, setting)| {
        let told = quotas.iter().find(|quota| quota.of == QuotaOf::User(user.clone()));
        let most = told.map_or((None, None), |told| (told.bytes, told.files));
        let is_wrong = !setting.possible().contains(&most);
        is_wrong.then(|| format!("the quota of {user} is {most:?}, and should be one of {:?}", setting.possible()))
    })
}

/// What was found in the trash, if that can be said: the user, the former path, and the content.
pub(crate) fn found_in_trash(
    env: &Environment,
    items: &[TrashItem],
    entries: &[Entry],
) -> Vec<(UserName, SectorPath, ContentId)> {
    let by_path: BTreeMap<_, _> = entries.iter().map(|entry| (&entry.path, entry)).collect();
    let found = items.iter().filter(|item| env.model.attributes.knows(&item.from)).filter_map(|item| {
        match by_path.get(&item.at).and_then(|entry| item_of(&env.model.contents, entry)) {
            Some(Item::File(content)) => Some((item.user.clone(), item.from.clone(), content)),
            _ => None,
        }
    });
    found.collect()
}

/// What is wrong with the trash, compared with all existing entries.
pub(crate) fn check_trash(env: &Environment, items: &[TrashItem], entries: &[Entry]) -> Option<String> {
    let found = found_in_trash(env, items, entries);
    let bin = &env.model.attributes.trash;
    let is_there = |item: &&TrashedFile| {
        found.iter().any(|(user, from, content)| (user, from, *content) == (&item.user, &item.from, item.content))
    };
    if let Some(missing) = bin.certain().find(|item| !is_there(item)) {
        return Some(format!("what was removed from {} is not in the trash: {missing:?}", missing.from));
    }
    let was_replaced = |from: &SectorPath, content: ContentId| {
        bin.keeps_replaced && env.model.has_lost_journal() && bytes::may_have_been(env, from, content)
    };
    let stray = found
        .iter()
        .find(|(user, from, content)| !bin.could_have(user, from, *content) && !was_replaced(from, *content));
    // After a lost journal, an entry may be found where an unknown removal had put it.
    if let Some((user, from, content)) = stray {
        return Some(format!("{user} never removed {content:?} from {from}, and it is in the trash"));
    }
    let file_at = |at: &SectorPath| entries.iter().find(|entry| entry.path == *at);
    let is_back = |(at, content): &&(SectorPath, ContentId)| {
        file_at(at).and_then(|entry| item_of(&env.model.contents, entry)) == Some(Item::File(*content))
    };
    bin.purged().iter().find(is_back).map(|(at, content)| format!("{content:?} was removed, and is at {at} again"))
}

/// Each content that a write has certainly replaced at a path of which all writes are known can be had back.
pub(crate) fn check_replaced(env: &Environment, entries: &[Entry]) -> Option<String> {
    if !env.model.attributes.trash.must_keep_replaced() || env.model.has_lost_journal() {
        return None;
    }
    env.model.registers.iter().find_map(|register| {
        let is_there = |entry: &&Entry| {
            entry.path == register.path || bytes::origin_of(&entry.path).as_ref() == Some(&register.path)
        };
        let found: Vec<_> = entries.iter().filter(is_there).collect();
        let has = |content| found.iter().any(|entry| item_of(&env.model.contents, entry) == Some(Item::File(content)));
        let written: Vec<_> =
            register.certain().filter(|content| !env.model.contents.get(*content).bytes.is_empty()).collect();
        let missing = written.iter().find(|content| written.len() <= VERSIONS_KEPT_MAX && !has(**content))?;
        Some(format!("{missing:?} was written to {}, and is neither there nor in the trash: {found:?}", register.path))
    })
}

/// A new file was published, at some moment since `since`, by a user who certainly might keep none.
pub(crate) fn check_let_through(env: &mut Environment, user: &UserName, at: &SectorPath, since: Duration) {
    let (now, estate) = (env.now.monotonic, &env.model.attributes);
    let of_user = estate.quotas.get(user).map(|quota| quota.between(since, now));
    let is_none = |files: Option<u64>| files == Some(0);
    let user_may_not = of_user.is_some_and(|all| all.iter().all(|(_, files)| is_none(*files)));
    let above = estate.folders.iter().filter(|folder| at.is_within(&folder.path));
    let mut policies = above.map(|folder| folder.policy.between(since, now));
    let folder_may_not = policies.any(|all| all.iter().all(|policy| is_none(policy.quota_files)));
    if user_may_not || folder_may_not {
        env.violate(ViolationKind::Safety, format!("{user} may keep no file more, and published {at}"));
    }
}

/// Each existing file has a path and content that somebody put: a sentence about one that does not.
pub(crate) fn check_stray(env: &mut Environment, entries: &[Entry], since: Duration) {
    for entry in entries {
        if let EntryKind::File(content) = &entry.kind
            && !bytes::check_seen(env, &entry.path, Some(content.digest), since)
        {
            return;
        }
    }
}
