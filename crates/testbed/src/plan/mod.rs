//! The plan of a testbed: sites with their names and addresses, and the path between any two of them. It is pure
//! code. An impossible plan is refused here and never reaches the kernel.

pub(crate) mod matrix;

use std::{net::Ipv4Addr, time::Duration};

use crate::{
    error::TestbedError,
    packet::FRAME_BYTES_MAX,
    plan::matrix::RttMatrix,
    rules::{PathChange, PathRules},
};

/// A checked plan.
#[derive(Clone, Debug)]
pub struct TestbedPlan {
    sites: Vec<String>,
    nodes_per_site: u32,
    /// Of the pairs (0,1), (0,2) … (1,2) and so on.
    paths: Vec<PathRules>,
    seed: u64,
}

impl TestbedPlan {
    /// This many sites, `site1` and so on, all as far from each other as `rules` say.
    pub fn new(sites: u32, nodes_per_site: u32, rules: &PathRules, seed: u64) -> Result<Self, TestbedError> {
        let names = (1..=sites).map(|site| format!("site{site}")).collect();
        Self::with(names, nodes_per_site, seed, |_, _| rules.clone())
    }

    /// The sites of a matrix, with its distances; `rules` say everything else.
    pub fn of_matrix(
        matrix: &RttMatrix,
        nodes_per_site: u32,
        rules: &PathRules,
        seed: u64,
    ) -> Result<Self, TestbedError> {
        let between = |one, other| PathRules { rtt: matrix.rtt(one, other), ..rules.clone() };
        Self::with(matrix.sites().to_vec(), nodes_per_site, seed, between)
    }

    fn with(
        sites: Vec<String>,
        nodes_per_site: u32,
        seed: u64,
        rules: impl Fn(usize, usize) -> PathRules,
    ) -> Result<Self, TestbedError> {
        if !(2..=SITES_MAX).contains(&sites.len()) {
            return Err(TestbedError::Plan(format!(
                "a testbed of {} sites cannot be made; take from 2 to {SITES_MAX}",
                sites.len()
            )));
        }
        if nodes_per_site > NODES_PER_SITE_MAX {
            return Err(TestbedError::Plan(format!(
                "{nodes_per_site} nodes a site are too many; take up to {NODES_PER_SITE_MAX}"
            )));
        }
        let pairs = (0..sites.len()).flat_map(|one| (one + 1..sites.len()).map(move |other| (one, other)));
        let ways: Vec<_> = pairs.map(|(one, other)| rules(one, other)).collect();
        check(&ways)?;
        Ok(Self { sites, nodes_per_site, paths: ways, seed })
    }

    /// The names of the sites, in the order of their numbers.
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// Nodes of each site.
    pub fn nodes_per_site(&self) -> u32 {
        self.nodes_per_site
    }

    /// The seed of all random draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The path between two different sites.
    pub fn path(&self, one: usize, other: usize) -> &PathRules {
        &self.paths[self.path_index(one, other)]
    }

    /// Applies a change to the rules of all paths, of those of one site, or of that between two. If the result is
    /// impossible, it refuses the whole change. Returns the pairs of sites that were affected.
    pub fn change(&mut self, scope: &Scope, change: &PathChange) -> Result<Vec<(usize, usize)>, TestbedError> {
        let pairs = self.pairs(scope)?;
        let mut ways = self.paths.clone();
        for (one, other) in &pairs {
            let way = &mut ways[self.path_index(*one, *other)];
            *way = change.apply(way);
        }
        check(&ways)?;
        self.paths = ways;
        Ok(pairs)
    }

    /// The pairs of sites in a scope, each once.
    pub fn pairs(&self, scope: &Scope) -> Result<Vec<(usize, usize)>, TestbedError> {
        let all = (0..self.sites.len()).flat_map(|one| (one + 1..self.sites.len()).map(move |other| (one, other)));
        Ok(match scope {
            Scope::All => all.collect(),
            Scope::Site(site) => {
                let site = self.site(site)?;
                all.filter(|(one, other)| *one == site || *other == site).collect()
            }
            Scope::Between(one, other) => {
                let (one, other) = (self.site(one)?, self.site(other)?);
                if one == other {
                    return Err(TestbedError::Plan("within a site there is no link; name two different sites".into()));
                }
                vec![(one.min(other), one.max(other))]
            }
        })
    }

    /// The index of a site by its name, or by its number from 1.
    pub fn site(&self, name: &str) -> Result<usize, TestbedError> {
        let by_number = || name.parse::<usize>().ok().filter(|number| (1..=self.sites.len()).contains(number));
        self.sites
            .iter()
            .position(|site| site == name)
            .or_else(|| Some(by_number()? - 1))
            .ok_or_else(|| TestbedError::NoSuchSite { name: name.into(), sites: self.sites.join(", ") })
    }

    fn path_index(&self, one: usize, other: usize) -> usize {
        let (one, other) = (one.min(other), one.max(other));
        // After the paths of all sites before `one`.
        one * (2 * self.sites.len() - one - 1) / 2 + other - one - 1
    }
}

/// The paths that a request affects.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All paths.
    All,
    /// Those that begin or end at a site.
    Site(String),
    /// The one between two sites.
    Between(String, String),
}

/// The address of a site itself: where its clients are. `site` counts from 0.
pub fn site_address(site: usize) -> Ipv4Addr {
    address(site, SITE_HOST)
}

/// The address of a node of a site; both count from 0.
pub fn node_address(site: usize, node: u32) -> Ipv4Addr {
    address(site, NODE_HOST_FIRST + node as u8)
}

/// The addresses of a site: the first, and how many bits all of them share.
pub fn site_range(site: usize) -> (Ipv4Addr, u8) {
    (address(site, 0), 24)
}

/// The site of an address; `None` for one of no site.
pub(crate) fn site_of(address: Ipv4Addr, sites: usize) -> Option<usize> {
    let [first, second, site, _] = address.octets();
    let site = usize::from(site).checked_sub(1)?;
    ([first, second] == NETWORK && site < sites).then_some(site)
}

fn address(site: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(NETWORK[0], NETWORK[1], site as u8 + 1, host)
}

fn check(ways: &[PathRules]) -> Result<(), TestbedError> {
    let wrong = |message: String| Err(TestbedError::Plan(message));
    for way in ways {
        if way.rtt > RTT_MAX {
            return wrong(format!(
                "a round trip of {} s is too long; give up to {} s",
                way.rtt.as_secs(),
                RTT_MAX.as_secs()
            ));
        }
        if way.queue_bytes.is_some_and(|bytes| bytes < FRAME_BYTES_MAX as u64) {
            return wrong("a queue of less than 66KB holds not even what one program sends at once; give more".into());
        }
        if way.mtu_bytes.is_some_and(|mtu| mtu < MTU_BYTES_MIN) {
            return wrong(format!("an MTU below {MTU_BYTES_MIN} bytes is none of IPv4; give more"));
        }
        if !(way.burst_packets >= 0.0 && way.burst_packets <= BURST_PACKETS_MAX) {
            return wrong(format!(
                "bursts of {} packets cannot be made; give from 1 to {BURST_PACKETS_MAX}",
                way.burst_packets
            ));
        }
    }
    let underway: u64 = ways.iter().map(|way| way.bytes_underway_max().saturating_mul(2)).fold(0, u64::saturating_add);
    if underway > BYTES_UNDERWAY_MAX {
        return wrong(format!(
            "these links hold {} MB on their ways and in their queues, and the testbed at most {}; give fewer sites, a \
             lower rate, shorter ways or shorter queues",
            underway / 1_000_000,
            BYTES_UNDERWAY_MAX / 1_000_000
        ));
    }
    Ok(())
}

/// Sites of a testbed: its loop goes through all of them, and the number of pairs grows with the square.
pub const SITES_MAX: usize = 32;
/// Nodes of a site: they are processes of one machine.
pub const NODES_PER_SITE_MAX: u32 = 32;
/// What all links together may hold, in bytes: it is this machine's memory.
pub(crate) const BYTES_UNDERWAY_MAX: u64 = 2 << 30;
/// The longest round trip.
const RTT_MAX: Duration = Duration::from_secs(60);
/// The smallest MTU that IPv4 requires of every link (RFC 791).
const MTU_BYTES_MIN: u16 = 68;
const BURST_PACKETS_MAX: f64 = 10_000.0;
/// The first two bytes of every address; the third is the site's number.
const NETWORK: [u8; 2] = [10, 77];
/// The last byte of a site's own address.
const SITE_HOST: u8 = 1;
/// The last byte of the address of a site's first node.
const NODE_HOST_FIRST: u8 = 11;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::link::quantity::Rate;

    fn plan(sites: u32) -> TestbedPlan {
        TestbedPlan::new(sites, 2, &PathRules::new(Rate(1_000_000), Duration::from_millis(10)), 1).unwrap()
    }

    #[test]
    fn every_pair_has_rules_of_its_own_whichever_is_named_first() {
        let mut plan = plan(5);
        let mut delay = 0;
        for one in 0..5 {
            for other in one + 1..5 {
                delay += 1;
                let change = PathChange { rtt: Some(Duration::from_millis(delay)), ..PathChange::default() };
                let names = (plan.sites()[other].clone(), (one + 1).to_string());
                plan.change(&Scope::Between(names.0, names.1), &change).unwrap();
            }
        }
        let found: Vec<_> = (0..5)
            .flat_map(|one| (one + 1..5).map(move |other| (one, other)))
            .map(|(one, other)| {
                assert_eq!(plan.path(one, other), plan.path(other, one));
                plan.path(one, other).rtt.as_millis()
            })
            .collect();
        assert_eq!(found, (1..=10).collect::<Vec<_>>());
    }

    #[test]
    fn a_change_reaches_those_it_names() {
        let mut plan = plan(4);
        let cut = PathChange { is_cut: Some(true), ..PathChange::default() };
        assert_eq!(plan.change(&Scope::Site("site2".into()), &cut).unwrap(), [(0, 1), (1, 2), (1, 3)]);
        assert!(plan.path(3, 1).is_cut && !plan.path(0, 2).is_cut);
        assert_eq!(plan.pairs(&Scope::All).unwrap().len(), 6);
        for scope in [Scope::Site("site5".into()), Scope::Site("0".into()), Scope::Between("1".into(), "site1".into())]
        {
            assert!(plan.change(&scope, &cut).is_err(), "{scope:?}");
        }
    }

    #[test]
    fn a_change_that_cannot_be_made_leaves_all_as_it_was() {
        let mut plan = plan(2);
        let absurd = PathChange { queue_bytes: Some(8 << 30), ..PathChange::default() };
        assert!(plan.change(&Scope::All, &absurd).is_err());
        assert_eq!(plan.path(0, 1).queue_bytes, None);
    }

    #[test]
    fn plans_that_cannot_be_made_are_refused_in_one_sentence() {
        let rules = PathRules::new(Rate(1_000_000_000), Duration::from_millis(100));
        for (sites, nodes) in [(1, 1), (33, 1), (2, 33)] {
            assert!(TestbedPlan::new(sites, nodes, &rules, 1).is_err());
        }
        let far = PathRules { rtt: Duration::from_secs(61), ..rules.clone() };
        let fat = PathRules { rate: Rate(100_000_000_000), rtt: Duration::from_secs(10), ..rules.clone() };
        let tiny = PathRules { queue_bytes: Some(100), ..rules.clone() };
        let small = PathRules { mtu_bytes: Some(67), ..rules.clone() };
        let strange = PathRules { burst_packets: f64::NAN, ..rules };
        for rules in [far, fat, tiny, small, strange] {
            assert!(TestbedPlan::new(2, 0, &rules, 1).is_err(), "{rules:?}");
        }
    }

    #[test]
    fn an_address_belongs_to_its_site() {
        assert_eq!(site_of(site_address(3), 4), Some(3));
        assert_eq!(site_of(node_address(0, 31), 4), Some(0));
        for address in [site_address(4), Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 78, 1, 1)] {
            assert_eq!(site_of(address, 4), None, "{address}");
        }
    }
}
