//! Where a role's certificate, private key and the cloud's authority are, and reading these files. Their content is
//! never checked here.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{InvalidSetting, checked::make_absolute};
use crate::DaemonError;

/// The three files by which a role proves itself and checks others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFiles {
    /// The certificate of the cloud's authority, PEM.
    pub authority: PathBuf,
    /// The role's own certificate, PEM.
    pub certificate: PathBuf,
    /// The role's private key, PEM.
    pub key: PathBuf,
}

/// The text of the three files.
#[derive(Clone)]
pub struct CredentialTexts {
    /// The certificate of the cloud's authority, PEM.
    pub authority_pem: String,
    /// The role's own certificate, PEM.
    pub certificate_pem: String,
    /// The role's private key, PEM.
    pub key_pem: String,
}

impl CredentialFiles {
    /// The three files under their usual names in a role's folder.
    pub fn in_folder(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        Self { authority: file("authority.pem"), certificate: file("certificate.pem"), key: file("key.pem") }
    }

    /// Reads the three files. A private key that others may read is used, and a warning is logged.
    pub fn read(&self) -> Result<CredentialTexts, DaemonError> {
        let read = |what, file: &PathBuf| {
            fs::read_to_string(file).map_err(|source| DaemonError::CredentialUnreadable {
                what,
                file: file.clone(),
                source,
            })
        };
        let texts = CredentialTexts {
            authority_pem: read("authority's certificate", &self.authority)?,
            certificate_pem: read("certificate", &self.certificate)?,
            key_pem: read("private key", &self.key)?,
        };
        let mode = fs::metadata(&self.key).map_or(0, |metadata| metadata.permissions().mode());
        if mode & READABLE_BY_OTHERS != 0 {
            tracing::warn!(key = %self.key.display(), "others may read this private key: chmod 600 it");
        }
        Ok(texts)
    }
}

impl fmt::Debug for CredentialTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A private key must not reach a log.
        f.write_str("CredentialTexts(…)")
    }
}

/// Makes a role's folder absolute, and its credentials inside it.
pub(super) fn make_all_absolute(
    base: &Path,
    folder: &mut PathBuf,
    credentials: [&mut PathBuf; 3],
) -> Result<(), InvalidSetting> {
    if folder.as_os_str().is_empty() {
        return Err(InvalidSetting { keys: &["folder"], why: "it is empty; `.` is the folder of this file".into() });
    }
    make_absolute(folder, base);
    for file in credentials {
        make_absolute(file, folder);
    }
    Ok(())
}

const READABLE_BY_OTHERS: u32 = 0o077;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_missing_key_is_named_and_a_key_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let files = CredentialFiles::in_folder(folder.path());
        fs::write(&files.authority, "authority").unwrap();
        fs::write(&files.certificate, "certificate").unwrap();
        let error = files.read().unwrap_err();
        assert!(error.to_string().contains("private key"), "{error}");
        assert!(error.to_string().contains("key.pem"), "{error}");
        fs::write(&files.key, "very secret").unwrap();
        let texts = files.read().unwrap();
        assert_eq!((texts.authority_pem.as_str(), texts.key_pem.as_str()), ("authority", "very secret"));
        assert!(!format!("{texts:?}").contains("secret"));
    }
}
