//! Chooses who sends a message: the caller at once, or the sending task, which gathers messages into one datagram. A
//! lone message should leave at once, since waking a task takes longer than sending. Messages that come in groups
//! should share datagrams: one system call and one seal for all. Which case it will be is unknown. The last case is a
//! good guess, since answers follow requests in the same grouping. Pure: told what came and what left, it never sends
//! anything itself.

/// See the module.
#[derive(Debug)]
pub(super) struct SendCoalescing {
    is_alone: bool,
}

impl SendCoalescing {
    pub(super) fn new() -> Self {
        Self { is_alone: true }
    }

    /// Notes that messages came together.
    pub(super) fn note_received(&mut self, messages: usize) {
        // Acknowledgements alone say nothing about messages.
        if messages > 0 {
            self.is_alone = messages == 1;
        }
    }

    /// Notes that the sending task has sent all there was, with so many messages queued since it last did so.
    pub(super) fn note_flushed(&mut self, messages: usize) {
        self.is_alone = messages <= 1;
    }

    /// Whether to send a queued message at once. Only the first after a pause or a lone message is.
    pub(super) fn is_due(&mut self) -> bool {
        std::mem::take(&mut self.is_alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_and_its_answer_leave_at_once_for_as_long_as_they_come_alone() {
        let mut haste = SendCoalescing::new();
        for _ in 0..3 {
            assert!(haste.is_due());
            haste.note_received(0);
            assert!(!haste.is_due(), "a second one without an answer is gathered");
            haste.note_received(1);
        }
    }

    #[test]
    fn answers_to_a_heap_are_gathered_until_there_is_a_lull() {
        let mut haste = SendCoalescing::new();
        haste.note_received(10);
        assert!(!haste.is_due());
        haste.note_flushed(10);
        assert!(!haste.is_due());
        haste.note_flushed(1);
        assert!(haste.is_due() && !haste.is_due());
    }
}
