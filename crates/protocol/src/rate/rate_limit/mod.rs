//! How fast bytes may go, and who goes first where not all can at once. [`TransferQos`] is the request for one
//! transfer, and [`TokenBucket`] the rule that keeps a limit. It serves every path on which bytes of files travel. It
//! never waits or reads a clock: the time is an argument.

mod token_bucket;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX};
pub use token_bucket::{TokenBucket, WaiterId};

/// The rate and priority of one transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferQos {
    /// Most bytes per second; `None` for as fast as possible.
    pub rate_bytes_per_second: Option<u64>,
    /// Who goes first where others wait for the same limit.
    pub priority: Priority,
}

/// Who goes first where several transfers wait for the same limit. Each gets a share by its weight, so that none stands
/// still however many go before it. Others get the share that one does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Priority {
    /// Someone waits for it.
    High,
    /// What people do.
    #[default]
    Normal,
    /// Anything that may take its time: copies for repair and rebalance, as long as no file has only one left.
    Low,
}

impl Priority {
    /// All of them, the first one first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Bytes that it gets for each byte of a low one, where all wait: 16, 4 and 1.
    pub fn weight(self) -> u64 {
        match self {
            Self::High => 16,
            Self::Normal => 4,
            Self::Low => 1,
        }
    }

    /// Its written form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = PriorityError;

    fn from_str(text: &str) -> Result<Self, PriorityError> {
        let found = Self::ALL.into_iter().find(|priority| priority.as_str() == text);
        found.ok_or_else(|| PriorityError(text.chars().take(64).collect()))
    }
}

/// A text that is no priority.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a priority: write high, normal or low")]
pub struct PriorityError(String);

/// How many bytes are sent at once at a rate, so that they flow evenly even at a low rate. That is an eighth of a
/// second's bytes, in whole blocks, at least a block and at most a frame.
pub fn piece_bytes(rate_bytes_per_second: Option<u64>) -> usize {
    let Some(rate) = rate_bytes_per_second else { return FRAME_BYTES_MAX };
    let (block, frame) = (BLOCK_BYTES, FRAME_BYTES_MAX as u64);
    let piece = (rate / PIECES_PER_SECOND).clamp(block, frame);
    (piece - piece % block) as usize
}

/// The lowest rate that may be requested, in bytes per second. Below it a reader would wait for a block for longer than
/// it takes to believe that a node is gone.
pub const RATE_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;
/// See [`piece_bytes`].
const PIECES_PER_SECOND: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_written_as_one_word() {
        for priority in Priority::ALL {
            assert_eq!(priority.as_str().parse(), Ok(priority));
        }
        let error = "urgent".parse::<Priority>().unwrap_err().to_string();
        assert!(error.contains("high, normal or low"), "{error}");
    }

    #[test]
    fn pieces_are_whole_blocks_and_several_a_second_unless_the_rate_is_low() {
        assert_eq!(piece_bytes(None), FRAME_BYTES_MAX);
        assert_eq!(piece_bytes(Some(u64::MAX)), FRAME_BYTES_MAX);
        assert_eq!(piece_bytes(Some(0)), 64 * 1024);
        // 1 Mbit/s: two pieces a second.
        assert_eq!(piece_bytes(Some(125_000)), 64 * 1024);
        // 20 Mbit/s: eight.
        assert_eq!(piece_bytes(Some(2_500_000)), 4 * 64 * 1024);
    }
}
