//! Who may do what with files and folders: what they say of it, and how to change that (door 2 alone; no byte moves).
//! What each right allows is told in `docs/semantics.md`.

use protocol::{
    Acl, Principal, SectorPath, UserName,
    message::{
        access::{AclReply, AclRequest, AclStatus},
        client_master::{ClientReply, ClientRequest},
    },
};

use crate::{Client, ClientError};

impl Client {
    /// Whose an entry is, what it says itself of who may do what, and what holds for it.
    ///
    /// # Errors
    /// `Refused` for who may not read it, `NotFound` where nothing is.
    pub async fn acl(&self, path: &SectorPath) -> Result<AclStatus, ClientError> {
        self.ask_acl(AclRequest::Get(path.clone())).await
    }

    /// Lets an entry say this from now on, and nothing else: for its owner, who has the right `a` on it, and
    /// administrators. What lies below and says nothing itself follows at once. Gives what holds then.
    ///
    /// # Errors
    /// `Refused` for everyone else.
    pub async fn set_acl(&self, path: &SectorPath, acl: Acl) -> Result<AclStatus, ClientError> {
        self.ask_acl(AclRequest::Set { path: path.clone(), acl }).await
    }

    /// Takes what an entry says itself of some away. Where that was all, it is left to its owner and to administrators:
    /// it does not inherit anything by that ([`clear_acl`](Self::clear_acl) does).
    ///
    /// # Errors
    /// `NotFound` where it says nothing of one of them.
    pub async fn remove_from_acl(&self, path: &SectorPath, whom: Vec<Principal>) -> Result<AclStatus, ClientError> {
        self.ask_acl(AclRequest::Remove { path: path.clone(), principals: whom }).await
    }

    /// Lets an entry say nothing itself: what the folders above it say holds again.
    ///
    /// # Errors
    /// As [`set_acl`](Self::set_acl).
    pub async fn clear_acl(&self, path: &SectorPath) -> Result<AclStatus, ClientError> {
        self.ask_acl(AclRequest::Clear(path.clone())).await
    }

    /// Gives an entry to another user, whose quota its bytes count for from now on; what lies below a folder keeps its
    /// owners. For administrators.
    ///
    /// # Errors
    /// `Refused` for everyone else, and where the new owner's quota has no room for it.
    pub async fn set_owner(&self, path: &SectorPath, owner: &UserName) -> Result<AclStatus, ClientError> {
        self.ask_acl(AclRequest::GiveTo { path: path.clone(), owner: owner.clone() }).await
    }

    async fn ask_acl(&self, request: AclRequest) -> Result<AclStatus, ClientError> {
        match self.ask(ClientRequest::Acl(request)).await? {
            ClientReply::Acl(AclReply::Status(status)) => Ok(status),
            _ => Err(ClientError::Unexpected { who: "master", request: "acl" }),
        }
    }
}
