//! The types and rules that two roles must agree on. Everything here is pure: no sockets, no files, no clock, no
//! runtime, no global randomness. A type here is sent between two processes ([`message`]), is written to a disk
//! ([`mod@slice`]), or decides something that both ends must decide alike. The last are [`gmp`], [`topology`],
//! [`path`], [`ticket_verifier`]. Bytes are checked once, at the door, by [`wire`]; the code behind it never checks
//! them again.

pub mod acl;
pub mod address_range;
pub mod carrier;
pub mod counters;
pub mod disk;
pub mod gmp;
pub mod ids;
pub mod join_ticket;
pub mod limits;
pub mod message;
pub mod names;
pub mod parquet_footer;
pub mod path;
pub mod policy;
pub mod rate;
pub mod rate_limit;
pub mod reason;
pub mod record_index;
pub mod refusals;
pub mod sandbox;
pub mod side_file_name;
pub mod slice;
pub mod status;
pub mod ticket;
pub mod ticket_verifier;
pub mod time;
pub mod topology;
pub mod wire;

pub use acl::{Acl, AclEntry, Principal, Rights};
pub use address_range::AddressRange;
pub use carrier::{CarrierChoice, ControllerKind};
pub use counters::{CounterError, Counters};
pub use ids::{
    CredentialId, FileId, JobId, JournalId, KeyDigest, LeaseId, NodeId, ResumeKey, SessionId, SliceId, UserName,
    Version,
};
pub use join_ticket::{JoinTicket, MachineKind, TicketSecret};
pub use path::SectorPath;
pub use policy::Policy;
pub use rate_limit::{Priority, TransferQos};
pub use reason::{Reason, Refusal};
pub use side_file_name::SideFileName;
pub use slice::{Digest, RecordFraming, SliceHeader, SliceMetadata};
pub use status::Status;
pub use time::Now;
pub use topology::{Place, Topology};
