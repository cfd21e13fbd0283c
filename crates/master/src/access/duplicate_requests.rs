//! Finds requests that were made before, so that each change is made once. Serves clients that lost their session, or
//! their master, before an answer came: they ask again under the same number and get the first answer. It is saved with
//! the change itself. A refusal changed nothing, and is never remembered.

use std::{
    collections::{BTreeMap, VecDeque},
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

/// The answers of the last minutes, and the changes that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// By user and number.
    given: BTreeMap<(UserName, RequestId), Answered>,
    /// The same, oldest first, with the time on the monotonic clock at which each is forgotten.
    queue: VecDeque<(Duration, (UserName, RequestId))>,
    under_way: BTreeMap<(UserName, RequestId), UnderWay>,
    /// What each of those who asked first asked for.
    asked_first: BTreeMap<SessionCaller, (UserName, RequestId)>,
    last_row: u64,
}

#[derive(Debug)]
struct Answered {
    reply: ClientReply,
    /// Its row; `None` for one that changed nothing durable.
    row: Option<u64>,
}

#[derive(Debug)]
struct UnderWay {
    /// Who is answered: the caller who asked last.
    receiver: SessionCaller,
    /// When it was first asked for, on the monotonic clock.
    begun: Duration,
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
        self.keep(now, (by, id), Answered { reply, row: Some(number) });
        Ok(())
    }

    /// Somebody asks for a change.
    pub(crate) fn begin(&mut self, now: Now, from: SessionCaller, by: &UserName, id: RequestId) -> KnownRequest {
        let of = (by.clone(), id);
        if let Some(answered) = self.given.get(&of) {
            return KnownRequest::Answered(Box::new(answered.reply.clone()));
        }
        if let Some(open) = self.under_way.get_mut(&of) {
            open.receiver = from;
            return KnownRequest::UnderWay;
        }
        self.asked_first.insert(from, of.clone());
        self.under_way.insert(of, UnderWay { receiver: from, begun: now.monotonic });
        KnownRequest::New
    }

    /// A change is saved together with this answer: returns the row that remembers it, and those to be forgotten.
    pub(crate) fn save(&mut self, now: Now, first: SessionCaller, reply: &ClientReply) -> Vec<RowChange> {
        let Some((by, id)) = self.asked_first.get(&first).cloned() else { return Vec::new() };
        if matches!(reply, ClientReply::Refused(_)) {
            return Vec::new();
        }
        self.last_row += 1;
        let row = AnswerRow { by: by.clone(), id, reply: reply.clone() };
        let mut changes =
            vec![RowChange::Set { table: ANSWERS_TABLE, key: key(self.last_row), value: encode_row(&row) }];
        changes.extend(self.keep(now, (by, id), Answered { reply: row.reply, row: Some(self.last_row) }));
        changes
    }

    /// An answer goes out: returns who gets it.
    pub(crate) fn finish(&mut self, first: SessionCaller, reply: &ClientReply) -> SessionCaller {
        let Some(of) = self.asked_first.remove(&first) else { return first };
        let Some(open) = self.under_way.remove(&of) else { return first };
        if !matches!(reply, ClientReply::Refused(_)) && !self.given.contains_key(&of) {
            // It has no row. Rows of those that make room for it go with the next change.
            self.keep_without_row(open.begun, of, reply.clone());
        }
        open.receiver
    }

    fn keep_without_row(&mut self, begun: Duration, of: (UserName, RequestId), reply: ClientReply) {
        if self.given.len() < ANSWERS_MAX {
            self.queue.push_back((begun + ANSWER_LIFE, of.clone()));
            self.given.insert(of, Answered { reply, row: None });
        }
    }

    /// Keeps an answer; returns the changes that remove the rows of old ones.
    fn keep(&mut self, now: Now, of: (UserName, RequestId), answered: Answered) -> Vec<RowChange> {
        self.queue.push_back((now.monotonic + ANSWER_LIFE, of.clone()));
        self.given.insert(of, answered);
        let mut changes = Vec::new();
        while let Some((end, _)) = self.queue.front()
            && (*end <= now.monotonic || self.given.len() > ANSWERS_MAX)
            && let Some((_, oldest)) = self.queue.pop_front()
        {
            let row = self.given.remove(&oldest).and_then(|answered| answered.row);
            changes.extend(row.map(|row| RowChange::Remove { table: ANSWERS_TABLE, key: key(row) }));
        }
        changes
    }
}

fn key(row: u64) -> Vec<u8> {
    row.to_be_bytes().to_vec()
}

/// How long an answer is remembered: longer than any client asks again.
const ANSWER_LIFE: Duration = Duration::from_secs(300);
/// Answers remembered, some 300 bytes each in memory and on disk: those of a minute with a thousand changes a second.
const ANSWERS_MAX: usize = 65_536;
