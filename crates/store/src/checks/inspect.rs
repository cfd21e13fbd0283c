//! Inspects a node's disk while no node uses it (`sector inspect sidecar|inventory`). It prints what is there, what is
//! inconsistent, and what the next start would do about it. It never changes a slice or a sidecar, except through
//! [`rebuild_sidecar`] on request.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use protocol::{
    Acl, JournalId, RecordFraming, SectorPath, SliceHeader, SliceId, SliceMetadata, UserName, Version, limits,
    message::node_master::HeldState,
};

use crate::{
    Disk, DiskFile, OsDisk, Sidecar, SliceHasher, SliceSums, StoreError,
    disk::{read_exactly, read_whole},
    error::WhileDoing,
    slice_store::{
        layout::{Layout, SliceFileName, slice_name},
        sidecar::SIDECAR_BYTES_MAX,
    },
    write_file_atomically,
};

/// A sidecar and the bytes beside it.
#[derive(Clone, Debug)]
pub struct SidecarReport {
    /// Its content; `None` if it cannot be read.
    pub sidecar: Option<Sidecar>,
    /// Where its bytes lie, or should lie.
    pub bytes_file: PathBuf,
    /// The number of bytes; `None` if there is no such file.
    pub bytes_found: Option<u64>,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}

/// A data folder.
#[derive(Clone, Debug, Default)]
pub struct FolderReport {
    /// Its slices, by path and id.
    pub slices: Vec<FoundSlice>,
    /// The inconsistencies, and their consequences.
    pub problems: Vec<FolderProblem>,
    /// Files in `slices/` that are not slices: someone's own.
    pub foreign_files: Vec<PathBuf>,
    /// Files in `unfinished/` and `jobs/` that the next start removes.
    pub leftovers: u64,
    /// Their bytes.
    pub leftover_bytes: u64,
    /// Files in `corrupt/` for the operator.
    pub quarantined: Vec<PathBuf>,
}

/// A slice of a data folder.
#[derive(Clone, Debug)]
pub struct FoundSlice {
    /// The content of its sidecar.
    pub metadata: SliceMetadata,
    /// Where it is.
    pub state: HeldState,
}

/// An inconsistency in a data folder.
#[derive(Clone, Debug)]
pub struct FolderProblem {
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    pub what: String,
    /// What the next start of the node, or `--repair`, does about it.
    pub outcome: &'static str,
    /// Whether bytes or a sidecar are damaged; otherwise it is what a crash or a removal leaves.
    pub is_damage: bool,
}

/// Inspects a sidecar; with `check` also reads the bytes beside it and compares them. Blocks.
///
/// # Errors
/// When a file cannot be read. A damaged sidecar and missing bytes are no errors: they are reported.
pub fn inspect_sidecar(file: &Path, check: bool) -> Result<SidecarReport, StoreError> {
    let bytes_file = bytes_beside(file)?;
    let bytes_found = OsDisk.bytes(&bytes_file).while_doing("look at", &bytes_file)?;
    let mut report = SidecarReport { sidecar: None, bytes_file, bytes_found, problems: Vec::new() };
    match OsDisk.bytes(file).while_doing("look at", file)? {
        None => report.problems.push("there is no such sidecar".into()),
        Some(_) => match Sidecar::decode(&read_whole(&OsDisk, file, SIDECAR_BYTES_MAX).while_doing("read", file)?) {
            Ok(sidecar) => report.sidecar = Some(sidecar),
            Err(error) => report.problems.push(format!("the sidecar cannot be used: {error}")),
        },
    }
    let Some(found) = bytes_found else {
        report.problems.push(format!("its bytes are not there: `{}`", report.bytes_file.display()));
        return Ok(report);
    };
    let Some(sidecar) = &report.sidecar else { return Ok(report) };
    if sidecar.metadata.bytes != found {
        report.problems.push(format!("there are {found} bytes and should be {}", sidecar.metadata.bytes));
    } else if check {
        report.problems.extend(compare(sidecar, &report.bytes_file)?);
    }
    Ok(report)
}

/// Writes a sidecar for the bytes beside it, if there is none that can be read. Information that only the old one had
/// is lost: slice id (unless the file is named by it), version, owner, copies, record format, user metadata. Blocks.
///
/// # Errors
/// [`StoreError::Locked`] while a node uses the data folder; [`StoreError::Exists`] if the sidecar can be read.
pub fn rebuild_sidecar(file: &Path, new_slice: SliceId, owner: &UserName) -> Result<SliceMetadata, StoreError> {
    let _lock = match data_folder_of(file) {
        Some(folder) => Some(lock_folder(&folder)?),
        None => None,
    };
    let report = inspect_sidecar(file, false)?;
    if let Some(sidecar) = &report.sidecar {
        return Err(StoreError::Exists(sidecar.metadata.header.slice));
    }
    let named = file.file_name().and_then(|name| name.to_str()).and_then(SliceFileName::parse);
    let slice = match named {
        Some(SliceFileName::Sidecar(slice)) => slice,
        _ => new_slice,
    };
    let nowhere = StoreError::Header { slice, why: "nobody knows its path: move its bytes to `slices/` first" };
    let path = sector_path_of(&report.bytes_file).ok_or(nowhere)?;
    let sums = sums_of(&report.bytes_file)?;
    let header = SliceHeader {
        slice,
        path,
        version: Version(1),
        owner: owner.clone(),
        modified_unix_millis: 0,
        copies: 1,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        // No journal's: a master treats it like any slice that it does not know.
        journal: JournalId(0),
        // The old access list is unknown: until it is set anew, the slice is for its owner and administrators.
        acl: Some(Acl::default()),
    };
    let metadata = SliceMetadata { header, bytes: sums.bytes, digest: sums.digest };
    let sidecar = Sidecar { metadata, sequence: 1, blocks: sums.blocks };
    write_file_atomically(file, &sidecar.encode(), 0o644).while_doing("write", file)?;
    Ok(sidecar.metadata)
}

/// Inspects a data folder that no node uses; with `check` all bytes are read and compared. Blocks.
///
/// # Errors
/// [`StoreError::Locked`] while a node uses it, and the disk's error.
pub fn inspect_folder(folder: &Path, check: bool) -> Result<FolderReport, StoreError> {
    let _lock = lock_folder(folder)?;
    let layout = Layout::new(folder);
    let mut look = Inspection { check, report: FolderReport::default(), sequences: BTreeMap::new() };
    look.by_id(&layout.staging, HeldState::Staged)?;
    look.by_id(&layout.retired, HeldState::Retired)?;
    look.placed(&layout)?;
    for leftover in [&layout.unfinished, &layout.jobs] {
        for (_, bytes) in files_below(leftover)? {
            look.report.leftovers += 1;
            look.report.leftover_bytes += bytes;
        }
    }
    look.report.quarantined = files_below(&layout.corrupt)?.into_iter().map(|(file, _)| file).collect();
    let key = |slice: &FoundSlice| (slice.metadata.header.path.clone(), slice.metadata.header.slice);
    look.report.slices.sort_by_key(key);
    Ok(look.report)
}

/// The data folder in which a slice's file lies.
pub fn data_folder_of(file: &Path) -> Option<PathBuf> {
    let kinds = ["slices", "staging", "retired", "corrupt"];
    let above = file
        .ancestors()
        .skip(1)
        .find(|folder| folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| kinds.contains(&name)))?;
    above.parent().map(Path::to_owned)
}

struct Inspection {
    check: bool,
    report: FolderReport,
    /// The sidecars of each slice: their files and numbers.
    sequences: BTreeMap<SliceId, Vec<(u64, PathBuf)>>,
}

impl Inspection {
    fn by_id(&mut self, folder: &Path, state: HeldState) -> Result<(), StoreError> {
        let mut bytes = BTreeSet::new();
        let mut sidecars = BTreeSet::new();
        for (file, _) in files_below(folder)? {
            match file.file_name().and_then(|name| name.to_str()).and_then(SliceFileName::parse) {
                Some(SliceFileName::Bytes(slice)) => drop(bytes.insert(slice)),
                Some(SliceFileName::Sidecar(slice)) => drop(sidecars.insert(slice)),
                None => self.problem(file, "its name is not one that a node gives".into(), STAYS, false),
            }
        }
        for slice in &sidecars {
            let files = Layout::files_by_id(folder, *slice);
            self.sidecar(&files.sidecar, state, Some(*slice))?;
        }
        for slice in bytes.difference(&sidecars) {
            let what = "bytes without a sidecar: never acknowledged, or removed".to_owned();
            self.problem(Layout::files_by_id(folder, *slice).bytes, what, REMOVED, false);
        }
        Ok(())
    }

    fn placed(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let files: BTreeMap<PathBuf, u64> = files_below(&layout.slices)?.into_iter().collect();
        for file in files.keys() {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if slice_name(name).is_some() {
                self.sidecar(file, HeldState::Placed, None)?;
            } else if !files.contains_key(&sidecar_beside(file)) {
                self.report.foreign_files.push(file.clone());
            }
        }
        Ok(())
    }

    fn sidecar(&mut self, file: &Path, state: HeldState, named: Option<SliceId>) -> Result<(), StoreError> {
        let SidecarReport { sidecar, bytes_found, problems, .. } = inspect_sidecar(file, self.check)?;
        let Some(sidecar) = sidecar else {
            let what = problems.join("; ");
            self.problem(file.to_owned(), what, QUARANTINED, true);
            return Ok(());
        };
        let slice = sidecar.metadata.header.slice;
        if bytes_found.is_none() {
            // They may lie elsewhere, after a crash in the middle of a move. The next start finds them.
            self.problem(file.to_owned(), "a sidecar without bytes beside it".into(), JOINED, false);
        } else if !problems.is_empty() {
            self.problem(file.to_owned(), problems.join("; "), UNREADABLE, true);
        }
        if named.is_some_and(|named| named != slice) {
            self.problem(file.to_owned(), format!("it is the sidecar of slice {slice}"), QUARANTINED, true);
        }
        let others = self.sequences.entry(slice).or_default();
        others.push((sidecar.sequence, file.to_owned()));
        if others.len() > 1 {
            let what = format!("slice {slice} has another sidecar too; the one with the larger number is true");
            self.problem(file.to_owned(), what, JOINED, false);
        } else if bytes_found.is_some() {
            self.report.slices.push(FoundSlice { metadata: sidecar.metadata, state });
        }
        Ok(())
    }

    fn problem(&mut self, file: PathBuf, what: String, outcome: &'static str, is_damage: bool) {
        self.report.problems.push(FolderProblem { file, what, outcome, is_damage });
    }
}

/// Compares bytes with their sidecar.
fn compare(sidecar: &Sidecar, bytes_file: &Path) -> Result<Option<String>, StoreError> {
    let sums = sums_of(bytes_file)?;
    let bad: Vec<_> = sums.blocks.iter().zip(&sidecar.blocks).enumerate().filter(|(_, (a, b))| a != b).collect();
    if let Some((first, _)) = bad.first() {
        return Ok(Some(format!("{} of {} blocks are damaged, the first is {first}", bad.len(), sums.blocks.len())));
    }
    let differs = sums.digest != sidecar.metadata.digest;
    Ok(differs.then(|| "its digest does not match, although every block does".to_owned()))
}

fn sums_of(file: &Path) -> Result<SliceSums, StoreError> {
    let opened = OsDisk.open_to_read(file).while_doing("open", file)?;
    let bytes = opened.bytes().while_doing("open", file)?;
    let (mut hasher, mut buffer, mut at) = (SliceHasher::new(), vec![0; READ_BYTES], 0);
    while at < bytes {
        let part = &mut buffer[..(READ_BYTES as u64).min(bytes - at) as usize];
        read_exactly(&*opened as &dyn DiskFile, part, at).while_doing("read", file)?;
        hasher.update(part);
        at += part.len() as u64;
    }
    Ok(hasher.finish())
}

/// All files in and below a folder with their lengths, by path; none if there is no such folder.
fn files_below(folder: &Path) -> Result<Vec<(PathBuf, u64)>, StoreError> {
    let (mut files, mut rest) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = rest.pop() {
        if !folder.exists() {
            continue;
        }
        for item in OsDisk.list(&folder).while_doing("list", &folder)? {
            let path = folder.join(&item.name);
            if item.is_folder { rest.push(path) } else { files.push((path, item.bytes)) }
        }
    }
    files.sort();
    Ok(files)
}

fn lock_folder(folder: &Path) -> Result<crate::FolderLock, StoreError> {
    if !folder.join("slices").exists() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "it is not a node's data folder");
        return Err(StoreError::io("inspect", folder, source));
    }
    OsDisk.lock_folder(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => StoreError::Locked { folder: folder.to_owned() },
        _ => StoreError::io("lock", folder, error),
    })
}

/// Where the bytes of this sidecar lie.
fn bytes_beside(sidecar: &Path) -> Result<PathBuf, StoreError> {
    let name = sidecar.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(SliceFileName::Sidecar(slice)) = SliceFileName::parse(name) {
        return Ok(sidecar.with_file_name(slice.to_string()));
    }
    match slice_name(name) {
        Some(name) => Ok(sidecar.with_file_name(name)),
        None => {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "no sidecar is called so");
            Err(StoreError::io("inspect", sidecar, source))
        }
    }
}

fn sidecar_beside(file: &Path) -> PathBuf {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    file.with_file_name(format!("{}{name}{}", protocol::path::SIDECAR_PREFIX, protocol::path::SIDECAR_SUFFIX))
}

/// The path in the cloud of a file in `slices/`.
fn sector_path_of(file: &Path) -> Option<SectorPath> {
    let folder = data_folder_of(file)?.join("slices");
    let inside = file.strip_prefix(folder).ok()?.to_str()?;
    SectorPath::parse(&format!("/{inside}")).ok().filter(|_| inside.len() <= limits::PATH_BYTES_MAX)
}

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

const REMOVED: &str = "it is removed";
const QUARANTINED: &str = "it is put aside in `corrupt/` with its bytes";
const JOINED: &str = "the bytes are joined with the true sidecar where they are, else the sidecar is removed";
const UNREADABLE: &str = "the first read puts it aside, and the master makes the copy again";
const STAYS: &str = "it stays";
