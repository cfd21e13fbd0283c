//! The output folder of a job ([`sphere::OutputFolder`]): claims it, lists it, and carries out the steps of
//! [`sphere::OutputCommit`]. It never decides those steps.

use protocol::{
    JobId, Reason, Refusal, SectorPath, Status,
    message::client_master::{Entry, EntryKind},
};
use sphere::{CommitAction, NameChange, OutputEntry, OutputFolder, OutputSnapshot};

use crate::{Client, ClientError};

/// Makes sure, before any work is done, that the output can have this place.
pub(super) async fn claim(client: &Client, target: &SectorPath) -> Result<OutputFolder, ClientError> {
    let own = || {
        ClientError::Usage(format!("the output of a job cannot be `{target}`; give it a folder of its own below that"))
    };
    let folder = |was_there| OutputFolder::at(target, was_there).ok_or_else(own);
    let missing = folder(false)?;
    match client.find(target).await? {
        None => Ok(missing),
        Some(Entry { kind: EntryKind::File(_), .. }) => Err(exists(target, "is a file")),
        Some(_) if client.page(target, false, None).await?.entries.is_empty() => folder(true),
        Some(_) => Err(exists(target, "is not empty")),
    }
}

/// The contents of the folders of a run.
pub(super) async fn inspect_output(
    client: &Client,
    folder: &OutputFolder,
    job: JobId,
    run: u32,
) -> Result<OutputSnapshot, ClientError> {
    let [hidden, gathered, place] = folder.inspected_folders(job, run)?;
    let hidden = list_if_present(client, &hidden).await?;
    let gathered = list_if_present(client, &gathered).await?;
    Ok(OutputSnapshot { staging: hidden, gathered, target: list_if_present(client, &place).await? })
}

/// Carries out a step of the output commit other than inspecting and writing the error slice.
pub(super) async fn perform(
    client: &Client,
    folder: &OutputFolder,
    job: JobId,
    run: u32,
    action: &CommitAction,
) -> Result<(), ClientError> {
    match folder.request(job, run, action)? {
        Some(NameChange::Rename(rename)) => client.ask(rename).await,
        Some(NameChange::Remove(remove)) => client.ask(remove).await,
        None => Ok(()),
    }
}

/// Removes what the runs up to `run` left, as far as possible now.
pub(super) async fn remove_leftovers(client: &Client, folder: &OutputFolder, job: JobId, run: u32) {
    for folder in folder.leftovers(job, run).into_iter().flatten() {
        if let Err(error) = client.remove_now(&folder, true).await
            && error.status() != Status::NotFound
        {
            tracing::warn!(%folder, %error, "could not remove what a job left");
        }
    }
}

/// The entry of a part, once the output is in its place.
pub(super) fn final_entry(folder: &OutputFolder, mut entry: Entry) -> Result<Entry, ClientError> {
    if let Some(name) = entry.path.name() {
        entry.path = folder.file(name)?;
    }
    Ok(entry)
}

/// The contents of a folder; `None` if nothing is there. A file is listed as itself.
async fn list_if_present(client: &Client, folder: &SectorPath) -> Result<Option<Vec<OutputEntry>>, ClientError> {
    if client.find(folder).await?.is_none() {
        return Ok(None);
    }
    match client.list(folder).await {
        Ok(entries) => Ok(Some(entries.iter().map(OutputEntry::of).collect())),
        // It was removed in between.
        Err(error) if error.status() == Status::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn exists(target: &SectorPath, why: &str) -> ClientError {
    let message =
        format!("the output `{target}` {why}; remove it with `sector rm -r {target}` or choose another folder");
    Refusal::new(Reason::Exists, message).into()
}
