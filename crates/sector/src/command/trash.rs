//! `trash`: what was removed and can be restored. It works on names alone and never carries a file's bytes.

use client::{Client, SectorPath, views::TrashView};
use terminal::{
    failure::{Failure, Failures},
    show,
};

use crate::arguments::{Global, TrashCommand};

/// `sector trash`.
pub(crate) async fn run(cloud: &Client, command: TrashCommand, global: &Global) -> Result<(), Failure> {
    match command {
        TrashCommand::List { all_users } => list(cloud, all_users, global).await,
        TrashCommand::Restore { paths, to } => restore(cloud, &paths, to.as_deref()).await,
        TrashCommand::Empty { all_users } => Ok(cloud.empty_trash(all_users).await?),
        TrashCommand::ConfirmClock => Ok(cloud.confirm_clock().await?),
    }
}

async fn list(cloud: &Client, all_users: bool, global: &Global) -> Result<(), Failure> {
    let items = cloud.trash(all_users).await?;
    if global.json {
        return show::json(&items.iter().map(TrashView::from).collect::<Vec<_>>());
    }
    let rows: Vec<_> = items
        .into_iter()
        .map(|item| {
            let size = item.bytes.map_or_else(|| "-".into(), show::size);
            let removed = show::time(item.key.removed_unix_millis);
            let until = show::time(item.until_unix_millis);
            vec![size, item.user.to_string(), removed, until, item.from.to_string()]
        })
        .collect();
    show::table(&[" size", "user", "removed", "kept until", "path"], &rows);
    Ok(())
}

async fn restore(cloud: &Client, paths: &[String], to: Option<&str>) -> Result<(), Failure> {
    let to = to.map(SectorPath::parse).transpose()?;
    if to.is_some() && paths.len() > 1 {
        return Err(Failure::usage("--to is for one path; restore the others by themselves"));
    }
    let mut failures = Failures::default();
    for pattern in paths {
        let named = match cloud.removed_paths(pattern).await {
            Ok(named) => named,
            Err(error) => {
                failures.note(Err(Failure::from(error).about(pattern)));
                continue;
            }
        };
        if to.is_some() && named.len() > 1 {
            return Err(Failure::usage("--to is for one path; restore the others by themselves"));
        }
        for path in named {
            let to = match &to {
                Some(to) => Some(target(cloud, &path, to).await?),
                None => None,
            };
            let restored = cloud.restore(&path, to.as_ref()).await;
            failures.note(restored.map(drop).map_err(|error| Failure::from(error).about(&path)));
        }
    }
    failures.into_result()
}

/// Into the folder if it exists, else exactly there, as `mv` does.
async fn target(cloud: &Client, path: &SectorPath, to: &SectorPath) -> Result<SectorPath, Failure> {
    let is_folder = to.is_root() || cloud.find(to).await?.is_some_and(|entry| client::namespace::is_folder(&entry));
    match path.name() {
        Some(name) if is_folder => Ok(to.join(name)?),
        _ => Ok(to.clone()),
    }
}
