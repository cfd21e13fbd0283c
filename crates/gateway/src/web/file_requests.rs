//! Requests about names: listing, folders, renames, removals, the trash, and replaced contents. They never carry a
//! file's bytes.

use client::{
    ClientError, SectorPath,
    views::{EntryView, StatView, TrashView, UsageView, VersionView},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::{Answer, ApiError, document, done},
    ask::{Asked, Document, cloud_path},
    caller::Caller,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathQuery {
    pub(crate) path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    path: String,
    after: Option<String>,
    limit: Option<usize>,
}

/// A page of a folder. A file is a list of itself.
pub(crate) async fn list(caller: Caller, Asked(query): Asked<ListQuery>) -> Answer {
    let path = cloud_path(&query.path)?;
    let after = query.after.as_deref().map(|name| path.join(name).map_err(ClientError::from)).transpose()?;
    let mut page = caller.client.page(&path, false, after).await.map_err(|error| ApiError::from(error).about(&path))?;
    if let Some(limit) = query.limit.filter(|limit| *limit < page.entries.len()) {
        page.entries.truncate(limit.max(1));
        (page.more, page.next) = (true, None);
    }
    let entries: Vec<_> = page.entries.iter().map(EntryView::from).collect();
    let last = || page.entries.last().filter(|_| page.more).map(|entry| &entry.path);
    let next = page.next.as_ref().or_else(last).and_then(SectorPath::name);
    document(&json!({"entries": entries, "next": next}))
}

pub(crate) async fn stat(caller: Caller, Asked(query): Asked<PathQuery>) -> Answer {
    let path = cloud_path(&query.path)?;
    let status = caller.client.stat(&path).await.map_err(|error| ApiError::from(error).about(&path))?;
    document(&StatView::from(&status))
}

pub(crate) async fn usage(caller: Caller, Asked(query): Asked<PathQuery>) -> Answer {
    let path = cloud_path(&query.path)?;
    document(&UsageView::of(&path, caller.client.usage(&path).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveQuery {
    path: String,
    #[serde(default)]
    recursive: bool,
}

pub(crate) async fn remove(caller: Caller, Asked(query): Asked<RemoveQuery>) -> Answer {
    caller.session()?;
    let path = cloud_path(&query.path)?;
    caller.client.remove(&path, query.recursive).await.map_err(|error| ApiError::from(error).about(&path))?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFolder {
    path: String,
    #[serde(default)]
    parents: bool,
}

pub(crate) async fn make_folder(caller: Caller, Document(new): Document<NewFolder>) -> Answer {
    caller.session()?;
    let path = cloud_path(&new.path)?;
    caller.client.make_folder(&path, new.parents).await.map_err(|error| ApiError::from(error).about(&path))?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renaming {
    from: String,
    to: String,
}

pub(crate) async fn rename(caller: Caller, Document(asked): Document<Renaming>) -> Answer {
    caller.session()?;
    let (from, to) = (cloud_path(&asked.from)?, cloud_path(&asked.to)?);
    caller.client.rename(&from, &to).await.map_err(|error| ApiError::from(error).about(&from))?;
    done()
}

pub(crate) async fn trash(caller: Caller) -> Answer {
    document(&caller.client.trash(false).await?.iter().map(TrashView::from).collect::<Vec<_>>())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restoring {
    path: String,
    to: Option<String>,
}

pub(crate) async fn restore(caller: Caller, Document(asked): Document<Restoring>) -> Answer {
    caller.session()?;
    let path = cloud_path(&asked.path)?;
    let to = asked.to.as_deref().map(cloud_path).transpose()?;
    let entry = caller.client.restore(&path, to.as_ref()).await.map_err(|error| ApiError::from(error).about(&path))?;
    document(&EntryView::from(&entry))
}

pub(crate) async fn empty_trash(caller: Caller) -> Answer {
    caller.session()?;
    caller.client.empty_trash(false).await?;
    done()
}

pub(crate) async fn versions(caller: Caller, Asked(query): Asked<PathQuery>) -> Answer {
    let path = cloud_path(&query.path)?;
    let versions = caller.client.versions(&path).await.map_err(|error| ApiError::from(error).about(&path))?;
    document(&versions.iter().map(VersionView::from).collect::<Vec<_>>())
}
