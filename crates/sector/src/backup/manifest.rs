//! A backup's description of itself: one line of JSON in `manifest.json`, and below it the BLAKE3 of that line
//! (`docs/formats-on-disk.md`, backup). This file never reads anything else of a backup.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use protocol::Reason;
use serde::{Deserialize, Serialize};
use terminal::{failure::Failure, show};

/// A backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The format version of the backup.
    pub(crate) format: u32,
    /// The version of the program that made it.
    pub(crate) program: String,
    /// When it was begun.
    pub(crate) made_unix_millis: u64,
    /// The fingerprint of the cloud's authority, in hexadecimal.
    pub(crate) cloud: String,
    /// The roles that are in it.
    pub(crate) parts: Vec<Part>,
}

/// One role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Which role.
    pub(crate) role: Role,
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Rows of its journal.
    pub(crate) rows: u64,
    /// For a master: which journal it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) journal: Option<JournalLine>,
    /// All files of the part.
    pub(crate) files: Vec<FileLine>,
}

/// The identity of a master's journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalLine {
    /// Its id.
    pub(crate) id: String,
    /// Its number in the life of the cloud.
    pub(crate) generation: u64,
    /// The number of the last change of a small row.
    pub(crate) sequence: u64,
    /// Files and folders.
    pub(crate) names: u64,
}

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileLine {
    /// Its name in the part's folder: `rows`, `files/NAME` or `audit/NAME`.
    pub(crate) name: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// Its BLAKE3, in hexadecimal.
    pub(crate) blake3: String,
    /// Its permissions at the source.
    pub(crate) mode: u32,
}

/// What can be backed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// The security server.
    Security,
    /// The master.
    Master,
}

impl Role {
    /// In the order in which they start.
    pub(crate) const ALL: [Self; 2] = [Self::Security, Self::Master];

    /// The name of its folder.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Master => "master",
        }
    }

    /// Its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Security => "security server",
            Self::Master => "master",
        }
    }

    /// The file of its rows.
    pub(crate) fn rows_file(self) -> &'static str {
        match self {
            Self::Security => security::ACCOUNTS_FILE,
            Self::Master => master::JOURNAL_FILE,
        }
    }
}

impl Manifest {
    /// When it was made, in UTC: for records, names and programs.
    pub(crate) fn made(&self) -> String {
        show::utc_time(self.made_unix_millis)
    }

    /// When it was made, for people.
    pub(crate) fn shown_made(&self) -> String {
        show::time(self.made_unix_millis)
    }

    /// The text of the manifest's file.
    pub(crate) fn to_text(&self) -> Result<String, Failure> {
        let line = serde_json::to_string(self).map_err(|error| Failure::failed(error.to_string()))?;
        let digest = blake3::hash(line.as_bytes()).to_hex();
        Ok(format!("{line}\n{digest}\n"))
    }

    /// Reads the manifest of the backup in a folder.
    pub(crate) fn read(backup: &Path) -> Result<Self, Failure> {
        let file = backup.join(MANIFEST_FILE);
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => damaged(&file, "is no text"),
            _ => Failure::local("read", &file, &error),
        })?;
        let mut lines = text.lines();
        let (line, digest) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if blake3::hash(line.as_bytes()).to_hex().as_str() != digest {
            return Err(damaged(&file, "is not what was written"));
        }
        let head: Head = serde_json::from_str(line).map_err(|error| damaged(&file, &error.to_string()))?;
        if head.format > FORMAT || is_newer(&head.program, env!("CARGO_PKG_VERSION")) {
            let message = format!(
                "`{}` was made by sector {}, and this is {}; use that version or a newer one",
                backup.display(),
                head.program,
                env!("CARGO_PKG_VERSION")
            );
            return Err(Failure::new(Reason::NotPermitted, message));
        }
        let manifest: Self = serde_json::from_str(line).map_err(|error| damaged(&file, &error.to_string()))?;
        let is_plain = |name: &str| {
            let mut parts = Path::new(name).components();
            let mut is_next_normal = || matches!(parts.next(), Some(Component::Normal(_)));
            match name.split_once('/') {
                None => name == ROWS_FILE,
                Some((FILES_FOLDER | AUDIT_FOLDER, rest)) => {
                    is_next_normal() && is_next_normal() && !rest.contains('/') && parts.next().is_none()
                }
                Some(_) => false,
            }
        };
        match manifest.parts.iter().flat_map(|part| &part.files).find(|file| !is_plain(&file.name)) {
            Some(_) => Err(damaged(&file, "names files that are in no backup")),
            None => Ok(manifest),
        }
    }
}

/// The part that is read first. It keeps its place in every later format.
#[derive(Deserialize)]
struct Head {
    format: u32,
    program: String,
}

/// The error for a backup that is not what was written.
pub(crate) fn damaged(file: &Path, why: &str) -> Failure {
    Failure::new(Reason::Corrupt, format!("`{}` {why}; this backup cannot be used, take another", file.display()))
}

/// Whether one version is later than another.
fn is_newer(one: &str, other: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let release = text.split(['-', '+']).next().unwrap_or_default();
        release.split('.').map(|number| number.parse().unwrap_or(0)).collect()
    };
    numbers(one) > numbers(other)
}

/// The format that this program writes.
pub(crate) const FORMAT: u32 = 1;
/// The manifest's file in a backup.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
/// The rows' file in a part.
pub(crate) const ROWS_FILE: &str = "rows";
/// The folder of a part with the small files of the role's folder.
pub(crate) const FILES_FOLDER: &str = "files";
/// The folder of a part with the audit record.
pub(crate) const AUDIT_FOLDER: &str = "audit";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_later_version_is_told_from_an_earlier_one() {
        for (one, other, newer) in [
            ("0.2.0", "0.1.9", true),
            ("0.1.10", "0.1.9", true),
            ("0.1.0", "0.1.0", false),
            ("0.1.0", "1.0.0-a", false),
        ] {
            assert_eq!(is_newer(one, other), newer, "{one} {other}");
        }
    }

    #[test]
    fn a_manifest_that_leads_out_of_the_backup_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_good) in [
            ("rows", true),
            ("files/key.pem", true),
            ("audit/audit-000000000001.jsonl", true),
            ("files/../rows", false),
            ("/etc/passwd", false),
            ("files/a/b", false),
            ("files/..", false),
            ("other/a", false),
        ] {
            let file = FileLine { name: name.into(), bytes: 0, blake3: String::new(), mode: 0o600 };
            let part = Part { role: Role::Master, folder: "/x".into(), rows: 0, journal: None, files: vec![file] };
            let (program, cloud) = (env!("CARGO_PKG_VERSION").into(), String::new());
            let manifest = Manifest { format: FORMAT, program, made_unix_millis: 0, cloud, parts: vec![part] };
            fs::write(folder.path().join(MANIFEST_FILE), manifest.to_text().unwrap()).unwrap();
            assert_eq!(Manifest::read(folder.path()).is_ok(), is_good, "{name}");
        }
    }
}
