//! Making a cloud and changing its accounts: the authority, the credentials of every role, users and nodes. It serves
//! `sector up`, on the security server's folder, while no server runs there (the journal's
//! lock sees to that). Everything here may be repeated: what is there and right stays.
//!
//! Private keys are written for their owner's eyes only, and the authority's key never leaves this folder.

pub(crate) mod restore;

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use daemon::settings::CredentialFiles;
use net::{
    clock::Clock,
    identity::{Authority, Credentials, TlsIdentity, Validity, fingerprint, random},
};
use protocol::{MachineKind, NodeId, UserName};
use store::{Journal, RowChange, finish_file_replacement, replace_files_atomically, write_file_atomically};

use crate::{
    AddressRange, SecurityError,
    accounts::{
        self, Accounts, MASTER, SECURITY, User,
        credentials::{TOKENS_MAX, Token},
        machines::{self, Certificate, Machine, TicketRow},
        password_hash::TokenHash,
    },
};

/// A cloud's authority and accounts, open for changes.
pub struct CloudSetup {
    authority: Authority,
    journal: Journal,
    accounts: Accounts,
}

/// Opens the cloud in the security server's `folder`, where there is one.
///
/// # Errors
/// One that [is served](SecurityError::is_served) while a server runs on it; [`SecurityError::AuthorityLost`] where
/// there is none.
pub fn open_cloud(folder: &Path) -> Result<CloudSetup, SecurityError> {
    if let AuthorityState::Missing(file) = open_authority(folder)? {
        return Err(SecurityError::AuthorityLost { file });
    }
    create_cloud(folder, "sector")
}

/// Opens the cloud in the security server's `folder`; makes it, with its authority, where there is none. The name
/// stands in the authority's certificate, for people. The security server's own credentials are put there too.
pub fn create_cloud(folder: &Path, cloud_name: &str) -> Result<CloudSetup, SecurityError> {
    create_folder(folder)?;
    // First, for its lock: two who create the same cloud must not mix their authorities.
    let journal = Journal::open(&folder.join(ACCOUNTS_FILE))?;
    let accounts = Accounts::load(&journal)?;
    // Half an authority on which nothing but our own certificate depends is a creation that was cut off.
    let in_use = accounts.machines().after(None).any(|(_, machine)| machine.kind != MachineKind::Security);
    let authority = match open_authority(folder)? {
        AuthorityState::Whole(authority) => *authority,
        AuthorityState::Missing(file) if in_use => return Err(SecurityError::AuthorityLost { file }),
        AuthorityState::Missing(_) => make_authority(folder, cloud_name)?,
    };
    let mut cloud = CloudSetup { authority, journal, accounts };
    cloud.ensure_registered(&name(SECURITY)?, MachineKind::Security, folder, &[])?;
    Ok(cloud)
}

impl CloudSetup {
    /// The certificate of the cloud's authority, which everyone in the cloud trusts.
    pub fn authority_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// The users and nodes as they are.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Sees to it that `folder` holds the credentials of the first master.
    pub fn ensure_master(&mut self, folder: &Path) -> Result<(), SecurityError> {
        self.ensure_registered(&name(MASTER)?, MachineKind::Master, folder, &[])
    }

    /// Sees to it that a node is registered and has its credentials in its `folder`. A new one may join from
    /// `addresses` (empty: from anywhere); of one that is there, they stay as an administrator set them.
    pub fn ensure_node(&mut self, id: &NodeId, folder: &Path, addresses: &[AddressRange]) -> Result<(), SecurityError> {
        if accounts::reserved_kind(id).is_some() {
            return Err(SecurityError::ReservedName(id.clone()));
        }
        self.ensure_registered(id, MachineKind::Node, folder, addresses)
    }

    /// Takes a ticket into the books, known by the digest of its secret.
    pub fn add_ticket(&mut self, digest: &[u8; 32], ticket: &TicketRow) -> Result<(), SecurityError> {
        self.commit(machines::set_ticket(digest, ticket)?)
    }

    /// Sees to it that there is this administrator. Returns the token of a new one, which is kept nowhere else; `None`
    /// where the user exists already.
    pub fn ensure_admin(&mut self, name: &UserName) -> Result<Option<[u8; 32]>, SecurityError> {
        if self.accounts.user(name).is_some() {
            return Ok(None);
        }
        self.commit(accounts::set_user(name, &User { admin: true, ..User::default() })?)?;
        self.add_token(name).map(Some)
    }

    /// Adds a user with a password.
    #[cfg(test)]
    pub(crate) fn add_user(&mut self, name: &UserName, password: &str) -> Result<(), SecurityError> {
        let password = Some(accounts::password_hash::PasswordHash::new(password)?);
        self.commit(accounts::set_user(name, &User { password, ..User::default() })?)
    }

    /// Gives a user a further token and returns it; it is kept nowhere else. The oldest goes when there are too many.
    pub fn add_token(&mut self, name: &UserName) -> Result<[u8; 32], SecurityError> {
        let mut user = self.user(name)?;
        let token = random();
        if user.tokens.len() >= TOKENS_MAX {
            user.tokens.remove(0);
        }
        let hash = TokenHash::new(&token);
        let (id, name_of_token) = (hash.derived_id(), format!("profile-{}", user.tokens.len() + 1));
        let now = Clock::start().now();
        user.tokens.push(Token {
            id,
            name: name_of_token,
            hash,
            made_unix_millis: now.unix_millis,
            until_unix_millis: None,
            used_unix_millis: 0,
        });
        self.commit(accounts::set_user(name, &user)?)?;
        Ok(token)
    }

    fn user(&self, name: &UserName) -> Result<User, SecurityError> {
        self.accounts.user(name).cloned().ok_or_else(|| SecurityError::NoSuchUser(name.clone()))
    }

    /// One that was struck off gets no new credentials, and stays it.
    fn ensure_registered(
        &mut self,
        name: &NodeId,
        kind: MachineKind,
        folder: &Path,
        addresses: &[AddressRange],
    ) -> Result<(), SecurityError> {
        create_folder(folder)?;
        let files = CredentialFiles::in_folder(folder);
        let known = self.accounts.machines().of_kind(name, kind).cloned();
        let is_usable = self.usable(&files).is_some_and(|found| {
            known.as_ref().is_some_and(|machine| machine.certificate.fingerprint == found || machine.is_next(found))
        });
        let machine = match known {
            Some(machine) if is_usable || machine.is_revoked => machine,
            Some(machine) => Machine { certificate: self.issue(name, &files)?, next: None, ..machine },
            None => Machine { addresses: addresses.to_vec(), ..Machine::new(kind, self.issue(name, &files)?) },
        };
        // After the files: a crash in between leaves files that are not the registered ones, and they are issued again.
        if self.accounts.machines().get(name) == Some(&machine) {
            return Ok(());
        }
        self.commit(machines::set_machine(name, &machine)?)
    }

    /// Issues credentials into these files.
    fn issue(&self, name: &NodeId, files: &CredentialFiles) -> Result<Certificate, SecurityError> {
        let issued = self.authority.issue(name.as_str())?;
        write(&files.authority, self.authority.certificate_pem(), PUBLIC)?;
        write_credentials(files, &issued)?;
        Ok(Certificate {
            fingerprint: fingerprint(&issued.certificate_pem)?,
            key: None,
            until_unix_millis: Some(Validity::of(&issued.certificate_pem)?.until_unix_millis()),
        })
    }

    /// The fingerprint of the credentials in these files, if they can be used with this authority and are not old.
    fn usable(&self, files: &CredentialFiles) -> Option<[u8; 32]> {
        finish_file_replacement(&[&files.key, &files.certificate]).ok()?;
        let texts = files.read().ok()?;
        let renew_at = SystemTime::UNIX_EPOCH + Validity::of(&texts.certificate_pem).ok()?.renew_at();
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        let fits = texts.authority_pem == self.authority.certificate_pem()
            && SystemTime::now() < renew_at
            // Also sees a key that is not the certificate's.
            && TlsIdentity::role(&texts.authority_pem, &credentials).is_ok();
        if fits { fingerprint(&credentials.certificate_pem).ok() } else { None }
    }

    /// The journal first, memory after it.
    fn commit(&mut self, change: RowChange) -> Result<(), SecurityError> {
        self.journal.commit(std::slice::from_ref(&change))?;
        self.accounts.apply(&change)
    }
}

/// What there is of an authority.
pub(crate) enum AuthorityState {
    /// All of it.
    Whole(Box<Authority>),
    /// This file is missing.
    Missing(PathBuf),
}

/// Loads the authority in the security server's folder, as far as it is there.
pub(crate) fn open_authority(folder: &Path) -> Result<AuthorityState, SecurityError> {
    let (certificate, key) = authority_files(folder);
    Ok(match (read(&certificate)?, read(&key)?) {
        (Some(certificate_pem), Some(key_pem)) => {
            AuthorityState::Whole(Box::new(Authority::from_pem(&certificate_pem, &key_pem)?))
        }
        (Some(_), None) => AuthorityState::Missing(key),
        (None, _) => AuthorityState::Missing(certificate),
    })
}

fn make_authority(folder: &Path, cloud_name: &str) -> Result<Authority, SecurityError> {
    let (certificate, key) = authority_files(folder);
    let authority = Authority::create(cloud_name)?;
    write(&key, &authority.key_pem(), PRIVATE)?;
    write(&certificate, authority.certificate_pem(), PUBLIC)?;
    Ok(authority)
}

fn authority_files(folder: &Path) -> (PathBuf, PathBuf) {
    (CredentialFiles::in_folder(folder).authority, folder.join(AUTHORITY_KEY_FILE))
}

/// Replaces a certificate and its key, so that they always fit together.
pub(crate) fn write_credentials(files: &CredentialFiles, credentials: &Credentials) -> Result<(), SecurityError> {
    let Credentials { certificate_pem, key_pem } = credentials;
    replace_files_atomically(&[
        (&files.key, key_pem.as_bytes(), PRIVATE),
        (&files.certificate, certificate_pem.as_bytes(), PUBLIC),
    ])
    .map_err(|source| SecurityError::File { operation: "write", file: files.certificate.clone(), source })
}

/// A role's name as that of its machine.
fn name(role: &'static str) -> Result<NodeId, SecurityError> {
    NodeId::new(role).map_err(|_| SecurityError::Panicked("named a role"))
}

fn create_folder(folder: &Path) -> Result<(), SecurityError> {
    // Others on the machine have no business in a folder with keys.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| SecurityError::File {
        operation: "create the folder",
        file: folder.to_owned(),
        source,
    })
}

fn read(file: &Path) -> Result<Option<String>, SecurityError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SecurityError::File { operation: "read", file: file.to_owned(), source }),
    }
}

fn write(file: &Path, text: &str, mode: u32) -> Result<(), SecurityError> {
    write_file_atomically(file, text.as_bytes(), mode).map_err(|source| SecurityError::File {
        operation: "write",
        file: file.to_owned(),
        source,
    })
}

/// The journal of accounts, in the security server's folder.
pub const ACCOUNTS_FILE: &str = "accounts.redb";
/// The authority's private key, in the security server's folder.
pub const AUTHORITY_KEY_FILE: &str = "authority.key";
/// Mode of files that everyone may read.
const PUBLIC: u32 = 0o644;
/// Mode of files that only their owner may read.
const PRIVATE: u32 = 0o600;

#[cfg(test)]
#[path = "setup_tests.rs"]
mod tests;
