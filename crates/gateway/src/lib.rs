//! The web door: one HTTP server for the page and for the interface behind it, on which other web doors will stand. It
//! is a thin coat over `client`: every request acts with the rights of the user who is logged in. It never holds a
//! user's password, decides about a right, or keeps a byte of a file.

mod byte_ranges;
mod counts;
mod dispatch;
mod error;
mod server;
mod tls;
mod unread_bodies;
mod web;
mod webhooks;

pub use byte_ranges::AskedRanges;
pub use error::GatewayError;
pub use server::{GatewayServer, LoginLinks};
pub use web::{Door, DoorCaller, GivenLogin, PageFile};
