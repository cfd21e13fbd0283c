//! From a settings file to a running process: settings that are read and checked once, an ordered stop, background
//! workers that can be watched, rows on their way to a disk, what is logged, and the line that says a role is ready.
//!
//! It serves every path at its beginning and its end. It knows no slices, no messages and no sockets, and decides
//! nothing about a cloud: a role gets [`Checked`](settings::Checked) settings and a
//! [`ShutdownToken`](shutdown::ShutdownToken) token, and does the rest itself.

pub mod error;
pub mod group_commit;
pub mod open_files;
pub mod ready;
pub mod settings;
pub mod shutdown;
pub mod telemetry;
pub mod topology;
pub mod worker;

pub use error::DaemonError;
