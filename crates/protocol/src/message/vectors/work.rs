//! Vectors of background work: a row of the master and one of a node, and every kind and state. They never leave out a
//! field.

use super::{Vectors, node};
use crate::message::work::{WorkFault, WorkItem, WorkKind, WorkPage, WorkRow, WorkState};

pub(super) fn item() -> WorkItem {
    WorkItem {
        kind: WorkKind::Scrub,
        subject: "/srv/a".into(),
        state: WorkState::Failing,
        done: Some(1 << 40),
        left: Some(300),
        last_fault: Some(WorkFault::new(1_800_000_000_000, "the disk is on fire")),
        next_unix_millis: Some(1_800_000_001_000),
    }
}

pub(super) fn page() -> WorkPage {
    let master = WorkRow { node: None, unix_millis: 1_800_000_000_000, item: WorkItem::idle(WorkKind::Repair) };
    let of_node = WorkRow { node: Some(node()), unix_millis: 1_800_000_000_001, item: item() };
    WorkPage { rows: vec![master, of_node], next: Some(node()) }
}

#[test]
fn the_kinds_and_states_of_work_have_their_bytes() {
    let mut vectors = Vectors::of("work", include_str!("../../../tests/vectors/work.txt"));
    compare!(vectors, WorkKind {
        "scrub": WorkKind::Scrub => WorkKind::Scrub,
        "disk-watch": WorkKind::DiskWatch => WorkKind::DiskWatch,
        "certificate-renewal": WorkKind::CertificateRenewal => WorkKind::CertificateRenewal,
        "repair": WorkKind::Repair => WorkKind::Repair,
        "mirror": WorkKind::Mirror => WorkKind::Mirror,
        "reconcile": WorkKind::Reconcile => WorkKind::Reconcile,
        "rebuild": WorkKind::Rebuild => WorkKind::Rebuild,
        "job-driver": WorkKind::JobDriver => WorkKind::JobDriver,
        "trash-purge": WorkKind::TrashPurge => WorkKind::TrashPurge,
        "rebalance": WorkKind::Rebalance => WorkKind::Rebalance,
        "drain": WorkKind::Drain => WorkKind::Drain,
        "audit-delivery": WorkKind::AuditDelivery => WorkKind::AuditDelivery,
    });
    compare!(vectors, WorkState {
        "running": WorkState::Running => WorkState::Running,
        "idle": WorkState::Idle => WorkState::Idle,
        "blocked": WorkState::Blocked => WorkState::Blocked,
        "failing": WorkState::Failing => WorkState::Failing,
        "off": WorkState::Off => WorkState::Off,
    });
    vectors.finish();
}
