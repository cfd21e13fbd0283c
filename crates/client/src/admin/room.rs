//! The cloud's health as an operator should hear it: what the master says, and how full nodes, disks and quotas are. A
//! disk that several nodes share counts once. It never decides where a copy goes: the master does.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt};

use protocol::disk::{DiskState, DiskStatus};

use crate::{Client, ClientError, Health, Membership, NodeState, NodeStatus, QuotaOf, QuotaStatus};

/// What the master says of the cloud's health, and the room in it.
#[derive(Clone, Debug)]
pub struct HealthReport {
    /// What the master says.
    pub health: Health,
    /// What is full.
    pub room: Room,
    /// Bytes of all nodes together.
    pub total: Total,
}

impl HealthReport {
    /// `ok`, `warning` or `critical`.
    pub fn status(&self) -> &'static str {
        let Health { lost, corrupt, reasons, .. } = &self.health;
        match (lost + corrupt, reasons.is_empty() && self.room.reasons.is_empty()) {
            (0, true) => "ok",
            (0, false) if !self.room.is_critical => "warning",
            _ => "critical",
        }
    }
}

impl Client {
    /// The health of the cloud, with all that is nearly full.
    ///
    /// # Errors
    /// If the master does not answer.
    pub async fn health_report(&self) -> Result<HealthReport, ClientError> {
        let health = self.health().await?;
        let nodes = self.nodes().await?;
        let room = room(&nodes, &self.quotas().await?);
        let (total, _) = total(&nodes, local_device);
        Ok(HealthReport { health, room, total })
    }
}

/// What an operator should hear of the cloud's room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// A sentence each, the fullest first.
    pub reasons: Vec<String>,
    /// Whether something is so full that writing is about to fail.
    pub is_critical: bool,
}

/// Bytes of all nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// What slices take.
    pub used_bytes: u64,
    /// What they can still take.
    pub free_bytes: u64,
}

/// Everything that is at least [`WARNING_PERCENT`] full.
pub fn room(nodes: &[NodeStatus], quotas: &[QuotaStatus]) -> Room {
    let mut full: Vec<(u64, String, &'static str)> = Vec::new();
    for node in nodes.iter().filter(|node| node.state == NodeState::Up && node.membership == Membership::Active) {
        let advice = "add nodes or disks, or remove files";
        let percent = |used, free| filled_percent(used, free, node.reserve_bytes);
        full.push((percent(node.used_bytes, node.free_bytes), format!("node {}", node.node), advice));
        let disks = node.disks.iter().filter(|disk| disk.state == DiskState::Ok && node.disks.len() > 1);
        full.extend(disks.map(|disk| {
            let what = format!("the disk `{}` of node {}", disk.folder, node.node);
            (percent(disk.used_bytes, disk.free_bytes), what, advice)
        }));
    }
    for quota in quotas {
        let whose = match &quota.of {
            QuotaOf::User(user) => format!("the quota of user {user}"),
            QuotaOf::Folder(path) => format!("the quota of `{path}`"),
        };
        let advice = "raise it, remove files, or empty the trash";
        let limits = [(quota.bytes, quota.used_bytes, "bytes"), (quota.files, quota.used_files, "files")];
        full.extend(
            limits.into_iter().filter_map(|(limit, used, what)| {
                Some((percent_of(used, limit?), format!("{whose} for {what}"), advice))
            }),
        );
    }
    full.retain(|(percent, ..)| *percent >= WARNING_PERCENT);
    full.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let is_critical = full.first().is_some_and(|(percent, ..)| *percent >= CRITICAL_PERCENT);
    let further = full.len().saturating_sub(REASONS_MAX);
    let sentence = |(percent, what, advice): &(u64, String, &str)| format!("{what} is {percent} % full; {advice}");
    let mut reasons: Vec<_> = full.iter().take(REASONS_MAX).map(sentence).collect();
    if further > 0 {
        reasons.push(format!("{further} further nodes, disks or quotas are at least {WARNING_PERCENT} % full"));
    }
    Room { reasons, is_critical }
}

/// A disk that several nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedDisk {
    /// The nodes.
    pub nodes: Vec<String>,
    /// What is free on it.
    pub free_bytes: u64,
}

/// The room of the whole cloud, and each disk that several nodes share. `device_of` says on which file system a folder
/// of a node lies, where that is known.
pub fn total(nodes: &[NodeStatus], device_of: impl Fn(&NodeStatus, &str) -> Option<u64>) -> (Total, Vec<SharedDisk>) {
    let mut total = Total::default();
    let mut shared: BTreeMap<u64, (u64, Vec<&str>)> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.state == NodeState::Up) {
        total.used_bytes += node.used_bytes;
        for DiskStatus { folder, free_bytes, .. } in node.disks.iter().filter(|disk| disk.state == DiskState::Ok) {
            match device_of(node, folder) {
                None => total.free_bytes += free_bytes,
                Some(device) => {
                    let (free, names) = shared.entry(device).or_default();
                    *free = (*free).max(*free_bytes);
                    if names.last() != Some(&node.node.as_str()) {
                        names.push(node.node.as_str());
                    }
                }
            }
        }
    }
    total.free_bytes += shared.values().map(|(free, _)| free).sum::<u64>();
    let several = shared.into_values().filter(|(_, names)| names.len() > 1);
    let disk = |(free_bytes, names): (u64, Vec<&str>)| SharedDisk {
        nodes: names.into_iter().map(str::to_owned).collect(),
        free_bytes,
    };
    (total, several.map(disk).collect())
}

/// The file system of a node's folder, where the node is on this machine. Of other machines it is not known.
pub fn local_device(node: &NodeStatus, folder: &str) -> Option<u64> {
    let is_here = node.address.ip().to_canonical().is_loopback();
    is_here.then(|| std::fs::metadata(folder).ok()).flatten().map(|folder| folder.dev())
}

/// How full a disk is of what slices take and could take.
fn filled_percent(used_bytes: u64, free_bytes: u64, reserve_bytes: u64) -> u64 {
    let all = used_bytes.saturating_add(free_bytes);
    100 - percent_of(free_bytes.saturating_sub(reserve_bytes), all.max(1)).min(100)
}

fn percent_of(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// From here on an operator should do something.
const WARNING_PERCENT: u64 = 85;
/// From here on users will soon be refused.
const CRITICAL_PERCENT: u64 = 95;
/// Sentences that a person reads.
const REASONS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::{NodeId, Place, SectorPath, UserName};

    use super::*;

    fn node(name: &str, disks: &[(u64, u64)]) -> NodeStatus {
        let disk = |(at, (used_bytes, free_bytes)): (usize, &(u64, u64))| DiskStatus {
            folder: format!("/{name}/{at}"),
            state: DiskState::Ok,
            used_bytes: *used_bytes,
            free_bytes: *free_bytes,
            why: String::new(),
            scrub: None,
        };
        NodeStatus {
            node: NodeId::new(name).unwrap(),
            place: Place::new("site-1", "rack-1"),
            address: ([127, 0, 0, 1], 1).into(),
            state: NodeState::Up,
            used_bytes: disks.iter().map(|(used, _)| used).sum(),
            free_bytes: disks.iter().map(|(_, free)| free).sum(),
            pid: 1,
            folder: format!("/{name}"),
            membership: Membership::Active,
            reserve_bytes: 0,
            is_full: false,
            slices: 0,
            disks: disks.iter().enumerate().map(disk).collect(),
            sandbox_missing: None,
            refused_tickets: BTreeMap::new(),
            links: Vec::new(),
            marks: crate::NodeMarks::default(),
        }
    }

    fn quota(of: QuotaOf, used_bytes: u64, bytes: Option<u64>) -> QuotaStatus {
        QuotaStatus { of, used_bytes, used_files: 9, bytes, files: Some(10) }
    }

    #[test]
    fn nodes_disks_and_quotas_are_told_from_85_percent_and_critical_from_95() {
        let said = |room: &Room| room.reasons.join("\n");
        assert_eq!(room(&[node("a", &[(84, 16)])], &[]), Room::default());
        let warned = room(&[node("a", &[(85, 15)])], &[]);
        assert!(said(&warned).starts_with("node a is 85 % full") && !warned.is_critical, "{warned:?}");
        let critical = room(&[node("a", &[(95, 5)])], &[]);
        assert!(critical.is_critical && critical.reasons.len() == 1, "{critical:?}");
        let disk = room(&[node("a", &[(96, 4), (0, 900)])], &[]);
        assert!(said(&disk).starts_with("the disk `/a/0` of node a is 96 % full") && disk.is_critical, "{disk:?}");
        let user = QuotaOf::User(UserName::new("ann").unwrap());
        let quotas = room(&[], &[quota(user.clone(), 95, Some(100))]);
        assert!(quotas.reasons[0].starts_with("the quota of user ann for bytes is 95 % full"), "{quotas:?}");
        assert!(quotas.reasons[1].starts_with("the quota of user ann for files is 90 % full") && quotas.is_critical);
        let folder = QuotaOf::Folder(SectorPath::parse("/a").unwrap());
        assert_eq!(room(&[], &[quota(folder, 95, None)]).reasons.len(), 1, "no limit is never full");
        assert_eq!(room(&[], &[quota(user, 1, Some(0))]).reasons.len(), 2, "nothing may be kept");
    }

    #[test]
    fn what_only_the_reserve_is_left_of_is_full_and_a_lost_or_drained_node_is_not_told() {
        let reserve = NodeStatus { reserve_bytes: 50, ..node("a", &[(0, 40)]) };
        assert!(room(std::slice::from_ref(&reserve), &[]).is_critical);
        assert_eq!(room(&[NodeStatus { state: NodeState::Lost, ..reserve.clone() }], &[]), Room::default());
        assert_eq!(room(&[NodeStatus { membership: Membership::Draining, ..reserve }], &[]), Room::default());
        let many: Vec<_> = (0..12).map(|number| node(&format!("n{number}"), &[(99, 1)])).collect();
        assert!(room(&many, &[]).reasons[REASONS_MAX].starts_with("2 further"));
    }

    #[test]
    fn a_disk_that_nodes_share_counts_once_and_is_said() {
        let nodes = [node("a", &[(1, 70), (1, 70)]), node("b", &[(1, 69)]), node("c", &[(1, 30)])];
        let device = |node: &NodeStatus, _: &str| (node.node.as_str() != "c").then_some(7);
        let (all, shared) = total(&nodes, device);
        assert_eq!(all, Total { used_bytes: 4, free_bytes: 100 });
        assert_eq!(shared, [SharedDisk { nodes: vec!["a".into(), "b".into()], free_bytes: 70 }]);
    }
}
