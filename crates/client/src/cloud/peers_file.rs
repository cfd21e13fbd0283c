//! What a client has learned of the network paths to nodes, kept from one command to the next. Each command is a
//! process of its own, and would otherwise begin slowly, or wait again for a firewall that drops packets. It is only a
//! hint: an unreadable file is begun anew, with one warning, and nothing fails for it. It never grows beyond
//! [`ROWS_MAX`] rows.

use std::{
    fs, io,
    net::SocketAddr,
    path::Path,
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use net::transfer::{CachedPeer, udt::PathEstimate};
use serde::{Deserialize, Serialize};

/// The file's content, for a client to begin with; nothing if there is no file or it is broken.
pub fn load(file: &Path) -> Vec<CachedPeer> {
    let now = unix_seconds();
    read(file).peer.iter().map(|row| row.remembered(now)).collect()
}

/// Writes what a client has learned into the file, whole or not at all, with what others have learned of other nodes.
///
/// # Errors
/// When the file cannot be written.
pub fn save(file: &Path, learned: &[CachedPeer]) -> io::Result<()> {
    let now = unix_seconds();
    let before = read(file);
    let after = Rows { peer: merge(&before.peer, learned, now) };
    if after == before {
        return Ok(());
    }
    let text = toml::to_string(&after).map_err(io::Error::other)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // Not synced: what a crash takes is learned again.
    let new = file.with_extension(format!("{}.new", process::id()));
    fs::write(&new, format!("{HEAD}{text}")).and_then(|()| fs::rename(&new, file)).inspect_err(|_| {
        // Best effort: it only takes room.
        let _ = fs::remove_file(&new);
    })
}

/// The file's rows.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Rows {
    #[serde(default)]
    peer: Vec<Row>,
}

/// One peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    address: SocketAddr,
    /// When it was last changed.
    noted_unix_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_bytes_per_second: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round_trip_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    udp_blocked_until_unix_seconds: Option<u64>,
}

impl Row {
    fn of(peer: &CachedPeer, now: u64) -> Self {
        Self {
            address: peer.address,
            noted_unix_seconds: now,
            rate_bytes_per_second: peer.learned.map(|learned| learned.rate_bytes_per_second),
            round_trip_micros: peer.learned.map(|learned| u64::try_from(learned.round_trip.as_micros()).unwrap_or(0)),
            udp_blocked_until_unix_seconds: peer.udp_blocked_for.map(|rest| now + rest.as_secs()),
        }
    }

    fn remembered(&self, now: u64) -> CachedPeer {
        let learned = self.rate_bytes_per_second.zip(self.round_trip_micros);
        let blocked_seconds = self.udp_blocked_until_unix_seconds.and_then(|until| until.checked_sub(now));
        CachedPeer {
            address: self.address,
            learned: learned.map(|(rate_bytes_per_second, micros)| PathEstimate {
                rate_bytes_per_second,
                round_trip: Duration::from_micros(micros),
            }),
            udp_blocked_for: blocked_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        }
    }

    /// Whether two rows have the same content, except the time and a second of rounding.
    fn says_the_same(&self, other: &Self) -> bool {
        let blocked = |row: &Self| row.udp_blocked_until_unix_seconds.unwrap_or(0);
        self.address == other.address
            && self.rate_bytes_per_second == other.rate_bytes_per_second
            && self.round_trip_micros == other.round_trip_micros
            && blocked(self).abs_diff(blocked(other)) <= 1
    }
}

/// The new rows, then the old ones of other peers: the newest if there are too many, and none that is too old.
fn merge(before: &[Row], learned: &[CachedPeer], now: u64) -> Vec<Row> {
    let fresh = learned.iter().map(|peer| {
        let row = Row::of(peer, now);
        // Left unchanged, so that a file without changes is not written again.
        before.iter().find(|old| old.says_the_same(&row)).cloned().unwrap_or(row)
    });
    let others = before.iter().filter(|old| learned.iter().all(|peer| peer.address != old.address)).cloned();
    let mut rows: Vec<_> = fresh.chain(others).collect();
    rows.retain(|row| now.saturating_sub(row.noted_unix_seconds) < AGE_MAX.as_secs());
    rows.sort_by_key(|row| (std::cmp::Reverse(row.noted_unix_seconds), row.address));
    rows.truncate(ROWS_MAX);
    rows
}

fn read(file: &Path) -> Rows {
    let broken = |why: String| {
        tracing::warn!(file = %file.display(), why, "what was learned of the ways to nodes cannot be read; it is learned anew");
        Rows::default()
    };
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Rows::default(),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => return broken("it is too long".into()),
        _ => {}
    }
    match fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).unwrap_or_else(|error| broken(error.message().to_owned())),
        Err(error) => broken(error.to_string()),
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The file's first line.
const HEAD: &str = "# What sector has learned of the ways to nodes. It may be removed; then it is learned anew.\n\n";
/// Peers that are kept, some 150 bytes each.
const ROWS_MAX: usize = 256;
/// A longer file was not written by us.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Older entries say nothing about the current network.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn peer(port: u16, rate: u64) -> CachedPeer {
        let learned = PathEstimate { rate_bytes_per_second: rate, round_trip: Duration::from_millis(100) };
        CachedPeer { address: ([192, 0, 2, 1], port).into(), learned: Some(learned), udp_blocked_for: None }
    }

    #[test]
    fn what_one_command_learned_the_next_one_knows_beside_what_others_learned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not/yet/peers.toml");
        assert_eq!(load(&file), []);
        let blocked = CachedPeer { learned: None, udp_blocked_for: Some(Duration::from_secs(600)), ..peer(2, 0) };
        save(&file, &[peer(1, 7)]).unwrap();
        save(&file, &[blocked]).unwrap();
        save(&file, &[peer(1, 9)]).unwrap();
        let mut found = load(&file);
        found.sort_by_key(|peer| peer.address);
        assert_eq!((found.len(), found[0], found[1].learned), (2, peer(1, 9), None));
        assert!(found[1].udp_blocked_for.unwrap() > Duration::from_secs(590));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_broken_file_counts_for_nothing_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("peers.toml");
        for broken in [&b"\xff\xfe"[..], b"[[peer]]\naddress = 5\n", &vec![b'#'; FILE_BYTES_MAX as usize + 1]] {
            fs::write(&file, broken).unwrap();
            assert_eq!(load(&file), []);
            save(&file, &[peer(1, 7)]).unwrap();
            assert_eq!(load(&file), [peer(1, 7)]);
        }
    }

    #[test]
    fn the_newest_rows_remain_old_ones_expire_and_unchanged_ones_keep_their_age() {
        let month = AGE_MAX.as_secs();
        let old: Vec<_> = (0..ROWS_MAX as u16).map(|port| Row::of(&peer(port, 1), u64::from(port) + 1)).collect();
        let rows = merge(&old, &[peer(9_999, 1), peer(300, 2)], month);
        assert_eq!(rows.len(), ROWS_MAX);
        assert!(rows.iter().any(|row| row.address.port() == 9_999) && rows.iter().all(|row| row.address.port() != 0));
        assert_eq!(merge(&old, &[peer(5, 1)], month / 2)[ROWS_MAX - 6], old[5]);
        assert_eq!(merge(&old, &[], 2 * month), []);
    }
}
