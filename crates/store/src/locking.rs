//! The one way to take a lock in this crate, which never fails because another thread panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock even if another thread panicked while holding it. The data under this crate's locks is rebuilt from the
/// disk at the next start, or is harmless when a step behind. So a panic elsewhere must not stop a node from serving.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
