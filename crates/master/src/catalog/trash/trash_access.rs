//! Which parts of the trash are visible, and which requests are refused in it. Serves every request that names a path.
//! It never changes anything.

use std::ops::Bound;

use protocol::{
    FileId, Reason, Refusal, SectorPath, limits,
    message::{
        client_master::{ClientReply, TrashItem, TrashKey, TrashPage},
        master_security::UserRights,
        request::{Need, Properties},
    },
};

use super::{TRASH, is_in_trash, trash_root};
use crate::catalog::{
    Catalog,
    namespace::{ListedPage, not_found_refusal},
};

impl Catalog {
    /// Refuses requests that nobody may make in the trash, or that a user may not make in another's.
    pub(crate) fn check_trash(&self, by: &UserRights, asked: &Properties<'_>) -> Result<(), Refusal> {
        for need in &asked.needs {
            if let Need::Remove { path, for_good } = *need
                && is_in_trash(path)
            {
                check_removal(by, path, for_good)?;
            }
        }
        if let Some(path) = asked.changed_paths().find(|path| is_in_trash(path)) {
            let message = format!(
                "`{path}` is in the trash, which holds only what was removed; \
                 `sector trash restore` takes something out of it"
            );
            return Err(Refusal::new(Reason::NotPermitted, message));
        }
        asked.seen_paths().try_for_each(|path| check_visible(by, path))
    }

    /// A page of what a user may see of a folder. The trash is left out unless it was named, and each user sees only
    /// their own part of it.
    pub(crate) fn visible_page(
        &self,
        by: &UserRights,
        folder: &SectorPath,
        recursive: bool,
        after: Option<&SectorPath>,
    ) -> Result<ListedPage, Refusal> {
        if *folder == trash_root() && !by.admin {
            return self.own_trash_page(by, recursive, after);
        }
        self.readable_page(by, folder, recursive, after)
    }

    /// A page of removed entries that can be restored.
    pub(crate) fn trash_list(
        &self,
        by: &UserRights,
        all_users: bool,
        after: Option<TrashKey>,
    ) -> Result<ClientReply, Refusal> {
        check_all_users(by, all_users)?;
        let keys = self.trash.removed.keys(if all_users { None } else { Some(&by.user) });
        let first = after.unwrap_or(TrashKey { removed_unix_millis: 0, file: FileId(u64::MAX) });
        let from = (Bound::Excluded(first), Bound::Unbounded);
        let mut rest = keys.into_iter().flat_map(|keys| keys.range(from)).peekable();
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(key) = rest.next_if(|_| items.len() < limits::LISTING_PAGE_ENTRIES_MAX && bytes < PAGE_BYTES_MAX)
        {
            if let Some(item) = self.trash_item(*key) {
                bytes += item.from.as_str().len() + item.at.as_str().len() + ITEM_FIXED_BYTES;
                items.push(item);
            }
        }
        Ok(ClientReply::Trash(TrashPage { items, more: rest.peek().is_some() }))
    }

    /// A page of the trash as one of its users sees it.
    fn own_trash_page(
        &self,
        by: &UserRights,
        recursive: bool,
        after: Option<&SectorPath>,
    ) -> Result<ListedPage, Refusal> {
        let Some(id) = trash_root().join(by.user.as_str()).ok().and_then(|own| self.names.find(&own)) else {
            self.names.get(&trash_root())?;
            return Ok(ListedPage::default());
        };
        let own = self.names.entry(id).ok_or_else(|| not_found_refusal(&trash_root()))?;
        match (recursive, after) {
            (false, None) => Ok(ListedPage { entries: vec![own], ..ListedPage::default() }),
            (false, Some(_)) => Ok(ListedPage::default()),
            (true, _) => {
                let mut page = self.readable_page(by, &own.path.clone(), true, after)?;
                if after.is_none() {
                    page.entries.insert(0, own);
                }
                Ok(page)
            }
        }
    }

    fn trash_item(&self, key: TrashKey) -> Option<TrashItem> {
        let item = self.trash.items.get(&key.file)?;
        Some(TrashItem {
            key,
            user: item.user.clone(),
            from: item.from.clone(),
            at: self.names.path(key.file)?,
            until_unix_millis: self.end_in_trash(item),
            bytes: self.names.content(key.file).map(|content| content.bytes),
        })
    }
}

/// Refuses a user who may see only their own.
pub(super) fn check_all_users(by: &UserRights, all_users: bool) -> Result<(), Refusal> {
    if all_users && !by.admin {
        let message = format!("{} may not see the trash of all users; ask an administrator", by.user);
        return Err(Refusal::new(Reason::NoRight, message));
    }
    Ok(())
}

/// The user whose trash a path lies in.
fn user_of(path: &SectorPath) -> Option<&str> {
    path.components().nth(1)
}

/// Whether a path lies in another user's trash.
pub(crate) fn is_hidden_from(by: &UserRights, path: &SectorPath) -> bool {
    !by.admin && is_in_trash(path) && user_of(path).is_some_and(|user| user != by.user.as_str())
}

fn check_visible(by: &UserRights, path: &SectorPath) -> Result<(), Refusal> {
    if !is_hidden_from(by, path) {
        return Ok(());
    }
    let message = format!("`{path}` is in the trash of another user; yours is `{TRASH}/{}`", by.user);
    Err(Refusal::new(Reason::NoRight, message))
}

fn check_removal(by: &UserRights, path: &SectorPath, for_good: bool) -> Result<(), Refusal> {
    check_visible(by, path)?;
    if path.components().count() < 3 {
        return Err(Refusal::new(Reason::NotPermitted, format!("`{path}` is emptied with `sector trash empty`")));
    }
    if for_good {
        return Ok(());
    }
    let message = format!("`{path}` is in the trash already; remove it for good with `--now`");
    Err(Refusal::new(Reason::NotPermitted, message))
}

/// Where a page of the trash ends, in bytes: half of a message, which leaves room for the last one.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
/// An upper bound of an item's length in a message, in bytes, without its paths.
const ITEM_FIXED_BYTES: usize = 120;
