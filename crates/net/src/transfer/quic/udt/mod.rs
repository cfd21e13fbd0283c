//! The congestion controller for bulk transfers between sites, after UDT (Sector/Sphere, section 2.4). It sets a *rate*
//! and keeps it through random loss, where a controller that shrinks its window at each loss starves. Start with
//! [`rate_control`], the control law. Why, and how it compares: `docs/decisions/0020-udt-controller.md`,
//! `docs/performance.md`. A sender under a limit (`rate_limiter.rs`) just counts as one with nothing more to send. It
//! never reads a clock, never takes randomness but from its seed, and never reads the bytes.

mod controller;
mod delay;
mod delivery;
mod losses;
mod pacing_deficit;
pub mod rate_control;
mod short_path;
mod stall;
mod start;

pub use controller::{Udt, UdtFactory};
pub use rate_control::PathEstimate;
