//! What the calls and the two tasks of a messenger share under one lock: the switchboard, and who sends what it has to
//! say. No call here waits for anything, or sends.

use std::{net::SocketAddr, time::Duration};

use protocol::{
    SessionId,
    gmp::{Class, Message},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    MessengerEvent,
    haste::Haste,
    switchboard::{Next, Switchboard},
};
use crate::{NetError, clock::Clock, datagram::Departure};

/// See the module.
pub(super) struct Desk {
    board: Switchboard,
    haste: Haste,
    /// Messages said since the sending task was here last.
    said: usize,
    sender: Sender,
    /// Datagrams that the socket had no room for when they were due at once.
    left_over: Vec<Departure>,
}

/// What the sending task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// It will come by itself: it works, or was woken.
    Coming,
    /// It waits to be woken, at most until then.
    Asleep(Option<Duration>),
}

/// What is left to do after something was said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// To be sent at once by who said it.
    pub(super) departure: Option<Departure>,
    /// The sending task must be woken.
    pub(super) wakes: bool,
}

impl Desk {
    pub(super) fn new(clock: Clock, events: mpsc::Sender<MessengerEvent>) -> Self {
        Self {
            board: Switchboard::new(clock, events),
            haste: Haste::new(),
            said: 0,
            sender: Sender::Coming,
            left_over: Vec::new(),
        }
    }

    /// The switchboard, for what says nothing.
    pub(super) fn board(&mut self) -> &mut Switchboard {
        &mut self.board
    }

    /// Sends a request whose reply goes to `answer`; gives its number.
    pub(super) fn ask(
        &mut self,
        session: SessionId,
        class: Class,
        body: Vec<u8>,
        answer: oneshot::Sender<Vec<u8>>,
    ) -> Result<(u64, Said), NetError> {
        let request = self.board.ask(session, class, body, answer)?;
        Ok((request, self.after_saying()))
    }

    /// Sends a reply or a notice.
    pub(super) fn say(&mut self, session: SessionId, class: Class, message: Message) -> Result<Said, NetError> {
        self.board.say(session, class, message)?;
        Ok(self.after_saying())
    }

    /// Takes a datagram; gives how many messages it brought.
    pub(super) fn receive(&mut self, datagram: &mut [u8], from: SocketAddr) -> usize {
        self.board.receive(datagram, from)
    }

    /// So many messages came together; gives whether the sending task must be woken.
    pub(super) fn came(&mut self, messages: usize) -> bool {
        self.haste.came(messages);
        self.wakes()
    }

    /// The socket had no room for a datagram that was due at once.
    pub(super) fn keep(&mut self, departure: Departure) -> bool {
        if self.left_over.len() < LEFT_OVER_DATAGRAMS_MAX {
            self.left_over.push(departure);
        }
        self.wakes()
    }

    /// For the sending task: what is to be sent now. With fewer than `datagrams_max` it may sleep afterwards.
    pub(super) fn depart(&mut self, departures: &mut Vec<Departure>, datagrams_max: usize) -> Next {
        let next = self.board.depart(departures, datagrams_max);
        departures.splice(0..0, self.left_over.drain(..));
        if departures.len() >= datagrams_max {
            self.sender = Sender::Coming;
        } else {
            self.haste.gathered(std::mem::take(&mut self.said));
            self.sender = Sender::Asleep(next.timeout);
        }
        next
    }

    /// Whether the sending task must be woken, which the caller then does.
    pub(super) fn wakes(&mut self) -> bool {
        let Sender::Asleep(until) = self.sender else { return false };
        let is_earlier = self.board.next_timeout().is_some_and(|at| until.is_none_or(|until| at < until));
        let has_work = is_earlier || self.board.has_work() || !self.left_over.is_empty();
        if has_work {
            self.sender = Sender::Coming;
        }
        has_work
    }

    fn after_saying(&mut self) -> Said {
        self.said += 1;
        let is_due = self.haste.is_due() && self.left_over.is_empty();
        let departure = if is_due { self.board.depart_one() } else { None };
        Said { departure, wakes: self.wakes() }
    }
}

/// Datagrams kept while the socket is full; more are lost, and sent again by the rules.
const LEFT_OVER_DATAGRAMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::gmp::MessageKind;

    use super::*;
    use crate::messenger::{SessionKeys, Side};

    const SESSION: SessionId = SessionId(7);

    fn desk() -> Desk {
        let mut desk = Desk::new(Clock::start(), mpsc::channel(8).0);
        let peer = Some(SocketAddr::from(([10, 0, 0, 1], 7)));
        desk.board().add_session(SessionKeys { session: SESSION, key: [1; 32], side: Side::Opener, peer });
        desk
    }

    fn notice() -> Message {
        Message { kind: MessageKind::Notice, body: vec![1; 10] }
    }

    /// What the sending task finds.
    fn departures(desk: &mut Desk) -> Vec<Departure> {
        let mut departures = Vec::new();
        desk.depart(&mut departures, 16);
        departures
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_word_leaves_at_once_and_the_next_ones_share_a_datagram() {
        let mut desk = desk();
        assert_eq!(departures(&mut desk), []);
        assert!(desk.say(SESSION, Class::Ordinary, notice()).unwrap().departure.is_some());
        for _ in 0..5 {
            assert_eq!(desk.say(SESSION, Class::Ordinary, notice()).unwrap().departure, None);
        }
        assert_eq!(departures(&mut desk).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_sending_task_is_woken_once_and_only_for_work_or_an_earlier_time() {
        let mut desk = desk();
        assert!(!desk.wakes(), "it comes by itself at first");
        departures(&mut desk);
        assert!(!desk.wakes(), "there is nothing to do");
        // The word has left already: it is the time of its second sending that must be kept.
        assert!(desk.say(SESSION, Class::Ordinary, notice()).unwrap().wakes);
        assert!(!desk.say(SESSION, Class::Ordinary, notice()).unwrap().wakes, "it was woken already");
        departures(&mut desk);
        assert!(!desk.wakes(), "the time that it waits for has not changed");
        assert!(desk.say(SESSION, Class::Ordinary, notice()).unwrap().wakes, "a word waits for it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_full_socket_did_not_take_leaves_first_and_no_word_overtakes_it() {
        let mut desk = desk();
        departures(&mut desk);
        let first = desk.say(SESSION, Class::Ordinary, notice()).unwrap().departure.unwrap();
        departures(&mut desk);
        assert!(desk.keep(first.clone()), "the sending task must come for it");
        assert_eq!(desk.say(SESSION, Class::Ordinary, notice()).unwrap().departure, None);
        let left = departures(&mut desk);
        assert_eq!((left.len(), &left[0]), (2, &first));
        for _ in 0..2 * LEFT_OVER_DATAGRAMS_MAX {
            desk.keep(first.clone());
        }
        assert_eq!(departures(&mut desk).len(), LEFT_OVER_DATAGRAMS_MAX);
    }
}
