//! One way to take a lock in this crate.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock although another thread panicked with it. What the locks of this crate protect is either rebuilt from
/// the disk at the next start or harmless when a step behind, so a panic elsewhere must not stop a node from serving.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
