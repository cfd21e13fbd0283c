//! Where the bytes of broken uploads lie, so that the next attempt goes to the same node. Serves upload. It is kept in
//! memory only. After a restart the master learns it from the nodes as they join; bytes it does not learn of are sent
//! again. Never decides who may write: a stranger's key finds nothing, since the user is part of the key.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{ResumeKey, UserName, limits};

use crate::{access::per_user::PerUser, fleet::nodes::NodeKey};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PartialUploads {
    by_upload: BTreeMap<Upload, PartialUpload>,
    by_age: BTreeSet<(Duration, Upload)>,
    per_user: PerUser,
}

type Upload = (UserName, ResumeKey);

#[derive(Clone, Copy, Debug)]
struct PartialUpload {
    node: NodeKey,
    since: Duration,
    /// Since when a client has waited for the node to come back.
    awaited_since: Option<Duration>,
}

impl PartialUploads {
    /// Notes that an upload broke off at a node.
    pub(crate) fn remember(&mut self, now: Duration, user: &UserName, key: ResumeKey, node: NodeKey) {
        self.forget(user, key);
        if self.by_upload.len() >= PARTIAL_UPLOADS_MAX
            && let Some((user, key)) = self.oldest_of_greediest()
        {
            self.forget(&user, key);
        }
        let upload = (user.clone(), key);
        self.per_user.add(user, 1);
        self.by_age.insert((now, upload.clone()));
        self.by_upload.insert(upload, PartialUpload { node, since: now, awaited_since: None });
    }

    /// The same, as a node reports it when it joins: an entry that exists already is newer.
    pub(crate) fn learn(&mut self, now: Duration, user: &UserName, key: ResumeKey, node: NodeKey) {
        if self.node(user, key).is_none() {
            self.remember(now, user, key, node);
        }
    }

    /// The node where this upload broke off.
    pub(crate) fn node(&self, user: &UserName, key: ResumeKey) -> Option<NodeKey> {
        self.by_upload.get(&(user.clone(), key)).map(|kept| kept.node)
    }

    /// Whether it is still worth waiting for the node, which is away: it may only be restarting.
    pub(crate) fn is_worth_waiting(&mut self, now: Duration, user: &UserName, key: ResumeKey) -> bool {
        let Some(kept) = self.by_upload.get_mut(&(user.clone(), key)) else { return false };
        now.saturating_sub(*kept.awaited_since.get_or_insert(now)) < NODE_PATIENCE
    }

    /// Forgets an upload: it starts again, or is complete.
    pub(crate) fn forget(&mut self, user: &UserName, key: ResumeKey) {
        let upload = (user.clone(), key);
        if let Some(kept) = self.by_upload.remove(&upload) {
            self.by_age.remove(&(kept.since, upload));
            self.per_user.take(user, 1);
        }
    }

    fn oldest_of_greediest(&self) -> Option<Upload> {
        let greediest = self.per_user.greediest()?;
        self.by_age.iter().find(|(_, (user, _))| user == greediest).map(|(_, upload)| upload.clone())
    }

    /// Forgets entries that the nodes have dropped by now.
    pub(crate) fn expire(&mut self, now: Duration) {
        while let Some((since, (user, key))) = self.by_age.first()
            && now.saturating_sub(*since) > limits::PARTIAL_LIFE
        {
            let (user, key) = (user.clone(), *key);
            self.forget(&user, key);
        }
    }
}

/// Most broken uploads remembered, some 200 bytes each: those of 64 nodes that keep as many as they may.
const PARTIAL_UPLOADS_MAX: usize = 4_096;
/// How long a client is asked to wait while the node with its bytes restarts; then the upload starts again elsewhere.
const NODE_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn user(name: &str) -> UserName {
        UserName::new(name).unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_upload_is_found_by_its_user_alone_and_forgotten_when_its_bytes_are_dropped() {
        let mut interrupted = PartialUploads::default();
        let node = NodeKey::FIRST;
        interrupted.remember(seconds(1), &user("ann"), ResumeKey(1), node);
        assert_eq!(interrupted.node(&user("ann"), ResumeKey(1)), Some(node));
        assert_eq!(interrupted.node(&user("bob"), ResumeKey(1)), None);
        interrupted.expire(limits::PARTIAL_LIFE);
        assert!(interrupted.node(&user("ann"), ResumeKey(1)).is_some());
        interrupted.expire(limits::PARTIAL_LIFE + seconds(2));
        assert_eq!(interrupted.node(&user("ann"), ResumeKey(1)), None);
    }

    #[test]
    fn a_node_that_is_away_is_waited_for_only_for_a_while() {
        let mut interrupted = PartialUploads::default();
        interrupted.remember(seconds(1), &user("ann"), ResumeKey(1), NodeKey::FIRST);
        assert!(interrupted.is_worth_waiting(seconds(100), &user("ann"), ResumeKey(1)));
        assert!(interrupted.is_worth_waiting(seconds(104), &user("ann"), ResumeKey(1)));
        assert!(!interrupted.is_worth_waiting(seconds(105), &user("ann"), ResumeKey(1)));
        assert!(!interrupted.is_worth_waiting(seconds(100), &user("ann"), ResumeKey(2)));
    }

    #[test]
    fn the_oldest_makes_room_for_the_newest() {
        let mut interrupted = PartialUploads::default();
        for number in 0..=PARTIAL_UPLOADS_MAX as u128 {
            let at = seconds(number as u64);
            interrupted.remember(at, &user("ann"), ResumeKey(number), NodeKey::FIRST);
            // Adding it twice counts once.
            interrupted.remember(at, &user("ann"), ResumeKey(number), NodeKey::FIRST);
        }
        assert_eq!(interrupted.by_upload.len(), PARTIAL_UPLOADS_MAX);
        assert_eq!(interrupted.by_age.len(), PARTIAL_UPLOADS_MAX);
        assert_eq!(interrupted.node(&user("ann"), ResumeKey(0)), None);
        assert!(interrupted.node(&user("ann"), ResumeKey(1)).is_some());
    }

    // Promise 38.
    #[test]
    fn what_one_user_breaks_off_makes_nobody_forget_where_anothers_bytes_are() {
        let mut interrupted = PartialUploads::default();
        interrupted.remember(seconds(1), &user("bob"), ResumeKey(1), NodeKey::FIRST);
        for number in 0..2 * PARTIAL_UPLOADS_MAX as u128 {
            interrupted.remember(seconds(2), &user("ann"), ResumeKey(number), NodeKey::FIRST);
        }
        assert_eq!(interrupted.by_upload.len(), PARTIAL_UPLOADS_MAX);
        assert!(interrupted.node(&user("bob"), ResumeKey(1)).is_some());
    }
}
