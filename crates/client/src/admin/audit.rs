//! The audit record, for administrators (door 2). The security server keeps it; this file never reads it directly.

pub use protocol::message::audit::{AuditKind, AuditQuery};
use protocol::message::{
    audit::{AuditCheck, AuditPage},
    request::VerifyAuditRequest,
};
use serde_json::Value;

use crate::{Client, ClientError};

impl Client {
    /// A page of the record's lines, oldest first.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `Unavailable` if the security server cannot be reached.
    pub async fn audit_page(&self, query: AuditQuery) -> Result<AuditPage, ClientError> {
        self.ask(query).await
    }

    /// Has the whole chain checked against the heads that the security server and the master store.
    ///
    /// # Errors
    /// As [`audit_page`](Self::audit_page).
    pub async fn verify_audit(&self) -> Result<AuditCheck, ClientError> {
        self.ask(VerifyAuditRequest).await
    }
}

/// Which lines of the record a person wants to see, beyond what the [query](AuditQuery) chooses.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Of these kinds; of all, if there is none.
    pub kinds: Vec<AuditKind>,
    /// About this path, or what is below it.
    pub path: Option<String>,
    /// From before this time, in milliseconds since the Unix epoch.
    pub until_unix_millis: Option<u64>,
    /// Also the sessions that commands open with a token, which are most of all lines.
    pub all: bool,
}

impl AuditFilter {
    /// Whether a line is wanted. What is no line of a record always is: it says that something is wrong.
    pub fn wants(&self, line: &Value) -> bool {
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
        if !line.is_object() {
            return true;
        }
        let is_session = (text("what"), text("note"), text("outcome")) == ("open session", "with a token", "done");
        let is_below = |path: &str| {
            let path = path.trim_end_matches('/');
            !text("object").is_empty()
                && text("object").strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_before = |until| line.get("time_unix_millis").and_then(Value::as_u64).is_none_or(|at| at < until);
        (self.all || !is_session)
            && self.until_unix_millis.is_none_or(is_before)
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.as_str() == text("kind")))
            && self.path.as_deref().is_none_or(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen_by_kind_and_path_and_sessions_with_a_token_are_left_out() {
        let asked = |kinds: &[AuditKind], path: Option<&str>, all| AuditFilter {
            kinds: kinds.to_vec(),
            path: path.map(ToOwned::to_owned),
            until_unix_millis: None,
            all,
        };
        let line = |kind: &str, what: &str, object: &str, note: &str| serde_json::json!({"kind": kind, "what": what, "object": object, "note": note, "outcome": "done"});
        let session = line("login", "open session", "", "with a token");
        assert!(!asked(&[], None, false).wants(&session) && asked(&[], None, true).wants(&session));
        assert!(asked(&[], None, false).wants(&line("login", "open session", "", "with a password")));
        let grant = line("grant", "set acl", "/a/b", "");
        let both = [AuditKind::Grant, AuditKind::Job];
        assert!(asked(&both, Some("/a"), false).wants(&grant));
        assert!(asked(&[], Some("/a/b/"), false).wants(&grant) && asked(&[], Some("/"), false).wants(&grant));
        assert!(!asked(&[], Some("/a/bc"), false).wants(&grant));
        assert!(!asked(&[], Some("/a/b/c"), false).wants(&grant));
        assert!(!asked(&[AuditKind::Job], None, false).wants(&grant));
        assert!(asked(&both, Some("/x"), false).wants(&Value::String("no json".into())));
        let until = |millis| AuditFilter { until_unix_millis: Some(millis), ..AuditFilter::default() };
        let at_seven = serde_json::json!({"kind": "grant", "time_unix_millis": 7});
        assert!(until(8).wants(&at_seven) && !until(7).wants(&at_seven));
    }
}
