//! The congestion controller for bulk transfers between sites, after UDT (Sector/Sphere, section 2.4): it sets a *rate*
//! and keeps it through random loss, where a controller that answers each loss with a smaller window starves.
//!
//! Read in this order: [`rules`] is the control law; it is told what was sent, acknowledged and lost, and says how fast
//! to send. Its eyes are `delivery.rs` (how fast packets arrive), `delay.rs` (how long the queue is), `losses.rs`
//! (whether the loss is the link's or ours), `pacing_deficit.rs` (whether the sender keeps up) and `stall.rs` (whether
//! an end or the path stood still). `start.rs` is how a rate is found, `short_path.rs` the law of ways within a site.
//! `controller.rs` plugs the law into QUIC. Limits are none of its business: who has one writes no faster
//! (`rate_limiter.rs`), and is then taken for a sender that has nothing more to send.
//!
//! Why it is so, and how it does beside others: `docs/decisions/0020-udt-controller.md`, `docs/performance.md`.
//!
//! None of it reads a clock, draws lots from elsewhere than its seed, or knows what the bytes mean.

mod controller;
mod delay;
mod delivery;
mod losses;
mod pacing_deficit;
pub mod rules;
mod short_path;
mod stall;
mod start;

pub use controller::{Udt, UdtFactory};
pub use rules::PathEstimate;
