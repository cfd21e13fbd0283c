//! `rebuild` and `master rebuild`: the names after the master's journal was lost.

use client::Client;
use daemon::settings::{Checked, MasterSettings};
use protocol::{
    Reason, SectorPath,
    message::rebuild::{Conflict, ConflictKind, RebuildState, RebuildStatus},
};
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, Rebuild, Role};

/// `sector rebuild`.
pub(crate) async fn run(cloud: &Client, rebuild: Rebuild, global: &Global) -> Result<(), Failure> {
    match rebuild {
        Rebuild::Status => status(&cloud.rebuild_status().await?, global),
        Rebuild::Finish => Ok(cloud.finish_rebuild().await?),
        Rebuild::Forget { node } => Ok(cloud.forget_node(&node).await?),
        Rebuild::Recover { slice, path } => Ok(cloud.recover_slice(slice, &SectorPath::parse(&path)?).await?),
        Rebuild::Dismiss { slice: Some(slice), .. } => Ok(cloud.dismiss_conflict(Some(slice)).await?),
        Rebuild::Dismiss { slice: None, .. } => Ok(cloud.dismiss_conflict(None).await?),
    }
}

/// `sector master rebuild`: sets the journal aside, so that the next start puts the names together from the nodes.
pub(crate) fn archive_journal(role: &Role, global: &Global) -> Result<(), Failure> {
    let settings = Checked::<MasterSettings>::read(&role.config)?;
    match master::archive_journal(&settings.folder).map_err(|error| error.refusal())? {
        None => Err(Failure::new(
            Reason::NotFound,
            format!("there is no journal in `{}`: start the master, it rebuilds by itself", settings.folder.display()),
        )),
        Some(aside) if global.json => show::json(&ArchiveView { aside: aside.display().to_string() }),
        Some(aside) => {
            show::line(format!(
                "the journal is set aside as {}; start the master, then see `sector rebuild status`",
                aside.display()
            ));
            Ok(())
        }
    }
}

fn status(status: &RebuildStatus, global: &Global) -> Result<(), Failure> {
    let view = StatusView::of(status);
    if global.json {
        return show::json(&view);
    }
    let told = status.reported.len();
    show::line(format!("{}: {told} of {} nodes have told what they hold", view.state, told + status.missing.len()));
    if !view.missing.is_empty() {
        show::line(format!("missing: {}", view.missing.join(", ")));
    }
    show::line(format!("found: {} files, {} folders", view.files, view.folders));
    match &view.copy {
        Some(copy) => show::line(format!("folders, policies and quotas: from {}", copy.node)),
        None if status.state == RebuildState::Running => show::line("folders, policies and quotas: not found yet"),
        None => {}
    }
    if view.conflicts.is_empty() {
        show::line("no conflicts");
        return Ok(());
    }
    let row = |view: &ConflictView| {
        vec![view.slice.clone(), view.version.to_string(), view.node.clone(), view.path.clone(), view.done.to_owned()]
    };
    show::table(
        &["slice", " version", "node", "path", "what was done"],
        &view.conflicts.iter().map(row).collect::<Vec<_>>(),
    );
    Ok(())
}

#[derive(Serialize)]
struct ArchiveView {
    aside: String,
}

#[derive(Serialize)]
struct StatusView {
    state: &'static str,
    journal: String,
    generation: u64,
    told: Vec<String>,
    missing: Vec<String>,
    copy: Option<CopyView>,
    files: u64,
    folders: u64,
    conflicts: Vec<ConflictView>,
}

#[derive(Serialize)]
struct CopyView {
    node: String,
    journal: String,
    generation: u64,
    sequence: u64,
}

#[derive(Serialize)]
struct ConflictView {
    path: String,
    slice: String,
    other: Option<String>,
    version: u64,
    bytes: u64,
    owner: String,
    node: String,
    kind: &'static str,
    aside: bool,
    done: &'static str,
}

impl StatusView {
    fn of(status: &RebuildStatus) -> Self {
        let names = |nodes: &[protocol::NodeId]| nodes.iter().map(ToString::to_string).collect();
        let copy = status.copy.as_ref().map(|(node, mark)| CopyView {
            node: node.to_string(),
            journal: mark.journal.to_string(),
            generation: mark.generation,
            sequence: mark.sequence,
        });
        Self {
            state: match status.state {
                RebuildState::New => "new",
                RebuildState::Running => "running",
                RebuildState::Settled => "settled",
            },
            journal: status.journal.to_string(),
            generation: status.generation,
            told: names(&status.reported),
            missing: names(&status.missing),
            copy,
            files: status.files,
            folders: status.folders,
            conflicts: status.conflicts.iter().map(ConflictView::of).collect(),
        }
    }
}

impl ConflictView {
    fn of(conflict: &Conflict) -> Self {
        let header = &conflict.metadata.header;
        let (kind, done) = match conflict.kind {
            ConflictKind::OlderVersion => ("older-version", "a newer version has the path; this one is kept aside"),
            ConflictKind::NeverPlaced => ("never-placed", "perhaps never published; it has its name"),
            ConflictKind::PathTaken => ("path-taken", "file and folder claim one path; the file is kept aside"),
            ConflictKind::TwoPaths => ("two-paths", "nodes have it at different paths; it has the newest known"),
            ConflictKind::TwoAcls => ("two-acls", "nodes disagree on who may do what with it; what all grant holds"),
            ConflictKind::TwoOwners => ("two-owners", "nodes disagree on its owner; the first one told has it"),
            ConflictKind::NoBytes => ("no-bytes", "it was a file, and no node has its bytes; dismissed, its name goes"),
            ConflictKind::WrittenSince => ("written-since", "the path was written since; this one is kept aside"),
        };
        Self {
            path: header.path.to_string(),
            slice: header.slice.to_string(),
            other: conflict.other.map(|slice| slice.to_string()),
            version: header.version.0,
            bytes: conflict.metadata.bytes,
            owner: header.owner.to_string(),
            node: conflict.node.to_string(),
            kind,
            aside: conflict.is_archived,
            done,
        }
    }
}
