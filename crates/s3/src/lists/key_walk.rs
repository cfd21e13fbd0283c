//! The objects of a bucket in the order of their keys, page by page from the cloud. Keys are ordered by their bytes, where a
//! folder counts with its `/`: `a-b` comes before `a/c`, though the folder `a` comes before `a-b`. It never reads more of a
//! bucket than the pages that it needs.

use std::{cmp::Reverse, collections::BinaryHeap, vec};

use client::{Client, ClientError, Entry, Reason, SectorPath, namespace::is_folder};

use crate::objects::path::UPLOADS;

/// What a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// A file, or a folder without anything in it, whose key ends with `/`.
    Object {
        /// The key in the bucket.
        key: String,
        /// The entry.
        entry: Entry,
    },
    /// A folder that stands for all that is in it.
    Prefix(String),
}

/// What is wanted of a bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Only keys that begin so.
    pub(crate) prefix: String,
    /// Only keys after this one.
    pub(crate) after: String,
    /// Folders stand for what is in them.
    pub(crate) by_folder: bool,
}

/// A walk over a bucket.
pub(crate) struct KeyWalk {
    client: Client,
    bucket: SectorPath,
    wanted: Wanted,
    levels: Vec<Level>,
}

/// A folder on the way.
struct Level {
    folder: SectorPath,
    /// Its key with the `/` at its end; empty for the bucket.
    key: String,
    itself: Option<Entry>,
    ordered: KeyOrder<Entry>,
    page: vec::IntoIter<Entry>,
    /// Where the next page begins; `None` behind the last.
    next: Option<Option<SectorPath>>,
    has_entries: bool,
}

impl KeyWalk {
    /// Begins at the folder that all wanted keys lie in.
    pub(crate) fn new(client: Client, bucket: &SectorPath, wanted: Wanted) -> Self {
        let mut walk = Self { client, bucket: bucket.clone(), wanted, levels: Vec::new() };
        let key = walk.wanted.prefix.rfind('/').map_or("", |end| &walk.wanted.prefix[..=end]).to_owned();
        let is_path = key.split_terminator('/').all(|name| !name.is_empty());
        let folder = key.split_terminator('/').try_fold(bucket.clone(), |at, name| at.join(name));
        let is_past = walk.wanted.after.as_str() > key.as_str() && !walk.wanted.after.starts_with(&key);
        // A prefix that is no path has no keys below it.
        let is_hidden = key.split('/').any(|name| name == UPLOADS);
        if let (Ok(folder), true) = (folder, is_path && !is_past && !is_hidden) {
            walk.descend(folder, key, None);
        }
        walk
    }

    /// The next in order.
    ///
    /// # Errors
    /// Those of the cloud. A folder that is gone meanwhile, or never was, has nothing in it.
    pub(crate) async fn next(&mut self) -> Result<Option<Listed>, ClientError> {
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.next(&self.client).await? else {
                let Some(Level { folder, key, itself, has_entries: false, .. }) = self.levels.pop() else { continue };
                if !key.starts_with(&self.wanted.prefix) || key <= self.wanted.after {
                    continue;
                }
                // The folder in which the walk began may be what is asked for.
                let itself = if itself.is_none() { self.client.find(&folder).await? } else { itself };
                if let Some(entry) = itself.filter(is_folder) {
                    return Ok(Some(Listed::Object { key, entry }));
                }
                continue;
            };
            let name = entry.path.name().unwrap_or_default();
            if name == UPLOADS {
                continue;
            }
            let key = format!("{}{name}{}", level.key, if is_folder(&entry) { "/" } else { "" });
            let Wanted { prefix, after, by_folder } = &self.wanted;
            let is_above = is_folder(&entry) && prefix.starts_with(&key);
            if !key.starts_with(prefix) && !is_above {
                if key > *prefix {
                    // All that come after it in this folder are behind the prefix, too.
                    self.levels.pop();
                }
                continue;
            }
            if !is_folder(&entry) {
                if key > *after {
                    return Ok(Some(Listed::Object { key, entry }));
                }
                continue;
            }
            if *by_folder && key.len() > prefix.len() {
                // Where the list begins within the folder, something of it must come later.
                let is_within = after.starts_with(&key) && *after != key;
                if key > *after || (is_within && self.has_later(&key).await?) {
                    return Ok(Some(Listed::Prefix(key)));
                }
            } else if key > *after || after.starts_with(&key) {
                self.descend(entry.path.clone(), key, Some(entry));
            }
        }
        Ok(None)
    }

    /// Whether a folder has a key after the one where the list begins.
    async fn has_later(&self, folder: &str) -> Result<bool, ClientError> {
        let wanted = Wanted { prefix: folder.to_owned(), after: self.wanted.after.clone(), by_folder: false };
        let mut within = Self::new(self.client.clone(), &self.bucket, wanted);
        Ok(Box::pin(within.next()).await?.is_some())
    }

    fn descend(&mut self, folder: SectorPath, key: String, itself: Option<Entry>) {
        let below = |wanted: &str| wanted.strip_prefix(&key).and_then(|rest| rest.split('/').next()).map(str::to_owned);
        let bound = below(&self.wanted.after).max(below(&self.wanted.prefix)).and_then(|name| before(&name));
        let from = bound.and_then(|name| folder.join(&name).ok());
        let ordered = KeyOrder::default();
        self.levels.push(Level {
            folder,
            key,
            itself,
            ordered,
            page: Vec::new().into_iter(),
            // A folder that is read from the middle is not known to be empty.
            has_entries: from.is_some(),
            next: Some(from),
        });
    }
}

impl Level {
    async fn next(&mut self, client: &Client) -> Result<Option<Entry>, ClientError> {
        loop {
            if self.page.as_slice().is_empty()
                && let Some(after) = self.next.take()
            {
                let page = match client.page(&self.folder, false, after).await {
                    Ok(page) => page,
                    Err(error) if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) => continue,
                    Err(error) => return Err(error),
                };
                let last = page.next.or_else(|| page.entries.last().map(|entry| entry.path.clone()));
                self.next = (page.more && last.is_some()).then_some(last);
                // A file lists itself.
                let is_self = page.entries.first().is_some_and(|entry| entry.path == self.folder);
                self.page = if is_self { Vec::new() } else { page.entries }.into_iter();
                continue;
            }
            let unread = self.page.as_slice().first();
            if let Some(entry) = self.ordered.take(unread.and_then(|entry| entry.path.name())) {
                self.has_entries = true;
                return Ok(Some(entry));
            }
            match self.page.next() {
                Some(entry) => {
                    let name = entry.path.name().unwrap_or_default();
                    let key = format!("{name}{}", if is_folder(&entry) { "/" } else { "" });
                    self.ordered.add(key, entry);
                }
                None if self.next.is_none() => return Ok(None),
                None => {}
            }
        }
    }
}

/// What comes by name and goes by key, where a folder's key is its name with a `/`.
struct KeyOrder<T> {
    waiting: BinaryHeap<Reverse<ByKey<T>>>,
}

struct ByKey<T>(String, T);

impl<T> Default for KeyOrder<T> {
    fn default() -> Self {
        Self { waiting: BinaryHeap::new() }
    }
}

impl<T> KeyOrder<T> {
    fn add(&mut self, key: String, value: T) {
        self.waiting.push(Reverse(ByKey(key, value)));
    }

    /// The first of those that wait, if none that is not read yet comes before it. `unread` is the name of the next one.
    fn take(&mut self, unread: Option<&str>) -> Option<T> {
        let Reverse(ByKey(first, _)) = self.waiting.peek()?;
        // A name is never after its own key.
        if unread.is_some_and(|unread| unread < first.as_str()) {
            return None;
        }
        self.waiting.pop().map(|Reverse(ByKey(_, value))| value)
    }
}

impl<T> Ord for ByKey<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> PartialOrd for ByKey<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for ByKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for ByKey<T> {}

/// A name before every name whose key may be this one or come after it. A folder comes before names that go on with a
/// character before `/`, though its key is behind them.
fn before(name: &str) -> Option<String> {
    let folder = name.char_indices().skip(1).find(|(_, letter)| *letter < '/').map_or(name.len(), |(at, _)| at);
    let mut bound = name[..folder].to_owned();
    bound.pop();
    (!bound.is_empty()).then_some(bound)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_comes_by_name_goes_by_key() {
        // Names, and whether they are folders.
        let mut named = vec![("a", true), ("a b", false), ("a!", true), ("a-b", true), ("a-b-c", false)];
        named.extend([("a.txt", false), ("a0", true), ("ab", true), ("b", true), ("b-", false), ("c", false)]);
        let key = |(name, is_folder): (&str, bool)| format!("{name}{}", if is_folder { "/" } else { "" });
        let mut keys: Vec<_> = named.iter().copied().map(key).collect();
        keys.sort_unstable();
        let (mut order, mut found) = (KeyOrder::default(), Vec::new());
        for (at, next) in named.iter().enumerate() {
            order.add(key(*next), key(*next));
            while let Some(value) = order.take(named.get(at + 1).map(|(name, _)| *name)) {
                found.push(value);
            }
        }
        assert_eq!(found, keys);
    }

    #[test]
    fn a_bound_is_before_all_that_may_come_after_a_key() {
        assert_eq!(before("abc").as_deref(), Some("ab"));
        // The folder `ab` has the key `ab/`, which is behind `ab-c`.
        assert_eq!(before("ab-c").as_deref(), Some("a"));
        assert_eq!((before("a"), before("")), (None, None));
        for name in ["abc", "ab-c", "x.tar.gz"] {
            let bound = before(name).unwrap_or_default();
            assert!(
                (1..=name.len())
                    .filter(|end| format!("{}/", &name[..*end]).as_str() >= name)
                    .all(|end| name[..end] > *bound)
            );
        }
    }
}
