//! Restores a backup into the folders of roles that do not run. The whole backup is read before anything changes, and
//! a role is staged beside what is there. Renames then put it in place, the rows last; replaced files are archived.
//! Existing files stay, since they may be newer: settings, a renewed certificate. But rows are always those of the
//! backup, and an authority that differs from the backup's never stays.

use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
};

use protocol::Reason;
use store::{Journal, StoreError};
use terminal::failure::Failure;

use super::{
    Interrupt, InterruptibleReader, file_copy,
    manifest::{AUDIT_FOLDER, FILES_FOLDER, FileLine, Manifest, Part, ROWS_FILE, Role},
    replace_file::replace,
    take::authority_fingerprint,
    verify::{self, unreadable},
};
use crate::cloud::security_failure;

/// Which roles go where.
#[derive(Clone, Debug)]
pub(crate) struct RestoreOptions {
    /// The only role to restore.
    pub(crate) role: Option<Role>,
    /// Where to restore it; by default where it came from.
    pub(crate) folder: Option<PathBuf>,
    /// Whether only to prove that it could be restored.
    pub(crate) check: bool,
}

/// A role that was restored.
#[derive(Debug)]
pub(crate) struct Restored {
    /// Which role.
    pub(crate) role: Role,
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The previous rows, and other files that could not stay.
    pub(crate) archived: Vec<PathBuf>,
}

/// Restores a backup. Blocks.
pub(crate) fn restore(
    backup: &Path,
    wanted: &RestoreOptions,
    interrupt: &Interrupt,
) -> Result<(Manifest, Vec<Restored>), Failure> {
    let manifest = verify::verify(backup, interrupt)?;
    let parts: Vec<_> = manifest.parts.iter().filter(|part| wanted.role.is_none_or(|role| role == part.role)).collect();
    if parts.is_empty() {
        let message = format!("`{}` has nothing of the role that was named", backup.display());
        return Err(Failure::new(Reason::NotFound, message));
    }
    if wanted.folder.is_some() && parts.len() > 1 {
        return Err(Failure::usage("this backup has two roles; say with --role which one goes to --folder"));
    }
    let mut places = Vec::new();
    for part in parts {
        let folder = wanted.folder.clone().unwrap_or_else(|| part.folder.clone());
        let folder = std::path::absolute(&folder).map_err(|error| Failure::local("use", &folder, &error))?;
        places.push(RestoreTarget::hold(&manifest, part, folder)?);
    }
    if wanted.check {
        let of =
            |place: RestoreTarget<'_>| Restored { role: place.part.role, folder: place.folder, archived: Vec::new() };
        return Ok((manifest.clone(), places.into_iter().map(of).collect()));
    }
    for place in &mut places {
        place.prepare(backup, interrupt)?;
    }
    // From here on a request to stop comes too late: what follows is a few renames.
    interrupt.check()?;
    let restored = places.into_iter().map(|place| place.put(&manifest)).collect::<Result<_, _>>()?;
    Ok((manifest, restored))
}

/// A role's folder while a part is restored.
struct RestoreTarget<'a> {
    part: &'a Part,
    folder: PathBuf,
    /// The existing rows: holding them open keeps the role from being started.
    held: Option<Journal>,
    staging: Staging,
}

/// What is prepared beside the existing files; removed when dropped.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        // It may never have been made, or may have been moved by now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl<'a> RestoreTarget<'a> {
    /// Checks that the role does not run and belongs to the backup's cloud.
    fn hold(manifest: &Manifest, part: &'a Part, folder: PathBuf) -> Result<Self, Failure> {
        // An authority that cannot be read is archived; one that can be read must be ours.
        if let Ok(Some(cloud)) = authority_fingerprint(&folder)
            && cloud != manifest.cloud
        {
            let message = format!(
                "`{}` is the {} of another cloud than the backup's; name another folder with --folder",
                folder.display(),
                part.role.name()
            );
            return Err(Failure::new(Reason::NotPermitted, message));
        }
        let rows = folder.join(part.role.rows_file());
        let held = if rows.exists() { hold(part.role, &rows)? } else { None };
        let staging = Staging(folder.join(format!(".restoring-{}", std::process::id())));
        Ok(Self { part, folder, held, staging })
    }

    /// Prepares everything that will be put in place.
    fn prepare(&mut self, backup: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        let (role, from) = (self.part.role, backup.join(self.part.role.as_str()));
        file_copy::make_folder(&self.folder)?;
        let staging = &self.staging.0;
        file_copy::make_folder(staging)?;
        let rows = staging.join(role.rows_file());
        let file = from.join(ROWS_FILE);
        let opened = File::open(&file).map_err(|error| Failure::local("read", &file, &error))?;
        let mut reader = InterruptibleReader::new(BufReader::new(opened), interrupt);
        let keeps = |table: &str| role == Role::Master || security::is_restored(table);
        Journal::import(&rows, &mut reader, &keeps).map_err(|error| {
            if interrupt.is_cancelled() { Failure::failed(super::INTERRUPTED) } else { unreadable(&file, error) }
        })?;
        if role == Role::Master {
            let number = u64::from_be_bytes(net::identity::random());
            master::mark_restored(&rows, number).map_err(|error| error.refusal())?;
        }
        file_copy::give_to_owner_of(&self.folder, &rows)?;
        for line in self.wanted_files()? {
            self.stage(&from, line, interrupt)?;
        }
        file_copy::sync(staging)
    }

    fn stage(&self, from: &Path, line: &FileLine, interrupt: &Interrupt) -> Result<(), Failure> {
        let (source, staged) = (from.join(&line.name), self.staging.0.join(&line.name));
        if let Some(folder) = staged.parent().filter(|folder| !folder.exists()) {
            file_copy::make_folder(folder)?;
            file_copy::give_to_owner_of(&self.folder, folder)?;
        }
        let mut opened = File::open(&source).map_err(|error| Failure::local("read", &source, &error))?;
        file_copy::copy(&mut opened, &staged, interrupt, &|error| Failure::local("read", &source, error))?;
        file_copy::set_mode(&staged, line.mode)?;
        file_copy::give_to_owner_of(&self.folder, &staged)
    }

    /// The files of the backup that the folder lacks, and those of which it must not keep its own version.
    fn wanted_files(&self) -> Result<Vec<&'a FileLine>, Failure> {
        let is_there = |name: &str| self.folder.join(name).exists();
        // Neither is of use without the other.
        let has_credentials = is_there(KEY) && is_there(CERTIFICATE);
        let has_audit = fs::read_dir(self.folder.join(AUDIT_FOLDER)).is_ok_and(|mut items| items.next().is_some());
        let mut wanted = Vec::new();
        for line in &self.part.files {
            let is_wanted = match line.name.split_once('/') {
                Some((FILES_FOLDER, KEY | CERTIFICATE)) => !has_credentials,
                Some((FILES_FOLDER, name)) if is_authority(name) => {
                    !is_there(name) || {
                        let found = file_copy::digest(&self.folder.join(name), &Interrupt::default())?;
                        found.blake3 != line.blake3
                    }
                }
                Some((FILES_FOLDER, name)) => !is_there(name),
                // An audit record is never taken back to an earlier state.
                Some((AUDIT_FOLDER, _)) => !has_audit,
                _ => false,
            };
            wanted.extend(is_wanted.then_some(line));
        }
        Ok(wanted)
    }

    /// Puts it in place, the rows last: with them, the role becomes the backup's.
    fn put(self, manifest: &Manifest) -> Result<Restored, Failure> {
        let staging = &self.staging.0;
        let mut aside = Vec::new();
        for line in self.wanted_files()? {
            let Some((folder, name)) = line.name.split_once('/') else { continue };
            let to = if folder == AUDIT_FOLDER { self.folder.join(AUDIT_FOLDER) } else { self.folder.clone() };
            if !to.exists() {
                file_copy::make_folder(&to)?;
                file_copy::give_to_owner_of(&self.folder, &to)?;
            }
            aside.extend(replace(&staging.join(&line.name), &to.join(name))?);
            file_copy::sync(&to)?;
        }
        let rows = self.part.role.rows_file();
        aside.extend(replace(&staging.join(rows), &self.folder.join(rows))?);
        file_copy::sync(&self.folder)?;
        drop(self.held);
        if self.part.role == Role::Security {
            security::finish_restore(&self.folder, &manifest.made()).map_err(security_failure)?;
            for made in [CERTIFICATE, KEY] {
                file_copy::give_to_owner_of(&self.folder, &self.folder.join(made))?;
            }
            let audit = self.folder.join(AUDIT_FOLDER);
            for item in fs::read_dir(&audit).into_iter().flatten().flatten() {
                file_copy::give_to_owner_of(&self.folder, &item.path())?;
            }
            file_copy::give_to_owner_of(&self.folder, &audit)?;
        }
        Ok(Restored { role: self.part.role, folder: self.folder, archived: aside })
    }
}

/// Opens the existing rows. Damaged rows do not stop a restore, since no role can run on them.
fn hold(role: Role, rows: &Path) -> Result<Option<Journal>, Failure> {
    match Journal::open(rows) {
        Ok(journal) => Ok(Some(journal)),
        Err(StoreError::NotAJournal { .. }) => Ok(None),
        Err(StoreError::JournalLocked { .. }) => {
            let folder = rows.parent().unwrap_or(rows).display();
            let message = format!("the {} in `{folder}` runs; stop it first, then put the backup back", role.name());
            Err(Failure::new(Reason::InUse, message))
        }
        Err(other) => Err(Failure::from(other.refusal())),
    }
}

fn is_authority(name: &str) -> bool {
    name == "authority.pem" || name == security::AUTHORITY_KEY_FILE
}

/// The files by which a role authenticates itself.
const KEY: &str = "key.pem";
const CERTIFICATE: &str = "certificate.pem";
