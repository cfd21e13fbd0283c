//! Evidence of nodes, what is judged of it, and how administrators overrule that. Serves the path *judgement*: it takes
//! reports to the judge, saves the marks, and tells placement, reading and nodes. It never judges itself.

use std::collections::BTreeMap;

use protocol::{
    NodeId, Now, Reason, Refusal, UserName,
    message::{
        client_master::ClientReply,
        events::{EventFields, EventKind},
        links::LINK_SITES_MAX,
        load::LoadReport,
        marks::{EvidenceReport, MarkChange, MarkState, MarkSubject, REASON_BYTES_MAX, STAGES_MAX},
        master_security::UserRights,
        request::ChangeMarkRequest,
    },
};

use crate::{
    Master,
    actions::SessionCaller,
    fleet::{
        judgement::JudgedCloud,
        link_history::LinkHistories,
        nodes::{NodeKey, Nodes},
    },
    log::journal_writes::Effect,
    replicas::orders::QueuedWork,
};

impl Master {
    /// A node has told how busy it is.
    pub(crate) fn note_load(&mut self, now: Now, key: NodeKey, report: LoadReport) {
        let node = self.fleet.nodes.get_mut(key);
        self.fleet.judgement.note_disks(&node.id, &report.disks);
        node.load_history.add(now.monotonic, report);
    }

    /// A node has told what its SPEs did, and which links were full.
    pub(crate) fn note_evidence(&mut self, now: Now, key: NodeKey, mut report: EvidenceReport) {
        report.stages.truncate(STAGES_MAX);
        let node = self.fleet.nodes.get(key);
        self.fleet.judgement.note_stages(now, &node.id, &report.stages);
        for site in report.full_links.iter().take(LINK_SITES_MAX) {
            self.fleet.judgement.note_full_link(now, &node.place.site, site);
        }
    }

    /// Judges what was told, if it is time.
    pub(crate) fn judge(&mut self, now: Now) {
        if !self.fleet.judgement.is_due(now) {
            return;
        }
        let cloud = Cloud { nodes: &self.fleet.nodes, links: &self.fleet.links };
        let before = self.fleet.judgement.marks.states();
        let changes = self.fleet.judgement.judge(now, &cloud);
        self.note_mark_events(now, before, None);
        self.save(now, changes, Vec::new());
        self.apply_marks();
    }

    /// All marks, by their subjects.
    pub(crate) fn mark_list(&self, now: Now) -> ClientReply {
        ClientReply::Marks(self.fleet.judgement.marks.list(now))
    }

    /// An administrator overrules what was measured.
    pub(crate) fn change_mark(
        &mut self,
        now: Now,
        from: SessionCaller,
        by: &UserRights,
        request: ChangeMarkRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let ChangeMarkRequest { subject, change } = request;
        let decided = match change {
            MarkChange::Clear => None,
            MarkChange::Add(reason) => Some((MarkState::Slow, reason)),
            MarkChange::Ignore(reason) => Some((MarkState::Ignored, reason)),
        };
        let before = self.fleet.judgement.marks.states();
        let change = match decided {
            Some((state, reason)) => {
                self.check_subject(&subject)?;
                if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
                    let message = format!("a reason is one line of at most {REASON_BYTES_MAX} bytes");
                    return Err(Refusal::new(Reason::Invalid, message));
                }
                let decided = (state, by.user.clone(), reason);
                let full = || Refusal::new(Reason::Busy, "there are too many marks; clear some (`sector mark list`)");
                self.fleet.judgement.marks.set(now, &subject, decided).ok_or_else(full)?
            }
            None => self.fleet.judgement.clear(&subject).ok_or_else(|| {
                Refusal::new(Reason::NotFound, format!("{subject} is not marked; see `sector mark list`"))
            })?,
        };
        self.note_mark_events(now, before, Some(&by.user));
        self.apply_marks();
        self.save(now, vec![change], vec![Effect::Reply(from, ClientReply::Done)]);
        Ok(None)
    }

    /// Tells what is marked now and was not before, and the other way round. `by` is the administrator who decided.
    fn note_mark_events(
        &mut self,
        now: Now,
        mut before: BTreeMap<MarkSubject, (MarkState, Option<UserName>)>,
        by: Option<&UserName>,
    ) {
        for (subject, mark) in self.fleet.judgement.marks.states() {
            if before.remove(&subject).as_ref() != Some(&mark) {
                let fields = EventFields {
                    state: Some(mark.0.as_str().into()),
                    cause: Some(self.fleet.judgement.marks.reason(&subject).to_owned()).filter(|why| !why.is_empty()),
                    user: by.cloned(),
                    ..EventFields::default()
                };
                self.note_open(now, EventKind::MarkSet, subject.to_string(), fields);
            }
        }
        for subject in before.into_keys() {
            let fields = EventFields { user: by.cloned(), ..EventFields::default() };
            self.note_open(now, EventKind::MarkCleared, subject.to_string(), fields);
        }
    }

    /// What is marked, one sentence each, for people who ask how the cloud is.
    pub(crate) fn mark_reasons(&self) -> Vec<String> {
        // Its times do not matter here.
        let marks = self.fleet.judgement.marks.list(Now::default());
        let slow = marks.into_iter().filter(|mark| mark.state == MarkState::Slow);
        let reason = |reason: &str| if reason.is_empty() { String::new() } else { format!(": {reason}") };
        slow.map(|mark| {
            format!("{} is slow and is used less (`sector mark list`){}", mark.subject, reason(&mark.reason))
        })
        .collect()
    }

    /// How many nodes, disks and links are marked as slow.
    pub(crate) fn mark_counts(&self) -> [(&'static str, u64); 3] {
        let mut counts = [("node", 0), ("disk", 0), ("link", 0)];
        for subject in self.fleet.judgement.marks.slow() {
            counts.iter_mut().filter(|(kind, _)| *kind == subject.kind()).for_each(|(_, count)| *count += 1);
        }
        counts
    }

    /// Tells placement, reading and the nodes what is marked now.
    pub(crate) fn apply_marks(&mut self) {
        let mut nodes: BTreeMap<NodeId, Vec<Option<String>>> = BTreeMap::new();
        let mut links = Vec::new();
        for subject in self.fleet.judgement.marks.slow() {
            match subject {
                MarkSubject::Node(node) => nodes.entry(node.clone()).or_default().push(None),
                MarkSubject::Disk { node, folder } => nodes.entry(node.clone()).or_default().push(Some(folder.clone())),
                MarkSubject::Link { a, b } => links.push((a.clone(), b.clone())),
            }
        }
        self.fleet.nodes.set_slow_links(links);
        let keys: Vec<_> = self.fleet.nodes.iter().map(|(key, _)| key).collect();
        for key in keys {
            let node = self.fleet.nodes.get_mut(key);
            let marked = nodes.remove(&node.id).unwrap_or_default();
            node.is_slow = marked.contains(&None);
            let slow_disks: Vec<String> = marked.into_iter().flatten().collect();
            if node.slow_disks != slow_disks {
                node.slow_disks = slow_disks;
                if node.is_reachable() {
                    self.replicas.orders.push(key, QueuedWork::SlowDisks);
                }
            }
        }
    }

    /// Refuses a subject that the cloud does not have.
    fn check_subject(&self, subject: &MarkSubject) -> Result<(), Refusal> {
        let not_found = |what: String| Err(Refusal::new(Reason::NotFound, what));
        match subject {
            MarkSubject::Node(node) | MarkSubject::Disk { node, .. } if self.fleet.nodes.of_id(node).is_none() => {
                not_found(format!("no node {node} is known; see `sector nodes`"))
            }
            MarkSubject::Node(_) => Ok(()),
            MarkSubject::Disk { node, folder } => {
                let has = |key| self.fleet.nodes.get(key).disks.iter().any(|disk| disk.folder == *folder);
                match self.fleet.nodes.of_id(node).is_some_and(has) {
                    true => Ok(()),
                    false => {
                        not_found(format!("node {node} has told of no disk `{folder}`; see `sector nodes --json`"))
                    }
                }
            }
            MarkSubject::Link { a, b } => match [a, b].into_iter().find(|site| !self.fleet.nodes.has_site(site)) {
                None if a == b => {
                    Err(Refusal::new(Reason::Invalid, format!("a link is between two sites, not {a} alone")))
                }
                None => Ok(()),
                Some(site) => not_found(format!("no node stands at a site {site:?}; see `sector topology`")),
            },
        }
    }
}

/// What the judge sees.
struct Cloud<'a> {
    nodes: &'a Nodes,
    links: &'a LinkHistories,
}

impl JudgedCloud for Cloud<'_> {
    fn disk_folder(&self, node: &NodeId, number: usize) -> Option<String> {
        self.nodes.get(self.nodes.of_id(node)?).disks.get(number).map(|disk| disk.folder.clone())
    }

    fn link_rate(&self, from: &str, to: &str, second: u64) -> Option<f64> {
        self.links.rate(from, to, second)
    }

    fn is_gone(&self, subject: &MarkSubject) -> bool {
        match subject {
            MarkSubject::Node(node) | MarkSubject::Disk { node, .. } => self.nodes.of_id(node).is_none(),
            MarkSubject::Link { .. } => false,
        }
    }
}
