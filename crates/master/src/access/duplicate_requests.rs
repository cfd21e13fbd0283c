//! Finds requests that were made before, so that each change is made once. Serves clients that lost their session, or
//! their master, before an answer came: they ask again under the same number and get the first answer. It is saved with
//! the change itself. A refusal changed nothing, and is never remembered.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    time::Duration,
};

use protocol::{
    Now, UserName,
    message::{client_master::ClientReply, request::RequestId},
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{ANSWERS_TABLE, SessionCaller, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
};

/// The answers of the last minutes, and the changes that are not answered yet. Every change passes here, so its key is
/// two numbers and is found by their hash.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    changes: HashMap<ChangeKey, Change>,
    /// Those whose answer is known, oldest first, with the time on the monotonic clock at which each is forgotten.
    queue: VecDeque<(Duration, ChangeKey)>,
    /// What each of those who asked first asked for.
    asked_first: HashMap<SessionCaller, ChangeKey>,
    /// Those who have asked for a change in this master's life, and the number of each: his place in the list.
    users: Vec<UserName>,
    numbers: BTreeMap<UserName, usize>,
    last_row: u64,
}

/// A user's number, and that of the change.
type ChangeKey = (usize, RequestId);

#[derive(Debug)]
struct Change {
    /// When it was first asked for, on the monotonic clock.
    begun: Duration,
    /// Who is answered: the caller who asked last. `None` once the answer went out.
    receiver: Option<SessionCaller>,
    answered: Option<Answered>,
}

#[derive(Debug)]
struct Answered {
    reply: ClientReply,
    /// Its row; `None` for one that changed nothing durable.
    row: Option<u64>,
}

/// The stored form. Field order is the format.
#[derive(Debug, Serialize, Deserialize)]
struct AnswerRow {
    by: UserName,
    id: RequestId,
    reply: ClientReply,
}

/// What is known of a change that somebody asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KnownRequest {
    /// Nothing: it is to be made.
    New,
    /// It was asked for, and will be answered to this caller.
    UnderWay,
    /// It was made.
    Answered(Box<ClientReply>),
}

impl Answers {
    /// Takes an answer from its row.
    pub(crate) fn load(&mut self, now: Now, row: &StoredRow) -> Result<(), MasterError> {
        let key = <[u8; 8]>::try_from(row.key.as_slice()).ok().map(u64::from_be_bytes);
        let (number, AnswerRow { by, id, reply }) = key.zip(decode_row(&row.value)).ok_or_else(|| damaged_row(row))?;
        self.last_row = self.last_row.max(number);
        let of = (self.number_of(&by), id);
        self.changes.insert(of, Change { begun: now.monotonic, receiver: None, answered: None });
        self.keep(now, of, Answered { reply, row: Some(number) });
        Ok(())
    }

    /// Somebody asks for a change.
    pub(crate) fn begin(&mut self, now: Now, from: SessionCaller, by: &UserName, id: RequestId) -> KnownRequest {
        let of = (self.number_of(by), id);
        match self.changes.entry(of) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                if let Some(answered) = &known.answered {
                    return KnownRequest::Answered(Box::new(answered.reply.clone()));
                }
                known.receiver = Some(from);
                KnownRequest::UnderWay
            }
            Entry::Vacant(new) => {
                new.insert(Change { begun: now.monotonic, receiver: Some(from), answered: None });
                self.asked_first.insert(from, of);
                KnownRequest::New
            }
        }
    }

    /// A change of this user is saved together with this answer: returns the row that remembers it, and those to be
    /// forgotten.
    pub(crate) fn save(&mut self, now: Now, first: SessionCaller, reply: &ClientReply) -> Vec<RowChange> {
        let Some(of) = self.asked_first.get(&first).copied() else { return Vec::new() };
        if matches!(reply, ClientReply::Refused(_)) {
            return Vec::new();
        }
        self.last_row += 1;
        let row = AnswerRow { by: self.users[of.0].clone(), id: of.1, reply: reply.clone() };
        let mut changes =
            vec![RowChange::Set { table: ANSWERS_TABLE, key: key(self.last_row), value: encode_row(&row) }];
        changes.extend(self.keep(now, of, Answered { reply: row.reply, row: Some(self.last_row) }));
        changes
    }

    /// An answer goes out: returns who gets it.
    pub(crate) fn finish(&mut self, first: SessionCaller, reply: &ClientReply) -> SessionCaller {
        let Some(of) = self.asked_first.remove(&first) else { return first };
        let Some(change) = self.changes.get_mut(&of) else { return first };
        let receiver = change.receiver.take().unwrap_or(first);
        if change.answered.is_none() {
            if matches!(reply, ClientReply::Refused(_)) || self.queue.len() >= ANSWERS_MAX {
                self.changes.remove(&of);
            } else {
                // It has no row. Rows of those that make room for it go with the next change.
                change.answered = Some(Answered { reply: reply.clone(), row: None });
                self.queue.push_back((change.begun + ANSWER_LIFE, of));
            }
        }
        receiver
    }

    /// Keeps an answer; returns the changes that remove the rows of old ones.
    fn keep(&mut self, now: Now, of: ChangeKey, answered: Answered) -> Vec<RowChange> {
        if let Some(change) = self.changes.get_mut(&of) {
            change.answered = Some(answered);
            self.queue.push_back((now.monotonic + ANSWER_LIFE, of));
        }
        let mut changes = Vec::new();
        while let Some((end, _)) = self.queue.front()
            && (*end <= now.monotonic || self.queue.len() > ANSWERS_MAX)
            && let Some((_, oldest)) = self.queue.pop_front()
        {
            let row = self.changes.remove(&oldest).and_then(|change| change.answered).and_then(|it| it.row);
            changes.extend(row.map(|row| RowChange::Remove { table: ANSWERS_TABLE, key: key(row) }));
        }
        changes
    }

    fn number_of(&mut self, user: &UserName) -> usize {
        if let Some(number) = self.numbers.get(user) {
            return *number;
        }
        self.numbers.insert(user.clone(), self.users.len());
        self.users.push(user.clone());
        self.users.len() - 1
    }
}

fn key(row: u64) -> Vec<u8> {
    row.to_be_bytes().to_vec()
}

/// How long an answer is remembered: longer than any client asks again.
const ANSWER_LIFE: Duration = Duration::from_secs(300);
/// Answers remembered, some 300 bytes each in memory and on disk: those of a minute with a thousand changes a second.
const ANSWERS_MAX: usize = 65_536;
