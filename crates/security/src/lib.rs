//! The security server (Sector/Sphere paper, 2.1 and 2.3): who the users are, what proves them, their allowed
//! addresses, and which nodes belong to the cloud. It also holds the cloud's certificate authority. Masters ask it
//! about users who log in and nodes that join (door 3). [`rules::Security`] decides without sockets, clock or costly
//! hashes, which [`server`] provides. [`setup`] makes a cloud, and changes its accounts while no server runs. It never
//! decides rights on files: masters do.

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
