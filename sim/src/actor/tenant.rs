//! A user of the estate, or its steward. A user is no administrator: they make their own folders once and set rights on
//! them. They put files there, remove them and restore them. The steward is an administrator, who gives folders to
//! others, sets quotas, and sometimes revokes a user's sessions. The next action is chosen at random, and two never run
//! at once.

use std::{mem, time::Duration};

use protocol::{
    Acl, AclEntry, Policy, Principal, Rights, SectorPath, Status, UserName,
    message::{
        access::AclRequest,
        client_master::{ClientReply, ClientRequest, Condition, CreateRequest},
        master_security::UserRights,
        request::{
            ClearAclRequest, GiveToRequest, MakeFolderRequest, RemoveRequest, RestoreRequest, SetAclRequest,
            SetPolicyRequest, SetQuotaRequest,
        },
    },
};

use super::{
    asking::{PATIENCE, ask, later},
    questions::{draw_folder, draw_question},
    upload::{Stage, Upload, create_request},
};
use crate::{
    ViolationKind,
    environment::{
        Environment, NODES_MIN,
        calls::{CallId, CallReply},
        network::DELAY_MAX,
    },
    invariants::{
        attribute_checks, names,
        rights::{self, Probe},
    },
    model::{Begun, Change, ContentId, Most, Outcome, TrashedFile, path},
    role::MasterLink,
};

/// See the module.
pub(crate) struct Tenant {
    by: UserRights,
    /// The region that is theirs; the steward has none.
    region: Option<usize>,
    step: Step,
    /// Identifies the present step: an answer to an earlier one is late.
    tag: u64,
}

enum Step {
    /// Waits for a moment, or for a session.
    Idle,
    Changing(Doing),
    /// No answer came; it waits until none can come any more.
    Settling(Doing),
    Uploading(Box<Upload>, Put),
    Querying(names::NameQuery),
    Probing(Box<Probe>),
    AtRest,
}

/// A requested change.
#[derive(Clone, Debug)]
enum Doing {
    /// A folder is made.
    Make(Change, usize),
    /// A file is removed: for good if nothing is recorded for the trash.
    Remove {
        change: Change,
        content: Option<ContentId>,
        is_sure: bool,
    },
    Restore {
        item: TrashedFile,
        change: Change,
    },
    Acl {
        folder: usize,
        acl: Option<Acl>,
        begun: Begun,
    },
    Policy {
        folder: usize,
        policy: Policy,
        begun: Begun,
    },
    Owner {
        folder: usize,
        owner: UserName,
        begun: Begun,
    },
    Quota {
        user: UserName,
        most: Most,
        begun: Begun,
    },
}

/// A file that is being put.
#[derive(Clone, Debug)]
struct Put {
    change: Change,
    at: SectorPath,
    since: Duration,
    is_new: bool,
}

impl Tenant {
    /// A user with a region; without one, the steward.
    pub(crate) fn new(by: UserRights, region: Option<usize>) -> Self {
        Self { by, region, step: Step::Idle, tag: 0 }
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
            Step::Changing(_) => "waits for a change of the estate",
            Step::Settling(_) => "waits until no answer can come",
            Step::Uploading(..) => "uploads",
            Step::Querying(_) | Step::Probing(_) => "looks at the estate",
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
            Step::Settling(doing) => {
                self.ended(env, &doing, Outcome::Unknown);
                self.rest(env, master_link);
            }
            Step::Uploading(mut upload, put) => {
                let stage = upload.timer(env, master_link, tag);
                self.upload_goes(env, master_link, upload, put, stage);
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
        match (mem::replace(&mut self.step, Step::Idle), reply) {
            (Step::Changing(doing), None) => {
                env.note(format_args!("{:?} heard nothing of {doing:?}", master_link.who));
                self.tag += 1;
                self.step = Step::Settling(doing);
                later(env, master_link, DELAY_MAX + Duration::from_millis(500), self.tag);
            }
            (Step::Changing(doing), Some(reply)) => {
                let outcome = match &reply {
                    ClientReply::Refused(refusal) if refusal.retry_after().is_some() => Outcome::NotDone,
                    ClientReply::Refused(refusal) => Outcome::Refused(refusal.status()),
                    _ => Outcome::Done,
                };
                env.note(format_args!("{:?} is told {outcome:?}", master_link.who));
                self.ended(env, &doing, outcome);
                self.rest(env, master_link);
            }
            (Step::Uploading(mut upload, put), reply) => {
                let stage = upload.answered(env, master_link, tag, reply);
                self.upload_goes(env, master_link, upload, put, stage);
            }
            (Step::Querying(look), Some(reply)) => {
                // If a folder belongs to another user by now, the answer does not tell whether something is there.
                let is_hidden = matches!(&reply, ClientReply::Refused(refusal) if refusal.status() != Status::NotFound);
                if let Some(region) = self.region.filter(|_| !is_hidden) {
                    names::check_query(env, region, &look, &reply);
                }
                self.rest(env, master_link);
            }
            (Step::Probing(probe), Some(reply)) => {
                rights::check(env, &probe, &reply);
                self.rest(env, master_link);
            }
            (Step::Querying(_) | Step::Probing(_), None) => self.rest(env, master_link),
            (step @ (Step::Idle | Step::Settling(_) | Step::AtRest), _) => self.step = step,
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
            Step::Uploading(mut upload, put) => {
                let stage = upload.call_answered(env, master_link, self.tag, call, reply);
                self.upload_goes(env, master_link, upload, put, stage);
            }
            step => self.step = step,
        }
    }

    /// Begins the next action, if there is a session.
    fn next(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        self.tag += 1;
        if env.is_healing || env.is_quiet {
            self.step = Step::AtRest;
            env.model.people_at_work -= 1;
            return;
        }
        if master_link.session.is_none() {
            // `logged_in` comes back here.
            self.step = Step::Idle;
            return;
        }
        let doing = match self.region {
            None => self.draw_of_steward(env),
            Some(region) => {
                let unmade = env.model.regions[region].certain().map(|tree| env.model.attributes.unmade(region, tree));
                match unmade {
                    None if env.chance(70) => return self.query(env, master_link, region),
                    None => self.draw_of_rights(env, region),
                    Some(Some(folder)) => Some(self.make(env, folder)),
                    Some(None) if env.chance(30) => return self.put(env, master_link, region),
                    Some(None) if env.chance(30) => return self.probe(env, master_link),
                    Some(None) => self.draw_of_user(env, region),
                }
            }
        };
        match doing {
            Some((doing, request)) => {
                env.note(format_args!("{:?} asks {doing:?}", master_link.who));
                ask(env, master_link, &request, self.tag, PATIENCE);
                self.step = Step::Changing(doing);
            }
            None => self.rest(env, master_link),
        }
    }

    /// Waits a moment.
    fn rest(&mut self, env: &mut Environment, master_link: &MasterLink) {
        self.tag += 1;
        self.step = Step::Idle;
        let longest_ms = if self.region.is_some() { 900 } else { 3_000 };
        let span = env.span(1, longest_ms);
        later(env, master_link, span, self.tag);
    }

    /// Asks for something that may or may not exist, since an answer was lost.
    fn query(&mut self, env: &mut Environment, master_link: &mut MasterLink, region: usize) {
        let trees = env.model.regions[region].possible();
        let differs = |at: &&SectorPath| trees.iter().any(|tree| tree.0.get(*at) != trees[0].0.get(*at));
        let Some(at) = trees.iter().flat_map(|tree| tree.0.keys()).find(differs).cloned() else {
            return self.rest(env, master_link);
        };
        let look = names::NameQuery::Stat(at);
        ask(env, master_link, &look.request(), self.tag, PATIENCE);
        self.step = Step::Querying(look);
    }

    fn probe(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let request = draw_question(env, &self.by.user);
        let probe = Probe::new(env, self.by.clone(), request);
        ask(env, master_link, &probe.request, self.tag, PATIENCE);
        self.step = Step::Probing(Box::new(probe));
    }

    fn make(&self, env: &mut Environment, folder: usize) -> (Doing, ClientRequest) {
        let now = env.now.monotonic;
        env.model.attributes.folders[folder].made(now);
        let (at, region) =
            (env.model.attributes.folders[folder].path.clone(), env.model.attributes.folders[folder].region);
        let change = Change::MakeFolder { path: at.clone(), parents: false };
        names::begin(env, region, &change);
        (Doing::Make(change, region), ClientRequest::MakeFolder(MakeFolderRequest { path: at, parents: false }))
    }

    /// Sets rights, a policy or the like on a folder.
    fn draw_of_rights(&self, env: &mut Environment, region: usize) -> Option<(Doing, ClientRequest)> {
        match env.rng.u8(..4) {
            0..3 => {
                let folder = draw_folder(env, Some(region))?;
                let acl = self.draw_acl(env);
                let (now, at) = (env.now.monotonic, env.model.attributes.folders[folder].path.clone());
                let begun = env.model.attributes.folders[folder].acl.begin(now, &acl);
                let request = match acl.clone() {
                    Some(acl) => AclRequest::Set(SetAclRequest { path: at, acl }),
                    None => AclRequest::Clear(ClearAclRequest(at)),
                };
                Some((Doing::Acl { folder, acl, begun }, ClientRequest::Acl(request)))
            }
            _ => {
                let folder = draw_folder(env, Some(region)).filter(|folder| !is_stewards(env, *folder))?;
                // No more than there are nodes, and no lifetime: a cloud that cannot meet the policy is never well.
                let copies = env.rng.bool().then(|| env.rng.u8(2..=NODES_MIN as u8));
                let lifetime_seconds = env.rng.bool().then(|| env.rng.u64(2_000..3_000) * 86_400);
                let policy = Policy { copies, lifetime_seconds, ..Policy::default() };
                Some(self.set_policy(env, folder, policy))
            }
        }
    }

    /// Sets something on a folder, removes a file, or restores one.
    fn draw_of_user(&self, env: &mut Environment, region: usize) -> Option<(Doing, ClientRequest)> {
        match env.rng.u8(..10) {
            0..4 => self.draw_of_rights(env, region),
            4..7 => self.draw_removal(env, region),
            _ => {
                // What was replaced may be found as if it had been removed, and then be the newest.
                if env.model.attributes.trash.keeps_replaced && env.model.recovered.is_some() {
                    return None;
                }
                let items = env.model.attributes.trash.newest(&self.by.user);
                let items: Vec<_> = items.into_iter().filter(|item| env.model.attributes.knows(&item.from)).collect();
                let item = items.get(env.rng.usize(..items.len().max(1)))?.clone();
                let at = item.from.clone();
                let change = Change::Put { path: at.clone(), content: item.content, parents: true, absent: true };
                names::begin(env, region, &change);
                Some((Doing::Restore { item, change }, ClientRequest::Restore(RestoreRequest { path: at, to: None })))
            }
        }
    }

    fn draw_removal(&self, env: &mut Environment, region: usize) -> Option<(Doing, ClientRequest)> {
        let tree = env.model.regions[region].certain()?.clone();
        let files: Vec<_> = tree.files().collect();
        let (at, content) = files.get(env.rng.usize(..files.len().max(1)))?;
        let (at, content) = ((*at).clone(), *content);
        let now = env.chance(20);
        let change = Change::Remove { path: at.clone(), recursive: false };
        names::begin(env, region, &change);
        let begun = env.now.monotonic;
        if !now {
            env.model.attributes.trash.begin(begun, &self.by.user, &at, content);
        }
        let content = (!now).then_some(content);
        let is_sure = env.model.recovered.is_none();
        let request = ClientRequest::Remove(RemoveRequest { path: at, recursive: false, now });
        Some((Doing::Remove { change, content, is_sure }, request))
    }

    fn draw_of_steward(&self, env: &mut Environment) -> Option<(Doing, ClientRequest)> {
        let now = env.now.monotonic;
        match env.rng.u8(..10) {
            0..4 => {
                // Homes keep their owners.
                let folder = draw_folder(env, None)?;
                let at = env.model.attributes.folders[folder].path.clone();
                let users: Vec<_> = env.model.attributes.quotas.keys().cloned().collect();
                let owner = users.get(env.rng.usize(..users.len().max(1)))?.clone();
                if at.components().count() < 2 {
                    return None;
                }
                let begun = env.model.attributes.folders[folder].owner.begin(now, &owner);
                let request = AclRequest::GiveTo(GiveToRequest { path: at, owner: owner.clone() });
                Some((Doing::Owner { folder, owner, begun }, ClientRequest::Acl(request)))
            }
            4..7 => {
                let users: Vec<_> = env.model.attributes.quotas.keys().cloned().collect();
                let user = users.get(env.rng.usize(..users.len().max(1)))?.clone();
                let bytes = env.rng.bool().then(|| env.rng.u64(1 << 30..1 << 40));
                let files = [None, Some(1_000), Some(2_000), Some(0)][env.rng.usize(..4)];
                let most = (bytes, files);
                let begun = env.model.attributes.quotas.get_mut(&user)?.begin(now, &most);
                let request = ClientRequest::SetQuota(SetQuotaRequest { user: user.clone(), bytes, files });
                Some((Doing::Quota { user, most, begun }, request))
            }
            7..9 => {
                let folder = draw_folder(env, None).filter(|folder| is_stewards(env, *folder))?;
                let quota_bytes = env.rng.bool().then(|| env.rng.u64(1 << 30..1 << 40));
                let quota_files = [None, Some(500), Some(0)][env.rng.usize(..3)];
                Some(self.set_policy(env, folder, Policy { quota_bytes, quota_files, ..Policy::default() }))
            }
            _ => {
                let users: Vec<_> = env.model.attributes.quotas.keys().cloned().collect();
                let user = users.get(env.rng.usize(..users.len().max(1)))?.clone();
                let barred = env.span(0, 3_000);
                env.note(format_args!("the sessions of {user} are revoked"));
                env.model.attributes.accounts.revoke(now, &user, barred);
                None
            }
        }
    }

    fn set_policy(&self, env: &mut Environment, folder: usize, policy: Policy) -> (Doing, ClientRequest) {
        let now = env.now.monotonic;
        let at = env.model.attributes.folders[folder].path.clone();
        let begun = env.model.attributes.folders[folder].policy.begin(now, &policy);
        let request = ClientRequest::SetPolicy(SetPolicyRequest { path: at, policy: policy.clone() });
        (Doing::Policy { folder, policy, begun }, request)
    }

    /// A possible list of a folder: none, a private one, or one that grants others something.
    fn draw_acl(&self, env: &mut Environment) -> Option<Acl> {
        let others: Vec<_> =
            env.model.attributes.quotas.keys().filter(|user| **user != self.by.user).cloned().collect();
        let other = others.get(env.rng.usize(..others.len().max(1))).cloned();
        let everyone = AclEntry { principal: Principal::Everyone, rights: Rights::READ };
        let one = |rights| other.clone().map(|other| AclEntry { principal: Principal::User(other), rights });
        let entries = match env.rng.u8(..8) {
            0 | 1 => return None,
            2..5 => Vec::new(),
            5 => vec![everyone],
            6 => one(Rights::READ).into_iter().collect(),
            _ => one(Rights::READ.and(Rights::WRITE)).into_iter().chain([everyone]).collect(),
        };
        Acl::new(entries).ok()
    }

    /// A change came to its end.
    fn ended(&self, env: &mut Environment, doing: &Doing, outcome: Outcome) {
        let now = env.now.monotonic;
        let is_refused = outcome == Outcome::Refused(Status::Refused) && env.model.recovered.is_none();
        // A refusal because of rights, quotas or a lease says nothing about names.
        let of_names = match outcome {
            Outcome::Refused(Status::Refused | Status::Unavailable) => Outcome::NotDone,
            outcome => outcome,
        };
        match doing {
            Doing::Make(change, region) => names::end(env, *region, change, of_names),
            Doing::Remove { change, content, is_sure } => {
                let Change::Remove { path: at, .. } = change else { return };
                if let Some(content) = content
                    && matches!(outcome, Outcome::Done | Outcome::Unknown)
                {
                    let is_sure = *is_sure && outcome == Outcome::Done && env.model.recovered.is_none();
                    env.model.attributes.trash.end(now, &self.by.user, at, *content, is_sure);
                }
                self.end_names(env, change, of_names);
            }
            Doing::Restore { item, change } => {
                if outcome == Outcome::Refused(Status::NotFound) {
                    if env.model.attributes.trash.must_have(item) && env.model.recovered.is_none() {
                        let message = format!("what was removed from {} cannot be restored: {item:?}", item.from);
                        env.violate(ViolationKind::Safety, message);
                    }
                    return self.end_names(env, change, Outcome::NotDone);
                }
                if matches!(outcome, Outcome::Done | Outcome::Unknown) {
                    let is_sure = outcome == Outcome::Done && env.model.recovered.is_none();
                    env.model.attributes.trash.restored(item, is_sure);
                }
                let of_names = env.model.outcome_of_restore(change, of_names);
                self.end_names(env, change, of_names);
            }
            Doing::Acl { folder, acl, begun } => {
                self.check_refusal(env, *folder, is_refused);
                env.model.attributes.folders[*folder].acl.end(now, *begun, acl, outcome);
            }
            Doing::Policy { folder, policy, begun } => {
                self.check_refusal(env, *folder, is_refused);
                env.model.attributes.folders[*folder].policy.end(now, *begun, policy, outcome);
            }
            Doing::Owner { folder, owner, begun } => {
                self.check_refusal(env, *folder, is_refused);
                env.model.attributes.folders[*folder].owner.end(now, *begun, owner, outcome);
            }
            Doing::Quota { user, most, begun } => {
                if is_refused {
                    env.violate(ViolationKind::Safety, format!("an administrator may not set the quota of {user}"));
                }
                if let Some(quota) = env.model.attributes.quotas.get_mut(user) {
                    quota.end(now, *begun, most, outcome);
                }
            }
        }
    }

    fn end_names(&self, env: &mut Environment, change: &Change, outcome: Outcome) {
        if let Some(region) = self.region {
            names::end(env, region, change, outcome);
        }
    }

    /// A user who certainly may change a folder was refused.
    fn check_refusal(&self, env: &mut Environment, folder: usize, is_refused: bool) {
        let (now, estate) = (env.now.monotonic, &env.model.attributes);
        let at = &estate.folders[folder].path;
        // Rights that may have changed while the request was open.
        let since = now.saturating_sub(PATIENCE);
        let rights = estate.rights(&self.by, at, since, now);
        if is_refused && rights.iter().all(|rights| rights.has(Rights::ADMINISTER)) {
            let message = format!("{} may say what holds for {at}, and was refused", self.by.user);
            env.violate(ViolationKind::Safety, message);
        }
    }

    fn put(&mut self, env: &mut Environment, master_link: &mut MasterLink, region: usize) {
        let Some(folder) = draw_folder(env, Some(region)) else { return self.rest(env, master_link) };
        let content = env.model.contents.draw(&mut env.rng);
        let name = format!("{}/f{}", env.model.attributes.folders[folder].path, env.rng.u8(..3));
        let (at, since) = (path(&name), env.now.monotonic);
        let is_new = env.model.regions[region].certain().is_some_and(|tree| tree.file(&at).is_none());
        let absent = env.chance(10);
        let bytes = env.model.contents.get(content).bytes.len() as u64;
        let mut request = CreateRequest { parents: false, ..create_request(at.clone(), bytes) };
        if absent {
            request.condition = Condition::Absent;
        }
        env.note(format_args!("{:?} puts {content:?} at {at}", master_link.who));
        let change = Change::Put { path: at.clone(), content, parents: false, absent };
        let mut upload = Upload::new(env, request, content);
        upload.begin(env, master_link, self.tag);
        self.step = Step::Uploading(Box::new(upload), Put { change, at, since, is_new });
    }

    fn upload_goes(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        upload: Box<Upload>,
        put: Put,
        stage: Stage,
    ) {
        match stage {
            Stage::Goes => self.step = Step::Uploading(upload, put),
            Stage::Commits => {
                if let Some(region) = self.region {
                    names::begin(env, region, &put.change);
                }
                self.step = Step::Uploading(upload, put);
            }
            Stage::Ended(outcome) => {
                env.note(format_args!("{:?} upload ended: {outcome:?}", master_link.who));
                if let Some(outcome) = outcome {
                    self.end_names(env, &put.change, outcome);
                    if outcome == Outcome::Done && put.is_new {
                        attribute_checks::check_let_through(env, &self.by.user, &put.at, put.since);
                    }
                }
                self.rest(env, master_link);
            }
            Stage::Refused(refusal) => {
                env.note(format_args!("{:?} create refused: {refusal}", master_link.who));
                if !matches!(refusal.status(), Status::Unavailable | Status::Refused) {
                    self.end_names(env, &put.change, Outcome::Refused(refusal.status()));
                }
                self.rest(env, master_link);
            }
        }
    }
}

/// Whether only the steward sets the policy of a folder.
fn is_stewards(env: &Environment, folder: usize) -> bool {
    env.model.attributes.folders[folder].path.name() == Some(OF_STEWARD)
}

/// The folder in each home that has a quota.
pub(crate) const OF_STEWARD: &str = "counted";
/// The folders in each home.
pub(crate) const FOLDERS: [&str; 3] = ["shut", "lent", OF_STEWARD];
