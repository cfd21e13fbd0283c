//! `inspect`: examines and repairs what lies on a disk that no role uses. It ends with exit code 6 where something is
//! corrupt. It never talks to a cloud.

use std::{path::Path, sync::Arc};

use protocol::{Reason, SliceId, SliceMetadata, UserName, message::node_master::HeldState};
use serde::Serialize;
use store::{OsDisk, SliceStore};
use terminal::{failure::Failure, show};

use crate::arguments::{Global, Inspect, Inspected};

/// `sector inspect`.
pub(crate) fn run(inspect: Inspect, global: &Global) -> Result<(), Failure> {
    match inspect {
        Inspect::Journal(wanted) => journal(&wanted, global),
        Inspect::Sidecar(wanted) => sidecar(&wanted, global),
        Inspect::Inventory(wanted) => inventory(&wanted, global),
    }
}

fn journal(wanted: &Inspected, global: &Global) -> Result<(), Failure> {
    let number = wanted.repair.then(|| u64::from_be_bytes(net::identity::random()));
    let report = master::inspect_journal(&wanted.at, number).map_err(|error| error.refusal())?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let view = JournalView {
        file: report.file.display().to_string(),
        journal: report.id.map(|(id, _)| id.to_string()),
        generation: report.id.map(|(_, generation)| generation),
        files: report.files,
        folders: report.folders,
        bytes: report.bytes,
        tables: report
            .tables
            .iter()
            .map(|(name, rows, bytes)| TableView { name, rows: *rows, bytes: *bytes })
            .collect(),
        problems: report
            .problems
            .iter()
            .map(|row| RowView { table: row.table, key: hex(&row.key), what: row.why.clone() })
            .collect(),
        set_aside: report.archived_rows.map(|file| file.display().to_string()),
    };
    if global.json {
        show::json(&view)?;
    } else {
        let journal = view.journal.clone().unwrap_or_else(|| "without an id".into());
        show::line(format!(
            "journal {journal}: {} files, {} folders, {}",
            view.files,
            view.folders,
            show::size(view.bytes)
        ));
        let row = |table: &TableView| vec![table.name.into(), table.rows.to_string(), show::size(table.bytes)];
        show::table(&["table", " rows", " size"], &view.tables.iter().map(row).collect::<Vec<_>>());
        for problem in &view.problems {
            show::line(format!("row {} of `{}`: {}", problem.key, problem.table, problem.what));
        }
        if let Some(file) = &view.set_aside {
            show::line(format!(
                "these rows are set aside in {file}; the next start of the master asks the nodes for what they named"
            ));
        }
    }
    match (view.problems.len(), view.set_aside) {
        (0, _) | (_, Some(_)) => Ok(()),
        (count, None) => Err(corrupt(format!("{count} rows cannot be used; `--repair` sets them aside"))),
    }
}

fn sidecar(wanted: &Inspected, global: &Global) -> Result<(), Failure> {
    let file = wanted.at.as_path();
    let mut report = store::inspect_sidecar(file, wanted.check).map_err(|error| error.refusal())?;
    let mut lost = None;
    if report.sidecar.is_none() && wanted.repair {
        let slice = SliceId(u128::from_be_bytes(net::identity::random()));
        let owner = UserName::new(OWNER_UNKNOWN).map_err(|error| Failure::failed(error.to_string()))?;
        store::rebuild_sidecar(file, slice, &owner).map_err(|error| error.refusal())?;
        forget_kept_rows(file)?;
        report = store::inspect_sidecar(file, wanted.check).map_err(|error| error.refusal())?;
        lost = Some(LOST);
    }
    let view = SidecarView {
        file: file.display().to_string(),
        bytes_file: report.bytes_file.display().to_string(),
        sidecar: report.sidecar.as_ref().map(|sidecar| SliceView::of(&sidecar.metadata, None)),
        sequence: report.sidecar.as_ref().map(|sidecar| sidecar.sequence),
        blocks: report.sidecar.as_ref().map(|sidecar| sidecar.blocks.len()),
        problems: report.problems,
        lost,
    };
    if global.json {
        show::json(&view)?;
    } else {
        if let Some(slice) = &view.sidecar {
            for (name, value) in slice.lines() {
                show::line(format!("{name:<10} {value}"));
            }
        }
        view.problems.iter().for_each(show::line);
        if let Some(lost) = lost {
            show::line(lost);
        }
    }
    match view.problems.len() {
        0 => Ok(()),
        _ => Err(corrupt(format!("the slice of `{}` is not sound", file.display()))),
    }
}

fn inventory(wanted: &Inspected, global: &Global) -> Result<(), Failure> {
    let folder = wanted.at.as_path();
    let report = store::inspect_folder(folder, wanted.check).map_err(|error| error.refusal())?;
    let repaired = match wanted.repair {
        true => {
            let opened = SliceStore::open(Arc::new(OsDisk), folder).map_err(|error| error.refusal())?;
            Some(RepairView {
                slices: opened.1.slices,
                completed_moves: opened.1.completed_moves,
                put_aside: opened.1.quarantined.iter().map(|file| file.display().to_string()).collect(),
            })
        }
        false => None,
    };
    let problem = |problem: &store::FolderProblem| ProblemView {
        file: problem.file.display().to_string(),
        what: problem.what.clone(),
        outcome: problem.outcome,
        is_damage: problem.is_damage,
    };
    let names = |files: &[std::path::PathBuf]| files.iter().map(|file| file.display().to_string()).collect();
    let view = InventoryView {
        folder: folder.display().to_string(),
        slices: report.slices.iter().map(|slice| SliceView::of(&slice.metadata, Some(slice.state))).collect(),
        problems: report.problems.iter().map(problem).collect(),
        strangers: names(&report.foreign_files),
        leftovers: report.leftovers,
        leftover_bytes: report.leftover_bytes,
        put_aside: names(&report.quarantined),
        repaired,
    };
    if global.json {
        show::json(&view)?;
    } else {
        show_inventory(&view);
    }
    let damaged = view.problems.iter().filter(|problem| problem.is_damage).count();
    match (damaged, wanted.repair && !wanted.check) {
        (0, _) | (_, true) => Ok(()),
        (count, false) => Err(corrupt(format!("{count} slices are damaged; see what comes of each above"))),
    }
}

fn show_inventory(view: &InventoryView) {
    let row = |slice: &SliceView| {
        let state = slice.state.unwrap_or_default().to_owned();
        vec![state, slice.version.to_string(), show::size(slice.bytes), slice.slice.clone(), slice.path.clone()]
    };
    show::table(&["state", " version", " size", "slice", "path"], &view.slices.iter().map(row).collect::<Vec<_>>());
    for problem in &view.problems {
        show::line(format!("{}: {}; {}", problem.file, problem.what, problem.outcome));
    }
    for file in &view.strangers {
        show::line(format!("{file}: no slice; it stays"));
    }
    if view.leftovers > 0 {
        let size = show::size(view.leftover_bytes);
        show::line(format!("{} leftover files ({size}) that the next start removes", view.leftovers));
    }
    if !view.put_aside.is_empty() {
        show::line(format!("{} files in `corrupt/`: look at them and remove them", view.put_aside.len()));
    }
    if let Some(repaired) = &view.repaired {
        show::line(format!(
            "repaired: {} slices, {} moves completed, {} files put aside",
            repaired.slices,
            repaired.completed_moves,
            repaired.put_aside.len()
        ));
    }
}

/// Makes the master examine the whole disk again when its node joins. Otherwise a slice that it does not know would
/// count as one that it removed.
fn forget_kept_rows(sidecar: &Path) -> Result<(), Failure> {
    let Some(folder) = store::data_folder_of(sidecar) else { return Ok(()) };
    let seen = folder.join(store::DISK_MARK_FILE);
    if seen.exists() {
        std::fs::remove_file(&seen).map_err(|error| Failure::local("remove", &seen, &error))?;
    }
    let kept = folder.join(node::metadata_mirror::MIRROR_FILE);
    if !kept.exists() {
        return Ok(());
    }
    let aside = (1_u32..).map(|number| folder.join(format!("{}.aside-{number}", node::metadata_mirror::MIRROR_FILE)));
    let Some(aside) = aside.into_iter().find(|aside| !aside.exists()) else { return Ok(()) };
    std::fs::rename(&kept, &aside).map_err(|error| Failure::local("set aside", &kept, &error))
}

fn corrupt(message: String) -> Failure {
    Failure::new(Reason::Corrupt, message)
}

#[derive(Serialize)]
struct JournalView {
    file: String,
    journal: Option<String>,
    generation: Option<u64>,
    files: u64,
    folders: u64,
    bytes: u64,
    tables: Vec<TableView>,
    problems: Vec<RowView>,
    set_aside: Option<String>,
}

#[derive(Serialize)]
struct TableView {
    name: &'static str,
    rows: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct RowView {
    table: &'static str,
    key: String,
    what: String,
}

#[derive(Serialize)]
struct SidecarView {
    file: String,
    bytes_file: String,
    sidecar: Option<SliceView>,
    sequence: Option<u64>,
    blocks: Option<usize>,
    problems: Vec<String>,
    lost: Option<&'static str>,
}

#[derive(Serialize)]
struct SliceView {
    slice: String,
    path: String,
    state: Option<&'static str>,
    version: u64,
    bytes: u64,
    digest: String,
    owner: String,
    modified: String,
    /// The slice's own access list; null: none.
    acl: Option<String>,
    copies: u8,
    records: String,
    journal: String,
    user: std::collections::BTreeMap<String, String>,
}

impl SliceView {
    fn of(metadata: &SliceMetadata, state: Option<HeldState>) -> Self {
        let header = &metadata.header;
        Self {
            slice: header.slice.to_string(),
            path: header.path.to_string(),
            state: state.map(|state| match state {
                HeldState::Staged => "staged",
                HeldState::Placed => "placed",
                HeldState::Retired => "retired",
            }),
            version: header.version.0,
            bytes: metadata.bytes,
            digest: metadata.digest.to_string(),
            owner: header.owner.to_string(),
            modified: show::json_time(header.modified_unix_millis),
            acl: header.acl.as_ref().map(ToString::to_string),
            copies: header.copies,
            records: header.records.to_string(),
            journal: header.journal.to_string(),
            user: header.user.clone(),
        }
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("slice", self.slice.clone()),
            ("path", self.path.clone()),
            ("version", self.version.to_string()),
            ("bytes", self.bytes.to_string()),
            ("digest", self.digest.clone()),
            ("owner", self.owner.clone()),
            ("modified", show::time_of(&self.modified)),
            ("copies", self.copies.to_string()),
            ("records", self.records.clone()),
            ("journal", self.journal.clone()),
        ];
        lines.extend(self.acl.iter().map(|acl| ("rights", acl.clone())));
        lines.extend(self.user.iter().map(|(key, value)| ("user", format!("{key} = {value}"))));
        lines
    }
}

#[derive(Serialize)]
struct InventoryView {
    folder: String,
    slices: Vec<SliceView>,
    problems: Vec<ProblemView>,
    strangers: Vec<String>,
    leftovers: u64,
    leftover_bytes: u64,
    put_aside: Vec<String>,
    repaired: Option<RepairView>,
}

#[derive(Serialize)]
struct ProblemView {
    file: String,
    what: String,
    outcome: &'static str,
    is_damage: bool,
}

#[derive(Serialize)]
struct RepairView {
    slices: u64,
    completed_moves: u64,
    put_aside: Vec<String>,
}

/// The owner of a file whose owner is lost.
const OWNER_UNKNOWN: &str = "admin";
/// What a regenerated sidecar lacks.
const LOST: &str = "made anew from the bytes: slice id, version, owner, rights, copies, record format and user metadata are lost; \
                    the master lists the file in `sector rebuild status` where its path is taken";
