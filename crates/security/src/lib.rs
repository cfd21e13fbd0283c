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
pub mod changes;
pub mod credentials;
pub mod error;
pub mod failed_logins;
mod keeper;
pub mod machines;
pub mod provider;
mod record_keeper;
mod restored;
pub mod rules;
mod saves;
pub mod secret;
pub mod server;
pub mod setup;
mod signer;
mod waiting;

pub use error::SecurityError;
pub use protocol::AddressRange;
pub use restored::{finish_restore, is_restored};
pub use saves::BatchId;
pub use server::{Server, serve};
pub use setup::{ACCOUNTS_FILE, AUTHORITY_KEY_FILE, Cloud, NewUser, create_cloud, open_cloud};
