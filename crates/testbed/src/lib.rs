//! Emulates sites and links on one machine. Anyone can try and measure a cloud over wide-area links without having
//! such links (Open Cloud Testbed, section 2). It never changes the machine's own network.

pub mod control;
mod emulator;
mod error;
pub mod link;
mod network;
mod packet;
mod plan;
mod rules;
mod site;
mod system;
mod testbed;

pub use crate::{
    error::TestbedError,
    link::{
        direction::DirectionCounts,
        quantity::{Rate, Share},
    },
    network::{NetworkStatus, PathStatus},
    plan::{
        NODES_PER_SITE_MAX, SITES_MAX, Scope, TestbedPlan, matrix::RttMatrix, node_address, site_address, site_range,
    },
    rules::{Blocked, PathChange, PathRules},
    site::enter,
    testbed::{Controls, Testbed},
};
