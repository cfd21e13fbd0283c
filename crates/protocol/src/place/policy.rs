//! An owner's policy for a file or for all below a folder: how many copies, where, for how long, and how much. The
//! Sector/Sphere paper (2.2) has copies "according to the topology"; here the policy is per file and folder. A folder's
//! policy holds for everything below it that does not say otherwise. The master keeps policies. Nothing here ever knows
//! names or nodes, and it never places a copy.

use serde::{Deserialize, Serialize};

use crate::limits;

/// The policy of one entry. `None`, or an empty list, means: as the folder above says, and finally as the cloud's
/// settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
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
