//! Requests about people: users, tokens, quotas, rights, and the audit record. The cloud decides who may ask. They never
//! show a secret.

use std::collections::VecDeque;

use client::{
    UserName,
    audit::{AuditFilter, AuditKind, AuditQuery},
    views::{AclView, GroupView, QuotaView, TokenView, UserView},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    answer::{Answer, ApiError, document},
    ask::{Asked, cloud_path},
    caller::Caller,
    file_requests::PathQuery,
};

pub(crate) async fn users(caller: Caller) -> Answer {
    document(&caller.client.users().await?.into_iter().map(UserView::from).collect::<Vec<_>>())
}

pub(crate) async fn groups(caller: Caller) -> Answer {
    document(&caller.client.groups().await?.into_iter().map(GroupView::from).collect::<Vec<_>>())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokensQuery {
    user: UserName,
}

pub(crate) async fn tokens(caller: Caller, Asked(query): Asked<TokensQuery>) -> Answer {
    document(&caller.client.tokens(&query.user).await?.into_iter().map(TokenView::from).collect::<Vec<_>>())
}

pub(crate) async fn quotas(caller: Caller) -> Answer {
    document(&caller.client.quotas().await?.into_iter().map(QuotaView::from).collect::<Vec<_>>())
}

pub(crate) async fn acl(caller: Caller, Asked(query): Asked<PathQuery>) -> Answer {
    document(&AclView::from(&caller.client.acl(&cloud_path(&query.path)?).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditRequest {
    since: Option<String>,
    until: Option<String>,
    user: Option<UserName>,
    kind: Option<String>,
    path: Option<String>,
    limit: Option<usize>,
}

/// The newest lines that are wanted, oldest first.
pub(crate) async fn audit(caller: Caller, Asked(asked): Asked<AuditRequest>) -> Answer {
    let kind = asked.kind.as_deref().map(|kind| {
        AuditKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(|| ApiError::invalid(format!("`{kind}` is no kind of audit lines")))
    });
    let filter = AuditFilter {
        kinds: kind.transpose()?.into_iter().collect(),
        path: asked.path,
        until_unix_millis: asked.until.as_deref().map(unix_millis).transpose()?,
        all: false,
    };
    let since_unix_millis = asked.since.as_deref().map(unix_millis).transpose()?;
    let mut query = AuditQuery { after: 0, since_unix_millis, user: asked.user };
    let most = asked.limit.unwrap_or(AUDIT_LINES).clamp(1, AUDIT_LINES_MAX);
    let mut lines: VecDeque<Value> = VecDeque::new();
    loop {
        let page = caller.client.audit_page(query.clone()).await?;
        query.after = query.after.max(page.last);
        for line in page.lines {
            let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
            if filter.wants(&line) {
                if lines.len() == most {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        }
        if !page.more {
            return document(&lines);
        }
    }
}

fn unix_millis(text: &str) -> Result<u64, ApiError> {
    let wrong = || ApiError::invalid(format!("`{text}` is no time such as 2026-01-31T08:00:00Z"));
    client::views::parse_rfc3339(text).ok_or_else(wrong)
}

/// Lines of an answer, if nothing else is asked for.
const AUDIT_LINES: usize = 200;
/// At most.
const AUDIT_LINES_MAX: usize = 10_000;
