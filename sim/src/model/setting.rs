//! One value that a client sets repeatedly, waiting for each answer: a folder's owner, its rights, a quota. If an
//! answer was lost, both values stay possible. After the loss of a journal, so do all values since nodes kept the small
//! rows. It never assumes an unanswered change to be made or not made.

use std::time::Duration;

use super::Outcome;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    possible: Vec<T>,
    /// What may have been seen, and since when, oldest first.
    history: Vec<(Duration, Vec<T>)>,
    /// Requested changes that have not ended.
    open: Vec<T>,
    /// Counts lost journals, and times that it was settled: a change begun before proves nothing.
    age: u32,
}

/// Identifies an open change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(u32);

impl<T: Clone + PartialEq> Setting<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { history: vec![(Duration::ZERO, vec![value.clone()])], possible: vec![value], open: Vec::new(), age: 0 }
    }

    /// Its possible values now, apart from an open change.
    pub(crate) fn possible(&self) -> &[T] {
        &self.possible
    }

    /// A change is about to be asked for.
    pub(crate) fn begin(&mut self, now: Duration, value: &T) -> Begun {
        self.history.push((now, with(&self.possible, value)));
        self.open.push(value.clone());
        Begun(self.age)
    }

    /// A change has ended.
    pub(crate) fn end(&mut self, now: Duration, begun: Begun, value: &T, outcome: Outcome) {
        if let Some(at) = self.open.iter().position(|open| open == value) {
            self.open.swap_remove(at);
        }
        if begun.0 != self.age {
            return;
        }
        self.possible = match outcome {
            Outcome::Done => vec![value.clone()],
            Outcome::Unknown => with(&self.possible, value),
            Outcome::NotDone | Outcome::Refused(_) => self.possible.clone(),
        };
        self.history.push((now, self.possible.clone()));
    }

    /// Its subject is made again: earlier requests may still take effect.
    pub(crate) fn renew(&mut self, now: Duration, value: T) {
        self.possible = vec![value];
        let seen = self.open.iter().fold(self.possible.clone(), |all, open| with(&all, open));
        self.history.push((now, seen));
    }

    /// Its possible values between two moments.
    pub(crate) fn between(&self, since: Duration, until: Duration) -> Vec<T> {
        let first = self.history.partition_point(|(from, _)| *from <= since).saturating_sub(1);
        let seen = self.history[first..].iter().enumerate();
        let seen = seen.take_while(|(number, (from, _))| *number == 0 || *from <= until);
        seen.fold(Vec::new(), |all, (_, (_, values))| values.iter().fold(all, |all, value| with(&all, value)))
    }

    /// The journal was lost: nodes know values acknowledged before `kept_until`, and perhaps later ones.
    pub(crate) fn lose(&mut self, now: Duration, kept_until: Duration) {
        // A value replaced in that very moment may still be what they have.
        let before = kept_until.saturating_sub(Duration::from_nanos(1));
        let seen = self.between(before, now);
        self.possible = self.possible.iter().fold(seen, |all, value| with(&all, value));
        self.age += 1;
        self.history.push((now, self.possible.clone()));
    }

    /// It was read when no change was open.
    pub(crate) fn reset(&mut self, now: Duration, value: T) {
        if self.possible != [value.clone()] {
            self.possible = vec![value];
            self.history.push((now, self.possible.clone()));
        }
        self.age += 1;
    }
}

fn with<T: Clone + PartialEq>(values: &[T], value: &T) -> Vec<T> {
    let mut all = values.to_vec();
    if !all.contains(value) {
        all.push(value.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_acknowledged_holds_and_a_lost_answer_leaves_both() {
        let mut setting = Setting::new(1);
        let begun = setting.begin(at(2), &2);
        assert_eq!(setting.between(at(2), at(2)), [1, 2]);
        setting.end(at(3), begun, &2, Outcome::Done);
        assert_eq!((setting.between(at(4), at(5)), setting.between(at(0), at(1))), (vec![2], vec![1]));
        let begun = setting.begin(at(6), &3);
        setting.end(at(7), begun, &3, Outcome::Unknown);
        assert_eq!(setting.possible(), [2, 3]);
        let begun = setting.begin(at(8), &4);
        setting.end(at(9), begun, &4, Outcome::NotDone);
        assert_eq!(setting.possible(), [2, 3]);
    }

    #[test]
    fn a_lost_journal_leaves_what_held_since_nodes_kept_it_and_no_more() {
        let mut setting = Setting::new(1);
        for (second, value) in [(2, 2), (4, 3)] {
            let begun = setting.begin(at(second), &value);
            setting.end(at(second + 1), begun, &value, Outcome::Done);
        }
        let begun = setting.begin(at(6), &4);
        let mut late = setting.clone();
        setting.lose(at(7), at(6));
        assert_eq!(setting.possible(), [3, 4]);
        // A lost answer of the master proves nothing any more.
        setting.end(at(8), begun, &4, Outcome::Done);
        assert_eq!(setting.possible(), [3, 4]);
        late.lose(at(7), at(3));
        assert_eq!(late.possible(), [1, 2, 3, 4]);
        late.reset(at(9), 3);
        assert_eq!(late.possible(), [3]);
    }
}
