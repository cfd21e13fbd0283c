//! Proves that a backup is whole: every file has the bytes that were written, and the rows can be read to their end.
//! It never changes a backup.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use protocol::Reason;
use store::{RowsError, StoreError, read_rows};
use terminal::failure::Failure;

use super::{
    Interrupt, InterruptibleReader, file_copy,
    manifest::{JournalLine, MANIFEST_FILE, Manifest, ROWS_FILE, Role, damaged},
};

/// Finds the backup: this folder, or the newest one in it.
pub(crate) fn find(at: &Path) -> Result<PathBuf, Failure> {
    if at.join(MANIFEST_FILE).exists() {
        return Ok(at.to_owned());
    }
    let listed = fs::read_dir(at).map_err(|error| Failure::local("look for a backup in", at, &error))?;
    let mut newest: Option<(u64, PathBuf)> = None;
    for item in listed {
        let path = item.map_err(|error| Failure::local("list", at, &error))?.path();
        let is_one = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME_PREFIX));
        if is_one && path.join(MANIFEST_FILE).exists() {
            // A damaged backup is not skipped silently: an older one would then pass for the newest.
            let made = Manifest::read(&path)?.made_unix_millis;
            if newest.as_ref().is_none_or(|(other, _)| made >= *other) {
                newest = Some((made, path));
            }
        }
    }
    newest.map(|(_, path)| path).ok_or_else(|| {
        Failure::new(Reason::NotFound, format!("there is no backup in `{}`; `sector backup` makes one", at.display()))
    })
}

/// Reads all of a backup.
pub(crate) fn verify(backup: &Path, interrupt: &Interrupt) -> Result<Manifest, Failure> {
    let manifest = Manifest::read(backup)?;
    for part in &manifest.parts {
        let folder = backup.join(part.role.as_str());
        for line in &part.files {
            let file = folder.join(&line.name);
            let found = file_copy::digest(&file, interrupt).map_err(|failure| match failure.reason {
                Reason::NotFound => damaged(&file, "is missing"),
                _ => failure,
            })?;
            if (found.bytes, found.blake3.as_str()) != (line.bytes, line.blake3.as_str()) {
                return Err(damaged(&file, "is not what was written"));
            }
        }
        let (rows, _) = read_part(part.role, &folder.join(ROWS_FILE), interrupt)?;
        if rows != part.rows {
            return Err(damaged(&folder.join(ROWS_FILE), "has other rows than the manifest says"));
        }
    }
    Ok(manifest)
}

/// Reads the rows of a part: how many there are, and which journal they belong to.
pub(super) fn read_part(role: Role, file: &Path, interrupt: &Interrupt) -> Result<(u64, Option<JournalLine>), Failure> {
    let opened = File::open(file).map_err(|error| Failure::local("read", file, &error))?;
    let mut facts = master::JournalFacts::default();
    let mut wrong = None;
    let mut take = |table: &str, key: &[u8], value: &[u8]| {
        if role == Role::Master
            && let Err(error) = facts.add_row(table, key, value)
        {
            wrong.get_or_insert(error);
        }
        Ok::<(), StoreError>(())
    };
    let mut from = InterruptibleReader::new(BufReader::new(opened), interrupt);
    let rows = read_rows(&mut from, &mut take).map_err(|error| {
        if interrupt.is_cancelled() { Failure::failed(super::INTERRUPTED) } else { unreadable(file, error) }
    })?;
    if let Some(error) = wrong {
        return Err(Failure::from(error.refusal()));
    }
    let journal = (role == Role::Master).then(|| JournalLine {
        id: facts.id.map(|(id, _)| id.to_string()).unwrap_or_default(),
        generation: facts.id.map_or(0, |(_, generation)| generation),
        sequence: facts.sequence,
        names: facts.names,
    });
    Ok((rows, journal))
}

/// The error for rows that cannot be used.
pub(super) fn unreadable(file: &Path, error: RowsError) -> Failure {
    match error {
        RowsError::Store(error) => Failure::from(error.refusal()),
        RowsError::Read(error) if error.kind() != io::ErrorKind::InvalidData => Failure::local("read", file, &error),
        RowsError::Version(version) => {
            let message = format!("`{}` has rows of version {version}; use a newer sector", file.display());
            Failure::new(Reason::NotPermitted, message)
        }
        other => damaged(file, &format!("cannot be used ({other})")),
    }
}

/// How the name of a backup begins.
pub(super) const NAME_PREFIX: &str = "sector-";
