//! What a process needs around a role: checked settings, an ordered stop, observable background workers, metrics, group
//! commit, the log, traces and the ready line. It serves every path at its beginning and its end. A role gets
//! [`Checked`](settings::Checked) settings and a [`ShutdownToken`](shutdown::ShutdownToken), and does the rest itself.
//! Nothing here knows slices or messages. It has a port for metrics, a connection to a collector of traces, and the client
//! for HTTP that all programs use. It never decides anything about a cloud.

pub mod error;
pub mod group_commit;
mod http_agent;
pub mod metrics;
pub mod open_files;
mod public_resolver;
pub mod ready;
pub mod settings;
pub mod shutdown;
pub mod telemetry;
pub mod topology;
pub mod worker;

pub use error::DaemonError;
pub use http_agent::{http_agent, system_certificates};
pub use public_resolver::PublicResolver;
