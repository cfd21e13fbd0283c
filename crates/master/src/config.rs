//! The numbers an operator may set, in the form the rules use. `daemon`'s settings have checked them already; this file
//! never checks one itself.

use std::time::Duration;

use protocol::Rights;

/// How the master behaves. Every path reads it; nothing changes it while the master runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterConfig {
    /// Copies of a file if the uploader does not say (paper, 2.2: "the current default is 3").
    pub copies: u8,
    /// Copies that are synced before an upload is answered, if the uploader does not say.
    pub sync_copies: u8,
    /// A node not heard of for this long is lost.
    pub node_lost_after: Duration,
    /// How long a lost node's copies still count before they are made again elsewhere: a node that only restarts should
    /// cost no copying. It is also the time nodes have to come back after the master itself restarted.
    pub replicate_after: Duration,
    /// How long a rebuild of the names waits for known nodes that do not come.
    pub rebuild_wait: Duration,
    /// Space in bytes that stays free on every node, for sidecars and the scratch files of jobs.
    pub reserve_bytes: u64,
    /// How long a removed entry can be restored; zero: not at all.
    pub trash: Duration,
    /// How long replaced content can be had back where no policy says otherwise; zero: not at all.
    pub versions: Duration,
    /// How long files below `/memory` stay there if no policy says otherwise.
    pub memory_lifetime: Duration,
    /// Rights of every logged-in user on entries for which neither they nor the folders above them name any.
    pub everyone: Rights,
    /// Whether data within a site goes unencrypted.
    pub insecure_data: bool,
}

impl Default for MasterConfig {
    fn default() -> Self {
        Self {
            copies: 3,
            sync_copies: 2,
            node_lost_after: Duration::from_secs(10),
            replicate_after: Duration::from_secs(60),
            rebuild_wait: Duration::from_secs(600),
            reserve_bytes: 256 << 20,
            trash: Duration::from_secs(7 * 86_400),
            versions: Duration::from_secs(86_400),
            memory_lifetime: Duration::from_secs(86_400),
            everyone: Rights::READ.and(Rights::RUN),
            insecure_data: false,
        }
    }
}
