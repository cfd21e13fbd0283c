//! `backup` and `restore`: the arguments and the output. The work is in the module `crate::backup`; this file never
//! copies anything itself.

use std::path::PathBuf;

use serde::Serialize;
use terminal::{failure::Failure, interrupted, show};
use tokio::task::spawn_blocking;

use crate::{
    arguments::{Backup, Global, Restore},
    backup::{
        Interrupt,
        manifest::{Manifest, Role},
        restore, take, verify,
    },
    cloud::RunningCloud,
};

/// `sector backup`.
pub(crate) async fn backup(asked: Backup, global: &Global) -> Result<(), Failure> {
    let Backup { to, mut folders, check } = asked;
    if check {
        let (found, manifest) = in_order(move |interrupt| {
            let found = verify::find(&to)?;
            verify::verify(&found, interrupt).map(|manifest| (found, manifest))
        })
        .await?;
        return say(found, &manifest, &[], "is whole", global);
    }
    if folders.is_empty() {
        folders.push(RunningCloud::data_folder()?);
    }
    let taken = in_order(move |interrupt| take::take(&to, &folders, interrupt)).await?;
    say(taken.folder, &taken.manifest, &taken.left_out, "is taken", global)
}

/// `sector restore`.
pub(crate) async fn restore(asked: Restore, global: &Global) -> Result<(), Failure> {
    let Restore { from, role, folder, check } = asked;
    let wanted = restore::RestoreOptions { role, folder, check };
    let (found, manifest, restored) = in_order(move |interrupt| {
        let found = verify::find(&from)?;
        restore::restore(&found, &wanted, interrupt).map(|(manifest, restored)| (found, manifest, restored))
    })
    .await?;
    if global.json {
        let views = restored.iter().map(|role| RestoredView {
            role: role.role.as_str(),
            folder: role.folder.clone(),
            aside: role.archived.clone(),
        });
        let parts = views.collect();
        return show::json(&RestoreView { backup: found, made: manifest.made(), restored: !check, parts });
    }
    for role in &restored {
        let what = if check { "can be put back as it was" } else { "is as it was" };
        show::line(format!(
            "the {} in {} {what} at {}",
            role.role.name(),
            role.folder.display(),
            manifest.shown_made()
        ));
        for aside in &role.archived {
            show::line(format!("  what was there is put aside: {}", aside.display()));
        }
        if !check && !global.quiet {
            show::line(format!("  {}", next_step(role.role)));
        }
    }
    Ok(())
}

fn next_step(role: Role) -> &'static str {
    match role {
        Role::Master => "start it; it asks the nodes for what is newer, and `sector rebuild status` says how far it is",
        Role::Security => {
            "start it; everyone logs in anew, and whoever was put out or came in since the backup must be so again"
        }
    }
}

/// Runs blocking work, and stops it in order when a person asks for that.
async fn in_order<T: Send + 'static>(
    work: impl FnOnce(&Interrupt) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let interrupt = Interrupt::default();
    let asked = interrupt.clone();
    let mut working = spawn_blocking(move || work(&asked));
    let ended = tokio::select! {
        ended = &mut working => ended,
        signal = interrupted() => {
            interrupt.cancel();
            let ended = working.await.map_err(|error| Failure::failed(error.to_string()))?;
            return ended.map_err(|failure| signal.ends(failure));
        }
    };
    ended.map_err(|error| Failure::failed(error.to_string()))?
}

fn say(folder: PathBuf, manifest: &Manifest, left_out: &[PathBuf], what: &str, global: &Global) -> Result<(), Failure> {
    if global.json {
        let parts = manifest.parts.iter().map(|part| PartView {
            role: part.role.as_str(),
            folder: part.folder.clone(),
            rows: part.rows,
            bytes: part.files.iter().map(|file| file.bytes).sum(),
            journal: part.journal.as_ref().map(|journal| journal.id.clone()),
            generation: part.journal.as_ref().map(|journal| journal.generation),
        });
        let view = BackupView {
            backup: folder,
            made: manifest.made(),
            program: manifest.program.clone(),
            cloud: manifest.cloud.clone(),
            parts: parts.collect(),
            left_out: left_out.to_vec(),
        };
        return show::json(&view);
    }
    let bytes = manifest.parts.iter().flat_map(|part| &part.files).map(|file| file.bytes).sum();
    let roles: Vec<_> = manifest.parts.iter().map(|part| format!("the {}", part.role.name())).collect();
    show::line(format!(
        "the backup {} {what}: {}, as at {}, {}",
        folder.display(),
        roles.join(" and "),
        manifest.shown_made(),
        show::size(bytes)
    ));
    for file in left_out {
        show::line(format!("not in it, for it is large: {}", file.display()));
    }
    Ok(())
}

#[derive(Serialize)]
struct BackupView {
    backup: PathBuf,
    made: String,
    program: String,
    cloud: String,
    parts: Vec<PartView>,
    left_out: Vec<PathBuf>,
}

#[derive(Serialize)]
struct PartView {
    role: &'static str,
    folder: PathBuf,
    rows: u64,
    bytes: u64,
    journal: Option<String>,
    generation: Option<u64>,
}

#[derive(Serialize)]
struct RestoreView {
    backup: PathBuf,
    made: String,
    restored: bool,
    parts: Vec<RestoredView>,
}

#[derive(Serialize)]
struct RestoredView {
    role: &'static str,
    folder: PathBuf,
    aside: Vec<PathBuf>,
}
