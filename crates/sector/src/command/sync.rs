//! `sync`: a folder becomes equal to another. It reads arguments and prints. It never decides what goes or is removed:
//! the client library does.

use client::{
    Client,
    tree::{self, PathFilter, SyncAction, SyncActionKind, SyncFolder, SyncOptions, SyncPlan},
};
use serde::Serialize;
use terminal::{
    failure::{Failure, FailureView},
    sanitize,
    show::{self, say},
};

use super::{
    clouds::{CloudChoice, Clouds},
    transfer::{self, ShownTransfer, say_left_out},
};
use crate::arguments::{Global, SyncFolders};

/// `sector sync`.
pub(crate) async fn sync(asked: SyncFolders, global: &Global) -> Result<(), Failure> {
    let options = SyncOptions {
        filter: PathFilter::new(&asked.include, &asked.exclude)?,
        delete: asked.delete,
        checksum: asked.checksum,
        force: asked.force,
    };
    let ((there, from), (here, to)) = (SyncFolder::parse(&asked.from)?, SyncFolder::parse(&asked.to)?);
    let (there, here) = match (&from, &to) {
        // A local folder lies in no cloud: one session will do.
        (SyncFolder::Local(_), _) => (here.clone(), here),
        (_, SyncFolder::Local(_)) => (there.clone(), there),
        _ => (there, here),
    };
    let clouds =
        Clouds::connect(&CloudChoice::of(there), &CloudChoice::of(here), &asked.transfer_limit, global).await?;
    let (there, here) = clouds.pair();
    clouds.run(sync_folders((&there, &here), (&from, &to), &options, asked.dry_run, global)).await
}

async fn sync_folders(
    (there, here): (&Client, &Client),
    (from, to): (&SyncFolder, &SyncFolder),
    options: &SyncOptions,
    is_dry: bool,
    global: &Global,
) -> Result<(), Failure> {
    let plan = SyncPlan::new((there, here), from, to, options).await?;
    say_left_out(plan.left_out(), "it is a link", global);
    for item in plan.kept() {
        let what = if item.is_symlink() { "a link" } else { "no ordinary file" };
        say!("sector: `{}` stays, since it is {what}; remove it yourself", sanitize(&item.display().to_string()));
    }
    if is_dry {
        return dry_run(&plan, global).await;
    }
    let left_out = [plan.left_out(), plan.kept()].concat();
    let shown = ShownTransfer::start("sync", plan.files(), plan.bytes(), here, global);
    let outcome = tree::sync((there, here), plan, &shown.observer(transfer::failure)).await?;
    if outcome.withheld > 0 {
        say!(
            "sector: nothing was removed, since something failed: {} that SRC lacks",
            show::count(outcome.withheld, "file")
        );
    }
    let deleted = outcome.actions.iter().filter(|action| action.kind == SyncActionKind::Remove).count();
    shown.deleting(deleted).finish(&outcome.transfers, &left_out, transfer::failure)
}

/// Prints what would be done, and ends as the command would for what is refused already.
async fn dry_run(plan: &SyncPlan, global: &Global) -> Result<(), Failure> {
    let actions = plan.compared_actions().await;
    let refused: Vec<_> = plan.refused().iter().map(transfer::failure_about).collect();
    for failure in &refused {
        say!("sector: {}", sanitize(&failure.message));
    }
    if global.json {
        show::json(&DryRunView {
            actions: actions.iter().map(ActionView::of).collect(),
            failed: refused.iter().map(Failure::view).collect(),
            left_out: plan.left_out().iter().chain(plan.kept()).map(|item| item.display().to_string()).collect(),
        })?;
    } else {
        for action in actions.iter().map(ActionView::of) {
            show::line(format!("{} {}", action.action, sanitize(&action.path)));
        }
    }
    refused.into_iter().next().map_or(Ok(()), |failure| Err(failure.printed()))
}

/// What would be done as JSON (contract: `sync --dry-run`).
#[derive(Debug, Serialize)]
struct DryRunView {
    actions: Vec<ActionView>,
    failed: Vec<FailureView>,
    left_out: Vec<String>,
}

/// A step of it.
#[derive(Debug, Serialize)]
struct ActionView {
    action: &'static str,
    /// Below source and destination. A folder ends with `/`.
    path: String,
    bytes: u64,
}

impl ActionView {
    fn of(action: &SyncAction) -> Self {
        let is_folder = matches!(action.kind, SyncActionKind::MakeFolder | SyncActionKind::RemoveFolder);
        let slash = if is_folder { "/" } else { "" };
        let path = match action.path.display().to_string() {
            // The folder itself.
            path if path.is_empty() => "./".to_owned(),
            path => format!("{path}{slash}"),
        };
        Self { action: action.kind.as_str(), path, bytes: action.bytes }
    }
}
