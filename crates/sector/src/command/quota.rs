//! `quota`: how much users and folders hold, and how much they may. It never enforces a quota: the master does.

use client::{Client, QuotaOf, views::QuotaView};
use protocol::UserName;
use terminal::{failure::Failure, show};

use super::{
    known_names::{check_known_user, check_user},
    policy::{number, size},
};
use crate::arguments::{Global, QuotaCommand};

/// `sector quota`.
pub(crate) async fn run(cloud: &Client, command: QuotaCommand, global: &Global) -> Result<(), Failure> {
    match command {
        QuotaCommand::List => list(cloud, global).await,
        QuotaCommand::Set { user, limits, unknown } => {
            if !unknown {
                check_user(cloud, &user).await?;
            }
            let (mut bytes, mut files) = limits_of(cloud, &user).await?;
            for limit in &limits {
                apply(&mut bytes, &mut files, limit)?;
            }
            Ok(cloud.set_quota(&user, bytes, files).await?)
        }
        QuotaCommand::Clear { user } => {
            // A user who is gone may have left a quota behind.
            if limits_of(cloud, &user).await? == (None, None) {
                check_known_user(cloud, &user).await?;
            }
            Ok(cloud.set_quota(&user, None, None).await?)
        }
    }
}

/// The bytes and files that a user may keep.
async fn limits_of(cloud: &Client, user: &UserName) -> Result<(Option<u64>, Option<u64>), Failure> {
    let of = QuotaOf::User(user.clone());
    let known = cloud.quotas().await?.into_iter().find(|quota| quota.of == of);
    Ok(known.map_or((None, None), |quota| (quota.bytes, quota.files)))
}

/// Applies a `KEY=VALUE`; an empty value means no limit.
fn apply(bytes: &mut Option<u64>, files: &mut Option<u64>, limit: &str) -> Result<(), Failure> {
    let wrong = || Failure::usage(format!("`{limit}` is no quota; write for example `bytes=1TB` or `files=1000000`"));
    match limit.split_once('=').ok_or_else(wrong)? {
        ("bytes", value) => *bytes = size(value).ok_or_else(wrong)?,
        ("files", value) => *files = number(value).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    }
    Ok(())
}

async fn list(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let quotas = cloud.quotas().await?;
    let views = quotas.into_iter().map(QuotaView::from);
    if global.json {
        return show::json(&views.collect::<Vec<_>>());
    }
    let rows: Vec<_> = views
        .map(|view| {
            let of = |most: Option<String>| most.unwrap_or_else(|| "any".into());
            let who = view.user.or(view.folder).unwrap_or_default();
            let (bytes, files) = (view.bytes.map(show::size), view.files.map(|files| files.to_string()));
            vec![show::size(view.used_bytes), of(bytes), view.used_files.to_string(), of(files), who]
        })
        .collect();
    show::table(&[" used", " of", " files", " of", "user or folder"], &rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn limits_are_taken_one_by_one_and_nonsense_is_refused() {
        let (mut bytes, mut files) = (Some(1), None);
        apply(&mut bytes, &mut files, "files=7").unwrap();
        assert_eq!((bytes, files), (Some(1), Some(7)));
        apply(&mut bytes, &mut files, "bytes=1KB").unwrap();
        apply(&mut bytes, &mut files, "files=1.5k").unwrap();
        assert_eq!(files, Some(1_500));
        apply(&mut bytes, &mut files, "files=").unwrap();
        assert_eq!((bytes, files), (Some(1_000), None));
        for limit in ["bytes", "bytes=x", "files=-1", "copies=3"] {
            assert!(apply(&mut bytes, &mut files, limit).is_err(), "{limit}");
        }
    }
}
