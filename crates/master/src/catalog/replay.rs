//! Tests that rows are commands (decision 0035). Whoever sets the rows that the catalogue returned has the same
//! catalogue, after each change. The changes are random, from a seed. Only tests use it; the master never does.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use protocol::{
    Digest, Now, Policy, RecordFraming, Refusal, SectorPath, SliceId, UserName, Version,
    message::{
        client_master::{ClientReply, FileContent},
        master_security::UserRights,
    },
};
use store::RowChange;

use super::{
    Catalog, clock_guard::ClockGuard, namespace::change::NamespaceChange, policy_table::Policies, quota_table::Quotas,
    trash_table::Trash,
};
use crate::{
    actions::{CLOCK_TABLE, POLICIES_TABLE, QUOTAS_TABLE, StoredRow, TRASH_TABLE},
    config::MasterConfig,
    log::journal_loader::JournalLoader,
};

type Rows = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

/// The catalogue that these rows are, as any master would load it.
fn load(now: Now, rows: &Rows) -> (Catalog, Vec<RowChange>) {
    let mut loading = JournalLoader::new();
    for ((table, key), value) in rows {
        loading.add_row(table, key, value).unwrap();
    }
    let (mut policies, mut trash, mut quotas) = (Policies::default(), Trash::default(), Quotas::default());
    for row in &loading.others {
        match row.table {
            POLICIES_TABLE => policies.load(row).unwrap(),
            TRASH_TABLE => trash.load(row).unwrap(),
            QUOTAS_TABLE => quotas.load(row).unwrap(),
            _ => {}
        }
    }
    let (names, first) = loading.names.finish(now).unwrap();
    let key = (CLOCK_TABLE, Vec::new());
    let row = rows.get(&key).map(|value| StoredRow { table: key.0, key: key.1, value: value.clone() });
    let clock = ClockGuard::load(now, row.as_ref()).unwrap();
    (Catalog::new(MasterConfig::default(), names, (policies, trash, quotas), clock, false), first)
}

fn set(rows: &mut Rows, changes: Vec<RowChange>) {
    for change in changes {
        match change {
            RowChange::Set { table, key, value } => drop(rows.insert((table, key), value)),
            RowChange::Remove { table, key } => drop(rows.remove(&(table, key))),
        }
    }
}

/// All that anyone can see of a catalogue.
fn seen(catalog: &Catalog) -> Vec<String> {
    let admin = user("admin");
    let mut all: Vec<_> = catalog.names().list(&SectorPath::root(), true, None).unwrap().0;
    all.extend(catalog.names().list(&"/.trash".parse().unwrap(), true, None).map(|page| page.0).unwrap_or_default());
    let told = |reply: Result<ClientReply, Refusal>| format!("{reply:?}");
    let mut lines = vec![told(catalog.trash_list(&admin, true, None)), told(Ok(catalog.quota_list(&admin, None)))];
    for entry in &all {
        lines.push(format!("{:?}", catalog.versions(&admin, &entry.path)));
    }
    for entry in all {
        lines.push(format!("{entry:?} {:?}", catalog.names().usage(entry.id)));
        lines.push(told(catalog.policy(&entry.path)));
        lines.push(format!("{:?}", catalog.acl_reply(&admin, entry.id)));
    }
    lines
}

fn user(name: &str) -> UserRights {
    UserRights { user: UserName::new(name).unwrap(), groups: Vec::new(), admin: name == "admin" }
}

fn a_path(rng: &mut Rng) -> SectorPath {
    let depth = rng.usize(1..4);
    let names: String = (0..depth).map(|_| format!("/{}", rng.choice(["a", "b", "c"]).unwrap())).collect();
    names.parse().unwrap()
}

/// A random change; a refused one changes nothing.
fn change(catalog: &mut Catalog, rng: &mut Rng, now: Now, slice: u128) -> Result<Vec<RowChange>, Refusal> {
    let (at, to, by) = (a_path(rng), a_path(rng), user(["ann", "bob", "admin"][rng.usize(..3)]));
    let rows = |change: NamespaceChange| change.rows;
    let kept = |catalog: &mut Catalog, old, mut change: NamespaceChange| {
        catalog.keep_replaced(now, &by.user, old, &mut change);
        change.rows
    };
    let found = |catalog: &Catalog| catalog.names().get(&at);
    match rng.u32(..12) {
        0 => catalog.make_folder(now, &at, true, &by.user).map(rows),
        1..4 => {
            let content = FileContent {
                slice: SliceId(slice),
                version: catalog.next_version(now),
                bytes: rng.u64(..1_000),
                digest: Digest([0; 32]),
                records: RecordFraming::File,
                copies: 0,
                user: BTreeMap::new(),
            };
            let old = catalog.content_to_keep(&at);
            let change = catalog.put_entry(now, &at, true, &by.user, content, now.unix_millis);
            change.map(|change| kept(catalog, old, change))
        }
        4 => {
            let old = catalog.content_to_keep(&to);
            catalog.move_entry(&at, &to).map(|change| kept(catalog, old, change))
        }
        5 | 6 => found(catalog).and_then(|id| catalog.discard(now, id, &at, rng.bool(), rng.bool())).map(rows),
        7 => catalog.restore(now, &user("admin"), &at, None).map(rows),
        8 => {
            let policy = Policy {
                copies: Some(rng.u8(1..4)),
                lifetime_seconds: rng.bool().then_some(rng.u64(1..100)),
                quota_files: rng.bool().then_some(50),
                versions_seconds: rng.bool().then_some(rng.u64(..100)),
                ..Policy::default()
            };
            let is_file = found(catalog).is_ok_and(|id| !catalog.names().is_folder(id));
            let policy = if is_file { Policy { copies: policy.copies, ..Policy::default() } } else { policy };
            catalog.set_policy(now, &user("admin"), &at, policy, None, Vec::new()).map(|(change, _)| change.rows)
        }
        9 => catalog.set_quota(&user("admin"), &by.user, rng.bool().then_some(50_000), None).map(|row| vec![row]),
        10 => found(catalog).map(|id| catalog.set_acl(id, rng.bool().then(|| "everyone:r".parse().unwrap()))),
        _ => catalog.give_to(&at, &by.user).map(|(_, rows)| rows),
    }
}

#[test]
fn whoever_sets_the_same_rows_has_the_same_catalogue() {
    for seed in 0..12 {
        let mut rng = Rng::with_seed(seed);
        let mut now = Now { unix_millis: 1_700_000_000_000, ..Now::default() };
        let (mut leader, first) = load(now, &Rows::new());
        let mut rows = Rows::new();
        set(&mut rows, first);
        let confirmed = leader.clock_mut().confirm(now, Version(0));
        set(&mut rows, vec![confirmed]);
        let mut made = 0;
        for step in 0..400 {
            let passed = rng.u64(1..4_000);
            now.unix_millis += passed;
            now.monotonic += Duration::from_millis(passed);
            if let Ok(changes) = change(&mut leader, &mut rng, now, step) {
                set(&mut rows, changes);
                made += 1;
            }
            while let Some(expired) = leader.expire_next(now) {
                set(&mut rows, expired.change.rows);
            }
            let (_, purged) = leader.purge(now, 8);
            set(&mut rows, purged.rows);
            let cut_off = leader.purge_pending_removals(8);
            set(&mut rows, cut_off.rows);
            if step % 10 == 0 {
                let (follower, missing) = load(now, &rows);
                assert_eq!(missing, Vec::new(), "seed {seed}, step {step}");
                assert_eq!(seen(&follower), seen(&leader), "seed {seed}, step {step}");
            }
        }
        assert!(made > 100, "seed {seed} made only {made} changes");
    }
}
