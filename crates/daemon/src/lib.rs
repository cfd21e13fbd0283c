//! What a process needs around a role: checked settings, an ordered stop, observable background workers, metrics, group
//! commit, the log and the ready line. It serves every path at its beginning and its end. A role gets
//! [`Checked`](settings::Checked) settings and a [`ShutdownToken`](shutdown::ShutdownToken), and does the rest itself.
//! Nothing here knows slices, messages or sockets, and it never decides anything about a cloud.

pub mod error;
pub mod group_commit;
pub mod metrics;
pub mod open_files;
pub mod ready;
pub mod settings;
pub mod shutdown;
pub mod telemetry;
pub mod topology;
pub mod worker;

pub use error::DaemonError;
