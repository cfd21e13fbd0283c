//! GMP, the group messaging protocol, for services of your own (Open Cloud Testbed paper, section 4). It gives sealed
//! requests, replies, notices and group sends over one UDP port, as Sector itself sends its messages. Start with
//! [`Instance`]; what it promises is in `docs/howto/messages.md`, and `examples/word_count.rs` is a whole service. It
//! never keeps a message beyond its delivery.

mod group;
mod inbox;
mod instance;
mod opening;
mod sessions;

pub use group::Group;
pub use inbox::{Inbox, Received};
pub use instance::Instance;
pub use net::NetError;
pub use protocol::{host_address::HostAddress, limits::MESSAGE_BYTES_MAX};
