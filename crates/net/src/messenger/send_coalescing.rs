//! Who sends: whoever has something to say at once, or the sending task, which gathers what others say into one
//! datagram. Pure: it is told what came and what left.
//!
//! A word alone should leave at once: to wake a task for it takes longer than to send it. Words that come in heaps
//! should share datagrams: one system call and one seal for all of them. Which it will be is not known beforehand; what
//! it was last is a good guess, since answers follow requests as heaped as these came.

/// See the module.
#[derive(Debug)]
pub(super) struct SendCoalescing {
    is_alone: bool,
}

impl SendCoalescing {
    pub(super) fn new() -> Self {
        Self { is_alone: true }
    }

    /// Messages came together.
    pub(super) fn note_received(&mut self, messages: usize) {
        // Acknowledgements alone tell nothing about words.
        if messages > 0 {
            self.is_alone = messages == 1;
        }
    }

    /// The sending task has sent all there was, with so many messages said since it did so last.
    pub(super) fn note_flushed(&mut self, messages: usize) {
        self.is_alone = messages <= 1;
    }

    /// Something is said: whether to send it at once. Only the first after a lull or a lone message is.
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
