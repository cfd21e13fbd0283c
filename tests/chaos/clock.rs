//! Wall clocks that jump by hours or days, ahead or back, while their role runs, and come back after some seconds.
//! Nothing may be removed by that, and the master must say that its clock jumped.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use cluster::Roles;
use fastrand::Rng;

use crate::{ask, enclosure, ledger::Ledger, record};

/// See the module.
#[derive(Default)]
pub(crate) struct Clocks {
    wrong: BTreeMap<String, Wrong>,
    pub(crate) fired: u64,
    /// How often the master was heard to say it.
    pub(crate) told: u64,
    /// How often an administrator said that it is right.
    pub(crate) confirmed: u64,
}

struct Wrong {
    until: Instant,
    /// When the master was asked whether it knows; `None`: it did, or nobody can expect it any more.
    ask_at: Option<Instant>,
    confirm: bool,
}

impl Clocks {
    /// Gives each role, none of which runs, a clock that can be moved.
    pub(crate) fn mount(&self, cloud: &mut Roles) {
        let library = enclosure::clock_library().expect("libfaketime");
        for role in cloud.names() {
            let file = file(cloud, &role);
            fs::write(&file, "+0").unwrap();
            let text = |path: PathBuf| path.to_str().unwrap().to_owned();
            let variables = [
                ("LD_PRELOAD", text(library.clone())),
                ("FAKETIME_TIMESTAMP_FILE", text(file)),
                ("FAKETIME_CACHE_DURATION", "1".into()),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
                ("DONT_FAKE_MONOTONIC", "1".into()),
                ("NO_FAKE_STAT", "1".into()),
            ];
            cloud.set_variables(&role, variables.map(|(name, value)| (name.to_owned(), value)).into());
        }
    }

    /// Moves one; whether that was possible.
    pub(crate) fn fire(&mut self, rng: &mut Rng, cloud: &Roles) -> bool {
        let names = cloud.names();
        let role = match rng.u8(..10) {
            0..6 => "master".to_owned(),
            _ => names[rng.usize(..names.len())].clone(),
        };
        let hours = match rng.u8(..4) {
            0 => rng.i64(2..20),
            1 => rng.i64(24..20 * 24),
            2 => -rng.i64(2..20),
            _ => -rng.i64(24..5 * 24),
        };
        let span = Duration::from_millis(rng.u64(8_000..20_000));
        let confirm = rng.u8(..4) == 0;
        if self.wrong.len() >= WRONG_MAX || self.wrong.contains_key(&role) {
            return false;
        }
        // One that has just been started, and is not sure of its clock yet, sees no jump.
        let is_sure = role == "master"
            && ask(cloud, &["health"]).is_some_and(|health| health.code != 5 && !health.text().contains("clock"));
        fs::write(file(cloud, &role), format!("{:+}", hours * 3600)).unwrap();
        let now = Instant::now();
        record(cloud, &format!("the clock of {role} jumps by {hours} h for {span:?}"));
        let ask_at = is_sure.then_some(now + NOTICED_AFTER);
        self.wrong.insert(role, Wrong { until: now + span, ask_at, confirm });
        self.fired += 1;
        true
    }

    /// The master was away meanwhile, or could not be heard: what it says of its clock may come later than we look.
    pub(crate) fn excuse(&mut self) {
        if let Some(master) = self.wrong.get_mut("master") {
            master.ask_at = None;
        }
    }

    /// Whether the master is yet to be asked: nothing else should happen to it so long.
    pub(crate) fn is_to_ask(&self) -> bool {
        self.wrong.get("master").is_some_and(|master| master.ask_at.is_some())
    }

    /// Asks the master, and sets right those whose time has come.
    pub(crate) fn recover(&mut self, cloud: &Roles, ledger: &mut Ledger) {
        let now = Instant::now();
        if let Some(master) = self.wrong.get_mut("master")
            && master.ask_at.is_some_and(|at| at <= now)
            && let Some(health) = ask(cloud, &["health"])
            && health.code != 5
        {
            master.ask_at = None;
            if health.text().contains("clock") {
                self.told += 1;
            } else {
                ledger.wrong.push(format!("the master's clock jumped, and health says: {}", health.text().trim()));
            }
            // As an administrator does who is wrong about it: still nothing is removed early.
            if master.confirm && ask(cloud, &["trash", "confirm-clock"]).is_some_and(|ended| ended.code == 0) {
                self.confirmed += 1;
            }
        }
        let due: Vec<_> =
            self.wrong.iter().filter(|(_, wrong)| wrong.until <= now).map(|(role, _)| role.clone()).collect();
        due.iter().for_each(|role| self.set_right(cloud, role));
    }

    /// Sets all right, for good: an administrator says so where one was confirmed that was wrong.
    pub(crate) fn heal(&mut self, cloud: &Roles) {
        let all: Vec<_> = self.wrong.keys().cloned().collect();
        all.iter().for_each(|role| self.set_right(cloud, role));
    }

    /// The roles whose clocks are wrong.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &String> {
        self.wrong.keys()
    }

    fn set_right(&mut self, cloud: &Roles, role: &str) {
        self.wrong.remove(role);
        record(cloud, &format!("the clock of {role} is right"));
        fs::write(file(cloud, role), "+0").unwrap();
    }
}

/// What a role's clock is moved by.
fn file(cloud: &Roles, role: &str) -> PathBuf {
    cloud.folder().join(format!("{role}.clock"))
}

/// Wrong at once.
const WRONG_MAX: usize = 2;
/// The library looks once a second, the master twice.
const NOTICED_AFTER: Duration = Duration::from_secs(4);
