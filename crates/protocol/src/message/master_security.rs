//! Door 3: the master asks the security server, over mutual TLS (Sector/Sphere paper, 2.3), on a kept connection. Each
//! request gets one reply, and replies are never out of order.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use crate::access::user_rights::{Asker, KnownUser, UserRights};
use crate::{
    CredentialId, NodeId, Refusal, UserName,
    message::{
        accounts::{AccountsReply, AccountsRequest, NewSession},
        admission::{AdmissionReply, AdmissionVerb, Enrolment},
        audit::{AuditReply, AuditRequest},
        join::Secret,
        login::{DeviceReply, DeviceRequest},
    },
};

/// What the master asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityRequest {
    /// Is this user who they say, and what may they do?
    CheckUser {
        /// Who.
        user: UserName,
        /// The proof given.
        secret: Secret,
        /// The address they come from.
        address: IpAddr,
    },
    /// May this node join?
    CheckNode {
        /// The name it gives.
        node: NodeId,
        /// SHA-256 of the certificate it proved, 32 bytes.
        fingerprint: [u8; 32],
        /// The address it comes from.
        address: IpAddr,
    },
    /// What a client asked the master about accounts: [`SecurityReply::Accounts`].
    Accounts {
        /// Who asks, as the master knows the session. The security server checks its own accounts again.
        by: Asker,
        /// What is asked.
        request: AccountsRequest,
    },
    /// Begin a login session for this user, if they are who they say: [`SecurityReply::Session`].
    Login {
        /// Who.
        user: UserName,
        /// The proof given; a token begins no session.
        secret: Secret,
        /// The address they come from.
        address: IpAddr,
        /// Their name for the machine, for people.
        machine: String,
    },
    /// Whose accounts have changed since: [`SecurityReply::Changes`].
    Changes(ChangeCursor),
    /// Do these sessions of yours still stand: [`SecurityReply::Rechecked`]. At most [`RECHECKED_MAX`].
    Recheck(Vec<HeldSession>),
    /// Who may come in, and with which certificate: [`SecurityReply::Admission`].
    Admission(AdmissionRequest),
    /// A request to the master from a client without a session: [`SecurityReply::Device`].
    Device {
        /// What is asked.
        request: DeviceRequest,
        /// The address it came from.
        address: IpAddr,
    },
    /// About the audit record.
    Audit(AuditRequest),
    /// What is wrong with the security server, for people: [`SecurityReply::Health`].
    Health,
    /// Which machines are struck off: [`SecurityReply::StruckOff`].
    StruckOff,
    /// What the security server counts, in the text format of Prometheus: [`SecurityReply::Metrics`].
    Metrics,
}

impl SecurityRequest {
    /// Its name, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CheckUser { .. } => "open-session",
            Self::CheckNode { .. } => "join",
            Self::Accounts { .. } => "accounts",
            Self::Login { .. } => "log-in",
            Self::Changes(_) => "changes",
            Self::Recheck(_) => "recheck",
            Self::Admission(_) => "admission",
            Self::Device { .. } => "log-in-with-browser",
            Self::Audit(_) => "audit",
            Self::Health => "health",
            Self::StruckOff => "struck-off",
            Self::Metrics => "metrics",
        }
    }
}

/// What the security server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityReply {
    /// The user is who they say.
    User(KnownUser),
    /// The node may join.
    NodeAllowed,
    /// No, and why.
    Refused(Refusal),
    /// About accounts.
    Accounts(AccountsReply),
    /// A login session has begun.
    Session(NewSession),
    /// Whose accounts have changed.
    Changes(AccountChanges),
    /// For each session asked for, in order, what its user may do now; `None` where it has ended.
    Rechecked(Vec<Option<KnownUser>>),
    /// What becomes of a machine's certificate.
    Admission(AdmissionReply),
    /// About a login with a browser.
    Device(DeviceReply),
    /// About the audit record.
    Audit(AuditReply),
    /// What is wrong, one sentence each.
    Health(Vec<String>),
    /// All machines that are struck off and have a certificate that has not expired.
    StruckOff(Vec<NodeId>),
    /// What it counts.
    Metrics(String),
}

/// What the security server is asked about machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionRequest {
    /// A machine's own request. A master passes it on; a stranger sends its own.
    Enrol {
        /// The address it comes from. Where no master asks, the security server fills in what it sees itself.
        address: IpAddr,
        /// SHA-256 of the certificate it has shown, if any; also filled in by the security server.
        fingerprint: Option<[u8; 32]>,
        /// What it said.
        enrolment: Enrolment,
    },
    /// An administrator's request, passed on by the master.
    Administer {
        /// Who.
        by: Asker,
        /// What.
        verb: AdmissionVerb,
    },
    /// A request from someone at the security server itself, who has its private key.
    Own(AdmissionVerb),
}

/// A position in the changes of a security server's accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCursor {
    /// The run of the security server: its numbers mean nothing in another. 0 where none is known.
    pub epoch: u64,
    /// Counts changes in that run.
    pub number: u64,
}

/// Whose accounts have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountChanges {
    /// Up to here.
    pub cursor: ChangeCursor,
    /// Whose; `None`: perhaps everyone's, since the given cursor is of another run, or too old.
    pub users: Option<Vec<UserName>>,
}

/// A session that a master has open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeldSession {
    /// Whose.
    pub user: UserName,
    /// What proved them.
    pub credential: CredentialId,
    /// The address they came from.
    pub address: IpAddr,
}

/// Most sessions in one [`SecurityRequest::Recheck`]: the answer, with every user in many groups, fits a message.
pub const RECHECKED_MAX: usize = 256;
