//! A group: those who hold one key. Each member makes itself a certificate with it, so that a group needs no server. It
//! never leaves its file open to other users.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use net::{
    NetError,
    identity::{Authority, TlsIdentity},
    messenger::StatelessResetKey,
};

/// The key of a group. Whoever holds it is a member, and members trust each other.
#[derive(Clone)]
pub struct Group {
    authority: Arc<Authority>,
}

impl Group {
    /// Makes a new group. Its name is for people, and has 1 to 64 bytes.
    ///
    /// # Errors
    /// [`NetError::Certificate`] for a name that is empty or too long.
    pub fn create(name: &str) -> Result<Self, NetError> {
        Ok(Self { authority: Arc::new(Authority::create(name)?) })
    }

    /// Writes the key to a new file that only this user can read. Take it to the other members by a way that is as safe.
    ///
    /// # Errors
    /// [`NetError::File`] if the file exists or cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), NetError> {
        // The key comes first: whoever reads keys takes the first part.
        let text = format!("{}{}", self.authority.key_pem(), self.authority.certificate_pem());
        let written = || -> io::Result<()> {
            let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
            made.write_all(text.as_bytes())?;
            made.sync_all()
        };
        written().map_err(|source| failed("write the group's key to", file, source))
    }

    /// Reads a key that [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`NetError::File`] if the file cannot be read, [`NetError::Certificate`] if it holds no group's key.
    pub fn load(file: &Path) -> Result<Self, NetError> {
        let text = fs::read_to_string(file).map_err(|source| failed("read the group's key from", file, source))?;
        Ok(Self { authority: Arc::new(Authority::from_pem(&text, &text)?) })
    }

    /// What a member is to the others, for 90 days.
    pub(crate) fn identity(&self) -> Result<TlsIdentity, NetError> {
        TlsIdentity::role(self.authority.certificate_pem(), &self.authority.issue(MEMBER)?)
    }

    /// Gives an identity a new certificate.
    pub(crate) fn renew(&self, identity: &TlsIdentity) -> Result<(), NetError> {
        identity.replace(self.authority.certificate_pem(), &self.authority.issue(MEMBER)?)
    }

    /// The key with which whoever listens at `port` says that it does not know a session. It is the same after a
    /// restart.
    pub(crate) fn reset_key(&self, port: u16) -> StatelessResetKey {
        StatelessResetKey::of_private_key(&format!("{}{port}", self.authority.key_pem()))
    }
}

fn failed(operation: &'static str, file: &Path, source: io::Error) -> NetError {
    NetError::File { operation, file: file.to_owned(), source }
}

/// The name in the certificate of every member.
pub(crate) const MEMBER: &str = "gmp-member";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_group_is_the_same_from_its_file_and_the_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group.pem");
        let made = Group::create("sensors").unwrap();
        made.save(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Group::load(&file).unwrap();
        assert_eq!(read.authority.key_pem(), made.authority.key_pem());
        let error = made.save(&file).unwrap_err().to_string();
        assert!(error.starts_with("cannot write the group's key to ") && error.contains("exists"), "{error}");
    }

    #[test]
    fn a_file_without_a_key_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group.pem");
        assert!(Group::load(&file).err().unwrap().to_string().starts_with("cannot read the group's key from "));
        fs::write(&file, "nothing").unwrap();
        assert!(Group::load(&file).err().unwrap().to_string().starts_with("cannot load "));
        fs::write(&file, Group::create("a").unwrap().authority.certificate_pem()).unwrap();
        assert!(Group::load(&file).is_err(), "a certificate alone makes no member");
        assert!(Group::create("").is_err());
    }
}
