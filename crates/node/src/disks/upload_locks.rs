//! Which connection writes to which resumable upload. A client whose connection broke may return before this node has
//! noticed. The newest connection wins, and the one before it is told to let go. Serves upload. It never lets two write
//! to one upload, and never waits for ever for the one that should let go.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::Reason;
use store::PartialKey;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard},
    time::timeout,
};

use crate::NodeError;

/// The uploads that are being written or waited for: no more than transfers may run.
#[derive(Debug, Default)]
pub(crate) struct UploadLocks {
    active: Arc<Mutex<BTreeMap<PartialKey, ActiveUpload>>>,
}

#[derive(Debug)]
struct ActiveUpload {
    turn: Arc<AsyncMutex<()>>,
    /// Tells the newest connection that a newer one has come.
    newest: Arc<Notify>,
}

/// The right to write to an upload.
#[derive(Debug)]
pub(crate) struct UploadLock {
    active: Arc<Mutex<BTreeMap<PartialKey, ActiveUpload>>>,
    key: PartialKey,
    replaced: Arc<Notify>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl UploadLocks {
    /// Waits until the present writer of the upload has let go.
    pub(crate) async fn acquire(&self, key: PartialKey) -> Result<UploadLock, NodeError> {
        let replaced = Arc::new(Notify::new());
        let turn = {
            let mut active = lock(&self.active);
            match active.get_mut(&key) {
                Some(entry) => {
                    std::mem::replace(&mut entry.newest, Arc::clone(&replaced)).notify_one();
                    Arc::clone(&entry.turn)
                }
                None => {
                    let turn = Arc::new(AsyncMutex::new(()));
                    let entry = ActiveUpload { turn: Arc::clone(&turn), newest: Arc::clone(&replaced) };
                    active.insert(key.clone(), entry);
                    turn
                }
            }
        };
        let mut mine = UploadLock { active: Arc::clone(&self.active), key, replaced, guard: None };
        match timeout(LET_GO_TIME_MAX, turn.lock_owned()).await {
            Ok(guard) => {
                mine.guard = Some(guard);
                Ok(mine)
            }
            Err(_) => {
                let message = "an earlier connection still has this upload; try again in a moment";
                Err(NodeError::refused(Reason::Busy, message))
            }
        }
    }
}

impl UploadLock {
    /// Ends when a newer connection wants this upload.
    pub(crate) async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for UploadLock {
    fn drop(&mut self) {
        let mut active = lock(&self.active);
        // A newer connection has put its own notice there, and removes the entry itself.
        if active.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.newest, &self.replaced)) {
            active.remove(&self.key);
        }
        drop(active);
        self.guard.take();
    }
}

fn lock(active: &Mutex<BTreeMap<PartialKey, ActiveUpload>>) -> MutexGuard<'_, BTreeMap<PartialKey, ActiveUpload>> {
    // Each change under this lock is complete in itself.
    active.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the earlier connection may take to let go: it syncs what it has.
const LET_GO_TIME_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;
    use protocol::{ResumeKey, UserName};

    use super::*;

    fn key(number: u128) -> PartialKey {
        PartialKey { user: UserName::new("alice").unwrap(), key: ResumeKey(number) }
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_comer_has_the_upload_as_soon_as_the_one_before_it_lets_go() {
        let uploads = Arc::new(UploadLocks::default());
        let first = uploads.acquire(key(1)).await.unwrap();
        assert!(timeout(Duration::from_secs(1), first.replaced()).await.is_err(), "nobody else has come");
        let of_another = uploads.acquire(key(2)).await.unwrap();
        let second = tokio::spawn({
            let uploads = Arc::clone(&uploads);
            async move { uploads.acquire(key(1)).await }
        });
        first.replaced().await;
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert!(timeout(Duration::from_secs(1), second.replaced()).await.is_err());
        drop((second, of_another));
        assert!(lock(&uploads.active).is_empty(), "nothing is left in mind");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_let_go_is_not_waited_for_for_ever() {
        let uploads = UploadLocks::default();
        let first = uploads.acquire(key(1)).await.unwrap();
        assert_eq!(uploads.acquire(key(1)).await.unwrap_err().refusal().status(), Status::Unavailable);
        drop(first);
        drop(uploads.acquire(key(1)).await.unwrap());
        assert!(lock(&uploads.active).is_empty());
    }
}
