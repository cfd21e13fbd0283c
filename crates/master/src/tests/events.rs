//! Events as readers hear of them: kinds, rights, restarts, lost journals, and those who wait.

#![allow(clippy::unwrap_used)]

use protocol::{
    JobId,
    message::{
        access::AclRequest,
        client_master::{Admitted, JobRecord, JobState},
        events::{CloudEvent, EVENTS_WAIT_MILLIS_MAX, EventGap, EventKind, EventPage},
        request::{
            AdmitJobRequest, CancelJobRequest, EventsFrom, EventsRequest, RemoveRequest, RenameRequest,
            ReportJobRequest, RestoreRequest, SetAclRequest, SetQuotaRequest,
        },
    },
};

use super::*;
use crate::{actions::EVENTS_TABLE, log::events::followers::FOLLOWERS_MAX};

fn asked(from: EventsFrom) -> EventsRequest {
    EventsRequest { from, kinds: Vec::new(), below: None, wait_millis: 0 }
}

impl Bench {
    fn events_page(&mut self, user: &str, asked: EventsRequest) -> EventPage {
        match self.ask(user, ClientRequest::Events(asked)) {
            ClientReply::Events(page) => page,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn last_event(&mut self) -> u64 {
        self.events_page("admin", asked(EventsFrom::Now)).last
    }

    /// What a user hears after a number, each as its kind and subject.
    pub(super) fn heard(&mut self, user: &str, after: u64) -> Vec<String> {
        let page = self.events_page(user, asked(EventsFrom::After(after)));
        assert_eq!((page.gap, page.more), (None, false));
        page.events.iter().map(told).collect()
    }

    fn wait_for_events(&mut self, user: &str, after: u64) -> u64 {
        let wait_millis = EVENTS_WAIT_MILLIS_MAX;
        self.ask_later(user, ClientRequest::Events(EventsRequest { wait_millis, ..asked(EventsFrom::After(after)) }))
    }
}

fn told(event: &CloudEvent) -> String {
    format!("{} {}", event.kind.as_str(), event.subject)
}

fn rename(from: &str, to: &str) -> ClientRequest {
    ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) })
}

fn remove(at: &str, now: bool) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now })
}

fn set_acl(at: &str, acl: &str) -> ClientRequest {
    ClientRequest::Acl(AclRequest::Set(SetAclRequest { path: path(at), acl: acl.parse().unwrap() }))
}

#[test]
fn each_change_of_a_name_is_one_event_with_what_is_known_of_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let start = bench.last_event();
    let entry = bench.put("ann", CreateRequest { parents: true, ..create("/d/f") }, 10);
    bench.put("admin", create("/d/f"), 20);
    bench.done("ann", rename("/d", "/e"));
    bench.done("ann", remove("/e/f", false));
    assert!(matches!(
        bench.ask("ann", ClientRequest::Restore(RestoreRequest { path: path("/e/f"), to: None })),
        ClientReply::Entry(_)
    ));
    bench.done("ann", remove("/e", true));
    let page = bench.events_page("ann", asked(EventsFrom::After(start)));
    let heard: Vec<_> = page.events.iter().map(told).collect();
    assert_eq!(
        heard,
        [
            "file_published /d/f",
            "file_replaced /d/f",
            "entry_renamed /e",
            "entry_removed /e/f",
            "entry_restored /e/f",
            "entry_removed /e"
        ]
    );
    let numbers: Vec<_> = page.events.iter().map(|event| event.number - start).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "one after the other, and no number is left out");
    let (first, renamed) = (&page.events[0].fields, &page.events[2].fields);
    assert_eq!((first.version, first.bytes), (Some(content(&entry).version), Some(10)));
    assert_eq!((first.digest, first.user.as_ref().map(UserName::as_str)), (Some(digest(10)), Some("ann")));
    assert_eq!(page.events[1].fields.user.as_ref().map(UserName::as_str), Some("admin"));
    assert_eq!((renamed.from.clone(), renamed.count, renamed.bytes), (Some(path("/d")), Some(1), Some(20)));
}

#[test]
fn what_a_job_has_not_finished_is_no_event_and_its_output_is_one() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let start = bench.last_event();
    bench.put("ann", CreateRequest { parents: true, ..create("/out/.sphere-7-0/part-0") }, 10);
    bench.done("ann", rename("/out/.sphere-7-0", "/out/.sphere-7-0-gathered"));
    bench.done("ann", rename("/out/.sphere-7-0-gathered", "/out/words"));
    assert_eq!(bench.heard("ann", start), ["folder_published /out/words"]);
}

#[test]
fn an_event_is_told_to_those_who_could_read_the_entry_when_it_happened() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/open/f") }, 1);
    bench.put("ann", CreateRequest { parents: true, ..create("/own/f") }, 1);
    assert!(matches!(bench.ask("ann", set_acl("/own", "group:astro:r")), ClientReply::Acl(_)));
    let start = bench.last_event();
    bench.put("ann", create("/own/g"), 1);
    bench.done("ann", remove("/own/g", true));
    bench.done("ann", rename("/own/f", "/open/g"));
    bench.done("ann", rename("/open/f", "/own/h"));
    let all = ["file_published /own/g", "entry_removed /own/g", "entry_renamed /open/g", "entry_renamed /own/h"];
    for user in ["ann", "carl@astro", "admin"] {
        assert_eq!(bench.heard(user, start), all, "{user}");
    }
    // Of a move a stranger hears as much as the stranger could see.
    assert_eq!(bench.heard("bob", start), ["entry_renamed /open/g", "entry_removed /open/f"]);
    let page = bench.events_page("bob", asked(EventsFrom::After(start)));
    assert_eq!(page.events[0].fields.from, None, "where it came from is no concern of bob");
    // The folder is gone, and its list with it: what happened in it is as secret as before.
    bench.done("ann", remove("/own", true));
    assert_eq!(bench.heard("bob", start), ["entry_renamed /open/g", "entry_removed /open/f"]);
}

#[test]
fn nodes_disks_jobs_copies_quotas_and_health_are_told_as_they_change() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let start = bench.last_event();
    let entry = bench.put("ann", create("/f"), 10);
    let slice = content(&entry).slice;
    let holder = bench.holders(slice)[0].clone();
    bench.report(&holder, Report::Corrupt(slice));
    bench.advance(seconds(20));
    let admitted = |reply| match reply {
        ClientReply::Admitted(Admitted { job, .. }) => job,
        other => panic!("{other:?}"),
    };
    let admit = || ClientRequest::AdmitJob(AdmitJobRequest { title: "t".into(), output: None });
    let job: JobId = admitted(bench.ask("ann", admit()));
    bench.done("ann", ClientRequest::CancelJob(CancelJobRequest(job)));
    let done = admitted(bench.ask("ann", admit()));
    let record = JobRecord {
        job: done,
        user: UserName::new("ann").unwrap(),
        title: String::new(),
        state: JobState::Done,
        started_unix_millis: 0,
        stages: Vec::new(),
        errors: Vec::new(),
        error_slice: None,
        counters: Vec::new(),
        driver: None,
    };
    bench.ask("ann", ClientRequest::ReportJob(ReportJobRequest(record)));
    let quota = SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: Some(15), files: None };
    bench.done("admin", ClientRequest::SetQuota(quota));
    let large = || ClientRequest::Create(CreateRequest { bytes_expected: Some(50), ..create("/g") });
    bench.refused("ann", large());
    bench.refused("ann", large());
    bench.crash("n3");
    bench.advance(seconds(30));
    let heard = bench.heard("admin", start);
    let expected = [
        "file_published /f".to_owned(),
        "copy_lost /f".into(),
        "copies_restored /f".into(),
        format!("job_begun {job}"),
        format!("job_cancelled {job}"),
        format!("job_begun {done}"),
        format!("job_done {done}"),
        "quota_exceeded /g".into(),
        "node_lost n3".into(),
        "health_changed cloud".into(),
    ];
    let mut left = heard.iter();
    for event in &expected {
        assert!(left.any(|heard| heard == event), "{event} in its place of {heard:?}");
    }
    assert_eq!(heard.iter().filter(|event| event.starts_with("quota_exceeded")).count(), 1, "a state, told once");
    assert!(!bench.heard("bob", start).contains(&"quota_exceeded /g".to_owned()));
    assert!(bench.heard("bob", start).contains(&"node_lost n3".to_owned()), "as the list of nodes");
}

#[test]
fn a_master_that_starts_again_goes_on_with_the_next_number_and_nothing_is_missed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let start = bench.last_event();
    bench.put("ann", create("/f"), 1);
    bench.put("ann", create("/g"), 1);
    let before = bench.events_page("ann", asked(EventsFrom::After(start)));
    bench.restart_master();
    assert_eq!(bench.events_page("ann", asked(EventsFrom::After(start))), before);
    bench.add_node("n3", "c/1");
    assert_eq!(bench.heard("ann", before.last)[0], "node_joined n3");
}

#[test]
fn an_event_is_saved_in_the_batch_of_its_change_and_needs_none_of_its_own() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 1);
    bench.saves = false;
    bench.commit_later("ann", created.lease, 1);
    let (_, changes) = bench.unsaved.front().unwrap();
    let rows = |wanted: &str| {
        let is_of = |change: &&RowChange| matches!(change, RowChange::Set { table, .. } if *table == wanted);
        changes.iter().filter(is_of).count()
    };
    assert_eq!((bench.unsaved.len(), rows("names"), rows(EVENTS_TABLE)), (1, 1, 1), "{changes:?}");
}

#[test]
fn nobody_hears_of_what_is_not_durable() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/f"), 1);
    let start = bench.last_event();
    bench.saves = false;
    let renaming = bench.ask_later("ann", rename("/f", "/g"));
    let waiting = bench.wait_for_events("bob", start);
    assert_eq!(bench.heard("bob", start), Vec::<String>::new());
    assert_eq!((bench.answer(renaming), bench.answer(waiting)), (None, None));
    bench.saves = true;
    bench.run();
    bench.advance(seconds(1));
    assert!(bench.answer(renaming).is_some());
    let Some(ClientReply::Events(page)) = bench.answer(waiting) else { panic!("bob waits in vain") };
    assert_eq!(page.events.iter().map(told).collect::<Vec<_>>(), ["entry_renamed /g"]);
}

#[test]
fn one_who_waits_hears_of_what_concerns_them_and_else_nothing_in_time() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/own/f") }, 1);
    assert!(matches!(bench.ask("ann", set_acl("/own", "none")), ClientReply::Acl(_)));
    let start = bench.last_event();
    let waiting = bench.wait_for_events("bob", start);
    bench.put("ann", create("/own/g"), 1);
    bench.advance(seconds(2));
    assert_eq!(bench.answer(waiting), None, "it is not for bob");
    bench.advance(seconds(4));
    let Some(ClientReply::Events(page)) = bench.answer(waiting) else { panic!("no answer in time") };
    assert_eq!((page.events, page.last), (Vec::new(), start + 1), "bob need not look at it again");
}

#[test]
fn those_who_wait_are_bounded_and_the_next_is_answered_at_once() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let start = bench.last_event();
    let waiting: Vec<_> = (0..FOLLOWERS_MAX).map(|_| bench.wait_for_events("bob", start)).collect();
    assert!(waiting.iter().all(|number| bench.answer(*number).is_none()));
    let next = bench.wait_for_events("bob", start);
    assert!(matches!(bench.answer(next), Some(ClientReply::Events(page)) if page.events.is_empty()));
    bench.put("ann", create("/f"), 1);
    bench.advance(seconds(4));
    let heard = waiting.iter().filter(|number| bench.answer(**number).is_some()).count();
    assert_eq!(heard, FOLLOWERS_MAX, "all are told, some at a time");
}

#[test]
fn a_reader_is_told_what_is_no_longer_there() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let start = bench.last_event();
    bench.put("ann", create("/f"), 1);
    // A row in the middle cannot be read any more.
    let rows: Vec<_> =
        bench.rows.keys().filter(|(table, key)| *table == EVENTS_TABLE && key.len() == 4).cloned().collect();
    assert!(rows.len() > 2);
    let number = |bench: &Bench, at: &(&'static str, Vec<u8>)| {
        crate::catalog::namespace::decode_row::<crate::log::events::event_log::StoredEvent>(&bench.rows[at])
            .unwrap()
            .event
            .number
    };
    let torn = rows.iter().find(|row| number(&bench, row) == start).unwrap().clone();
    bench.rows.insert(torn, vec![1, 2, 3]);
    bench.restart_master();
    let page = bench.events_page("ann", asked(EventsFrom::After(start - 2)));
    assert_eq!(page.gap, Some(EventGap { after: Some(start - 2), first: start + 1 }));
    assert_eq!(told(&page.events[0]), "file_published /f");
    assert_eq!(bench.heard("ann", start)[0], "file_published /f", "nothing was missed by one who was further");
    assert!(bench.events_page("ann", asked(EventsFrom::Since(0))).gap.is_some());
}

#[test]
fn numbers_go_on_after_a_lost_or_an_old_journal_and_every_reader_is_told_of_a_gap() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let backup = bench.rows.clone();
    bench.put("ann", create("/f"), 1);
    let last = bench.last_event();
    for rows in [BTreeMap::new(), backup] {
        bench.rows = rows.clone();
        if !rows.is_empty() {
            // As a restored backup gets it: the journal has another id.
            let stored: Vec<_> = rows
                .iter()
                .map(|((table, key), value)| StoredRow { table, key: key.clone(), value: value.clone() })
                .collect();
            for change in crate::log::rebuild::restored_identity(&stored, protocol::JournalId(99)).unwrap() {
                match change {
                    RowChange::Set { table, key, value } => drop(bench.rows.insert((table, key), value)),
                    RowChange::Remove { table, key } => drop(bench.rows.remove(&(table, key))),
                }
            }
        }
        bench.advance(seconds(1));
        bench.restart_master();
        let page = bench.events_page("ann", asked(EventsFrom::After(last)));
        let gap = page.gap.expect("the reader has missed what the old journal knew");
        assert!(gap.first > last + 1 && gap.after == Some(last), "{gap:?} after {last}");
        assert!(page.last > last);
    }
}

#[test]
fn a_reader_from_another_life_of_the_journal_is_told_of_a_gap() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let last = bench.last_event();
    let page = bench.events_page("ann", asked(EventsFrom::After(last + 5)));
    assert_eq!(page.gap, Some(EventGap { after: Some(last + 5), first: last + 1 }));
    assert_eq!((page.events, page.last), (Vec::new(), last));
}

#[test]
fn kinds_and_places_are_chosen_by_the_master() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let start = bench.last_event();
    bench.put("ann", CreateRequest { parents: true, ..create("/d/f") }, 1);
    bench.put("ann", create("/da"), 1);
    bench.done("ann", rename("/d/f", "/g"));
    bench.crash("n2");
    bench.advance(seconds(30));
    let ask = |below: Option<&str>, kinds: &[EventKind]| EventsRequest {
        below: below.map(path),
        kinds: kinds.to_vec(),
        ..asked(EventsFrom::After(start))
    };
    let of = |page: EventPage| page.events.iter().map(told).collect::<Vec<_>>();
    let below = of(bench.events_page("ann", ask(Some("/d"), &[])));
    assert_eq!(below, ["file_published /d/f", "entry_renamed /g"], "also what left the folder");
    let all = of(bench.events_page("ann", ask(Some("/"), &[])));
    assert_eq!(all.len(), 3, "{all:?} has no node");
    let lost = of(bench.events_page("ann", ask(None, &[EventKind::NodeLost])));
    assert_eq!(lost, ["node_lost n2"]);
}
