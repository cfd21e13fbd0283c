//! The auditor, who checks everything once the faults are over: nodes, health, every name, every copy of every file. It
//! repeats the round until all is well, and reports what is not. It never changes anything in the cloud.

mod attribute_audit;

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    time::Duration,
};

use protocol::{
    SectorPath, SliceId, Status,
    message::{
        client_master::{ClientReply, ClientRequest, Entry, EntryKind},
        request::{HealthRequest, ListRequest, NodesRequest, StatRequest},
    },
};

use self::attribute_audit::AttributeAudit;
use super::asking::{PATIENCE, ask, later};
use crate::{
    ViolationKind,
    environment::{
        Environment,
        calls::{CallId, CallReply},
    },
    invariants::{self, bytes, healing, names, recovery},
    model::path,
    reading::{Reading, Turn},
    role::MasterLink,
};

/// See the module.
pub(crate) struct Auditor {
    nodes: usize,
    step: Step,
    tag: u64,
    /// What is wrong in this round.
    unwell: String,
    /// Why another round was needed after the last one.
    last: String,
    /// The files found in this round, by slice.
    files: BTreeMap<SliceId, SectorPath>,
    entries: Vec<Entry>,
    to_stat: VecDeque<SectorPath>,
    to_read: VecDeque<SectorPath>,
    /// Files that could not be read in this round, and why.
    unreadable: Vec<(SectorPath, String)>,
    /// Sentences about files that must exist after the journal was lost, but do not.
    missing: Vec<String>,
    /// Both from the round before, in case time ends in the middle of one.
    lost_before: (Vec<(SectorPath, String)>, Vec<String>),
}

enum Step {
    /// The faults are not over, or a moment has to pass.
    Waiting,
    Nodes,
    Health,
    Names(usize),
    Listing(Listing),
    Attributes(Box<AttributeAudit>),
    Stat,
    Reading(Box<Reading>),
    /// All was well.
    Done,
}

impl Auditor {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            step: Step::Waiting,
            tag: 0,
            unwell: String::new(),
            last: "nobody has looked yet".into(),
            files: BTreeMap::new(),
            entries: Vec::new(),
            to_stat: VecDeque::new(),
            to_read: VecDeque::new(),
            unreadable: Vec::new(),
            missing: Vec::new(),
            lost_before: (Vec::new(), Vec::new()),
        }
    }

    /// All files, if a round found nothing wrong.
    pub(crate) fn found_well(&self) -> Option<&BTreeMap<SliceId, SectorPath>> {
        matches!(self.step, Step::Done).then_some(&self.files)
    }

    /// All names that were found in this round.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.clone()
    }

    /// Faults begin again; afterwards the auditor checks again.
    pub(crate) fn begin_round(&mut self, env: &mut Environment, master_link: &MasterLink) {
        self.wait(env, master_link);
    }

    /// What was wrong last.
    pub(crate) fn state(&self) -> String {
        self.last.clone()
    }

    /// At the end of the time: reports which files are lost.
    pub(crate) fn report_lost(&self, env: &mut Environment) {
        let (unreadable, missing) = &self.lost_before;
        let unreadable = if self.unreadable.is_empty() { unreadable } else { &self.unreadable };
        for (path, why) in unreadable {
            bytes::report_unreadable(env, path, why);
        }
        for message in if self.missing.is_empty() { missing } else { &self.missing } {
            env.violate(ViolationKind::Safety, message.clone());
        }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if self.tag == 0 {
            self.wait(env, master_link);
        }
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        if tag != self.tag {
            return;
        }
        match self.step {
            Step::Waiting if env.is_healing && env.model.people_at_work == 0 && master_link.session.is_some() => {
                self.lost_before = (mem::take(&mut self.unreadable), mem::take(&mut self.missing));
                self.unwell.clear();
                self.ask(env, master_link, &ClientRequest::Nodes(NodesRequest), Step::Nodes);
            }
            Step::Waiting => {
                self.last = "people are still at work".into();
                self.wait(env, master_link);
            }
            Step::Done => {}
            _ => self.answered(env, master_link, tag, None),
        }
    }

    pub(crate) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        if tag != self.tag {
            return;
        }
        let Some(reply) = reply else {
            self.last = "the master does not answer".into();
            return self.wait(env, master_link);
        };
        match mem::replace(&mut self.step, Step::Waiting) {
            Step::Nodes => match healing::check_nodes(&reply, self.nodes) {
                Ok(()) => self.ask(env, master_link, &ClientRequest::Health(HealthRequest), Step::Health),
                Err(why) => self.give_up(env, master_link, why),
            },
            Step::Health => match healing::check_health(&reply, env.model.has_lost_journal()) {
                Ok(()) => self.list_region(env, master_link, 0),
                Err(why) => {
                    // Files are read all the same: unreadable ones are reported first.
                    self.unwell = why;
                    self.list(env, master_link, Listing::of(env, SectorPath::root()));
                }
            },
            Step::Names(region) => {
                let look = names::NameQuery::List(env.model.regions[region].root.clone());
                names::check_query(env, region, &look, &reply);
                self.list_region(env, master_link, region + 1);
            }
            Step::Listing(listing) => self.listed(env, master_link, listing, reply),
            Step::Attributes(mut look) => {
                look.answered(env, &self.entries, reply);
                self.check_attributes(env, master_link, look);
            }
            Step::Stat => {
                if let Some(path) = recovery::doubtful(env, &reply) {
                    self.to_read.retain(|other| other != path);
                } else if let Err(why) = healing::check_copies(&reply, self.nodes) {
                    self.unwell = why;
                }
                self.next_file(env, master_link);
            }
            Step::Reading(mut reading) => {
                let turn = reading.located(env, master_link, reply);
                self.reading_goes(env, master_link, reading, turn);
            }
            step @ (Step::Waiting | Step::Done) => self.step = step,
        }
    }

    pub(crate) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        call: CallId,
        reply: CallReply,
    ) {
        match mem::replace(&mut self.step, Step::Waiting) {
            Step::Reading(mut reading) => {
                let turn = reading.call_answered(env, master_link, call, reply);
                self.reading_goes(env, master_link, reading, turn);
            }
            step => self.step = step,
        }
    }

    /// Something differs from what this round found.
    pub(crate) fn recheck(&mut self, env: &mut Environment, master_link: &mut MasterLink, why: String) {
        self.give_up(env, master_link, why);
    }

    fn ask(&mut self, env: &mut Environment, master_link: &mut MasterLink, request: &ClientRequest, step: Step) {
        self.tag += 1;
        self.step = step;
        ask(env, master_link, request, self.tag, PATIENCE);
    }

    fn wait(&mut self, env: &mut Environment, master_link: &MasterLink) {
        self.tag += 1;
        self.step = Step::Waiting;
        later(env, master_link, ROUND_PAUSE, self.tag);
    }

    fn give_up(&mut self, env: &mut Environment, master_link: &mut MasterLink, why: String) {
        env.note(format_args!("not well yet: {why}"));
        self.last = why;
        self.wait(env, master_link);
    }

    /// The names of one region after the other, then the list of all files.
    fn list_region(&mut self, env: &mut Environment, master_link: &mut MasterLink, region: usize) {
        match env.model.regions.get(region).map(|region| region.root.clone()) {
            Some(root) => {
                let request = names::NameQuery::List(root).request();
                self.ask(env, master_link, &request, Step::Names(region));
            }
            None => self.list(env, master_link, Listing::of(env, SectorPath::root())),
        }
    }

    fn list(&mut self, env: &mut Environment, master_link: &mut MasterLink, listing: Listing) {
        let (folder, after) = (listing.folder.clone(), listing.after.clone());
        let request = ClientRequest::List(ListRequest { folder, recursive: true, after, with_nodes: false });
        self.ask(env, master_link, &request, Step::Listing(listing));
    }

    fn listed(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        mut listing: Listing,
        reply: ClientReply,
    ) {
        let trash = path(TRASH);
        let more = match reply {
            ClientReply::Page(page) => {
                listing.after = page.entries.last().map(|entry| entry.path.clone());
                listing.entries.extend(page.entries);
                page.more
            }
            // Nothing was ever put there.
            ClientReply::Refused(refusal) if refusal.status() == Status::NotFound && listing.folder == trash => false,
            other => return self.give_up(env, master_link, format!("no list of files: {other:?}")),
        };
        if more {
            return self.list(env, master_link, listing);
        }
        if listing.folder != trash {
            // The listing of the folder above does not show it.
            return self.list(env, master_link, Listing { folder: trash, after: None, ..listing });
        }
        let entries = listing.entries;
        let file = |entry: &Entry| match &entry.kind {
            EntryKind::File(content) => Some((content.slice, entry.path.clone())),
            EntryKind::Folder => None,
        };
        self.files = entries.iter().filter_map(file).collect();
        self.missing = recovery::missing(env, &entries);
        self.entries = entries;
        self.to_read = self.files.values().cloned().collect();
        self.to_stat = self.to_read.clone();
        // Required files are asked for by name, even if the list does not have them.
        let missing = |path: &SectorPath| !self.to_stat.contains(path);
        self.to_read.extend(env.model.outputs.iter().map(|(path, _)| path.clone()).filter(missing));
        invariants::attribute_checks::check_stray(env, &self.entries, listing.since);
        self.check_attributes(env, master_link, Box::default());
    }

    /// Owners, rights, quotas and the trash, then file after file.
    fn check_attributes(&mut self, env: &mut Environment, master_link: &mut MasterLink, mut look: Box<AttributeAudit>) {
        if let Some(request) = look.request(env) {
            return self.ask(env, master_link, &request, Step::Attributes(look));
        }
        self.missing.append(&mut look.wrong);
        self.unwell = look.unwell.take().unwrap_or_else(|| mem::take(&mut self.unwell));
        self.next_file(env, master_link);
    }

    /// Checks the copies of one file after the other, then reads all.
    fn next_file(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if let Some(path) = self.to_stat.pop_front() {
            return self.ask(env, master_link, &ClientRequest::Stat(StatRequest(path)), Step::Stat);
        }
        if let Some(path) = self.to_read.pop_front() {
            let reading = Box::new(Reading::new(env, path, true));
            let request = reading.request();
            return self.ask(env, master_link, &request, Step::Reading(reading));
        }
        if let Some((path, why)) = self.unreadable.first() {
            self.unwell = format!("{path} cannot be read: {why}");
        }
        if let Some(message) = self.missing.first() {
            self.unwell.clone_from(message);
        }
        if self.unwell.is_empty() {
            self.step = Step::Done;
        } else {
            let why = mem::take(&mut self.unwell);
            self.give_up(env, master_link, why);
        }
    }

    fn reading_goes(&mut self, env: &mut Environment, master_link: &mut MasterLink, reading: Box<Reading>, turn: Turn) {
        match turn {
            Turn::Goes => {
                self.step = Step::Reading(reading);
                return;
            }
            Turn::Ended if reading.copies_missed() > 0 => {
                self.unwell = format!("a copy of {} could not be read", reading.path);
            }
            Turn::Ended => {}
            Turn::Failed(why) => self.unreadable.push((reading.path.clone(), why)),
        }
        self.next_file(env, master_link);
    }
}

/// Pages of files, joined.
struct Listing {
    folder: SectorPath,
    after: Option<SectorPath>,
    entries: Vec<Entry>,
    /// When the first page was requested.
    since: Duration,
}

impl Listing {
    fn of(env: &Environment, folder: SectorPath) -> Self {
        Self { folder, after: None, entries: Vec::new(), since: env.now.monotonic }
    }
}

/// Folder of removed entries that can be restored.
const TRASH: &str = "/.trash";
/// Pause between two rounds.
const ROUND_PAUSE: Duration = Duration::from_secs(2);
