//! How many of a stage's buckets each site gets, where the capacity of links between sites is known. By its SPEs alone,
//! a site behind a thin link gets as many as any other, and the whole stage waits for that link. It never says at which
//! node a bucket is: [`bucket_placement`] does.

use std::{borrow::Cow, collections::BTreeMap};

use protocol::{NodeId, message::client_master::SiteLink};

use crate::{bucket::bucket_placement, schedule::fleet::Fleet};

/// How many buckets each site gets; none where they are spread by SPEs alone.
///
/// With B bytes of input at site s, and n of N buckets at site t, B n / N bytes go from s to t. A link carries the
/// traffic of both directions. Buckets are moved from site to site while that makes the slowest link, or the slowest
/// site reading its buckets, quicker. Only whole numbers are used, so that every driver gets the same result. Where
/// nothing is known of any link, or nothing is gained, buckets are spread exactly by SPEs.
#[derive(Debug, Default)]
pub(crate) struct BucketShares {
    by_site: BTreeMap<String, u64>,
}

impl BucketShares {
    /// The shares of `buckets` buckets, where `bytes` is the input at each site where their pieces are made.
    pub(crate) fn of(fleet: &Fleet, links: &[SiteLink], bytes: &BTreeMap<String, u64>, buckets: u32) -> Self {
        let flow = ShuffleModel::of(fleet, links, bytes);
        if flow.links.is_empty() {
            return Self::default();
        }
        let by_spes = flow.counts(&Self::default(), fleet, buckets);
        let counts = flow.improve(by_spes.clone());
        let sites = flow.sites.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let shares = Self { by_site: sites.map(|(site, count)| (site.name.to_owned(), *count)).collect() };
        // Once spread over nodes, the numbers may differ a little from those sought.
        let is_better = flow.times(&flow.counts(&shares, fleet, buckets)) < flow.times(&by_spes);
        if is_better { shares } else { Self::default() }
    }

    /// The weights by which buckets are put at nodes.
    pub(crate) fn weights<'a>(&self, fleet: &'a Fleet) -> Cow<'a, BTreeMap<NodeId, u32>> {
        let spes_by_site = spes_by_site(fleet);
        let weight = |(node, spes): (&NodeId, &u32)| {
            let site = &fleet.place(node)?.site;
            let share = self.by_site.get(site)? * u64::from(*spes) * WEIGHT_SCALE / spes_by_site.get(&site[..])?;
            Some((node.clone(), share as u32))
        };
        let weights: BTreeMap<_, _> = fleet.preferred().iter().filter_map(weight).collect();
        // Without shares, or when all sites that had some are lost.
        if weights.is_empty() { Cow::Borrowed(fleet.preferred()) } else { Cow::Owned(weights) }
    }
}

fn spes_by_site(fleet: &Fleet) -> BTreeMap<&str, u64> {
    let mut sites: BTreeMap<&str, u64> = BTreeMap::new();
    for (node, spes) in fleet.preferred() {
        if let Some(place) = fleet.place(node) {
            *sites.entry(&place.site).or_default() += u64::from(*spes);
        }
    }
    sites
}

/// What goes from which site to which.
struct ShuffleModel<'a> {
    sites: Vec<Site<'a>>,
    /// Two sites by their places in the list, and the bytes that their link carries in a second.
    links: Vec<(usize, usize, u64)>,
}

struct Site<'a> {
    name: &'a str,
    spes: u64,
    bytes: u64,
}

impl<'a> ShuffleModel<'a> {
    fn of(fleet: &'a Fleet, links: &[SiteLink], bytes: &BTreeMap<String, u64>) -> Self {
        let site = |(name, spes)| Site { name, spes, bytes: bytes.get(name).copied().unwrap_or(0) };
        let sites: Vec<_> = spes_by_site(fleet).into_iter().map(site).collect();
        let find = |name: &str| sites.iter().position(|site| site.name == name);
        let known = links.iter().filter(|link| link.a != link.b && link.bytes_per_second > 0);
        let links = known.filter_map(|link| Some((find(&link.a)?, find(&link.b)?, link.bytes_per_second))).collect();
        Self { sites, links }
    }

    /// How many buckets each site has by these shares.
    fn counts(&self, shares: &BucketShares, fleet: &Fleet, buckets: u32) -> Vec<u64> {
        let mut counts = vec![0; self.sites.len()];
        for home in bucket_placement::spread(buckets, &shares.weights(fleet)) {
            let site = fleet.place(&home.node).map(|place| &place.site[..]);
            if let Some(at) = self.sites.iter().position(|of| Some(of.name) == site) {
                counts[at] += 1;
            }
        }
        counts
    }

    /// How long each link and each site takes, the longest first. The unit is a thousandth of a second times the number
    /// of buckets, which is the same for all.
    fn times(&self, counts: &[u64]) -> Vec<u128> {
        let all: u128 = self.sites.iter().map(|site| u128::from(site.bytes)).sum();
        let product = |a: usize, b: usize| u128::from(self.sites[a].bytes) * u128::from(counts[b]);
        let links =
            self.links.iter().map(|(a, b, rate)| (product(*a, *b) + product(*b, *a)) * 1_000 / u128::from(*rate));
        let spes = self.sites.iter().map(|site| u128::from(site.spes.max(1) * SPE_BYTES_PER_SECOND));
        let sites = spes.zip(counts).map(|(rate, count)| all * u128::from(*count) * 1_000 / rate);
        let mut times: Vec<_> = links.chain(sites).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        times
    }

    /// Moves buckets, many at once at first, while the longest time falls, or the next longest where that stays the
    /// same.
    fn improve(&self, mut counts: Vec<u64>) -> Vec<u64> {
        let mut times = self.times(&counts);
        let mut step = counts.iter().sum::<u64>().next_power_of_two();
        while step > 0 {
            match self.best_move(&counts, step).filter(|(found, _)| *found < times) {
                Some(found) => (times, counts) = found,
                None => step /= 2,
            }
        }
        counts
    }

    /// The best result of moving this many buckets from one site to another, from each other site to one, or from one
    /// to each. The latter two are needed because, where three links are equally slow, taking buckets from one of them
    /// alone makes none quicker.
    fn best_move(&self, counts: &[u64], step: u64) -> Option<(Vec<u128>, Vec<u64>)> {
        let sites = 0..counts.len();
        let pairs = sites.clone().flat_map(|from| sites.clone().map(move |to| vec![(from, to)]));
        let gathered = sites.clone().map(|to| sites.clone().map(|from| (from, to)).collect());
        let scattered = sites.clone().map(|from| sites.clone().map(|to| (from, to)).collect());
        let moved = pairs.chain(gathered).chain(scattered).map(|moves| {
            let mut moved = counts.to_vec();
            for (from, to) in moves.into_iter().filter(|(from, to)| from != to) {
                let taken = step.min(moved[from]);
                moved[from] -= taken;
                moved[to] += taken;
            }
            (self.times(&moved), moved)
        });
        moved.min()
    }
}

/// How many bytes of a bucket an SPE is assumed to read in a second: one that sorts or counts lines reads about this
/// many. Only the ratio to a link's rate matters.
const SPE_BYTES_PER_SECOND: u64 = 64 << 20;
/// Large enough that shares of nodes with few SPEs differ, and small enough that the largest, of 4,096 buckets, fits 32
/// bits.
const WEIGHT_SCALE: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use fastrand::Rng;
    use protocol::Place;

    use super::*;
    use crate::job::plan::SpeNodePlan;

    /// Nodes are `name site slots`.
    fn fleet(nodes: &[(&str, &str, u32)]) -> Fleet {
        let plan = |(name, site, slots): &(&str, &str, u32)| SpeNodePlan {
            node: NodeId::new(*name).unwrap(),
            place: Place::new(*site, "r"),
            slots: *slots,
            is_marked: false,
        };
        Fleet::new(&nodes.iter().map(plan).collect::<Vec<_>>(), Duration::from_secs(30))
    }

    fn link(a: &str, b: &str, megabits: u64) -> SiteLink {
        SiteLink { a: a.into(), b: b.into(), bytes_per_second: megabits * 125_000 }
    }

    /// All pairs of four sites.
    fn links(megabits: impl Fn(&str, &str) -> u64) -> Vec<SiteLink> {
        let pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")];
        pairs.into_iter().map(|(a, b)| link(a, b, megabits(a, b))).collect()
    }

    fn gigabytes(bytes: &[(&str, u64)]) -> BTreeMap<String, u64> {
        bytes.iter().map(|(site, bytes)| ((*site).to_owned(), bytes << 30)).collect()
    }

    const FOUR: &[(&str, &str, u32)] =
        &[("a1", "a", 2), ("b1", "b", 2), ("c1", "c", 2), ("d1", "d", 1), ("d2", "d", 1)];

    /// How many of 64 buckets are at each site, `None` where they are spread by SPEs alone.
    fn shares(fleet: &Fleet, links: &[SiteLink], bytes: &BTreeMap<String, u64>) -> Option<Vec<u64>> {
        let shares = BucketShares::of(fleet, links, bytes, 64);
        let flow = ShuffleModel::of(fleet, links, bytes);
        (!shares.by_site.is_empty()).then(|| flow.counts(&shares, fleet, 64))
    }

    #[test]
    fn a_site_behind_a_thin_link_gets_few_buckets() {
        let bytes = gigabytes(&[("a", 10), ("b", 10), ("c", 10), ("d", 10)]);
        let thin = links(|_, b| if b == "d" { 10 } else { 1_000 });
        let counts = shares(&fleet(FOUR), &thin, &bytes).unwrap();
        assert_eq!(counts.iter().sum::<u64>(), 64);
        assert!(counts[3] <= 4 && counts[..3].iter().all(|count| *count >= 19), "{counts:?}");
    }

    #[test]
    fn a_site_that_has_nearly_all_of_the_input_keeps_it_where_links_are_thin() {
        let bytes = gigabytes(&[("a", 97), ("b", 1), ("c", 1), ("d", 1)]);
        let counts = shares(&fleet(FOUR), &links(|_, _| 100), &bytes).unwrap();
        assert!(counts[0] > 32, "{counts:?}");
    }

    #[test]
    fn over_equal_links_over_fast_ones_and_without_any_it_is_as_by_spes_alone() {
        let (fleet, even) = (fleet(FOUR), gigabytes(&[("a", 10), ("b", 10), ("c", 10), ("d", 10)]));
        for wanted in [&links(|_, _| 10)[..], &links(|_, _| 1_000_000), &[], &[link("a", "a", 1), link("a", "x", 1)]] {
            assert_eq!(shares(&fleet, wanted, &even), None);
        }
        assert_eq!(shares(&fleet, &links(|_, _| 10), &BTreeMap::new()), None, "there is nothing to carry");
        assert_eq!(BucketShares::default().weights(&fleet).into_owned(), *fleet.preferred());
    }

    #[test]
    fn when_a_sites_nodes_are_lost_the_others_keep_their_shares() {
        let mut fleet = fleet(FOUR);
        let bytes = gigabytes(&[("a", 10), ("b", 10), ("c", 10), ("d", 10)]);
        let shares = BucketShares::of(&fleet, &links(|_, b| if b == "d" { 10 } else { 1_000 }), &bytes, 64);
        let node = |name: &str| NodeId::new(name).unwrap();
        fleet.lose_node(&node("a1"));
        let homes = bucket_placement::spread(64, &shares.weights(&fleet));
        let thin = homes.iter().filter(|home| home.node.as_str().starts_with('d')).count();
        assert!(thin <= 6, "{thin}");
        for name in ["b1", "c1"] {
            fleet.lose_node(&node(name));
        }
        assert_eq!(bucket_placement::spread(3, &shares.weights(&fleet)).len(), 3, "the thin one is all there is");
    }

    #[test]
    fn every_bucket_has_a_place_and_no_time_is_longer_than_by_spes_alone() {
        let mut rng = Rng::with_seed(1);
        let (mut better, names) = (0, ["a", "b", "c", "d", "e"]);
        for _ in 0..300 {
            let nodes: Vec<(String, &str, u32)> = (0..rng.usize(1..12))
                .map(|at| (format!("n{at}"), names[rng.usize(..names.len())], rng.u32(1..9)))
                .collect();
            let nodes: Vec<_> = nodes.iter().map(|(name, site, slots)| (&name[..], *site, *slots)).collect();
            let fleet = fleet(&nodes);
            let mut links = Vec::new();
            for (at, a) in names.iter().enumerate() {
                let known = names[at + 1..].iter().filter(|_| rng.u8(..3) > 0).collect::<Vec<_>>();
                links.extend(known.into_iter().map(|b| link(a, b, 1 + (rng.u64(..10_000) >> rng.u8(..14)))));
            }
            let bytes = names.iter().map(|name| ((*name).to_owned(), rng.u64(..) >> rng.u8(14..60))).collect();
            let buckets = rng.u32(1..200);
            let (shares, flow) =
                (BucketShares::of(&fleet, &links, &bytes, buckets), ShuffleModel::of(&fleet, &links, &bytes));
            let counts = flow.counts(&shares, &fleet, buckets);
            assert_eq!(counts.iter().sum::<u64>(), u64::from(buckets));
            let by_spes = flow.counts(&BucketShares::default(), &fleet, buckets);
            assert!(flow.times(&counts) <= flow.times(&by_spes), "{nodes:?} {links:?} {bytes:?}");
            better += u32::from(counts != by_spes);
        }
        assert!(better > 50, "{better} of 300 are better");
    }
}
