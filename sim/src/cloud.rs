//! The cloud and its course: the participants, the delivery of events, and a run from the first start through the
//! faults to the end. The order of events never depends on anything but the seed and the options.

use std::{collections::BTreeSet, time::Duration};

use fastrand::Rng;
use master::MasterConfig;
use protocol::{
    RecordFraming, Rights, Version,
    message::{client_master::CreateRequest, master_security::UserRights, node_master::DriveOrder},
};

use crate::{
    Options, Sabotage, SimulationReport, ViolationKind,
    actor::{
        Actor, ActorKind, Auditor, DetachedDriver, Driver, FOLDERS, JobPlanned, Operator, Person, RECORD_BYTES, Snoop,
        Tenant, create_request,
    },
    environment::{
        Environment, NODES_MIN,
        calls::{CallId, CallReply, STALL_MAX},
        queue::{Event, Life, Participant},
    },
    faults::Faults,
    invariants::{healing, names, recovery},
    model::{FolderAttributes, Region, Register, Setting, administrator, path, user},
    role::{MasterRole, NodeRole, PLENTY_BYTES},
};

/// Everything.
pub(crate) struct Cloud {
    pub(crate) env: Environment,
    pub(crate) master: MasterRole,
    pub(crate) nodes: Vec<NodeRole>,
    pub(crate) actors: Vec<Actor>,
    pub(crate) faults: Faults,
    /// The job that is run, again and again.
    planned: JobPlanned,
    events: u64,
}

/// Runs one simulation to its end.
pub fn run(options: &Options) -> SimulationReport {
    let mut cloud = Cloud::new(options);
    cloud.start();
    cloud.live();
    let env = &cloud.env;
    SimulationReport {
        seed: options.seed,
        digest: env.trace.digest(),
        events: cloud.events,
        lines: env.trace.lines(),
        simulated: env.now.monotonic,
        fired: cloud.faults.fired,
        network: env.network.counts,
        jobs_done: env.model.jobs_done,
        taken_over: env.model.taken_over,
        delivered_again: env.model.delivered_again,
        appended: env.model.appended,
        resumed: env.model.resumed,
        violation: env.violation().cloned(),
    }
}

impl Cloud {
    fn new(options: &Options) -> Self {
        let mut env = Environment::new(options.seed, options.is_shown, options.sabotage);
        let config = MasterConfig { versions: versions_of(options.seed), ..draw_config(&mut env.rng) };
        env.model.attributes.everyone = config.everyone;
        env.model.attributes.trash.is_there = !config.trash.is_zero();
        env.model.attributes.trash.lasts = config.trash > LASTING;
        env.model.attributes.trash.keeps_replaced = !config.versions.is_zero();
        let nodes = env.rng.usize(NODES_MIN..6);
        env.note(format_args!("seed {}: {nodes} nodes, {config:?}", options.seed));
        let config = match options.sabotage {
            Some(Sabotage::ReplacedGoesEarly) => {
                MasterConfig { versions: config.versions.min(Duration::from_secs(1)), ..config }
            }
            _ => config,
        };
        let master = MasterRole::new(config, env.rng.u64(..), options.sabotage);
        let nodes: Vec<_> = (0..nodes).map(|node| NodeRole::new(node, env.rng.usize(1..4), env.rng.u64(..))).collect();
        let planned = JobPlanned::draw(&mut env.rng);
        let actors = draw_actors(&mut env, nodes.len(), planned.clone());
        let faults = Faults::draw(&mut env.rng);
        Self { env, master, nodes, actors, faults, planned, events: 0 }
    }

    fn start(&mut self) {
        self.restart(Participant::Master);
        for node in 0..self.nodes.len() {
            self.restart(Participant::Node(node));
        }
        for actor in &mut self.actors {
            actor.start(&mut self.env);
        }
        let first = self.env.span(2_000, 8_000);
        self.env.after(first, Event::Fault);
        self.keep_copy_of_journal();
    }

    fn live(&mut self) {
        while let Some((at, event)) = self.env.queue.pop() {
            if at >= self.faults.until() && !self.env.is_healing {
                self.end_faults();
            }
            self.env.set_time(at.max(self.env.now.monotonic));
            self.events += 1;
            self.happen(event);
            if self.env.violation().is_some() || self.is_over() {
                return;
            }
        }
    }

    /// Whether all is well again, or had to be by now.
    fn is_over(&mut self) -> bool {
        if !self.env.is_healing {
            return false;
        }
        let late = self.env.now.monotonic > self.faults.until() + healing::healed_after_max(&self.env.model);
        if late || self.events > EVENTS_MAX {
            self.report_unwell();
            return true;
        }
        let at_rest = self.actors.iter().all(Actor::is_at_rest);
        let Some(auditor) = self.actors.iter().position(|actor| actor.as_auditor().is_some()) else { return true };
        let Some(files) = self.actors[auditor].as_auditor().and_then(Auditor::found_well) else { return false };
        let mut unwell = if at_rest { None } else { Some("clients still work".to_owned()) };
        let stores = self.nodes.iter().filter_map(|node| Some(&node.process.as_ref()?.store));
        let held: BTreeSet<_> = stores.flat_map(|store| store.held()).map(|held| held.metadata.header.slice).collect();
        for (number, node) in self.nodes.iter().enumerate() {
            if let Some(process) = &node.process
                && let Err(why) = healing::check_held(&process.store, files, &held, &self.env.model)
            {
                unwell = Some(format!("n{number}: {why}"));
            }
            if self.env.model.leaving == Some(number)
                && let Some(process) = &node.process
                && let Some(held) = process.store.held().first()
            {
                let header = &held.metadata.header;
                unwell = Some(format!("n{number} was drained and holds {} of {}", header.slice, header.path));
            }
        }
        if unwell.is_none() {
            recovery::check_owed(&mut self.env, &self.nodes, files);
        }
        if self.env.violation().is_some() {
            return true;
        }
        match unwell {
            None if self.faults.has_more_rounds() => {
                self.begin_round();
                false
            }
            None => {
                self.env.note(format_args!("all is well"));
                true
            }
            Some(why) => {
                self.actors[auditor].recheck(&mut self.env, why);
                false
            }
        }
    }

    fn report_unwell(&mut self) {
        for auditor in self.actors.iter().filter_map(Actor::as_auditor) {
            auditor.report_lost(&mut self.env);
        }
        let states: Vec<_> = self.actors.iter().map(Actor::state).collect();
        let span = healing::healed_after_max(&self.env.model);
        let message = format!("not well {span:?} after the last fault: {states:?}");
        self.env.violate(ViolationKind::Liveness, message);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { to, datagram } => {
                self.env.trace.mix(&datagram[..20]);
                self.with(to, |env, reached| match reached {
                    Reached::Master(master) => master.receive(env, &datagram),
                    Reached::Node(node) => node.receive(env, &datagram),
                    Reached::Client(actor) => actor.receive(env, &datagram),
                });
            }
            Event::Wake(who, life) if self.life(who) == life => self.with(who, |env, reached| match reached {
                Reached::Master(master) => master.wake(env),
                Reached::Node(node) => node.wake(env),
                Reached::Client(actor) => actor.wake(env),
            }),
            Event::JoinAsked { from, life, attempt } => self.join(from, life, attempt),
            Event::JoinAnswered { to, life, attempt, accepted } if self.life(to) == life => {
                self.with(to, |env, reached| match reached {
                    Reached::Master(_) => {}
                    Reached::Node(node) => node.joined(env, attempt, accepted),
                    Reached::Client(actor) => actor.joined(env, attempt, accepted.map(|(session, _)| session)),
                });
            }
            Event::JoinAgain { who, life, attempt } if self.life(who) == life => {
                self.with(who, |env, reached| match reached {
                    Reached::Master(_) => {}
                    Reached::Node(node) => node.join_again(env, attempt),
                    Reached::Client(actor) => actor.join_again(env, attempt),
                });
            }
            Event::Saved(life) if self.master.life == life && self.master.is_up() => {
                self.env.use_clock_of(Participant::Master);
                if let Err(why) = self.master.saved(&mut self.env) {
                    self.env.note(format_args!("{why}"));
                    self.crash(Participant::Master);
                }
            }
            Event::CallArrives(id) => self.call_arrives(id),
            Event::CallGoesOn(id) => self.call_goes_on(id),
            Event::CallAnswered(id, reply) => self.call_answered(id, reply),
            Event::CallDropped(id) => {
                if let Some(call) = self.env.calls.get(id)
                    && call.node_life == Some(self.nodes[call.node].life)
                {
                    let node = Participant::Node(call.node);
                    self.with_node(node, |env, process| process.call_dropped(env, id));
                }
                self.env.calls.remove(id);
            }
            Event::ConversationsBroken { client, node, life } => {
                self.actors[client].conversations_broken(&mut self.env, node, life);
            }
            Event::DriverStarts { node, life, order } if self.life(Participant::Node(node)) == life => {
                self.start_driver((node, life), *order);
            }
            Event::DriverEnds { client } => {
                self.env.note(format_args!("the driver c{client} ends"));
                self.actors[client].end(&mut self.env);
            }
            Event::NodeWork { node, life, hand } if self.life(Participant::Node(node)) == life => {
                self.with_node(Participant::Node(node), |env, process| process.perform_work(env, hand));
            }
            Event::Timer { client, tag } => self.actors[client].timer(&mut self.env, tag),
            Event::Fault if !self.env.is_healing => self.fault(),
            Event::Crash(who, life) if self.life(who) == life && !self.env.is_healing => self.crash(who),
            Event::Restart(who) => self.restart(who),
            Event::Mended(cut) => {
                self.env.note(format_args!("{cut:?} is mended"));
                self.env.network.mend(cut);
            }
            Event::ClockSet(who) => self.set_clock_right(who),
            Event::DiskHasRoom(node) => {
                self.env.model.attributes.trash.set_scarce(false);
                self.nodes[node].disks.set_free_bytes(PLENTY_BYTES);
            }
            Event::JournalHasRoom => self.master.disk().set_free_bytes(PLENTY_BYTES),
            Event::JournalCopied => self.keep_copy_of_journal(),
            Event::DiskSeenTo { node, disk } => self.repair_disk(node, disk),
            // The rest was meant for a process that no longer exists.
            _ => {}
        }
    }

    /// Calls a participant, if it lives; a node that loses its power in the middle dies there.
    fn with(&mut self, who: Participant, act: impl FnOnce(&mut Environment, Reached<'_>)) {
        self.env.use_clock_of(who);
        match who {
            Participant::Master => act(&mut self.env, Reached::Master(&mut self.master)),
            Participant::Client(client) => act(&mut self.env, Reached::Client(&mut self.actors[client])),
            Participant::Node(_) => self.with_node(who, |env, process| act(env, Reached::Node(process))),
        }
    }

    fn with_node(&mut self, who: Participant, act: impl FnOnce(&mut Environment, &mut crate::role::Process)) {
        let Participant::Node(number) = who else { return };
        let node = &mut self.nodes[number];
        let Some(process) = &mut node.process else { return };
        self.env.use_clock_of(who);
        act(&mut self.env, process);
        if node.lost_power() {
            self.env.note(format_args!("n{number} loses its power"));
            self.crash(who);
        } else {
            self.nodes[number].flush(&mut self.env);
        }
    }

    pub(crate) fn life(&self, who: Participant) -> Life {
        match who {
            Participant::Master => self.master.life,
            Participant::Node(node) => self.nodes[node].life,
            Participant::Client(_) => 0,
        }
    }

    fn join(&mut self, from: Participant, life: Life, attempt: u32) {
        if self.env.network.are_apart(from, Participant::Master) || self.life(from) != life {
            return;
        }
        self.env.use_clock_of(Participant::Master);
        let key = match from {
            Participant::Client(client) => self.actors[client].as_detached_driver().map(DetachedDriver::key),
            _ => None,
        };
        let delay = self.env.network.delay(&mut self.env.rng);
        if let (Participant::Client(client), Some(key)) = (from, key)
            && self.master.puts_out(key)
        {
            return self.env.after(delay, Event::DriverEnds { client });
        }
        let accepted = self.master.join(&mut self.env, from, key.map(|(job, _)| job));
        self.env.after(delay, Event::JoinAnswered { to: from, life, attempt, accepted });
    }

    /// A node starts a process that drives a job; it may die in the middle.
    fn start_driver(&mut self, at: (usize, Life), order: DriveOrder) {
        if !self.nodes[at.0].is_up() {
            return;
        }
        let client = self.actors.len();
        self.env.note(format_args!("n{} starts c{client} to drive job {}", at.0, order.job));
        let deputy = DetachedDriver::new(order, at, self.planned.clone());
        let mut actor = Actor::new(client, ActorKind::DetachedDriver(Box::new(deputy)));
        actor.start(&mut self.env);
        self.actors.push(actor);
        if !self.env.is_healing && self.env.chance(50) {
            let span = self.env.span(200, 12_000);
            self.env.after(span, Event::DriverEnds { client });
        }
    }

    fn call_arrives(&mut self, id: CallId) {
        if self.is_held_up(id, Event::CallArrives) {
            return;
        }
        let Some(call) = self.env.calls.get(id) else { return };
        let node = call.node;
        match self.nodes.get(node) {
            Some(role) if role.is_up() => {
                self.with_node(Participant::Node(node), |env, process| process.call_arrives(env, id));
            }
            // Nobody listens there.
            _ => self.env.answer(id, CallReply::Broken),
        }
    }

    fn call_goes_on(&mut self, id: CallId) {
        if self.is_held_up(id, Event::CallGoesOn) {
            return;
        }
        if let Some(call) = self.env.calls.get(id)
            && call.node_life == Some(self.nodes[call.node].life)
        {
            let node = Participant::Node(call.node);
            self.with_node(node, |env, process| process.call_goes_on(env, id));
        }
    }

    fn call_answered(&mut self, id: CallId, reply: CallReply) {
        let mut reply = Some(reply);
        if self.is_held_up(id, |id| Event::CallAnswered(id, reply.take().unwrap_or(CallReply::Broken))) {
            return;
        }
        let Some(call) = self.env.calls.remove(id) else { return };
        self.tell_caller(call.from, call.from_life, id, reply.unwrap_or(CallReply::Broken));
    }

    /// Whether a cut link holds up a call: it is tried again, and given up after a while.
    fn is_held_up(&mut self, id: CallId, again: impl FnOnce(CallId) -> Event) -> bool {
        let now = self.env.now.monotonic;
        let Some(call) = self.env.calls.get_mut(id) else { return true };
        if !self.env.network.are_apart(call.from, Participant::Node(call.node)) {
            call.moved_at = now;
            return false;
        }
        if now.saturating_sub(call.moved_at) < STALL_MAX {
            self.env.after(HELD_UP_PAUSE, again(id));
            return true;
        }
        // The caller gives up, and so does the node.
        let (from, from_life) = (call.from, call.from_life);
        self.env.after(Duration::ZERO, Event::CallDropped(id));
        self.tell_caller(from, from_life, id, CallReply::Broken);
        true
    }

    fn tell_caller(&mut self, from: Participant, life: Life, id: CallId, reply: CallReply) {
        match from {
            Participant::Client(client) => self.actors[client].call_answered(&mut self.env, id, reply),
            Participant::Node(node) if self.nodes[node].life == life => {
                self.with_node(from, |env, process| process.call_answered(env, id, reply));
            }
            _ => {}
        }
    }

    /// Kills a process.
    pub(crate) fn crash(&mut self, who: Participant) {
        match who {
            Participant::Master => self.master.crash(&mut self.env),
            Participant::Client(_) => return,
            Participant::Node(number) => {
                let life = self.nodes[number].life;
                self.nodes[number].crash(&mut self.env);
                self.env.model.may_bring_back(&self.nodes[number].removed());
                self.break_conversations(number, life);
                for client in 0..self.actors.len() {
                    if self.actors[client].as_detached_driver().is_some_and(|deputy| deputy.at == (number, life)) {
                        self.actors[client].end(&mut self.env);
                    }
                }
            }
        }
        let down = self.faults.down_time(&mut self.env);
        self.env.after(down, Event::Restart(who));
    }

    /// The partners of a dead process learn of it soon, or when nothing has come for long.
    fn break_conversations(&mut self, number: usize, life: Life) {
        for id in self.env.calls.which(|call| call.node == number && call.node_life == Some(life)) {
            let span = if self.env.rng.bool() { self.env.span(1, 50) } else { STALL_MAX };
            self.env.after(span, Event::CallAnswered(id, CallReply::Broken));
        }
        for id in self.env.calls.which(|call| call.from == Participant::Node(number) && call.from_life == life) {
            let span = self.env.span(1, 3_000);
            self.env.after(span, Event::CallDropped(id));
        }
        for client in 0..self.actors.len() {
            if self.env.chance(75) {
                let span = self.env.span(1, 500);
                self.env.after(span, Event::ConversationsBroken { client, node: number, life });
            }
        }
    }

    /// Starts a process that is not running.
    pub(crate) fn restart(&mut self, who: Participant) {
        self.env.use_clock_of(who);
        let started = match who {
            Participant::Master if !self.master.is_up() => self.master.start(&mut self.env),
            Participant::Node(node) if !self.nodes[node].is_up() => self.nodes[node].start(&mut self.env),
            _ => return,
        };
        match (who, started) {
            (_, Err(why)) => {
                // A disk that fails: the operator starts the process again.
                self.env.note(format_args!("{why}"));
                self.env.after(Duration::from_secs(1), Event::Restart(who));
            }
            (Participant::Node(node), Ok(())) => self.nodes[node].flush(&mut self.env),
            (Participant::Master, Ok(())) => {
                let now = Version(self.env.now.unix_millis);
                self.env.model.recovered.iter_mut().for_each(|recovered| recovered.started(now));
            }
            _ => {}
        }
    }

    /// The time of a round's faults is over. The last of them may be that the master's journal is lost, or an older one
    /// is restored. Then faults continue for a while, during which it may be lost again.
    fn end_faults(&mut self) {
        if self.end_journal() {
            self.heal();
        }
    }

    /// All is well, and faults begin again.
    fn begin_round(&mut self) {
        let now = self.env.now.monotonic;
        self.env.note(format_args!("all is well; the next round begins"));
        let entries = self.actors.iter().find_map(Actor::as_auditor).map(Auditor::entries).unwrap_or_default();
        let items = entries
            .iter()
            .filter_map(|entry| names::item_of(&self.env.model.contents, entry).map(|item| (entry.path.clone(), item)));
        let items: Vec<_> = items.collect();
        self.env.model.reset(now, &items);
        (self.env.is_healing, self.env.is_quiet) = (false, false);
        self.faults.begin_round(&mut self.env);
        for actor in &mut self.actors {
            actor.begin_round(&mut self.env);
        }
        let first = self.env.span(500, 5_000);
        self.env.after(first, Event::Fault);
    }

    /// The faults stop, for this round.
    fn heal(&mut self) {
        self.env.queue.retain(|event| !matches!(event, Event::Fault | Event::Crash(..)));
        self.env.is_last = !self.faults.has_more_rounds();
        self.env.note(format_args!("the faults are over"));
        self.env.is_healing = true;
        self.env.network.heal();
        self.master.disk().set_free_bytes(PLENTY_BYTES);
        (0..self.nodes.len()).for_each(|node| self.set_clock_right(Participant::Node(node)));
        for node in 0..self.nodes.len() {
            if self.env.sabotage == Some(Sabotage::DisksForget) {
                self.crash(Participant::Node(node));
                (0..self.nodes[node].disks.count()).for_each(|disk| self.nodes[node].disks.replace(disk, 0));
            } else if self.nodes[node].is_failing() {
                self.repair_disks(node);
                self.crash(Participant::Node(node));
            }
            self.nodes[node].disks.set_free_bytes(PLENTY_BYTES);
        }
        // Nodes joining in any order, some of them late, are what a master without a journal has to cope with.
        let latest_ms = if self.env.model.recovered.is_some() { 20_000 } else { 1_000 };
        for who in (0..self.nodes.len()).map(Participant::Node).chain([Participant::Master]) {
            let span = self.env.span(100, latest_ms);
            self.env.after(span, Event::Restart(who));
        }
    }
}

/// The receiver of an event.
enum Reached<'a> {
    Master(&'a mut MasterRole),
    Node(&'a mut crate::role::Process),
    Client(&'a mut Actor),
}

fn draw_config(rng: &mut Rng) -> MasterConfig {
    MasterConfig {
        copies: rng.u8(2..4),
        sync_copies: rng.u8(1..3),
        node_lost_after: Duration::from_millis(rng.u64(3_000..8_000)),
        replicate_after: Duration::from_secs(rng.u64(4..20)),
        // None, one that is emptied during the run, and the usual one.
        trash: Duration::from_secs([0, 20, 604_800][rng.usize(..3)]),
        // Clouds in which everything is open to read, and others in which nothing is.
        everyone: if rng.bool() { Rights::READ.and(Rights::RUN) } else { Rights::default() },
        ..MasterConfig::default()
    }
}

/// How long replaced content is kept: in every third cloud, and nothing else is drawn differently there.
fn versions_of(seed: u64) -> Duration {
    if seed % 3 == 1 { Duration::from_secs(86_400) } else { Duration::ZERO }
}

/// A writer of the jobs' inputs, some random users, the operator, the driver, and the auditor.
fn draw_actors(env: &mut Environment, nodes: usize, planned: JobPlanned) -> Vec<Actor> {
    let inputs = planned.inputs.iter().enumerate().map(|(number, bytes)| {
        let content = env.model.contents.add(bytes.clone());
        let request = create_request(path(&format!("/in/{number}")), bytes.len() as u64);
        (CreateRequest { records: RecordFraming::Fixed(RECORD_BYTES as u32), ..request }, content)
    });
    let inputs: Vec<_> = inputs.collect();
    // Leftovers of a failed job are among these too.
    planned.expected.iter().for_each(|bytes| _ = env.model.contents.add(bytes.clone()));
    let paths = inputs.iter().map(|(request, _)| request.path.clone()).collect();
    env.model.regions.push(Region::new(path("/in")));
    let mut parts = vec![ActorKind::Person(Box::new(Person::new(0, inputs)))];
    for number in 1..env.rng.usize(2..5) {
        env.model.regions.push(Region::new(path(&format!("/p{number}"))));
        parts.push(ActorKind::Person(Box::new(Person::new(number, Vec::new()))));
    }
    // Some clouds keep all nodes in use.
    if env.chance(60) {
        let leaves_one = env.rng.bool();
        parts.push(ActorKind::Operator(Box::new(Operator::new(nodes, leaves_one))));
    }
    parts.extend(draw_tenants(env, parts.len()));
    env.model.people_at_work = parts.len();
    for number in 0..env.rng.usize(1..4) {
        env.model.registers.push(Register::new(path(&format!("/shared/{number}"))));
    }
    parts.push(ActorKind::Driver(Box::new(Driver::new(planned, 0, paths))));
    parts.push(ActorKind::Auditor(Box::new(Auditor::new(nodes))));
    for (name, is_stranger) in [("ben", false), ("eve", true)] {
        env.model.attributes.accounts.add(parts.len(), user(name));
        parts.push(ActorKind::Snoop(Box::new(Snoop::new(ordinary(name), is_stranger))));
    }
    parts.into_iter().enumerate().map(|(number, part)| Actor::new(number, part)).collect()
}

/// Two users with folders of their own, each with a region, and the steward of all users.
fn draw_tenants(env: &mut Environment, first: usize) -> Vec<ActorKind> {
    let mut parts = Vec::new();
    for (number, name) in ["ann", "ben"].into_iter().enumerate() {
        let (home, region) = (path(&format!("/{name}")), env.model.regions.len());
        env.model.regions.push(Region::new(home.clone()));
        let folders = FOLDERS.iter().map(|folder| path(&format!("{home}/{folder}")));
        for at in std::iter::once(home.clone()).chain(folders) {
            env.model.attributes.folders.push(FolderAttributes::new(at, region, user(name)));
        }
        env.model.attributes.quotas.insert(user(name), Setting::new((None, None)));
        env.model.attributes.accounts.add(first + number, user(name));
        parts.push(ActorKind::Tenant(Box::new(Tenant::new(ordinary(name), Some(region)))));
    }
    let steward = UserRights { user: administrator(), groups: Vec::new(), admin: true };
    parts.push(ActorKind::Tenant(Box::new(Tenant::new(steward, None))));
    parts
}

/// A user who is no administrator.
fn ordinary(name: &str) -> UserRights {
    UserRights { user: user(name), groups: Vec::new(), admin: false }
}

/// Removed entries are in the trash for longer than any run lasts.
const LASTING: Duration = Duration::from_secs(86_400);
/// How soon an action that a cut link held up is tried again.
const HELD_UP_PAUSE: Duration = Duration::from_millis(400);
/// Events in one run: more mean an endless loop.
const EVENTS_MAX: u64 = 20_000_000;
