//! Vectors of marks: a change, all kinds of marks, evidence. They never leave out a field.

use super::{Vectors, node, user};
use crate::{
    JobId,
    message::{
        marks::{EvidenceReport, Mark, MarkChange, MarkState, MarkSubject, StageWork},
        request::ChangeMarkRequest,
    },
};

fn disk() -> MarkSubject {
    MarkSubject::Disk { node: node(), folder: "/srv/a".into() }
}

pub(super) fn change() -> ChangeMarkRequest {
    ChangeMarkRequest { subject: disk(), change: MarkChange::Add("it rattles".into()) }
}

pub(super) fn marks() -> Vec<Mark> {
    let measured = Mark {
        subject: MarkSubject::Node(node()),
        state: MarkState::Slow,
        by: None,
        reason: "it is slow".into(),
        since_unix_millis: 1_800_000_000_000,
        expires_unix_millis: Some(1_800_003_600_000),
    };
    let (by, subject) = (Some(user()), MarkSubject::link("uic", "jhu"));
    let ignored = Mark { subject, state: MarkState::Ignored, by, expires_unix_millis: None, ..measured.clone() };
    vec![measured, ignored]
}

pub(super) fn evidence() -> EvidenceReport {
    let work = StageWork { job: JobId(7), stage: 1, bytes: 1 << 30, busy_micros: 4_000_000 };
    EvidenceReport { stages: vec![work], full_links: vec!["jhu".into()] }
}

#[test]
fn subjects_and_changes_of_marks_have_their_bytes() {
    let mut vectors = Vectors::of("marks", include_str!("../../../tests/vectors/marks.txt"));
    compare!(vectors, MarkSubject {
        "node": MarkSubject::Node(_) => MarkSubject::Node(node()),
        "disk": MarkSubject::Disk { .. } => disk(),
        "link": MarkSubject::Link { .. } => MarkSubject::link("uic", "jhu"),
    });
    compare!(vectors, MarkChange {
        "add": MarkChange::Add(_) => change().change,
        "clear": MarkChange::Clear => MarkChange::Clear,
        "ignore": MarkChange::Ignore(_) => MarkChange::Ignore("it is meant to be so".into()),
    });
    vectors.finish();
}
