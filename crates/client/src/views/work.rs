//! Background work as JSON. It never starts any of it.

use serde::Serialize;

use super::rfc3339;
use crate::WorkRow;

/// A row of background work.
#[derive(Serialize)]
pub struct WorkView {
    pub at: String,
    pub work: &'static str,
    pub subject: String,
    pub state: &'static str,
    pub done: Option<u64>,
    pub left: Option<u64>,
    pub unit: &'static str,
    pub last_error: Option<String>,
    pub last_error_time: Option<String>,
    pub next: Option<String>,
    pub reported: String,
}

impl From<&WorkRow> for WorkView {
    fn from(row: &WorkRow) -> Self {
        let WorkRow { node, unix_millis, item } = row;
        Self {
            at: node.as_ref().map_or_else(|| "master".into(), ToString::to_string),
            work: item.kind.as_str(),
            subject: item.subject.clone(),
            state: item.state.as_str(),
            done: item.done,
            left: item.left,
            unit: item.kind.unit(),
            last_error: item.last_fault.as_ref().map(|fault| fault.message.clone()),
            last_error_time: item.last_fault.as_ref().map(|fault| rfc3339(fault.unix_millis)),
            next: item.next_unix_millis.map(rfc3339),
            reported: rfc3339(*unix_millis),
        }
    }
}
