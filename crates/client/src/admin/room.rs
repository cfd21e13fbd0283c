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
        let room = room(&nodes, &self.quotas_in_use().await?);
        let (total, _) = total(&nodes, local_device);
        Ok(HealthReport { health, room, total })
    }
}

impl Client {
    /// The quotas, without those of users who were removed: what they have left is nobody's trouble.
    async fn quotas_in_use(&self) -> Result<Vec<QuotaStatus>, ClientError> {
        let mut quotas = self.quotas().await?;
        let is_of_user = |quota: &QuotaStatus| matches!(quota.of, QuotaOf::User(_));
        if quotas.iter().any(|quota| is_of_user(quota) && !full_limits(quota).is_empty())
            // Only an administrator may know; others see no quota but their own.
            && let Ok(users) = self.users().await
        {
            quotas.retain(|quota| match &quota.of {
                QuotaOf::User(user) => users.iter().any(|known| known.user == *user),
                QuotaOf::Folder(_) => true,
            });
        }
        Ok(quotas)
    }
}

/// What an operator should hear of the cloud's room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// A sentence for nodes, one for disks and one for quotas; in each the fullest first.
    pub reasons: Vec<String>,
    /// Whether a node or disk is so full that writing is about to fail. A full quota is what it was set for.
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

/// Everything that is at least [`WARNING_PERCENT`] full. The master itself tells of nodes that are full.
pub fn room(nodes: &[NodeStatus], quotas: &[QuotaStatus]) -> Room {
    let (mut of_nodes, mut of_disks, mut of_quotas) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_critical = false;
    for node in nodes.iter().filter(|node| node.state == NodeState::Up && node.membership == Membership::Active) {
        let percent = |used, free| filled_percent(used, free, node.reserve_bytes);
        let filled = percent(node.used_bytes, node.free_bytes);
        is_critical |= filled >= CRITICAL_PERCENT;
        if !node.is_full {
            of_nodes.push((filled, format!("node {}", node.node)));
        }
        let disks = node.disks.iter().filter(|disk| disk.state == DiskState::Ok && node.disks.len() > 1);
        of_disks.extend(disks.map(|disk| {
            let what = format!("the disk `{}` of node {}", disk.folder, node.node);
            (percent(disk.used_bytes, disk.free_bytes), what)
        }));
    }
    is_critical |= of_disks.iter().any(|(percent, _)| *percent >= CRITICAL_PERCENT);
    for quota in quotas {
        let whose = match &quota.of {
            QuotaOf::User(user) => format!("the quota of user {user}"),
            QuotaOf::Folder(path) => format!("the quota of `{path}`"),
        };
        of_quotas.extend(full_limits(quota).into_iter().map(|(percent, of)| (percent, format!("{whose} for {of}"))));
    }
    let for_disks = "add nodes or disks, or remove files";
    let kinds = [
        (of_nodes, "nodes", for_disks),
        (of_disks, "disks", for_disks),
        (of_quotas, "quotas", "raise it, remove files, or empty the trash"),
    ];
    Room {
        reasons: kinds.into_iter().filter_map(|(full, what, advice)| message(full, what, advice)).collect(),
        is_critical,
    }
}

/// One sentence about all that is nearly full, the fullest first.
fn message(mut full: Vec<(u64, String)>, what: &str, advice: &str) -> Option<String> {
    full.retain(|(percent, _)| *percent >= WARNING_PERCENT);
    full.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let told: Vec<_> =
        full.iter().take(NAMED_MAX).map(|(percent, what)| format!("{what} is {percent} % full")).collect();
    let further = match full.len() - told.len() {
        0 => String::new(),
        further => format!(", and {further} more {what} are at least {WARNING_PERCENT} % full"),
    };
    (!told.is_empty()).then(|| format!("{}{further}; {advice}", told.join(", ")))
}

/// The limits of a quota that are nearly reached, with how full each is.
fn full_limits(quota: &QuotaStatus) -> Vec<(u64, &'static str)> {
    let limits = [(quota.bytes, quota.used_bytes, "bytes"), (quota.files, quota.used_files, "files")];
    let percents = limits.into_iter().filter_map(|(limit, used, what)| Some((percent_of(used, limit?), what)));
    percents.filter(|(percent, _)| *percent >= WARNING_PERCENT).collect()
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
/// Most nodes, disks or quotas that a sentence names.
const NAMED_MAX: usize = 3;

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
        let of_ann =
            "the quota of user ann for bytes is 95 % full, the quota of user ann for files is 90 % full; raise";
        assert!(said(&quotas).starts_with(of_ann) && quotas.reasons.len() == 1, "{quotas:?}");
        assert!(!quotas.is_critical, "one user cannot bring the whole cloud into trouble");
        let folder = QuotaOf::Folder(SectorPath::parse("/a").unwrap());
        assert_eq!(room(&[], &[quota(folder, 95, None)]).reasons.len(), 1, "no limit is never full");
        assert!(
            said(&room(&[], &[quota(user, 1, Some(0))])).contains("for bytes is 100 % full"),
            "nothing may be kept"
        );
    }

    #[test]
    fn what_only_the_reserve_is_left_of_is_full_and_a_lost_or_drained_node_is_not_told() {
        let reserve = NodeStatus { reserve_bytes: 50, ..node("a", &[(0, 40)]) };
        assert!(room(std::slice::from_ref(&reserve), &[]).is_critical);
        assert_eq!(room(&[NodeStatus { state: NodeState::Lost, ..reserve.clone() }], &[]), Room::default());
        assert_eq!(room(&[NodeStatus { membership: Membership::Draining, ..reserve }], &[]), Room::default());
        let many: Vec<_> = (0..12).map(|number| node(&format!("n{number}"), &[(99, 1)])).collect();
        let told = room(&many, &[]);
        let expected = "node n0 is 99 % full, node n1 is 99 % full, node n10 is 99 % full, and 9 more nodes are at least 85 % \
                        full; add nodes or disks, or remove files";
        assert!(told.reasons == [expected] && told.is_critical, "{told:?}");
        let full: Vec<_> = many.iter().map(|node| NodeStatus { is_full: true, ..node.clone() }).collect();
        assert_eq!(room(&full, &[]), Room { reasons: Vec::new(), is_critical: true }, "the master tells of these");
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
