//! The security server (Sector/Sphere paper, 2.1 and 2.3): who the users are, what proves them, from which addresses
//! they may come, which nodes belong to the cloud, and the cloud's certificate authority.
//!
//! It serves one path: a master asks about a user who logs in or a node that joins (door 3), and gets one answer. It
//! talks to nobody but masters, and knows nothing of files: rights on files are the master's.
//!
//! [`rules::Security`] decides, without a socket, a clock or a processor-heavy hash; [`server`] gives it all three;
//! [`setup`] makes a cloud and changes its accounts while no server runs on them.

pub mod accounts;
pub mod audit;
mod audit_writer;
pub mod changes;
pub mod credentials;
pub mod error;
pub mod failed_logins;
pub mod machines;
pub mod password_hash;
pub mod provider;
mod restore;
pub mod rules;
mod saves;
pub mod server;
mod server_loop;
pub mod setup;
mod signer;
mod waiting_list;

pub use error::SecurityError;
pub use protocol::AddressRange;
pub use restore::{finish_restore, is_restored};
pub use saves::SecurityBatchId;
pub use server::{SecurityServer, serve};
pub use setup::{ACCOUNTS_FILE, AUTHORITY_KEY_FILE, CloudSetup, NewUserRights, create_cloud, open_cloud};
