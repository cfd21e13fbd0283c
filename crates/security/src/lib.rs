//! The security server (Sector/Sphere paper, 2.1 and 2.3): who the users are, what proves them, their allowed
//! addresses, and which nodes belong to the cloud. It also holds the cloud's certificate authority. Masters ask it
//! about users who log in and nodes that join (door 3). [`rules::Security`] decides without sockets, clock or costly
//! hashes, which [`server`] provides. [`setup`] makes a cloud, and changes its accounts while no server runs. It never
//! decides rights on files: masters do.

pub mod accounts;
pub mod audit;
pub mod error;
pub mod provider;
pub mod rules;
pub mod server;
pub mod setup;

pub use accounts::machines;
pub use error::SecurityError;
pub use protocol::AddressRange;
pub use rules::SecurityBatchId;
pub use server::{SecurityServer, serve};
pub use setup::restore::{finish_restore, is_restored};
pub use setup::{ACCOUNTS_FILE, AUTHORITY_KEY_FILE, CloudSetup, create_cloud, open_cloud};
