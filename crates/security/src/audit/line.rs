//! One line of the audit record: an event as JSON, sealed with the hash of the line before it. The hash of a line is
//! the SHA-256 of the hash before it (32 bytes) and of the line without its last member, `hash`. So anyone with the
//! files can check them with a few lines of any language. This file never reads or writes a file.

use protocol::message::audit::{AuditEvent, AuditHead};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// The content of a line without its hash; the members are in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    /// 1 for the first line of the record, then one more for each.
    pub(super) number: u64,
    /// When it happened, in milliseconds since the Unix epoch.
    pub(super) time_unix_millis: u64,
    pub(super) kind: String,
    pub(super) who: String,
    pub(super) from: String,
    pub(super) what: String,
    pub(super) object: String,
    pub(super) outcome: String,
    pub(super) note: String,
    /// The writer of the event, and its number there: 0 and 0 for the security server's own.
    pub(super) writer: String,
    pub(super) sequence: u64,
}

/// The writer of an event, and the event's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventOrigin {
    pub(super) writer: u64,
    pub(super) sequence: u64,
}

impl Content {
    pub(super) fn of(number: u64, event: AuditEvent, origin: EventOrigin) -> Self {
        Self {
            number,
            time_unix_millis: event.unix_millis,
            kind: event.kind.as_str().into(),
            who: event.who,
            from: event.from,
            what: event.what,
            object: event.object,
            outcome: event.outcome.as_str().into(),
            note: event.note,
            writer: format!("{:016x}", origin.writer),
            sequence: origin.sequence,
        }
    }

    pub(super) fn origin(&self) -> Option<EventOrigin> {
        let writer = u64::from_str_radix(&self.writer, 16).ok()?;
        Some(EventOrigin { writer, sequence: self.sequence })
    }

    /// The line after `before`, without its line end, and the record's head after it.
    pub(super) fn seal(&self, before: AuditHead) -> Result<(String, AuditHead), serde_json::Error> {
        let body = serde_json::to_string(self)?;
        let hash = hash(before, &body);
        let open = body.strip_suffix('}').unwrap_or(&body);
        Ok((format!("{open}{HASH_MEMBER}{}\"}}", hex(&hash)), AuditHead { number: self.number, hash }))
    }
}

/// The content of a line, and the head it claims; only [`follows`] checks the claim.
pub(super) fn open(line: &str) -> Result<(Content, AuditHead), String> {
    let (body, hash) = split(line).ok_or("it does not end with a hash")?;
    let content: Content = serde_json::from_str(&body).map_err(|error| format!("it is no event: {error}"))?;
    Ok((content.clone(), AuditHead { number: content.number, hash }))
}

/// Whether a line's hash is that of `before` and the line itself.
pub(super) fn follows(line: &str, before: AuditHead) -> bool {
    split(line).is_some_and(|(body, claimed)| hash(before, &body) == claimed)
}

/// A line without its hash, and the hash.
fn split(line: &str) -> Option<(String, [u8; 32])> {
    let at = line.len().checked_sub(HASH_MEMBER.len() + 64 + 2)?;
    let hash = line.get(at..)?.strip_prefix(HASH_MEMBER)?.strip_suffix("\"}")?;
    Some((format!("{}}}", line.get(..at)?), unhex(hash)?))
}

fn hash(before: AuditHead, body: &str) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(&before.hash);
    context.update(body.as_bytes());
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

pub(super) fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(out)
}

/// How the last member of a line begins.
const HASH_MEMBER: &str = ",\"hash\":\"";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::message::audit::{AuditKind, AuditOutcome};

    use super::*;

    fn content() -> Content {
        let event = AuditEvent {
            unix_millis: 1_700_000_000_000,
            kind: AuditKind::Grant,
            who: "alice".into(),
            from: "192.0.2.7".into(),
            what: "set quota".into(),
            object: "two\nlines \"and\" ü".into(),
            outcome: AuditOutcome::Done,
            note: String::new(),
        };
        Content::of(7, event, EventOrigin { writer: 0xfeed, sequence: 3 })
    }

    #[test]
    fn a_line_is_one_line_and_says_what_was_put_into_it() {
        let (line, head) = content().seal(AuditHead::EMPTY).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(open(&line).unwrap(), (content(), head));
        assert_eq!(open(&line).unwrap().0.origin(), Some(EventOrigin { writer: 0xfeed, sequence: 3 }));
        assert!(follows(&line, AuditHead::EMPTY));
        assert!(!follows(&line, AuditHead { number: 0, hash: [1; 32] }), "another line stood before it");
    }

    #[test]
    fn a_line_altered_in_any_byte_follows_no_more() {
        let (line, _) = content().seal(AuditHead::EMPTY).unwrap();
        for at in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(altered) = String::from_utf8(bytes) {
                assert!(!follows(&altered, AuditHead::EMPTY), "byte {at}");
            }
        }
        assert!(!follows("", AuditHead::EMPTY) && open("{}").is_err() && open(&line[1..]).is_err());
    }
}
