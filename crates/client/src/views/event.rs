//! Events as JSON. It never leaves out a gap.

use serde::Serialize;

use super::rfc3339;
use crate::admin::events::EventItem;

/// An event, or a gap. Fields that an event does not have are left out.
#[derive(Serialize)]
pub struct EventView {
    pub number: u64,
    /// Absent for a gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    pub kind: &'static str,
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Of a gap: the last number that the reader had seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The kind of a gap, which is no event.
pub const GAP: &str = "gap";

impl From<&EventItem> for EventView {
    fn from(item: &EventItem) -> Self {
        let number = item.number();
        let none = Self {
            number,
            time: None,
            kind: GAP,
            subject: "events".into(),
            user: None,
            version: None,
            bytes: None,
            digest: None,
            from: None,
            node: None,
            cause: None,
            count: None,
            state: None,
            after: None,
        };
        match item {
            EventItem::Gap(gap) => Self { after: gap.after, ..none },
            EventItem::Event(event) => {
                let fields = event.fields.clone();
                Self {
                    time: Some(rfc3339(event.unix_millis)),
                    kind: event.kind.as_str(),
                    subject: event.subject.clone(),
                    user: fields.user.map(|user| user.to_string()),
                    version: fields.version.map(|version| version.0),
                    bytes: fields.bytes,
                    digest: fields.digest.map(|digest| digest.to_string()),
                    from: fields.from.map(|from| from.to_string()),
                    node: fields.node.map(|node| node.to_string()),
                    cause: fields.cause,
                    count: fields.count,
                    state: fields.state,
                    ..none
                }
            }
        }
    }
}
