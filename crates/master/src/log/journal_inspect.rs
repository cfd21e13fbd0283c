//! Inspects a master's journal while no master uses it (`sector inspect journal`): its content, and whether a master
//! could start from it. A repair moves unusable rows to a file and gives the journal a new id. So the nodes' slices are
//! treated as those of a lost journal, and what the rows named comes back from the sidecars. Never repairs unasked.

use std::{
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
};

use protocol::{JournalId, Now, message::rebuild::RebuildState};
use store::{Journal, RowChange};

use crate::{
    MasterError,
    access::duplicate_requests::Answers,
    actions::{
        ANSWERS_TABLE, CLOCK_TABLE, EVENTS_TABLE, HISTORIES_TABLE, JOBS_TABLE, LINEAGE_TABLE, LOGS_TABLE, MARKS_TABLE,
        NAMES_TABLE, NODES_TABLE, POLICIES_TABLE, QUOTAS_TABLE, StoredRow, TABLES, TRASH_TABLE,
    },
    catalog::{
        clock_guard::ClockGuard,
        namespace::{Namespace, ROOT},
        policy_table::Policies,
        quota_table::Quotas,
        trash_table::Trash,
    },
    fleet::{judgement::mark_table::MarkTable, nodes::Nodes},
    jobs::{job_histories::JobHistories, job_logs::KeptLogs, job_table::JobTable},
    log::{journal_lineage, rebuild},
    server::{JOURNAL_FILE, read_rows},
};

/// The result of an inspection.
#[derive(Clone, Debug)]
pub struct JournalReport {
    /// The file.
    pub file: PathBuf,
    /// Its id, and its number in the life of the cloud.
    pub id: Option<(JournalId, u64)>,
    /// Each table that the master knows, with its rows and their bytes.
    pub tables: Vec<(&'static str, u64, u64)>,
    /// Files it names.
    pub files: u64,
    /// Folders it names, the root not counted.
    pub folders: u64,
    /// Bytes of the files, each counted once.
    pub bytes: u64,
    /// Rows that prevent a master from starting.
    pub problems: Vec<RowProblem>,
    /// Where a repair has put these.
    pub archived_rows: Option<PathBuf>,
}

/// A row that cannot be used.
#[derive(Clone, Debug)]
pub struct RowProblem {
    /// Its table.
    pub table: &'static str,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// What is wrong.
    pub why: String,
}

/// Inspects the journal in a file, or in a master's folder. With `repair`, which is a random number, repairs it.
/// Blocks.
///
/// # Errors
/// When a master runs on it, when it is no journal, or when the disk fails.
pub fn inspect_journal(at: &Path, repair: Option<u64>) -> Result<JournalReport, MasterError> {
    let file = if at.is_dir() { at.join(JOURNAL_FILE) } else { at.to_owned() };
    let failed = |operation, source| MasterError::Folder { operation, path: file.display().to_string(), source };
    // Opening a missing file would create it.
    fs::metadata(&file).map_err(|source| failed("open", source))?;
    let journal = Journal::open(&file).map_err(|source| MasterError::Journal { operation: "open", source })?;
    let rows = rows_of(&journal)?;
    let count = |table: &'static str| {
        let of = rows.iter().filter(|row| row.table == table);
        let bytes = of.clone().map(|row| (row.key.len() + row.value.len()) as u64).sum();
        (table, of.count() as u64, bytes)
    };
    let tables = TABLES.iter().map(|table| count(table)).collect();
    let (names, problems) = usable(&rows);
    let usage = names.map(|names| names.usage(ROOT)).unwrap_or_default();
    let mut report = JournalReport {
        file: file.clone(),
        id: rebuild::identity(&rows),
        tables,
        files: usage.files,
        folders: usage.folders.saturating_sub(1),
        bytes: usage.bytes,
        problems,
        archived_rows: None,
    };
    if let Some(number) = repair.filter(|_| !report.problems.is_empty()) {
        let aside = (1_u32..).map(|number| file.with_extension(format!("redb.rows-{number}")));
        let aside = aside.into_iter().find(|aside| !aside.exists()).unwrap_or_else(|| file.with_extension("rows"));
        store::write_file_atomically(&aside, lines(&report.problems).as_bytes(), 0o600)
            .map_err(|source| failed("write beside", source))?;
        let mut changes: Vec<_> = report
            .problems
            .iter()
            .map(|problem| RowChange::Remove { table: problem.table, key: problem.key.clone() })
            .collect();
        let generation = report.id.map_or(1, |(_, generation)| generation + 1);
        // All rows that nodes kept are taken, even those this journal had: some of its rows are gone.
        let lineage = rows.iter().filter(|row| row.table == LINEAGE_TABLE);
        changes.extend(lineage.map(|row| RowChange::Remove { table: row.table, key: row.key.clone() }));
        changes.push(rebuild::new_identity(JournalId(number.max(1)), generation, RebuildState::Running));
        journal.commit(&changes).map_err(|source| MasterError::Journal { operation: "write", source })?;
        File::open(&file).and_then(|file| file.sync_all()).map_err(|source| failed("sync", source))?;
        report.archived_rows = Some(aside);
    }
    Ok(report)
}

/// All rows at once; reading row by row is only how a master does it.
fn rows_of(journal: &Journal) -> Result<Vec<StoredRow>, MasterError> {
    let mut rows = Vec::new();
    read_rows(journal, |table, key, value| {
        rows.push(StoredRow { table, key: key.into(), value: value.into() });
        Ok(())
    })?;
    Ok(rows)
}

/// The names that a master would get from the usable rows, and the unusable rows.
fn usable(rows: &[StoredRow]) -> (Option<Namespace>, Vec<RowProblem>) {
    let mut problems = Vec::new();
    let mut good = Vec::new();
    for row in rows {
        match check_row(row) {
            Some(why) => problems.push(problem(row, why)),
            None if row.table == NAMES_TABLE => good.push(row.clone()),
            None => {}
        }
    }
    // Each time the tree is inconsistent, the offending row goes. The rows that hang on it are blamed next.
    while !good.is_empty() {
        let blamed = match Namespace::load(Now::default(), good.iter().cloned()) {
            Ok((names, _)) => return (Some(names), problems),
            Err(MasterError::Names { file, why }) if file != ROOT => (file.0.to_be_bytes().to_vec(), why),
            Err(_) => break,
        };
        let Some(at) = good.iter().position(|row| row.key == blamed.0) else { break };
        problems.push(problem(&good.swap_remove(at), blamed.1.to_owned()));
        if problems.len() > BLAMED_MAX {
            break;
        }
    }
    // Beyond repair row by row: all names come back from the nodes.
    problems.extend(good.iter().map(|row| problem(row, "the names do not form one tree".into())));
    (None, problems)
}

/// Why a row cannot be read, if so.
fn check_row(row: &StoredRow) -> Option<String> {
    let parsed = match row.table {
        NAMES_TABLE => Namespace::check_row(row),
        JOBS_TABLE => JobTable::default().load(Now::default(), row),
        HISTORIES_TABLE => JobHistories::default().load(row),
        MARKS_TABLE => MarkTable::default().load(Now::default(), row),
        LOGS_TABLE => KeptLogs::default().load(row),
        NODES_TABLE => Nodes::default().load(Now::default(), row),
        POLICIES_TABLE => Policies::default().load(row),
        TRASH_TABLE => Trash::default().load(row),
        QUOTAS_TABLE => Quotas::default().load(row),
        LINEAGE_TABLE => journal_lineage::check_row(row),
        ANSWERS_TABLE => Answers::default().load(Now::default(), row),
        CLOCK_TABLE => ClockGuard::check_row(row),
        // One that cannot be read is left out.
        EVENTS_TABLE => Ok(()),
        _ => rebuild::check_row(row),
    };
    parsed.err().map(|_| "it cannot be read".to_owned())
}

fn problem(row: &StoredRow, why: String) -> RowProblem {
    RowProblem { table: row.table, key: row.key.clone(), value: row.value.clone(), why }
}

/// The rows as text: table, key and value in hexadecimal, and what is wrong.
fn lines(problems: &[RowProblem]) -> String {
    let mut text = String::from("# table, key, value, why: rows that were taken out of a master's journal\n");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for RowProblem { table, key, value, why } in problems {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{table} {} {} {why}", hex(key), hex(value));
    }
    text
}

/// Rows taken out one by one, each at the cost of reading all names; beyond this number all of them go.
const BLAMED_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::{Bench, create, path, seconds};

    /// A journal on a disk with the rows of a cloud.
    fn journal() -> (tempfile::TempDir, Bench) {
        let mut bench = Bench::with_nodes(&["a/1"]);
        for at in ["/d/e", "/d/f", "/g"] {
            let request = protocol::message::client_master::CreateRequest { parents: true, ..create(at) };
            bench.put("ann", request, 10);
        }
        bench.advance(seconds(3));
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&folder.path().join(JOURNAL_FILE)).unwrap();
        let set = |((table, key), value): (&(&'static str, Vec<u8>), &Vec<u8>)| RowChange::Set {
            table,
            key: key.clone(),
            value: value.clone(),
        };
        journal.commit(&bench.rows.iter().map(set).collect::<Vec<_>>()).unwrap();
        (folder, bench)
    }

    fn change(folder: &Path, change: RowChange) {
        Journal::open(&folder.join(JOURNAL_FILE)).unwrap().commit(&[change]).unwrap();
    }

    #[test]
    fn a_sound_journal_is_counted_and_one_in_use_or_missing_is_said_to_be() {
        let (folder, _) = journal();
        let report = inspect_journal(folder.path(), None).unwrap();
        assert_eq!((report.files, report.folders, report.bytes), (3, 1, 30));
        assert!(report.problems.is_empty() && report.id.is_some());
        let used = Journal::open(&folder.path().join(JOURNAL_FILE)).unwrap();
        assert!(inspect_journal(folder.path(), None).unwrap_err().to_string().contains("in use"));
        drop(used);
        assert!(inspect_journal(&folder.path().join("absent"), None).is_err());
        assert!(!folder.path().join("absent").exists());
    }

    #[test]
    fn bad_rows_are_set_aside_and_the_nodes_bring_back_what_they_named() {
        let (folder, mut bench) = journal();
        let before = inspect_journal(folder.path(), None).unwrap().id.unwrap();
        // A folder's row is gone, and a file's row cut short.
        let d = bench.stat("/d").entry.id.0.to_be_bytes().to_vec();
        let g = bench.stat("/g").entry.id.0.to_be_bytes().to_vec();
        change(folder.path(), RowChange::Remove { table: NAMES_TABLE, key: d });
        change(folder.path(), RowChange::Set { table: NAMES_TABLE, key: g, value: vec![1, 2] });
        let report = inspect_journal(folder.path(), None).unwrap();
        assert_eq!(report.problems.len(), 3, "a row that cannot be read, and two files without their folder");
        assert!(report.archived_rows.is_none());
        let report = inspect_journal(folder.path(), Some(77)).unwrap();
        let aside = fs::read_to_string(report.archived_rows.unwrap()).unwrap();
        assert_eq!(aside.lines().count(), 4, "{aside}");
        let repaired = inspect_journal(folder.path(), None).unwrap();
        assert!(repaired.problems.is_empty());
        assert_eq!(repaired.id, Some((JournalId(77), before.1 + 1)));
        // A master starts from it, and has everything once its node has come: no slice counts as nobody's.
        let journal = Journal::open(&folder.path().join(JOURNAL_FILE)).unwrap();
        bench.rows = rows_of(&journal).unwrap().into_iter().map(|row| ((row.table, row.key), row.value)).collect();
        bench.restart_master();
        assert!(!bench.exists("/g"));
        bench.join("n1");
        bench.advance(seconds(5));
        for at in ["/d/e", "/d/f", "/g"] {
            assert!(bench.exists(at), "{at}");
            assert!(!bench.locate("ann", at).sources.is_empty());
        }
        assert_eq!(path("/d"), bench.stat("/d").entry.path);
    }
}
