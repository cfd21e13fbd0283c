//! Locks (RFC 4918, 6). Programs that edit files take them, so that two people do not overwrite each other's work. They are
//! those of one gateway, end by themselves after ten minutes, and end with the gateway. What other doors do is not bound by
//! them: there, conditions protect. They never last without a limit, and never give a right.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use dav_server::{
    davpath::DavPath,
    ls::{DavLock, DavLockSystem, LsFuture},
};
use futures_util::FutureExt;
use gateway::Door;
use http::HeaderMap;

/// The locks of this gateway. Clones are the same.
#[derive(Clone)]
pub(crate) struct Locks {
    names: Arc<dyn Fn() -> String + Send + Sync>,
    locks: Arc<Mutex<Vec<DavLock>>>,
}

impl Locks {
    /// None yet. Their tokens are names that nobody can guess.
    pub(crate) fn new(door: Door) -> Self {
        Self::with_names(move || door.new_name())
    }

    fn with_names(names: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { names: Arc::new(names), locks: Arc::default() }
    }

    /// Whether the lock that a request gives back is this user's. One that is not there is nobody's, and anyone hears so.
    pub(crate) fn are_of(&self, user: &str, headers: &HeaderMap) -> bool {
        let token = headers.get("lock-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        let token = token.trim().trim_matches(['<', '>']);
        self.living().iter().filter(|lock| lock.token == token).all(|lock| lock.principal.as_deref() == Some(user))
    }

    /// Those that have not ended.
    fn living(&self) -> MutexGuard<'_, Vec<DavLock>> {
        // Nothing panics while it holds them.
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        locks.retain(|lock| lock.timeout_at.is_some_and(|ends| ends > now));
        locks
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Locks({})", self.living().len())
    }
}

/// Bytes of a path without the slash at its end.
fn bare(path: &DavPath) -> &[u8] {
    let bytes = path.as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}

fn is_below(path: &DavPath, folder: &DavPath) -> bool {
    bare(path).strip_prefix(bare(folder)).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Whether a lock holds for a path, or with `deep` for something below it.
fn concerns(lock: &DavLock, path: &DavPath, deep: bool) -> bool {
    bare(&lock.path) == bare(path) || (lock.deep && is_below(path, &lock.path)) || (deep && is_below(&lock.path, path))
}

fn life(asked: Option<Duration>) -> (Option<Duration>, Option<SystemTime>) {
    let life = asked.unwrap_or(LIFE_MAX).min(LIFE_MAX);
    (Some(life), Some(SystemTime::now() + life))
}

impl DavLockSystem for Locks {
    fn lock(
        &'_ self,
        path: &DavPath,
        principal: Option<&str>,
        owner: Option<&xmltree::Element>,
        timeout: Option<Duration>,
        shared: bool,
        deep: bool,
    ) -> LsFuture<'_, Result<DavLock, DavLock>> {
        let mut locks = self.living();
        let mine = locks.iter().filter(|lock| lock.principal.as_deref() == principal);
        let in_the_way = locks.iter().find(|lock| concerns(lock, path, deep) && !(shared && lock.shared));
        // Whoever has too many is told that they are in the way themselves.
        let in_the_way = in_the_way.or_else(|| mine.skip(LOCKS_MAX - 1).last());
        if let Some(lock) = in_the_way {
            return futures_util::future::ready(Err(lock.clone())).boxed();
        }
        let (timeout, timeout_at) = life(timeout);
        let lock = DavLock {
            token: format!("opaquelocktoken:{}", (self.names)()),
            path: Box::new(path.clone()),
            principal: principal.map(str::to_owned),
            owner: owner.cloned().map(Box::new),
            timeout_at,
            timeout,
            shared,
            deep,
        };
        locks.push(lock.clone());
        futures_util::future::ready(Ok(lock)).boxed()
    }

    fn unlock(&'_ self, path: &DavPath, token: &str) -> LsFuture<'_, Result<(), ()>> {
        let mut locks = self.living();
        let found = locks.iter().position(|lock| lock.token == token && concerns(lock, path, false));
        let done = found.map(|at| drop(locks.remove(at))).ok_or(());
        futures_util::future::ready(done).boxed()
    }

    fn refresh(&'_ self, path: &DavPath, token: &str, timeout: Option<Duration>) -> LsFuture<'_, Result<DavLock, ()>> {
        let mut locks = self.living();
        let found = locks.iter_mut().find(|lock| lock.token == token && concerns(lock, path, false));
        let refreshed = found.map(|lock| {
            (lock.timeout, lock.timeout_at) = life(timeout);
            lock.clone()
        });
        futures_util::future::ready(refreshed.ok_or(())).boxed()
    }

    fn check(
        &'_ self,
        path: &DavPath,
        principal: Option<&str>,
        ignore_principal: bool,
        deep: bool,
        submitted_tokens: &[String],
    ) -> LsFuture<'_, Result<(), DavLock>> {
        let locks = self.living();
        let holds = |lock: &&DavLock| {
            submitted_tokens.contains(&lock.token) && (ignore_principal || lock.principal.as_deref() == principal)
        };
        let concerned = || locks.iter().filter(|lock| concerns(lock, path, deep));
        let exclusive = concerned().find(|lock| !lock.shared && !holds(lock));
        // Of several who share a path, one may write.
        let shared = concerned().find(|lock| lock.shared).filter(|_| !concerned().any(|lock| holds(&lock)));
        let checked = exclusive.or(shared).cloned().map_or(Ok(()), Err);
        futures_util::future::ready(checked).boxed()
    }

    fn discover(&'_ self, path: &DavPath) -> LsFuture<'_, Vec<DavLock>> {
        let found = self.living().iter().filter(|lock| concerns(lock, path, false)).cloned().collect();
        futures_util::future::ready(found).boxed()
    }

    fn delete(&'_ self, path: &DavPath) -> LsFuture<'_, Result<(), ()>> {
        self.living().retain(|lock| bare(&lock.path) != bare(path) && !is_below(&lock.path, path));
        futures_util::future::ready(Ok(())).boxed()
    }
}

/// How long a lock lasts unless it is refreshed.
const LIFE_MAX: Duration = Duration::from_secs(600);
/// Of one user.
const LOCKS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn locks() -> Locks {
        let next = AtomicU64::new(0);
        Locks::with_names(move || next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    fn path(text: &str) -> DavPath {
        DavPath::new(text).unwrap()
    }

    fn now<T>(future: LsFuture<'_, T>) -> T {
        future.now_or_never().unwrap()
    }

    fn take(locks: &Locks, at: &str, who: &str, shared: bool, deep: bool) -> Result<String, String> {
        let taken = now(locks.lock(&path(at), Some(who), None, None, shared, deep));
        taken.map(|lock| lock.token).map_err(|lock| lock.token)
    }

    fn may_write(locks: &Locks, at: &str, who: &str, deep: bool, token: &str) -> bool {
        now(locks.check(&path(at), Some(who), false, deep, &[token.to_owned()])).is_ok()
    }

    #[test]
    fn a_lock_holds_for_others_and_for_who_does_not_say_its_token() {
        let locks = locks();
        let token = take(&locks, "/a/b", "ann", false, false).unwrap();
        assert!(may_write(&locks, "/a/b", "ann", false, &token));
        assert!(!may_write(&locks, "/a/b", "ann", false, ""));
        assert!(!may_write(&locks, "/a/b", "bob", false, &token), "a token alone is no right");
        assert!(may_write(&locks, "/a/bc", "bob", false, "") && may_write(&locks, "/a/b/c", "bob", false, ""));
        assert!(!may_write(&locks, "/a", "bob", true, ""), "a folder that goes with what is below it");
        assert!(take(&locks, "/a/", "bob", false, true).is_err() && take(&locks, "/a", "bob", false, false).is_ok());
        assert!(now(locks.unlock(&path("/a/b"), &token)).is_ok() && now(locks.unlock(&path("/a/b"), &token)).is_err());
    }

    #[test]
    fn a_deep_lock_holds_below_and_shared_ones_stand_beside_each_other() {
        let locks = locks();
        let one = take(&locks, "/a", "ann", true, true).unwrap();
        let other = take(&locks, "/a/b", "bob", true, false).unwrap();
        assert!(take(&locks, "/a/b", "eve", false, false).is_err());
        assert!(may_write(&locks, "/a/b", "bob", false, &other) && may_write(&locks, "/a/b", "ann", false, &one));
        assert!(!may_write(&locks, "/a/x", "eve", false, ""));
        now(locks.delete(&path("/a"))).unwrap();
        assert!(may_write(&locks, "/a/b", "eve", false, ""));
    }

    #[test]
    fn a_lock_ends_by_itself_and_nobody_has_too_many() {
        let locks = locks();
        let asked = Some(Duration::from_secs(1_000_000));
        let lock = now(locks.lock(&path("/long"), None, None, asked, false, false)).unwrap();
        assert_eq!(lock.timeout, Some(LIFE_MAX));
        let over = now(locks.lock(&path("/short"), None, None, Some(Duration::ZERO), false, false)).unwrap();
        assert!(
            may_write(&locks, "/short", "bob", false, "")
                && now(locks.refresh(&path("/short"), &over.token, None)).is_err()
        );
        for at in 0..LOCKS_MAX {
            take(&locks, &format!("/{at}"), "ann", false, false).unwrap();
        }
        assert!(
            take(&locks, "/more", "ann", false, false).is_err() && take(&locks, "/more", "bob", false, false).is_ok()
        );
    }
}
