//! Emulates sites and links on one machine. Anyone can try and measure a cloud over wide-area links without having
//! such links (Open Cloud Testbed, section 2). It never changes the machine's own network.

mod buffers;
pub mod control;
mod direction;
mod emulator;
mod error;
pub mod link;
mod matrix;
mod network;
mod packet;
mod plan;
mod quantity;
mod rules;
mod site;
mod system;
mod testbed;

pub use crate::{
    direction::DirectionCounts,
    error::TestbedError,
    matrix::RttMatrix,
    network::{NetworkStatus, PathStatus},
    plan::{NODES_PER_SITE_MAX, SITES_MAX, Scope, TestbedPlan, node_address, site_address, site_range},
    quantity::{Rate, Share},
    rules::{Blocked, PathChange, PathRules},
    site::enter,
    testbed::{Controls, Testbed},
};
