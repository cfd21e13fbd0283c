//! Requests about policies and quotas. Serves `policy` and `quota`. The catalogue decides; what only the other rooms know
//! is added here: which sites have nodes, and what is being written. It never checks a right: that was done before.

use protocol::{
    Now, Policy, Reason, Refusal, SectorPath, UserName,
    message::{client_master::ClientReply, master_security::UserRights},
};

use crate::{Master, actions::SessionCaller, log::journal_writes::Effect};

impl Master {
    /// Changes the policy of an entry.
    pub(crate) fn set_policy(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        path: &SectorPath,
        policy: Policy,
    ) -> Result<Option<ClientReply>, Refusal> {
        let warnings = self.policy_warnings(&policy);
        let open = self.writes.leases.of_path(path).map(|lease| {
            let message = format!("`{path}` is being written by {}; set its policy when that is done", lease.by.user);
            Refusal::new(Reason::LeaseHeld { seconds: lease.seconds_left(now) }, message)
        });
        let (change, reply) = self.catalog.set_policy(now, by, path, policy, open, warnings)?;
        let moved = change.entry.map(Effect::Moved);
        self.save(now, change.rows, [Effect::Reply(caller, reply)].into_iter().chain(moved).collect());
        Ok(None)
    }

    /// Sets how much a user may keep.
    pub(crate) fn set_quota(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        user: &UserName,
        bytes: Option<u64>,
        files: Option<u64>,
    ) -> Result<Option<ClientReply>, Refusal> {
        let row = self.catalog.set_quota(by, user, bytes, files)?;
        self.save(now, vec![row], vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    /// Warnings about a policy that may be intended, but cannot be met with the present nodes.
    fn policy_warnings(&self, policy: &Policy) -> Vec<String> {
        let has_node = |site: &String| self.fleet.nodes.iter().any(|(_, node)| node.place.site == *site);
        let mut warnings: Vec<_> = policy
            .sites_wanted
            .iter()
            .chain(&policy.sites_forbidden)
            .filter(|site| !has_node(site))
            .map(|site| format!("no node is at the site `{site}` yet; `sector nodes` shows where they are"))
            .collect();
        let nodes = self.fleet.nodes.iter().count();
        if let Some(copies) = policy.copies.filter(|copies| usize::from(*copies) > nodes) {
            warnings.push(format!("{copies} copies need as many nodes, and there are {nodes}; add nodes"));
        }
        let sites = policy.sites_wanted.len();
        if let Some(copies) = policy.copies.filter(|copies| usize::from(*copies) < sites) {
            warnings.push(format!("{copies} copies cannot be at each of {sites} sites; ask for more copies"));
        }
        warnings
    }
}
