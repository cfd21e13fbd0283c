//! Reads a secret that the operator put into a file, at the start of the security server. A role's own key, which the
//! role wrote itself, may be readable by others: that only gives a warning. The operator's file was only just put there
//! and can be corrected, so one that others may read is never accepted.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use super::SecretText;
use crate::SecurityError;

/// The text of the file, without the line break at its end.
pub(super) fn read(file: &Path) -> Result<SecretText, SecurityError> {
    let failed = |source| SecurityError::File { operation: "read the secret in", file: file.to_owned(), source };
    let mode = fs::metadata(file).map_err(failed)?.permissions().mode();
    if mode & READABLE_BY_OTHERS != 0 {
        return Err(SecurityError::SecretReadable { file: file.to_owned(), mode: mode & 0o777 });
    }
    let text = fs::read_to_string(file).map_err(failed)?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
        let why = format!("it must hold 1 to {SECRET_BYTES_MAX} bytes");
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    Ok(SecretText(secret.to_owned()))
}

/// Bits of a file's mode that let others than its owner read or change it.
const READABLE_BY_OTHERS: u32 = 0o077;
/// Longest secret in bytes: more than any password or client secret has.
const SECRET_BYTES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_secret_is_read_without_its_line_break_and_only_from_a_file_of_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ldap.password");
        fs::write(&file, "two words \n").unwrap();
        let set_mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o640);
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("ldap.password") && error.contains("640") && !error.contains("words"), "{error}");
        set_mode(0o600);
        assert_eq!(read(&file).unwrap(), SecretText("two words ".into()));
        assert!(!format!("{:?}", read(&file)).contains("words"));
        fs::write(&file, "\n").unwrap();
        assert!(read(&file).is_err());
        assert!(read(&folder.path().join("absent")).unwrap_err().to_string().contains("absent"));
    }
}
