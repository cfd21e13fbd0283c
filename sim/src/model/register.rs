//! One file that several clients overwrite at the same time. Only the master knows which write comes first. The writes
//! that certainly came before others decide what may be read; a guess about the order never does.

use std::time::Duration;

use protocol::SectorPath;

use super::ContentId;

/// See the module.
#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) path: SectorPath,
    writes: Vec<Write>,
}

/// A requested commit.
#[derive(Clone, Copy, Debug)]
struct Write {
    content: ContentId,
    asked: Duration,
    /// When it was answered with success. A commit without an answer may take effect at any time.
    answered: Option<Duration>,
    is_void: bool,
}

impl Register {
    pub(crate) fn new(path: SectorPath) -> Self {
        Self { path, writes: Vec::new() }
    }

    /// A commit is about to be requested; returns its number.
    pub(crate) fn begin(&mut self, now: Duration, content: ContentId) -> usize {
        self.writes.push(Write { content, asked: now, answered: None, is_void: false });
        self.writes.len() - 1
    }

    /// A commit was answered with success.
    pub(crate) fn succeed(&mut self, now: Duration, write: usize) {
        self.writes[write].answered = Some(now);
    }

    /// A commit certainly did not happen.
    pub(crate) fn void(&mut self, write: usize) {
        self.writes[write].is_void = true;
    }

    /// From now on only this content (`None`: no file) counts, and no earlier write.
    pub(crate) fn reset(&mut self, now: Duration, content: Option<ContentId>) {
        let write = |content| Write { content, asked: now, answered: Some(now), is_void: false };
        self.writes = content.into_iter().map(write).collect();
    }

    /// Whether this content (`None`: no file) may be read between two moments.
    pub(crate) fn could_be(&self, content: Option<ContentId>, since: Duration, until: Duration) -> bool {
        // The latest moment before `since` at which some write was certainly there.
        let settled = self.successes().filter(|(_, answered)| *answered <= since);
        match content {
            None => settled.count() == 0,
            Some(content) => {
                let newest_asked = settled.map(|(write, _)| write.asked).max();
                let is_current = |write: &&Write| {
                    !write.is_void
                        && write.content == content
                        && write.asked <= until
                        // Unless another write began after this one's end and ended before the read began.
                        && write.answered.is_none_or(|answered| newest_asked.is_none_or(|newest| newest <= answered))
                };
                self.writes.iter().any(|write| is_current(&write))
            }
        }
    }

    /// The contents that may be there now.
    pub(crate) fn possible(&self, now: Duration) -> Vec<ContentId> {
        let contents = self.writes.iter().map(|write| write.content);
        contents.filter(|content| self.could_be(Some(*content), now, now)).collect()
    }

    /// Contents whose commit was asked for and not yet answered.
    pub(crate) fn begun(&self) -> impl Iterator<Item = ContentId> {
        let open = self.writes.iter().filter(|write| !write.is_void && write.answered.is_none());
        open.map(|write| write.content)
    }

    /// Every content that could ever be there.
    pub(crate) fn ever_seen(&self) -> impl Iterator<Item = ContentId> {
        self.writes.iter().filter(|write| !write.is_void).map(|write| write.content)
    }

    /// The contents of all commits that were answered with success.
    pub(crate) fn certain(&self) -> impl Iterator<Item = ContentId> {
        self.successes().map(|(write, _)| write.content)
    }

    fn successes(&self) -> impl Iterator<Item = (&Write, Duration)> {
        self.writes.iter().filter_map(|write| write.answered.map(|answered| (write, answered)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Contents, path};

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_a_write_that_another_has_certainly_replaced_may_not_be_read() {
        let mut contents = Contents::default();
        let [one, two, three] = [1, 2, 3].map(|byte| contents.add(vec![byte]));
        let mut register = Register::new(path("/shared/0"));
        assert!(register.could_be(None, at(0), at(9)));
        let first = register.begin(at(1), one);
        register.succeed(at(3), first);
        let second = register.begin(at(2), two);
        register.succeed(at(5), second);
        // They overlapped: either may have been the last.
        assert!(register.could_be(Some(one), at(6), at(7)) && register.could_be(Some(two), at(6), at(7)));
        let third = register.begin(at(8), three);
        assert!(register.could_be(Some(three), at(7), at(8)) && !register.could_be(Some(three), at(6), at(7)));
        register.succeed(at(9), third);
        assert!(!register.could_be(Some(one), at(10), at(11)) && !register.could_be(Some(two), at(10), at(11)));
        assert!(register.could_be(Some(one), at(8), at(11)), "the read began before the third write ended");
        assert!(!register.could_be(None, at(4), at(5)));
    }

    #[test]
    fn a_write_without_an_answer_may_come_late_and_a_void_one_never() {
        let mut contents = Contents::default();
        let [one, two] = [1, 2].map(|byte| contents.add(vec![byte]));
        let mut register = Register::new(path("/shared/0"));
        let unanswered = register.begin(at(1), one);
        let second = register.begin(at(2), two);
        register.succeed(at(3), second);
        assert!(register.could_be(Some(one), at(50), at(51)));
        register.void(unanswered);
        assert!(!register.could_be(Some(one), at(50), at(51)));
    }
}
