//! Where nodes stand (Sector/Sphere paper, 2.2: "a hierarchical topology, e.g. computer nodes on racks within multiple
//! data centers"), and how far two places are apart.

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// The place of a node: site (data centre) and rack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The data centre.
    pub site: String,
    /// The rack within the site.
    pub rack: String,
}

/// How far two nodes are apart; smaller is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same node.
    SameNode,
    /// Another node of the same rack.
    SameRack,
    /// Another rack of the same site.
    SameSite,
    /// Another site.
    OtherSite,
}

impl Place {
    /// The place `site`/`rack`.
    pub fn new(site: impl Into<String>, rack: impl Into<String>) -> Self {
        Self { site: site.into(), rack: rack.into() }
    }

    /// The distance between two nodes that are not the same one.
    pub fn distance(&self, other: &Self) -> Distance {
        match (self.site == other.site, self.rack == other.rack) {
            (true, true) => Distance::SameRack,
            (true, false) => Distance::SameSite,
            (false, _) => Distance::OtherSite,
        }
    }
}

/// The distance between two named nodes and their places.
pub fn distance(a: (&NodeId, &Place), b: (&NodeId, &Place)) -> Distance {
    if a.0 == b.0 { Distance::SameNode } else { a.1.distance(b.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racks_of_the_same_name_in_two_sites_are_far_apart() {
        let (a, b, c, d) =
            (Place::new("jhu", "1"), Place::new("uic", "1"), Place::new("uic", "2"), Place::new("uic", "1"));
        assert_eq!(a.distance(&b), Distance::OtherSite);
        assert_eq!(b.distance(&c), Distance::SameSite);
        assert_eq!(b.distance(&d), Distance::SameRack);
        assert!(Distance::SameNode < Distance::SameRack && Distance::SameSite < Distance::OtherSite);
    }
}
