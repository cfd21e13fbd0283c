//! An owner's policy for a file or for all below a folder: how many copies, where, for how long, and how much. The
//! Sector/Sphere paper (2.2) has copies "according to the topology"; here the policy is per file and folder. A folder's
//! policy holds for everything below it that does not say otherwise. The master keeps policies. Nothing here ever knows
//! names or nodes, and it never places a copy.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor},
};

use crate::limits;

/// The policy of one entry. `None`, or an empty list, means: as the folder above says, and finally as the cloud's
/// settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Copies wanted, 1 to [`COPIES_MAX`](crate::limits::COPIES_MAX).
    pub copies: Option<u8>,
    /// Copies that are synced before an upload is answered.
    pub sync_copies: Option<u8>,
    /// Sites that must each have a copy.
    pub sites_wanted: Vec<String>,
    /// Sites that must have none.
    pub sites_forbidden: Vec<String>,
    /// Files are removed this many seconds after they were last written.
    pub lifetime_seconds: Option<u64>,
    /// Of a folder: its files lie on the same nodes and are repaired as one.
    pub colocated: Option<bool>,
    /// Of a folder: most bytes of the files at and below it, each counted once.
    pub quota_bytes: Option<u64>,
    /// Of a folder: most files at and below it.
    pub quota_files: Option<u64>,
    /// Content that was replaced can be had back for this many seconds; 0: not at all.
    pub versions_seconds: Option<u64>,
}

impl Policy {
    /// Whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it limits how much a folder may hold.
    pub fn has_quota(&self) -> bool {
        self.quota_bytes.is_some() || self.quota_files.is_some()
    }

    /// Why the policy is invalid, in one sentence, if it is.
    pub fn check(&self) -> Result<(), String> {
        for copies in [self.copies, self.sync_copies].into_iter().flatten() {
            if copies == 0 || copies > limits::COPIES_MAX {
                return Err(format!("{copies} copies cannot be kept; ask for 1 to {}", limits::COPIES_MAX));
            }
        }
        if let (Some(copies), Some(sync_copies)) = (self.copies, self.sync_copies)
            && sync_copies > copies
        {
            return Err(format!("sync-copies is {sync_copies} and copies is {copies}; it must be no more than copies"));
        }
        if self.lifetime_seconds == Some(0) {
            return Err("a lifetime of 0 would remove a file before it is read; give a longer one".into());
        }
        if self.versions_seconds.is_some_and(|seconds| seconds > limits::VERSIONS_SECONDS_MAX) {
            return Err("replaced content is kept for a year at most; give a shorter time for `versions`".into());
        }
        for sites in [&self.sites_wanted, &self.sites_forbidden] {
            check_sites(sites)?;
        }
        match self.sites_wanted.iter().find(|site| self.sites_forbidden.contains(site)) {
            Some(site) => Err(format!("the site `{site}` is wanted and forbidden; decide for one")),
            None => Ok(()),
        }
    }

    /// Why the policy is invalid for a file, if it is.
    pub fn check_of_file(&self) -> Result<(), String> {
        if self.colocated.is_some() || self.has_quota() {
            return Err("`together` and quotas are for folders; set them on the file's folder".into());
        }
        Ok(())
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let first = (
            &self.copies,
            &self.sync_copies,
            &self.sites_wanted,
            &self.sites_forbidden,
            &self.lifetime_seconds,
            &self.colocated,
            &self.quota_bytes,
            &self.quota_files,
        );
        match self.versions_seconds {
            None => first.serialize(to),
            Some(seconds) => (WITH_VERSIONS, seconds, first).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_tuple(ELEMENTS_MAX, PolicyVisitor)
    }
}

/// Reads both layouts. The first one begins with the byte that says whether `copies` follows.
struct PolicyVisitor;

/// All fields of the first layout after `copies`.
type AfterCopies = (Option<u8>, Vec<String>, Vec<String>, Option<u64>, Option<bool>, Option<u64>, Option<u64>);

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Policy, A::Error> {
        let (mut begins, mut versions_seconds) = (next(&mut from)?, None);
        if begins == WITH_VERSIONS {
            versions_seconds = Some(next(&mut from)?);
            begins = next(&mut from)?;
        }
        let copies = match begins {
            0_u8 => None,
            1 => Some(next(&mut from)?),
            _ => return Err(A::Error::custom("a layout of policies that this build does not know")),
        };
        let (sync_copies, sites_wanted, sites_forbidden, lifetime_seconds, colocated, quota_bytes, quota_files) =
            next::<AfterCopies, A>(&mut from)?;
        Ok(Policy {
            copies,
            sync_copies,
            sites_wanted,
            sites_forbidden,
            lifetime_seconds,
            colocated,
            quota_bytes,
            quota_files,
            versions_seconds,
        })
    }
}

fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(from: &mut A) -> Result<T, A::Error> {
    from.next_element()?.ok_or_else(|| A::Error::custom("a policy ends too early"))
}

fn check_sites(sites: &[String]) -> Result<(), String> {
    if sites.len() > POLICY_SITES_MAX {
        return Err(format!("{} sites are too many; name at most {POLICY_SITES_MAX}", sites.len()));
    }
    for (at, site) in sites.iter().enumerate() {
        let is_name = !site.is_empty() && site.len() <= limits::NAME_BYTES_MAX && !site.chars().any(char::is_control);
        if !is_name {
            let shown: String = site.chars().take(80).flat_map(char::escape_debug).collect();
            return Err(format!("`{shown}` is not the name of a site; `sector nodes` shows them"));
        }
        if sites[..at].contains(site) {
            return Err(format!("the site `{site}` is named twice"));
        }
    }
    Ok(())
}

/// Most sites that one policy names in a list: as many as a file can have copies.
const POLICY_SITES_MAX: usize = limits::COPIES_MAX as usize;
/// Begins a policy that says for how long replaced content is kept. Other policies are as they were before there was
/// such a field, and begin with 0 or 1.
const WITH_VERSIONS: u8 = 2;
/// Elements that a policy is read as: two marks, the seconds, `copies`, and all others.
const ELEMENTS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_policy_of_an_older_build_is_read_and_one_without_versions_has_its_bytes() {
        let old = [1, 3, 1, 2, 1, 1, b'a', 0, 1, 60, 1, 1, 0, 1, 7];
        let policy = Policy {
            copies: Some(3),
            sync_copies: Some(2),
            sites_wanted: sites(&["a"]),
            lifetime_seconds: Some(60),
            colocated: Some(true),
            quota_files: Some(7),
            ..Policy::default()
        };
        assert_eq!(postcard::to_stdvec(&policy).as_deref(), Ok(&old[..]));
        assert_eq!(postcard::from_bytes(&old), Ok(policy.clone()));
        for (seconds, head) in [(0, vec![2, 0]), (300, vec![2, 0xac, 2])] {
            let kept = Policy { versions_seconds: Some(seconds), ..policy.clone() };
            let bytes = [head, old.to_vec()].concat();
            assert_eq!(postcard::to_stdvec(&kept), Ok(bytes.clone()));
            assert_eq!(postcard::take_from_bytes::<Policy>(&bytes), Ok((kept, &[][..])));
        }
        let wrong: [&[u8]; 5] = [&[], &[3, 0], &[2], &[2, 5], &[2, 5, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0]];
        for bytes in wrong {
            assert!(postcard::from_bytes::<Policy>(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let base = Policy::default();
        let wrong = [
            (Policy { copies: Some(0), ..base.clone() }, "1 to 16"),
            (Policy { copies: Some(17), ..base.clone() }, "1 to 16"),
            (Policy { sync_copies: Some(0), ..base.clone() }, "1 to 16"),
            (Policy { copies: Some(2), sync_copies: Some(3), ..base.clone() }, "no more than copies"),
            (Policy { lifetime_seconds: Some(0), ..base.clone() }, "lifetime of 0"),
            (Policy { versions_seconds: Some(31_536_001), ..base.clone() }, "a year"),
            (Policy { sites_wanted: sites(&["a", "b"]), sites_forbidden: sites(&["b"]), ..base.clone() }, "`b`"),
            (Policy { sites_wanted: sites(&["a", "a"]), ..base.clone() }, "twice"),
            (Policy { sites_forbidden: sites(&[""]), ..base.clone() }, "not the name"),
            (Policy { sites_forbidden: vec!["x".repeat(65)], ..base.clone() }, "not the name"),
        ];
        for (policy, says) in wrong {
            let message = policy.check().err().unwrap_or_else(|| panic!("{policy:?} was taken"));
            assert!(message.contains(says), "{message}");
        }
        let sound = Policy { copies: Some(16), sync_copies: Some(16), lifetime_seconds: Some(1), ..base };
        assert_eq!((sound.check(), sound.check_of_file()), (Ok(()), Ok(())));
        assert!(Policy { quota_files: Some(1), ..sound.clone() }.check_of_file().is_err());
        assert!(Policy { colocated: Some(false), ..sound }.check_of_file().is_err());
    }
}
