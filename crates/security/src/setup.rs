//! Making a cloud and changing its accounts: the authority, the credentials of every role, users and nodes. It serves
//! `sector up`, on the security server's folder, while no server runs there (the journal's
//! lock sees to that). Everything here may be repeated: what is there and right stays.
//!
//! Private keys are written for their owner's eyes only, and the authority's key never leaves this folder.

use std::{fs, io, os::unix::fs::DirBuilderExt, path::Path, time::Duration};

use daemon::settings::CredentialFiles;
use net::{
    clock::Clock,
    identity::{Authority, Credentials, TlsIdentity, fingerprint, random},
};
use protocol::{NodeId, UserName};
use store::{Journal, RowChange, write_file_atomically};

use crate::{
    AddressRange, SecurityError,
    accounts::{self, Accounts, MASTER, Node, SECURITY, User},
    credentials::{TOKENS_MAX, Token},
    secret::{PasswordHash, TokenHash},
};

/// A cloud's authority and accounts, open for changes.
pub struct Cloud {
    authority: Authority,
    journal: Journal,
    accounts: Accounts,
}

/// Opens the cloud in the security server's `folder`; makes it, with its authority, where there is none. The name
/// stands in the authority's certificate, for people. The security server's own credentials are put there too.
pub fn create_cloud(folder: &Path, cloud_name: &str) -> Result<Cloud, SecurityError> {
    create_folder(folder)?;
    // First, for its lock: two who create the same cloud must not mix their authorities.
    let journal = Journal::open(&folder.join(ACCOUNTS_FILE))?;
    let accounts = Accounts::load(&journal)?;
    let authority = open_authority(folder, cloud_name, accounts.master().is_some())?;
    let mut cloud = Cloud { authority, journal, accounts };
    cloud.ensure_registered(&reserved(SECURITY)?, folder, &[])?;
    Ok(cloud)
}

impl Cloud {
    /// The certificate of the cloud's authority, which everyone in the cloud trusts.
    pub fn authority_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// The users and nodes as they are.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Sees to it that the master's `folder` holds the credentials of the registered master. A cloud has one.
    pub fn ensure_master(&mut self, folder: &Path) -> Result<(), SecurityError> {
        self.ensure_registered(&reserved(MASTER)?, folder, &[])
    }

    /// Sees to it that a node is registered, may join from `addresses` (empty: from anywhere), and has its credentials
    /// in its `folder`.
    pub fn ensure_node(&mut self, id: &NodeId, folder: &Path, addresses: &[AddressRange]) -> Result<(), SecurityError> {
        if accounts::is_reserved(id) {
            return Err(SecurityError::ReservedName(id.clone()));
        }
        self.ensure_registered(id, folder, addresses)
    }

    /// Strikes a node off; it can no longer join. Unknown nodes are struck off already.
    pub fn remove_node(&mut self, id: &NodeId) -> Result<(), SecurityError> {
        match self.accounts.node(id) {
            Some(_) => self.commit(accounts::remove_node(id)),
            None => Ok(()),
        }
    }

    /// Sees to it that there is this administrator. Returns the token of a new one, which is kept nowhere else; `None`
    /// where the user exists already.
    pub fn ensure_admin(&mut self, name: &UserName) -> Result<Option<[u8; 32]>, SecurityError> {
        if self.accounts.user(name).is_some() {
            return Ok(None);
        }
        self.add_user(name, None, NewUser { admin: true, ..NewUser::default() })?;
        self.add_token(name).map(Some)
    }

    /// Adds a user, with a password or, for now, without any secret.
    pub fn add_user(&mut self, name: &UserName, password: Option<&str>, new: NewUser) -> Result<(), SecurityError> {
        if self.accounts.user(name).is_some() {
            return Err(SecurityError::UserExists(name.clone()));
        }
        for group in &new.groups {
            accounts::check_group(group)?;
            if !self.accounts.groups().contains(group) {
                self.commit(accounts::set_group(group)?)?;
            }
        }
        let NewUser { groups, admin, addresses } = new;
        let password = password.map(PasswordHash::new).transpose()?;
        self.commit(accounts::set_user(name, &User { password, groups, admin, addresses, ..User::default() })?)
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

    /// Gives a user a new password.
    pub fn set_password(&mut self, name: &UserName, password: &str) -> Result<(), SecurityError> {
        let mut user = self.user(name)?;
        user.password = Some(PasswordHash::new(password)?);
        self.commit(accounts::set_user(name, &user)?)
    }

    /// Removes a user, but never the last administrator.
    pub fn remove_user(&mut self, name: &UserName) -> Result<(), SecurityError> {
        let user = self.user(name)?;
        if user.admin && self.accounts.users().filter(|(_, user)| user.admin).count() == 1 {
            return Err(SecurityError::LastAdmin(name.clone()));
        }
        self.commit(accounts::remove_user(name))
    }

    fn user(&self, name: &UserName) -> Result<User, SecurityError> {
        self.accounts.user(name).cloned().ok_or_else(|| SecurityError::NoSuchUser(name.clone()))
    }

    fn ensure_registered(
        &mut self,
        id: &NodeId,
        folder: &Path,
        addresses: &[AddressRange],
    ) -> Result<(), SecurityError> {
        let row = Node { fingerprint: self.ensure_credentials(id, folder)?, addresses: addresses.to_vec() };
        // After the files: a crash in between leaves files that are not the registered ones, and they are issued again.
        if self.accounts.registered(id) == Some(&row) { Ok(()) } else { self.commit(accounts::set_node(id, &row)?) }
    }

    /// The fingerprint of the certificate in `folder`, which is issued anew unless it is the registered one and of use.
    fn ensure_credentials(&self, id: &NodeId, folder: &Path) -> Result<[u8; 32], SecurityError> {
        create_folder(folder)?;
        let files = CredentialFiles::in_folder(folder);
        let registered = self.accounts.registered(id).map(|row| row.fingerprint);
        if let Some(found) = self.usable(&files).filter(|&found| registered == Some(found)) {
            return Ok(found);
        }
        let issued = self.authority.issue(id.as_str())?;
        let fingerprint = fingerprint(&issued.certificate_pem)?;
        write(&files.authority, self.authority.certificate_pem(), PUBLIC)?;
        write(&files.key, &issued.key_pem, PRIVATE)?;
        write(&files.certificate, &issued.certificate_pem, PUBLIC)?;
        Ok(fingerprint)
    }

    /// The fingerprint of the credentials in these files, if they can be used with this authority and are not old.
    fn usable(&self, files: &CredentialFiles) -> Option<[u8; 32]> {
        let texts = files.read().ok()?;
        let age = fs::metadata(&files.certificate).ok()?.modified().ok()?.elapsed().unwrap_or_default();
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        let fits = texts.authority_pem == self.authority.certificate_pem()
            && age < RENEW_AFTER
            // Also sees a key that is not the certificate's, as a crash between writing the two would leave.
            && TlsIdentity::role(&texts.authority_pem, &credentials).is_ok();
        if fits { fingerprint(&credentials.certificate_pem).ok() } else { None }
    }

    /// The journal first, memory after it.
    fn commit(&mut self, change: RowChange) -> Result<(), SecurityError> {
        self.journal.commit(std::slice::from_ref(&change))?;
        self.accounts.apply(&change)
    }
}

/// Loads the authority, or makes one where `in_use` says that no certificate depends on one yet.
fn open_authority(folder: &Path, cloud_name: &str, in_use: bool) -> Result<Authority, SecurityError> {
    let (certificate, key) = (CredentialFiles::in_folder(folder).authority, folder.join(AUTHORITY_KEY_FILE));
    match (read(&certificate)?, read(&key)?) {
        (Some(certificate_pem), Some(key_pem)) => Ok(Authority::from_pem(&certificate_pem, &key_pem)?),
        // Half an authority without a master is a creation that was cut off.
        (found, _) if in_use => {
            Err(SecurityError::AuthorityLost { file: if found.is_some() { key } else { certificate } })
        }
        _ => {
            let authority = Authority::create(cloud_name)?;
            write(&key, &authority.key_pem(), PRIVATE)?;
            write(&certificate, authority.certificate_pem(), PUBLIC)?;
            Ok(authority)
        }
    }
}

/// A role's name as the id under which its certificate is registered.
fn reserved(role: &'static str) -> Result<NodeId, SecurityError> {
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

/// What a new user may do.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    /// Groups the user belongs to.
    pub groups: Vec<String>,
    /// Whether the user administers the cloud.
    pub admin: bool,
    /// From where the user may log in; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
}

/// The journal of accounts, in the security server's folder.
pub const ACCOUNTS_FILE: &str = "accounts.redb";
/// The authority's private key, in the security server's folder.
pub const AUTHORITY_KEY_FILE: &str = "authority.key";
/// A certificate lives for two years; one older than this is replaced when there is the occasion.
const RENEW_AFTER: Duration = Duration::from_secs(365 * 24 * 3_600);
/// Mode of files that everyone may read.
const PUBLIC: u32 = 0o644;
/// Mode of files that only their owner may read.
const PRIVATE: u32 = 0o600;

#[cfg(test)]
#[path = "setup_tests.rs"]
mod tests;
