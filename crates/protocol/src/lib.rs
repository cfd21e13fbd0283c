//! The types and rules that two roles must agree on. Everything here is pure: no sockets, no files, no clock, no
//! runtime, no global randomness. A type here is sent between two processes ([`message`]), is written to a disk
//! ([`mod@slice`]), or decides something that both ends must decide alike. The last are [`gmp`], [`topology`],
//! [`path`], [`ticket_verifier`]. Bytes are checked once, at the door, by [`wire`]; the code behind it never checks
//! them again.

mod access;
pub mod built_in;
pub mod counters;
pub mod gmp;
pub mod ids;
pub mod limits;
pub mod message;
pub mod names;
mod place;
pub mod rate;
pub mod reason;
pub mod status;
pub mod time;
pub mod wire;

pub use access::{acl, join_ticket, refusals, sandbox, ticket, ticket_verifier};
pub use acl::{Acl, AclEntry, Principal, Rights};
pub use address_range::AddressRange;
pub use carrier::{CarrierChoice, ControllerKind};
pub use counters::{CounterError, Counters};
pub use host_address::HostAddress;
pub use ids::{
    CredentialId, FileId, JobId, JournalId, KeyDigest, LeaseId, NodeId, ResumeKey, SessionId, SliceId, UserName,
    Version,
};
pub use ids::{path, side_file_name};
pub use join_ticket::{JoinTicket, MachineKind, TicketSecret};
pub use path::SectorPath;
pub use place::{address_range, disk, host_address, policy, slice, topology};
pub use policy::Policy;
pub use rate::{carrier, rate_limit};
pub use rate_limit::{Priority, TransferQos};
pub use reason::{Reason, Refusal};
pub use side_file_name::SideFileName;
pub use slice::{Digest, RecordFraming, SliceHeader, SliceMetadata};
pub use status::Status;
pub use time::Now;
pub use topology::{Place, Topology};
