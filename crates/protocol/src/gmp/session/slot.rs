//! The content of a sequence number, from its assignment until its acknowledgement: a fragment of a message, or the
//! cancellation of a request. It serves the sender, which keeps the slots, and never holds bytes of its own.

use std::{sync::Arc, time::Duration};

use crate::gmp::{
    Class, FRAGMENT_BYTES_MAX, Fragment, Message, MessageKind,
    frame::{self, CANCEL_BYTES, FRAGMENT_HEAD_BYTES},
};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) content: Content,
    pub(super) class: Class,
    pub(super) state: SlotState,
    /// The packet that carried it last, and when.
    pub(super) packet: u64,
    pub(super) sent_at: Duration,
    pub(super) is_retransmission: bool,
    /// The bytes it took of that packet: its content may have changed since.
    pub(super) sent_bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// A fragment: its message, its place in it, the sequence number of the message's first.
    Part { message: Arc<Message>, index: u16, first: u64 },
    /// This request is cancelled.
    Cancel(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    InFlight,
    Lost,
    Acknowledged,
}

impl Slot {
    /// A slot that is about to be sent.
    pub(super) fn new(class: Class, content: Content) -> Self {
        let (state, sent_at) = (SlotState::InFlight, Duration::ZERO);
        Self { content, class, state, packet: 0, sent_at, is_retransmission: false, sent_bytes: 0 }
    }

    /// Fragments of a message, at most `MESSAGE_FRAGMENTS_MAX`; an empty one has one.
    pub(super) fn fragments_of(message: &Message) -> u16 {
        message.body.len().div_ceil(FRAGMENT_BYTES_MAX).max(1) as u16
    }

    /// Bytes of a message after its first `cut` fragments.
    pub(super) fn bytes_behind(message: &Message, cut: u16) -> usize {
        message.body.len().saturating_sub(usize::from(cut) * FRAGMENT_BYTES_MAX)
    }
}

impl Content {
    pub(super) fn payload(&self) -> &[u8] {
        match self {
            Self::Part { message, index, .. } => {
                let from = usize::from(*index) * FRAGMENT_BYTES_MAX;
                &message.body[from..message.body.len().min(from + FRAGMENT_BYTES_MAX)]
            }
            Self::Cancel(_) => &[],
        }
    }

    /// Whether it is a fragment of such a message.
    pub(super) fn is_of(&self, kind: MessageKind) -> bool {
        matches!(self, Self::Part { message, .. } if message.kind == kind)
    }

    pub(super) fn frame_bytes(&self) -> usize {
        match self {
            Self::Part { .. } => FRAGMENT_HEAD_BYTES + self.payload().len(),
            Self::Cancel(_) => CANCEL_BYTES,
        }
    }

    /// Appends it to a datagram.
    pub(super) fn write(&self, sequence: u64, out: &mut Vec<u8>) {
        match self {
            Self::Part { message, index, first } => {
                let (count, payload) = (Slot::fragments_of(message), self.payload());
                Fragment { sequence, first: *first, index: *index, count, kind: message.kind, payload }.write(out);
            }
            Self::Cancel(request) => frame::write_cancel(sequence, *request, out),
        }
    }
}
