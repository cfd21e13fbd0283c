//! A person: writes, overwrites, renames and removes files, makes folders and looks at them. That happens in a folder
//! of their own and in one that all share; a person reads anyone's files. The next action is chosen at random, and two
//! never run at once.

use std::{collections::VecDeque, mem, time::Duration};

use protocol::{
    Policy, ResumeKey, SectorPath, Status,
    message::{
        client_master::{ClientReply, ClientRequest, Condition, CreateRequest},
        request::{MakeFolderRequest, RemoveRequest, RenameRequest, SetPolicyRequest},
    },
};

use super::{
    asking::{PATIENCE, ask, later},
    upload::{Stage, Upload, create_request},
};
use crate::{
    environment::{
        Environment, NODES_MIN,
        calls::{CallId, CallReply},
        network::DELAY_MAX,
    },
    invariants::names,
    model::{Change, ContentId, Outcome, Tree, path},
    reading::{Reading, Turn},
    role::MasterLink,
};

/// See the module.
pub(crate) struct Person {
    region: usize,
    step: Step,
    /// Identifies the present step: an answer to an earlier one is late.
    tag: u64,
    /// Files to be written first, repeated until that succeeds.
    planned: VecDeque<(CreateRequest, ContentId)>,
    /// All that was ever planned.
    inputs: Vec<(CreateRequest, ContentId)>,
    /// Whether it changes anything once the plan is done.
    is_busy: bool,
    /// What it wrote last.
    newest: Option<SectorPath>,
}

enum Step {
    /// Waits for a moment, or for a session.
    Idle,
    Changing(Change),
    /// No answer came; it waits until none can come any more.
    Settling(Change),
    Uploading(Box<Upload>, Target),
    Querying(names::NameQuery),
    /// Sets a policy.
    SettingPolicy,
    Reading(Box<Reading>),
    /// The faults are over and every answer has come.
    AtRest,
}

/// The target of an upload.
#[derive(Clone, Debug)]
enum Target {
    Own(Change),
    Shared { register: usize, content: ContentId, write: Option<usize> },
}

impl Person {
    /// A person who owns this region. With `planned` files, they write these and then only look and read.
    pub(crate) fn new(region: usize, planned: Vec<(CreateRequest, ContentId)>) -> Self {
        let is_busy = planned.is_empty();
        Self {
            region,
            step: Step::Idle,
            tag: 0,
            inputs: planned.clone(),
            planned: planned.into(),
            is_busy,
            newest: None,
        }
    }

    /// The master lost its journal: planned files that cannot be relied on are written again.
    pub(crate) fn journal_lost(&mut self, env: &mut Environment, master_link: &MasterLink) {
        let Some(recovered) = &env.model.recovered else { return };
        let is_gone = |(request, _): &&(CreateRequest, ContentId)| !recovered.must_be_there(&request.path);
        self.planned = self.inputs.iter().filter(is_gone).cloned().collect();
        if !self.planned.is_empty() {
            self.begin_round(env, master_link);
        }
    }

    /// Continues after a rest.
    pub(crate) fn begin_round(&mut self, env: &mut Environment, master_link: &MasterLink) {
        if self.is_at_rest() {
            env.model.people_at_work += 1;
            self.rest(env, master_link);
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.step, Step::AtRest)
    }

    pub(crate) fn state(&self) -> &'static str {
        match self.step {
            Step::Idle => "is idle",
            Step::Changing(_) => "waits for a change of names",
            Step::Settling(_) => "waits until no answer can come",
            Step::Uploading(..) => "uploads",
            Step::Querying(_) => "looks at names",
            Step::SettingPolicy => "sets a policy",
            Step::Reading(_) => "reads",
            Step::AtRest => "is at rest",
        }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if matches!(self.step, Step::Idle) {
            self.next(env, master_link);
        }
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        if tag != self.tag {
            return;
        }
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Idle => self.next(env, master_link),
            Step::Settling(change) => {
                names::end(env, self.region, &change, Outcome::Unknown);
                self.rest(env, master_link);
            }
            Step::Uploading(mut upload, target) => {
                let stage = upload.timer(env, master_link, tag);
                self.upload_goes(env, master_link, upload, target, stage);
            }
            step => {
                self.step = step;
                self.answered(env, master_link, tag, None);
            }
        }
    }

    /// An answer came (or will not).
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
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Changing(change) => self.change_answered(env, master_link, change, reply),
            Step::Uploading(mut upload, target) => {
                let stage = upload.answered(env, master_link, tag, reply);
                self.upload_goes(env, master_link, upload, target, stage);
            }
            Step::Querying(look) => match reply {
                None => self.rest(env, master_link),
                Some(reply) => {
                    names::check_query(env, self.region, &look, &reply);
                    self.rest(env, master_link);
                }
            },
            Step::Reading(mut reading) => match reply {
                None => self.rest(env, master_link),
                Some(reply) => {
                    let turn = reading.located(env, master_link, reply);
                    self.reading_goes(env, master_link, reading, turn);
                }
            },
            // The copies at the end show whether it holds: they are compared with what the master says is wanted.
            Step::SettingPolicy => self.rest(env, master_link),
            step @ (Step::Idle | Step::Settling(_) | Step::AtRest) => self.step = step,
        }
    }

    pub(crate) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        call: CallId,
        reply: CallReply,
    ) {
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Uploading(mut upload, target) => {
                let stage = upload.call_answered(env, master_link, self.tag, call, reply);
                self.upload_goes(env, master_link, upload, target, stage);
            }
            Step::Reading(mut reading) => {
                let turn = reading.call_answered(env, master_link, call, reply);
                self.reading_goes(env, master_link, reading, turn);
            }
            step => self.step = step,
        }
    }

    /// Begins the next action, if there is a session.
    fn next(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        self.tag += 1;
        if (env.is_healing || env.is_quiet) && self.planned.is_empty() {
            self.step = Step::AtRest;
            env.model.people_at_work -= 1;
            return;
        }
        if master_link.session.is_none() {
            // `logged_in` comes back here.
            self.step = Step::Idle;
            return;
        }
        if let Some((request, content)) = self.planned.front().cloned() {
            let change = Change::Put { path: request.path.clone(), content, parents: true, absent: false };
            return self.upload(env, master_link, Upload::new(env, request, content), Target::Own(change));
        }
        let lot = env.rng.u32(..100);
        match lot {
            0..35 => self.read(env, master_link),
            35..50 => self.query(env, master_link),
            _ if !self.is_busy => self.read(env, master_link),
            50..54 => self.set_policy(env, master_link),
            62..70 if env.model.recovered.is_none() => self.append(env, master_link),
            // Seldom: this many bytes take a while.
            70 => self.put_large(env, master_link),
            54..62 if !env.model.registers.is_empty() => self.put_shared(env, master_link),
            _ => {
                // The newest version of all must be remembered even when its file is gone.
                let newest = self.newest.take().filter(|_| env.chance(15));
                let change = match newest {
                    Some(path) => Change::Remove { path, recursive: false },
                    None => self.draw_change(env),
                };
                self.change(env, master_link, change);
            }
        }
    }

    /// Waits a moment.
    fn rest(&mut self, env: &mut Environment, master_link: &MasterLink) {
        self.tag += 1;
        self.step = Step::Idle;
        let span = env.span(1, 250);
        later(env, master_link, span, self.tag);
    }

    fn change(&mut self, env: &mut Environment, master_link: &mut MasterLink, change: Change) {
        env.note(format_args!("{:?} asks {change:?}", master_link.who));
        let request = match &change {
            Change::MakeFolder { path, parents } => {
                ClientRequest::MakeFolder(MakeFolderRequest { path: path.clone(), parents: *parents })
            }
            Change::Rename { from, to } => ClientRequest::Rename(RenameRequest { from: from.clone(), to: to.clone() }),
            Change::Remove { path, recursive } => {
                ClientRequest::Remove(RemoveRequest { path: path.clone(), recursive: *recursive, now: env.rng.bool() })
            }
            Change::Put { path, content, parents, absent } => {
                let bytes = env.model.contents.get(*content).bytes.len() as u64;
                let mut request = CreateRequest { parents: *parents, ..create_request(path.clone(), bytes) };
                if *absent {
                    request.condition = Condition::Absent;
                }
                if env.chance(15) {
                    // No more than there are nodes: a cloud that cannot keep them all is never well.
                    request.copies = Some(env.rng.u8(2..=NODES_MIN as u8));
                }
                return self.upload(env, master_link, Upload::new(env, request, *content), Target::Own(change.clone()));
            }
        };
        names::begin(env, self.region, &change);
        ask(env, master_link, &request, self.tag, PATIENCE);
        self.step = Step::Changing(change);
    }

    fn change_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        change: Change,
        reply: Option<ClientReply>,
    ) {
        let outcome = match reply {
            Some(ClientReply::Done) => Outcome::Done,
            Some(ClientReply::Refused(refusal)) => Outcome::Refused(refusal.status()),
            _ => {
                env.note(format_args!("{:?} heard nothing of {change:?}", master_link.who));
                self.tag += 1;
                self.step = Step::Settling(change);
                return later(env, master_link, DELAY_MAX + Duration::from_millis(500), self.tag);
            }
        };
        env.note(format_args!("{:?} is told {outcome:?}", master_link.who));
        names::end(env, self.region, &change, outcome);
        self.rest(env, master_link);
    }

    fn upload(&mut self, env: &mut Environment, master_link: &mut MasterLink, mut upload: Upload, target: Target) {
        upload.begin(env, master_link, self.tag);
        self.step = Step::Uploading(Box::new(upload), target);
    }

    fn put_shared(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let register = env.rng.usize(..env.model.registers.len());
        let content = env.model.contents.draw(&mut env.rng);
        let at = env.model.registers[register].path.clone();
        env.note(format_args!("{:?} overwrites {at} with {content:?}", master_link.who));
        let upload = Upload::new(env, create_request(at, env.model.contents.get(content).bytes.len() as u64), content);
        self.upload(env, master_link, upload, Target::Shared { register, content, write: None });
    }

    /// Appends to a file of its own, if it knows the content of one.
    fn append(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let files: Vec<_> = env.model.regions[self.region].certain().into_iter().flat_map(Tree::files).collect();
        if files.is_empty() {
            return self.read(env, master_link);
        }
        let (at, base) = files[env.rng.usize(..files.len())];
        let (at, mut tail) = (at.clone(), vec![0; env.rng.usize(1..100_000)]);
        env.rng.fill(&mut tail);
        let base_bytes = env.model.contents.get(base).bytes.len() as u64;
        let content = env.model.contents.extend(base, &tail);
        env.note(format_args!("{:?} appends {} bytes to {at}", master_link.who, tail.len()));
        let request = CreateRequest { append: true, parents: false, ..create_request(at.clone(), tail.len() as u64) };
        let change = Change::Put { path: at, content, parents: false, absent: false };
        self.upload(env, master_link, Upload::append(request, content, tail, base_bytes), Target::Own(change));
    }

    /// Puts a file whose upload can continue where it breaks off.
    fn put_large(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let content = env.model.contents.draw_large(&mut env.rng);
        let path = draw_path(env, self.region);
        let bytes = env.model.contents.get(content).bytes.len() as u64;
        let request =
            CreateRequest { resume: Some(ResumeKey(env.rng.u128(..))), ..create_request(path.clone(), bytes) };
        let change = Change::Put { path, content, parents: true, absent: false };
        self.upload(env, master_link, Upload::new(env, request, content), Target::Own(change));
    }

    fn upload_goes(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        upload: Box<Upload>,
        mut target: Target,
        stage: Stage,
    ) {
        let now = env.now.monotonic;
        match stage {
            Stage::Goes => self.step = Step::Uploading(upload, target),
            Stage::Commits => {
                match &mut target {
                    Target::Own(change) => names::begin(env, self.region, change),
                    Target::Shared { register, content, write } => {
                        *write = Some(env.model.registers[*register].begin(now, *content));
                    }
                }
                self.step = Step::Uploading(upload, target);
            }
            Stage::Ended(outcome) => {
                env.note(format_args!("{:?} upload ended: {outcome:?}", master_link.who));
                self.upload_ended(env, &target, outcome);
                self.rest(env, master_link);
            }
            Stage::Refused(refusal) => {
                env.note(format_args!("{:?} create refused: {refusal}", master_link.who));
                // No node, or a lease that a lost answer left behind: this says nothing about names.
                let is_about_names = !matches!(refusal.status(), Status::Unavailable | Status::Refused);
                if let Target::Own(change) = &target
                    && is_about_names
                {
                    names::end(env, self.region, change, Outcome::Refused(refusal.status()));
                }
                self.rest(env, master_link);
            }
        }
    }

    fn upload_ended(&mut self, env: &mut Environment, target: &Target, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        let now = env.now.monotonic;
        match target {
            Target::Own(change) => {
                names::end(env, self.region, change, outcome);
                if let (Outcome::Done, Change::Put { path, .. }) = (outcome, change) {
                    self.newest = Some(path.clone());
                    self.planned.retain(|(request, _)| request.path != *path);
                }
            }
            Target::Shared { register, content, write: Some(write) } => match outcome {
                Outcome::Done => {
                    env.model.registers[*register].succeed(now, *write);
                    let at = env.model.registers[*register].path.clone();
                    env.model.acknowledge(now, &at, *content);
                }
                Outcome::NotDone | Outcome::Refused(_) => env.model.registers[*register].void(*write),
                Outcome::Unknown => {}
            },
            Target::Shared { .. } => {}
        }
    }

    fn query(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let look = names::NameQuery::draw(env, self.region);
        ask(env, master_link, &look.request(), self.tag, PATIENCE);
        self.step = Step::Querying(look);
    }

    /// Requests another number of copies for something of its own, or withdraws that.
    fn set_policy(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let at = if env.rng.bool() { env.model.regions[self.region].root.clone() } else { self.draw_file(env) };
        // No more than there are nodes: a cloud that cannot keep them all is never well.
        let copies = if env.chance(25) { None } else { Some(env.rng.u8(2..=NODES_MIN as u8)) };
        env.note(format_args!("{:?} wishes for {copies:?} copies of {at}", master_link.who));
        let request =
            ClientRequest::SetPolicy(SetPolicyRequest { path: at, policy: Policy { copies, ..Policy::default() } });
        ask(env, master_link, &request, self.tag, PATIENCE);
        self.step = Step::SettingPolicy;
    }

    fn read(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let at = self.draw_file(env);
        let reading = Reading::new(env, at, false);
        ask(env, master_link, &reading.request(), self.tag, PATIENCE);
        self.step = Step::Reading(Box::new(reading));
    }

    fn reading_goes(&mut self, env: &mut Environment, master_link: &mut MasterLink, reading: Box<Reading>, turn: Turn) {
        match turn {
            Turn::Goes => self.step = Step::Reading(reading),
            Turn::Ended => self.rest(env, master_link),
            Turn::Failed(why) => {
                env.note(format_args!("{:?} could not read {}: {why}", master_link.who, reading.path));
                self.rest(env, master_link);
            }
        }
    }

    /// A file of anyone, or a path that may have one.
    fn draw_file(&self, env: &mut Environment) -> SectorPath {
        if !env.model.registers.is_empty() && env.chance(25) {
            let register = env.rng.usize(..env.model.registers.len());
            return env.model.registers[register].path.clone();
        }
        let region = env.rng.usize(..env.model.regions.len());
        let tree = env.model.regions[region].possible()[0].clone();
        let files: Vec<_> = tree.files().map(|(path, _)| path.clone()).collect();
        if files.is_empty() || env.chance(5) {
            return draw_path(env, region);
        }
        files[env.rng.usize(..files.len())].clone()
    }

    fn draw_change(&self, env: &mut Environment) -> Change {
        let tree: Tree = (*env.model.regions[self.region].possible()[0]).clone();
        let new = draw_path(env, self.region);
        let below: Vec<_> = tree.0.keys().cloned().collect();
        let known = if below.is_empty() { new.clone() } else { below[env.rng.usize(..below.len())].clone() };
        match env.rng.u32(..100) {
            0..10 => Change::MakeFolder { path: new, parents: env.rng.bool() },
            10..25 => Change::Rename { from: known, to: new },
            25..33 => Change::Remove { path: known, recursive: env.rng.u8(..3) == 0 },
            lot => {
                let content = env.model.contents.draw(&mut env.rng);
                let at = if lot < 70 { known } else { new };
                Change::Put { path: at, content, parents: env.rng.u8(..3) > 0, absent: env.rng.u8(..8) == 0 }
            }
        }
    }
}

/// A path in a region, from few names, so that operations meet.
fn draw_path(env: &mut Environment, region: usize) -> SectorPath {
    let mut text = env.model.regions[region].root.to_string();
    for _ in 0..env.rng.usize(1..4) {
        text.push('/');
        text.push(char::from(b'a' + env.rng.u8(..5)));
    }
    path(&text)
}
