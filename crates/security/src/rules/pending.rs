//! Requests that wait for work of a processor, of a provider or of the authority: who asked, and what is done with the
//! result. This file never decides.

use std::{collections::VecDeque, net::IpAddr};

use protocol::{
    KeyDigest, MachineKind, NodeId, UserName,
    message::{accounts::NewUser, join::Secret, master_security::Asker},
};

use super::actions::SecurityCaller;
use crate::{
    accounts::password_hash::{PasswordHash, PasswordHashing, Verification},
    provider::SecretText,
};

/// The purpose of processor work.
#[derive(Debug)]
pub(super) enum Pending {
    Login(Login),
    NewUser(PendingUser),
    Password(PasswordChange),
}

/// Processor work.
#[derive(Debug)]
pub(super) enum Work {
    Verify(Verification),
    Hash(PasswordHashing),
}

/// A login whose secret is being compared.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) caller: SecurityCaller,
    pub(super) user: UserName,
    pub(super) address: IpAddr,
    pub(super) purpose: LoginPurpose,
    /// Whether the secret can be guessed.
    pub(super) guessable: bool,
    /// The password that it is compared with, if there is one: a match proves nothing once the user has another.
    pub(super) against: Option<PasswordHash>,
}

/// A login with a password that waits until others that are under way have ended.
#[derive(Debug)]
pub(super) struct QueuedLogin {
    pub(super) caller: SecurityCaller,
    pub(super) user: UserName,
    pub(super) secret: Secret,
    pub(super) address: IpAddr,
    pub(super) purpose: LoginPurpose,
}

/// What a caller wants who proves who they are.
#[derive(Debug)]
pub(super) enum LoginPurpose {
    /// A session with a master.
    MasterSession,
    /// A login session, from a machine of this name.
    LoginSession(String),
}

/// A login whose password providers are asked about.
#[derive(Debug)]
pub(super) struct PasswordLogin {
    pub(super) caller: SecurityCaller,
    pub(super) user: UserName,
    pub(super) address: IpAddr,
    pub(super) purpose: LoginPurpose,
    pub(super) password: SecretText,
    /// The providers to ask next, if this one does not know the user.
    pub(super) to_ask: VecDeque<String>,
}

/// A password change under way: first the old password is compared, if one must be given, then the new one is hashed.
#[derive(Debug)]
pub(super) struct PasswordChange {
    pub(super) caller: SecurityCaller,
    pub(super) by: Asker,
    pub(super) user: UserName,
    pub(super) new: Option<PasswordHashing>,
    /// The account's password hash when the work began: if it has another afterwards, another change came first.
    pub(super) against: Option<PasswordHash>,
}

/// A user whose password is being hashed.
#[derive(Debug)]
pub(super) struct PendingUser {
    pub(super) caller: SecurityCaller,
    pub(super) by: Asker,
    pub(super) new: NewUser,
}

/// A certificate on its way from the authority.
#[derive(Debug)]
pub(super) struct PendingIssue {
    pub(super) caller: SecurityCaller,
    pub(super) name: NodeId,
    pub(super) kind: MachineKind,
    pub(super) key: KeyDigest,
    pub(super) why: IssueReason,
}

/// What entitles a machine to a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IssueReason {
    /// A ticket with this digest.
    Ticket([u8; 32]),
    /// An administrator's decision.
    Approval,
    /// It has one already, and the same key asks again.
    Reissue,
    /// It has one that is near its end.
    Renewal,
}
