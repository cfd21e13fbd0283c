//! Rights on files and folders: what an entry says of them, and how to change that (door 2 alone). `docs/semantics.md`
//! says what each right allows. It never moves a byte of a file.

use protocol::{
    Acl, Principal, SectorPath, UserName,
    message::{
        access::AclStatus,
        request::{
            AddToAclRequest, ClearAclRequest, GetAclRequest, GiveToRequest, RemoveFromAclRequest, SetAclRequest,
        },
    },
};

use crate::{Client, ClientError};

impl Client {
    /// The owner of an entry, its own access list, and the effective one.
    ///
    /// # Errors
    /// `Refused` if the caller may not read it, `NotFound` if nothing is there.
    pub async fn acl(&self, path: &SectorPath) -> Result<AclStatus, ClientError> {
        self.ask(GetAclRequest(path.clone())).await
    }

    /// Sets the access list of an entry, in place of its own before. For its owner, users with the right `a` on it, and
    /// administrators. Entries below that have no list of their own follow at once. Gives the effective rights.
    ///
    /// # Errors
    /// `Refused` for everyone else.
    pub async fn set_acl(&self, path: &SectorPath, acl: Acl) -> Result<AclStatus, ClientError> {
        self.ask(SetAclRequest { path: path.clone(), acl }).await
    }

    /// Grants these rights besides those that hold for an entry, which is given a list of its own. Nobody loses a right.
    ///
    /// # Errors
    /// As [`set_acl`](Self::set_acl), and `Invalid` if the list becomes too long.
    pub async fn add_to_acl(&self, path: &SectorPath, acl: Acl) -> Result<AclStatus, ClientError> {
        self.ask(AddToAclRequest { path: path.clone(), acl }).await
    }

    /// Removes some principals from an entry's own access list. If that empties the list, only the owner and
    /// administrators have rights: the entry does not inherit then ([`clear_acl`](Self::clear_acl) does that).
    ///
    /// # Errors
    /// `NotFound` if the list does not name one of them.
    pub async fn remove_from_acl(&self, path: &SectorPath, whom: Vec<Principal>) -> Result<AclStatus, ClientError> {
        self.ask(RemoveFromAclRequest { path: path.clone(), principals: whom }).await
    }

    /// Removes an entry's own access list: the lists of the folders above it apply again.
    ///
    /// # Errors
    /// As [`set_acl`](Self::set_acl).
    pub async fn clear_acl(&self, path: &SectorPath) -> Result<AclStatus, ClientError> {
        self.ask(ClearAclRequest(path.clone())).await
    }

    /// Gives an entry to another user, whose quota its bytes count for from now on; entries below a folder keep their
    /// owners. For administrators.
    ///
    /// # Errors
    /// `Refused` for everyone else, and if the new owner's quota has no room for it.
    pub async fn set_owner(&self, path: &SectorPath, owner: &UserName) -> Result<AclStatus, ClientError> {
        self.ask(GiveToRequest { path: path.clone(), owner: owner.clone() }).await
    }
}
