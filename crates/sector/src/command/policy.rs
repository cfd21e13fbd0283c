//! `policy`: the policy of a file, or of everything below a folder. It never enforces a policy: the master does.

use bytesize::ByteSize;
use client::{Client, Policy, PolicyStatus, SectorPath};
use serde::Serialize;
use terminal::{count_of, failure::Failure, show};

use crate::arguments::{Global, PolicyCommand};

/// `sector policy`.
pub(crate) async fn run(cloud: &Client, command: PolicyCommand, global: &Global) -> Result<(), Failure> {
    match command {
        PolicyCommand::Get { path } => {
            let path = SectorPath::parse(&path)?;
            print(&path, &cloud.policy(&path).await?, global)
        }
        PolicyCommand::Set { path, assignments: wishes } => {
            let path = SectorPath::parse(&path)?;
            let mut policy = cloud.policy(&path).await?.own;
            for wish in &wishes {
                apply(&mut policy, wish)?;
            }
            set(cloud, &path, policy).await
        }
        PolicyCommand::Clear { path, keys } => {
            let path = SectorPath::parse(&path)?;
            let mut policy = if keys.is_empty() { Policy::default() } else { cloud.policy(&path).await?.own };
            for key in &keys {
                apply(&mut policy, &format!("{key}="))?;
            }
            set(cloud, &path, policy).await
        }
    }
}

async fn set(cloud: &Client, path: &SectorPath, policy: Policy) -> Result<(), Failure> {
    for warning in cloud.set_policy(path, policy).await?.warnings {
        terminal::say!("sector: it is set, but {warning}");
    }
    Ok(())
}

/// Applies a `KEY=VALUE` to a policy; an empty value means: inherited from the folder above.
fn apply(policy: &mut Policy, wish: &str) -> Result<(), Failure> {
    let Some((key, value)) = wish.split_once('=') else {
        return Err(Failure::usage(format!("`{wish}` is not KEY=VALUE, for example `copies=3`")));
    };
    let wrong =
        |example: &str| Failure::usage(format!("`{value}` is no value of {key}; write for example `{example}`"));
    let is_empty = value.is_empty();
    match key {
        "copies" => policy.copies = number(value).ok_or_else(|| wrong("copies=3"))?,
        "sync-copies" => policy.sync_copies = number(value).ok_or_else(|| wrong("sync-copies=2"))?,
        "quota-files" => policy.quota_files = number(value).ok_or_else(|| wrong("quota-files=1000000"))?,
        "sites" => policy.sites_wanted = sites(value),
        "forbidden-sites" => policy.sites_forbidden = sites(value),
        "quota" => policy.quota_bytes = size(value).ok_or_else(|| wrong("quota=10TB"))?,
        "together" => {
            policy.colocated = match value {
                "" => None,
                "yes" | "true" => Some(true),
                "no" | "false" => Some(false),
                _ => return Err(wrong("together=yes")),
            };
        }
        "lifetime" => {
            let span = humantime::parse_duration(value).ok();
            let span = if is_empty { None } else { Some(span.ok_or_else(|| wrong("lifetime=30d"))?) };
            policy.lifetime_seconds = span.map(|span| span.as_secs());
        }
        "versions" => {
            let span = || humantime::parse_duration(value).map_err(|_| wrong("versions=3d"));
            policy.versions_seconds = match value {
                "" => None,
                "no" | "0" => Some(0),
                _ => Some(span()?.as_secs()),
            };
        }
        _ => return Err(Failure::usage(format!("a policy has no `{key}`; it has {KEYS}"))),
    }
    Ok(())
}

/// A number, or none for an empty text; `None` for anything else.
pub(super) fn number<T: TryFrom<u64>>(value: &str) -> Option<Option<T>> {
    if value.is_empty() { Some(None) } else { count_of(value).ok().map(Some) }
}

/// A size, or none for an empty text; `None` for anything else.
pub(super) fn size(value: &str) -> Option<Option<u64>> {
    if value.is_empty() { Some(None) } else { value.parse::<ByteSize>().ok().map(|size| Some(size.as_u64())) }
}

fn sites(value: &str) -> Vec<String> {
    value.split(',').filter(|site| !site.is_empty()).map(str::to_owned).collect()
}

fn print(path: &SectorPath, status: &PolicyStatus, global: &Global) -> Result<(), Failure> {
    let (own, effective) = (PolicyView::from(&status.own), PolicyView::from(&status.effective));
    if global.json {
        return show::json(&PolicyStatusView { path: path.to_string(), own, effective });
    }
    let rows: Vec<_> = own
        .rows()
        .into_iter()
        .zip(effective.rows())
        .map(|((key, own), (_, effective))| {
            let text = |value: Option<String>| value.unwrap_or_else(|| "-".into());
            vec![key.to_owned(), text(own), text(effective)]
        })
        .collect();
    show::table(&["", "says itself", "holds"], &rows);
    Ok(())
}

#[derive(Serialize)]
struct PolicyStatusView {
    path: String,
    own: PolicyView,
    effective: PolicyView,
}

/// A policy as JSON.
#[derive(Serialize)]
struct PolicyView {
    copies: Option<u8>,
    sync_copies: Option<u8>,
    sites: Vec<String>,
    forbidden_sites: Vec<String>,
    lifetime_seconds: Option<u64>,
    versions_seconds: Option<u64>,
    together: Option<bool>,
    quota_bytes: Option<u64>,
    quota_files: Option<u64>,
}

impl PolicyView {
    /// For people, in the order and with the names used for setting them.
    fn rows(&self) -> Vec<(&'static str, Option<String>)> {
        let list = |sites: &[String]| (!sites.is_empty()).then(|| sites.join(","));
        let span = |seconds| humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string();
        vec![
            ("copies", self.copies.map(|copies| copies.to_string())),
            ("sync-copies", self.sync_copies.map(|copies| copies.to_string())),
            ("sites", list(&self.sites)),
            ("forbidden-sites", list(&self.forbidden_sites)),
            ("lifetime", self.lifetime_seconds.map(span)),
            ("versions", self.versions_seconds.map(|seconds| if seconds == 0 { "no".into() } else { span(seconds) })),
            ("together", self.together.map(|together| if together { "yes".into() } else { "no".into() })),
            ("quota", self.quota_bytes.map(show::size)),
            ("quota-files", self.quota_files.map(|files| files.to_string())),
        ]
    }
}

impl From<&Policy> for PolicyView {
    fn from(policy: &Policy) -> Self {
        Self {
            copies: policy.copies,
            sync_copies: policy.sync_copies,
            sites: policy.sites_wanted.clone(),
            forbidden_sites: policy.sites_forbidden.clone(),
            lifetime_seconds: policy.lifetime_seconds,
            versions_seconds: policy.versions_seconds,
            together: policy.colocated,
            quota_bytes: policy.quota_bytes,
            quota_files: policy.quota_files,
        }
    }
}

const KEYS: &str = "copies, sync-copies, sites, forbidden-sites, lifetime, versions, together, quota, quota-files";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Status;

    use super::*;

    #[test]
    fn every_key_is_taken_and_taken_back() {
        let mut policy = Policy::default();
        let wishes = [
            "copies=3",
            "sync-copies=2",
            "sites=jhu,uic",
            "forbidden-sites=x",
            "lifetime=30d",
            "versions=3d",
            "together=yes",
            "quota=10TB",
            "quota-files=1000000",
        ];
        wishes.iter().for_each(|wish| apply(&mut policy, wish).unwrap());
        let expected = Policy {
            copies: Some(3),
            sync_copies: Some(2),
            sites_wanted: vec!["jhu".into(), "uic".into()],
            sites_forbidden: vec!["x".into()],
            lifetime_seconds: Some(30 * 86_400),
            colocated: Some(true),
            quota_bytes: Some(10_000_000_000_000),
            quota_files: Some(1_000_000),
            versions_seconds: Some(3 * 86_400),
        };
        assert_eq!(policy, expected);
        for none in ["versions=no", "versions=0", "versions=0s"] {
            apply(&mut policy, none).unwrap();
            assert_eq!(policy.versions_seconds, Some(0));
            assert!(PolicyView::from(&policy).rows().contains(&("versions", Some("no".into()))));
        }
        for wish in wishes {
            apply(&mut policy, &wish[..=wish.find('=').unwrap()]).unwrap();
        }
        assert!(policy.is_empty());
    }

    #[test]
    fn nonsense_is_a_usage_error_that_shows_how() {
        let nonsense = [
            "copies",
            "copies=many",
            "copies=300",
            "lifetime=long",
            "together=maybe",
            "quota=big",
            "x=1",
            "versions=all",
        ];
        for wish in nonsense {
            let failure = apply(&mut Policy::default(), wish).unwrap_err();
            assert_eq!(failure.reason.status(), Status::Usage, "{wish}");
            assert!(failure.message.contains("for example") || failure.message.contains(KEYS), "{}", failure.message);
        }
    }
}
