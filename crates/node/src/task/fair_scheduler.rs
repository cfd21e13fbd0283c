//! Decides which task runs next on a node: as many at once as it has SPE slots, shared between users. Serves the path
//! of a job. A free slot goes to the waiting user with the least node time so far, relative to the user's weight. So
//! ten jobs of one user get no more time than one job of another. A user's own tasks run in the order of arrival. It
//! never takes a slot away from a running task: tasks are short, and a slow one is overtaken elsewhere.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use daemon::settings::NodeSettings;
use net::clock::Clock;
use protocol::UserName;
use tokio::sync::oneshot;

/// The slots of a node.
#[derive(Debug)]
pub(crate) struct FairScheduler {
    clock: Clock,
    queue: Mutex<FairQueue<oneshot::Sender<SpeSlot>>>,
}

/// A slot, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct SpeSlot {
    slots: Arc<FairScheduler>,
    user: UserName,
    began: Duration,
}

/// How slots are shared.
#[derive(Clone, Debug)]
pub(crate) struct FairSharing {
    /// Tasks of one user at once.
    pub(crate) user_max: u32,
    /// The weights of users whose weight is not one.
    pub(crate) weights: BTreeMap<UserName, u32>,
}

impl From<&NodeSettings> for FairSharing {
    fn from(settings: &NodeSettings) -> Self {
        let user_max = if settings.spe_user_slots_max == 0 { u32::MAX } else { settings.spe_user_slots_max };
        Self { user_max, weights: settings.spe_user_weights.clone().unwrap_or_default() }
    }
}

impl FairScheduler {
    pub(crate) fn new(clock: Clock, slots: u32, sharing: FairSharing) -> Arc<Self> {
        Arc::new(Self { clock, queue: Mutex::new(FairQueue::new(slots, sharing)) })
    }

    /// Waits for a slot. A caller that stops waiting is skipped.
    pub(crate) async fn acquire(self: &Arc<Self>, user: &UserName) -> Option<SpeSlot> {
        let (sender, slot) = oneshot::channel();
        self.lock().wait(self.clock.now().monotonic, user, sender);
        self.dispatch();
        slot.await.ok()
    }

    /// Hands out the free slots.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let began = self.clock.now().monotonic;
            let Some((user, sender)) = self.lock().next(began) else { return };
            // A slot that nobody waits for any more is returned by its drop, which hands it to another.
            drop(sender.send(SpeSlot { slots: Arc::clone(self), user, began }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<oneshot::Sender<SpeSlot>>> {
        // Each change under this lock is complete in itself.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpeSlot {
    fn drop(&mut self) {
        let now = self.slots.clock.now().monotonic;
        self.slots.lock().end(now, &self.user, self.began);
        self.slots.dispatch();
    }
}

/// The rules: which users wait, which run tasks, and how much time each has had. `W` is one waiting task.
///
/// A user who returns after a pause starts with the least time of the active users. Unused time is not saved up for
/// that user, and earlier use is not held against the user either.
#[derive(Debug)]
struct FairQueue<W> {
    free: u32,
    sharing: FairSharing,
    /// The users who wait or run tasks, and those who have had more than the least of these.
    users: BTreeMap<UserName, UserShare<W>>,
}

#[derive(Debug)]
struct UserShare<W> {
    waiting: VecDeque<W>,
    running: u32,
    /// The start times of the running tasks, added up.
    began: Duration,
    /// The time of the user's finished tasks, divided by the weight.
    had: Duration,
    weight: u32,
    /// When the user's last task ended; meaningless while the user is active.
    idle_since: Duration,
}

impl<W> UserShare<W> {
    fn is_active(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
    }

    /// Whether the user has been away for so long that unused time is no longer saved up.
    fn is_idle(&self, now: Duration) -> bool {
        !self.is_active() && now.saturating_sub(self.idle_since) > PAUSE_MAX
    }

    /// The time the user has had until now, divided by the weight.
    fn had(&self, now: Duration) -> Duration {
        self.had + (now * self.running).saturating_sub(self.began) / self.weight
    }
}

impl<W> FairQueue<W> {
    fn new(free: u32, sharing: FairSharing) -> Self {
        Self { free, sharing, users: BTreeMap::new() }
    }

    fn wait(&mut self, now: Duration, user: &UserName, who: W) {
        let least = self.least(now);
        let is_new = !self.users.contains_key(user);
        let weight = self.sharing.weights.get(user).copied().unwrap_or(1).max(1);
        let share = self.users.entry(user.clone()).or_insert_with(|| UserShare {
            waiting: VecDeque::new(),
            running: 0,
            began: Duration::ZERO,
            had: Duration::ZERO,
            weight,
            idle_since: Duration::ZERO,
        });
        if is_new || share.is_idle(now) {
            share.had = share.had.max(least.unwrap_or_default());
        }
        share.waiting.push_back(who);
    }

    /// Who gets a slot now, if one is free and anyone may have it.
    fn next(&mut self, now: Duration) -> Option<(UserName, W)> {
        if self.free == 0 {
            return None;
        }
        let may = |share: &UserShare<W>| !share.waiting.is_empty() && share.running < self.sharing.user_max;
        let waiting = self.users.iter().filter(|(_, share)| may(share));
        let (user, _) = waiting.min_by_key(|(_, share)| share.had(now))?;
        let user = user.clone();
        let share = self.users.get_mut(&user)?;
        let who = share.waiting.pop_front()?;
        share.running += 1;
        share.began += now;
        self.free -= 1;
        Some((user, who))
    }

    /// A task of this user that started at `began` has ended.
    fn end(&mut self, now: Duration, user: &UserName, began: Duration) {
        self.free += 1;
        if let Some(share) = self.users.get_mut(user) {
            share.running -= 1;
            share.began -= began;
            share.had += now.saturating_sub(began) / share.weight;
            share.idle_since = now;
        }
        // Users who are away are remembered only if they have had more than the others.
        let least = self.least(now);
        self.users.retain(|_, share| !share.is_idle(now) || least.is_some_and(|least| share.had > least));
    }

    /// The least time that any active user has had.
    fn least(&self, now: Duration) -> Option<Duration> {
        self.users.values().filter(|share| share.is_active()).map(|share| share.had(now)).min()
    }
}

/// A driver takes a moment between an SPE's results and its next task; for that long its user counts as present.
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    fn user(name: &str) -> UserName {
        UserName::new(name).unwrap()
    }

    fn sharing(user_max: u32, weights: &[(&str, u32)]) -> FairSharing {
        FairSharing { user_max, weights: weights.iter().map(|(name, weight)| (user(name), *weight)).collect() }
    }

    /// Lets users keep so many tasks waiting at a time, all of equal length. Counts what each was given in so many
    /// steps.
    fn given(slots: u32, sharing: FairSharing, users: &[(&str, u32)], steps: u32) -> BTreeMap<String, u32> {
        let mut queue = FairQueue::new(slots, sharing);
        let mut counts = BTreeMap::new();
        for (name, count) in users {
            (0..*count).for_each(|_| queue.wait(Duration::ZERO, &user(name), ()));
        }
        for step in 0..steps {
            let now = STEP * step;
            let mut running = Vec::new();
            while let Some((user, ())) = queue.next(now) {
                *counts.entry(user.to_string()).or_default() += 1;
                running.push(user);
            }
            for user in running {
                queue.end(now + STEP, &user, now);
                queue.wait(now + STEP, &user, ());
            }
        }
        counts
    }

    fn counts(counts: &[(&str, u32)]) -> BTreeMap<String, u32> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    // Promise 23.
    #[test]
    fn many_tasks_of_one_user_get_no_more_than_few_of_another() {
        let got = given(2, sharing(u32::MAX, &[]), &[("ann", 40), ("bob", 2)], 100);
        assert_eq!(got, counts(&[("ann", 100), ("bob", 100)]));
        let got = given(1, sharing(u32::MAX, &[]), &[("ann", 40), ("bob", 1), ("eve", 3)], 99);
        assert_eq!(got, counts(&[("ann", 33), ("bob", 33), ("eve", 33)]));
    }

    // Promise 23.
    #[test]
    fn a_weight_gives_a_larger_share_also_with_one_task_at_a_time() {
        let got = given(1, sharing(u32::MAX, &[("ann", 3)]), &[("ann", 1), ("bob", 9)], 100);
        assert!((74..=76).contains(&got["ann"]), "{got:?}");
        let got = given(4, sharing(u32::MAX, &[("ann", 3)]), &[("ann", 9), ("bob", 9)], 100);
        assert!((295..=305).contains(&got["ann"]), "{got:?}");
    }

    #[test]
    fn who_is_alone_has_everything_up_to_the_limit() {
        assert_eq!(given(4, sharing(u32::MAX, &[]), &[("ann", 9)], 10), counts(&[("ann", 40)]));
        assert_eq!(given(4, sharing(3, &[]), &[("ann", 9)], 10), counts(&[("ann", 30)]));
    }

    // Promise 23.
    #[test]
    fn who_comes_after_a_pause_has_neither_saved_nor_lost() {
        let mut queue = FairQueue::new(1, sharing(u32::MAX, &[]));
        let (ann, bob) = (user("ann"), user("bob"));
        for step in 0..50 {
            queue.wait(STEP * step, &ann, ());
            queue.next(STEP * step).unwrap();
            queue.end(STEP * (step + 1), &ann, STEP * step);
        }
        // Ann was away for long, and bob was never here.
        for _ in 0..10 {
            queue.wait(STEP * 100, &ann, ());
            queue.wait(STEP * 100, &bob, ());
            queue.wait(STEP * 100, &bob, ());
        }
        assert_eq!(queue.users[&ann].had, queue.users[&bob].had);
        let mut order = Vec::new();
        for step in 100..106 {
            let (who, ()) = queue.next(STEP * step).unwrap();
            order.push(who.to_string());
            queue.end(STEP * (step + 1), &who, STEP * step);
        }
        assert_eq!(order, ["ann", "bob", "ann", "bob", "ann", "bob"]);
    }

    #[tokio::test]
    async fn who_stops_waiting_is_passed_over_and_a_slot_comes_back() {
        let slots = FairScheduler::new(Clock::start(), 1, sharing(u32::MAX, &[]));
        let first = slots.acquire(&user("ann")).await.unwrap();
        let given_up = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire(&user("bob")).await }
        });
        while slots.lock().users.len() < 2 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        drop(first);
        // Bob's place in the queue is skipped.
        let second = slots.acquire(&user("eve")).await.unwrap();
        assert_eq!(slots.lock().free, 0);
        drop(second);
        let queue = slots.lock();
        assert_eq!((queue.free, queue.users.values().filter(|share| share.is_active()).count()), (1, 0));
    }
}
