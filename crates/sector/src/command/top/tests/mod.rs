//! What a person sees of snapshots and keys: whole small screens, and what must hold of large ones. No terminal is
//! needed, and none is touched.

#![allow(clippy::unwrap_used)]

pub(super) mod cloud;

use client::{JobId, JobState, LoadSeries, Mark, MarkState, MarkSubject, NodeState, WorkFault, WorkKind, WorkState};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier},
};
use terminal::show;

use self::cloud::{Observed, job, link, measured, sample, work};
use super::{
    keys::Input,
    model::{Look, Top},
    printed, screen,
};
use crate::arguments::Pane;

/// A screen that has seen this.
fn top(observed: &Observed, pane: Pane) -> Top {
    let mut top = Top::new(pane, Look::default());
    top.handle_answer(observed.answer());
    top
}

fn lines(top: &mut Top, columns: u16, rows: u16) -> Vec<String> {
    printed(top, columns, rows)
}

fn drawn(top: &mut Top) -> Buffer {
    let area = Rect::new(0, 0, 80, 20);
    let mut buffer = Buffer::empty(area);
    screen::draw(top, area, &mut buffer);
    buffer
}

/// The line that holds this.
fn line_with(lines: &[String], part: &str) -> String {
    lines.iter().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {lines:#?}")).clone()
}

#[test]
fn the_nodes_of_each_site_are_on_the_smallest_screen_with_states_in_words() {
    let mut observed = Observed::of_nodes(3, 2);
    observed.nodes[1].0.state = NodeState::Lost;
    observed.nodes[1].1 = None;
    observed.health.reasons =
        vec!["node-2 is lost: start it again, or have its files copied with `sector node remove`".into()];
    let seen = lines(&mut top(&observed, Pane::Nodes), 60, 20);
    let expected = "\
warning: node-2 is lost: start it again, or have its files
copied with `sector node remove`
2 of 3 nodes up, 2 sites, 3.0 GiB used, 5.0 GiB free
[1 nodes]  2 jobs   3 work   4 waiting transfers   5 links
  ▼node       state    cpu    memory  disk      in/s   out/s
> ▾ site-1: 2 of 2 up, processor 2 %, 6.0M/s in, 2.0M/s out
  node-1      up       ▏  1 % ▌  25 % ▌ 50 %    3.0M    1.0M
  node-3      up       ▏  3 % ▌  25 % ▌ 50 %    3.0M    1.0M
  ▾ site-2: 0 of 1 up, 0B/s in, 0B/s out
  node-2      lost          -       -      -       -       -";
    assert_eq!(seen[..10].join("\n"), expected, "{seen:#?}");
    assert_eq!(seen.last().unwrap(), "q leave  ? keys  Tab panes  s sort  r reverse  Enter open");
    assert_eq!(seen.len(), 20);
}

#[test]
fn a_wide_screen_shows_every_metric_and_the_bars_grow() {
    let seen = lines(&mut top(&Observed::of_nodes(1, 1), Pane::Nodes), 120, 20);
    let row = line_with(&seen, "  node-1");
    for part in ["25 %", "50 %", "1.5 ms", "3.0M", "1.0M", "██"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert!(row.ends_with('1') && line_with(&seen, "latency").contains("SPEs"), "{seen:#?}");
}

#[test]
fn an_order_is_that_of_its_column_and_the_chosen_node_stays_chosen() {
    let mut top = top(&Observed::of_nodes(5, 1), Pane::Nodes);
    let names = |top: &mut Top| -> Vec<String> {
        let seen = lines(top, 80, 20);
        let names = seen.iter().filter(|line| line.get(1..).is_some_and(|line| line.starts_with(" node-")));
        names.map(|line| line[..8].to_owned()).collect()
    };
    top.handle_input(Input::Step(1));
    assert_eq!(names(&mut top), ["> node-1", "  node-2", "  node-3", "  node-4", "  node-5"]);
    top.handle_input(Input::Order(2));
    assert_eq!(names(&mut top), ["  node-5", "  node-4", "  node-3", "  node-2", "> node-1"], "the busiest first");
    assert!(line_with(&lines(&mut top, 80, 20), "state").contains("▼cpu"));
    top.handle_input(Input::Reverse);
    assert_eq!(names(&mut top)[0], "> node-1");
    assert!(line_with(&lines(&mut top, 80, 20), "state").contains("▲cpu"));
    let mut busier = Observed::of_nodes(5, 1);
    busier.nodes[0].1 = Some(sample(99));
    top.handle_answer(busier.answer());
    assert_eq!(names(&mut top)[4], "> node-1", "it is busier now, and still chosen");
}

#[test]
fn a_site_is_folded_and_its_nodes_still_count() {
    let mut top = top(&Observed::of_nodes(4, 2), Pane::Nodes);
    top.handle_input(Input::Open);
    let seen = lines(&mut top, 80, 20);
    assert!(line_with(&seen, "site-1").starts_with("> ▸ site-1: 2 of 2 up"));
    assert!(!seen.iter().any(|line| line.contains("node-1")) && seen.iter().any(|line| line.contains("node-2")));
    top.handle_input(Input::Open);
    line_with(&lines(&mut top, 80, 20), "node-1");
}

#[test]
fn of_a_thousand_nodes_no_more_rows_are_made_than_the_screen_has() {
    let mut top = top(&Observed::of_nodes(1_000, 10), Pane::Nodes);
    drawn(&mut top);
    assert_eq!(top.shown_rows(), (0..15, 1_010), "a row for each site too");
    top.handle_input(Input::Last);
    let seen = lines(&mut top, 80, 20);
    assert_eq!(top.shown_rows(), (995..1_010, 1_010));
    assert!(seen[18].starts_with("> node-"), "the last row is chosen: {seen:#?}");
    assert!(seen[19].ends_with("996-1010 of 1010"), "{}", seen[19]);
    top.handle_input(Input::Page(-1));
    drawn(&mut top);
    assert_eq!(top.shown_rows().0, 995..1_010, "the chosen row went up within the screen");
    top.handle_input(Input::Page(-1));
    drawn(&mut top);
    assert_eq!(top.shown_rows().0, 981..996);
}

#[test]
fn one_node_is_shown_over_time_and_escape_leads_back() {
    let mut top = top(&Observed::of_nodes(2, 1), Pane::Nodes);
    assert_eq!(top.wanted_series(), None);
    top.handle_input(Input::Step(2));
    top.handle_input(Input::Open);
    let question = top.wanted_series().unwrap();
    assert_eq!((question.node.as_str(), question.seconds), ("node-2", 600));
    assert!(line_with(&lines(&mut top, 80, 24), "processor   ").ends_with('-'), "nothing is known yet");
    let Ok(mut snapshot) = Observed::of_nodes(2, 1).answer() else { unreachable!() };
    let samples = vec![Some(sample(0)), None, Some(sample(70)), Some(sample(35))];
    snapshot.series = Some((question, LoadSeries { unix_millis: 1, sample_seconds: 10, samples }));
    top.handle_answer(Ok(snapshot));
    let seen = lines(&mut top, 80, 24);
    let row = line_with(&seen, "processor   ");
    assert!(row.contains(" 35 % ") && row.contains(" 70 % ") && row.ends_with("▁ █▅"), "{row}");
    assert!(line_with(&seen, "node-2: up; over the last 10 minutes").starts_with("> "));
    top.handle_input(Input::Span(-1));
    assert_eq!(top.wanted_series().unwrap().seconds, 60);
    let seen = lines(&mut top, 80, 24);
    assert!(!line_with(&seen, "processor   ").contains("70 %"), "that was of another time: {seen:#?}");
    top.handle_answer(Observed::of_nodes(1, 1).answer());
    line_with(&lines(&mut top, 80, 24), "node-2 is no node of the cloud any more");
    top.handle_input(Input::Back);
    line_with(&lines(&mut top, 80, 24), "site-1: 1 of 1 up");
}

#[test]
fn running_jobs_come_first_with_progress_rate_and_local_share() {
    let mut observed = Observed::empty();
    observed.jobs = vec![job(2, JobState::Failed, 5 << 20), job(1, JobState::Running, 0)];
    let mut top = top(&observed, Pane::Jobs);
    observed.jobs[1] = job(1, JobState::Running, 8 << 20);
    observed.unix_millis += 2_000;
    top.handle_answer(observed.answer());
    let seen = lines(&mut top, 120, 20);
    let (running, failed) = (seen.iter().position(|line| line.contains("running")), line_with(&seen, "failed"));
    assert!(running < seen.iter().position(|line| *line == failed), "{seen:#?}");
    let running = line_with(&seen, "running");
    for part in ["words over /text", "alice", "50 %", "4.0 MiB/s", "80 %"] {
        assert!(running.contains(part), "{part}: {running}");
    }
    assert!(!failed.contains("MiB/s"), "a job that has ended has no rate: {failed}");
    let narrow = line_with(&lines(&mut top, 60, 20), "running");
    assert!(narrow.contains("50 %") && narrow.contains("4.0 MiB/s") && narrow.contains("80 %"), "{narrow}");
    top.handle_input(Input::Order(-1));
    let seen = lines(&mut top, 120, 20);
    assert!(
        seen.iter().position(|line| line.contains("failed")) < seen.iter().position(|line| line.contains("running"))
    );
}

#[test]
fn a_job_stays_chosen_when_a_newer_one_comes() {
    let mut observed = Observed::empty();
    observed.jobs = vec![job(7, JobState::Done, 0), job(6, JobState::Done, 0)];
    let mut top = top(&observed, Pane::Jobs);
    top.handle_input(Input::Step(1));
    observed.jobs.insert(0, job(8, JobState::Running, 0));
    top.handle_answer(observed.answer());
    let seen = lines(&mut top, 160, 20);
    assert!(line_with(&seen, &JobId(6).to_string()).starts_with('>'), "{seen:#?}");
}

#[test]
fn work_that_fails_comes_first_and_what_is_idle_is_only_counted() {
    let mut observed = Observed::empty();
    let mut failing = work(WorkKind::Mirror, WorkState::Failing);
    failing.item.last_fault = Some(WorkFault::new(0, "node-2 refused\nit"));
    let running = work(WorkKind::Repair, WorkState::Running);
    observed.work = Some(vec![work(WorkKind::Reconcile, WorkState::Idle), running, failing]);
    let mut top = top(&observed, Pane::Work);
    let seen = lines(&mut top, 80, 20);
    let at = |part: &str| seen.iter().position(|line| line.contains(part));
    assert!(at("failing").unwrap() < at("running").unwrap() && at("reconcile").is_none(), "{seen:#?}");
    assert!(line_with(&seen, "failing").contains("node-2 refused"), "{seen:#?}");
    line_with(&seen, "1 further piece idle or off");
    observed.work = None;
    top.handle_answer(observed.answer());
    line_with(&lines(&mut top, 80, 20), "shown to administrators only");
}

#[test]
fn transfers_that_wait_for_a_limit_come_first_and_are_counted() {
    let mut observed = Observed::of_nodes(2, 2);
    observed.nodes[0].0.links = vec![link("site-2", 5, 0), link("site-3", 0, 0)];
    observed.nodes[1].0.links = vec![link("site-1", 3, 2)];
    let mut top = top(&observed, Pane::Transfers);
    let seen = lines(&mut top, 160, 20);
    line_with(&seen, "[4 waiting transfers 2]");
    let rows: Vec<_> = seen.iter().filter(|line| line.contains("10 Mbit/s")).collect();
    assert!(rows.len() == 2 && rows[0].contains("waits") && rows[1].contains("moves"), "{seen:#?}");
    assert!(rows[0].contains("3 transfers are held to 10 Mbit/s together"), "{}", rows[0]);
}

#[test]
fn slow_links_come_first_with_the_reason_and_then_those_that_carry_most() {
    let mut observed = Observed::of_nodes(2, 2);
    let carried = [("a", "b", 5), ("b", "a", 7), ("a", "c", 900), ("a", "a", 9_000)];
    observed.links = carried.map(|(from, to, rate)| measured(from, to, rate)).to_vec();
    observed.marks = vec![Mark {
        subject: MarkSubject::link("b", "a"),
        state: MarkState::Slow,
        by: None,
        reason: "the link from a to b carries 5 B/s when it is full".into(),
        since_unix_millis: 0,
        expires_unix_millis: Some(1),
    }];
    let mut top = top(&observed, Pane::Links);
    let seen = lines(&mut top, 160, 20);
    line_with(&seen, "[5 links 3]");
    let rows: Vec<_> = seen.iter().filter(|line| line.contains("16.0 ms")).collect();
    assert!(rows.len() == 3 && rows[0].contains(" 7 B/s") && rows[0].contains("a to b carries 5 B/s"), "{seen:#?}");
    assert!(rows[1].contains("slow") && rows[2].contains("ok") && rows[2].contains("900"), "{seen:#?}");
    observed.marks[0].state = MarkState::Ignored;
    top.handle_answer(observed.answer());
    assert!(!lines(&mut top, 160, 20).iter().any(|line| line.contains("slow")), "an administrator knows better");
}

#[test]
fn a_lost_master_is_said_and_the_last_state_is_kept_grey_until_it_is_back() {
    let observed = Observed::of_nodes(1, 1);
    let mut top = Top::new(Pane::Nodes, Look { has_colour: true, is_printed: false });
    top.handle_answer(Err("the master does not answer".into()));
    let seen = lines(&mut top, 80, 20);
    assert_eq!(seen[0], "not known now: the master does not answer");
    top.handle_answer(observed.answer());
    assert!(!drawn(&mut top)[(2, 4)].modifier.contains(Modifier::DIM));
    top.handle_answer(Err("the master does not answer".into()));
    let seen = lines(&mut top, 80, 20);
    assert_eq!(seen[0], "not known now: the master does not answer");
    let at = show::time(1_700_000_000_000);
    assert_eq!(seen[1], format!("at {at}: ok: every file has its copies and every node is up"));
    let node = seen.iter().position(|line| line.contains("  node-1")).unwrap() as u16;
    let cells = drawn(&mut top);
    assert!(cells[(2, node)].modifier.contains(Modifier::DIM) && cells[(2, node)].fg == Color::DarkGray);
    assert!(!cells[(0, 0)].modifier.contains(Modifier::DIM), "what is true now is not grey");
    top.handle_answer(observed.answer());
    assert!(lines(&mut top, 80, 20)[0].starts_with("ok: "));
}

#[test]
fn without_colours_no_cell_has_one() {
    let mut observed = Observed::of_nodes(2, 1);
    observed.nodes[0].0.state = NodeState::Lost;
    observed.health.reasons = vec!["a".into()];
    let has_colour =
        |top: &mut Top| drawn(top).content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    let mut plain = top(&observed, Pane::Nodes);
    plain.handle_answer(Err("away".into()));
    assert!(!has_colour(&mut plain));
    let mut coloured = Top::new(Pane::Nodes, Look { has_colour: true, is_printed: false });
    coloured.handle_answer(observed.answer());
    assert!(has_colour(&mut coloured), "the same state has colours otherwise");
}

#[test]
fn what_others_have_written_commands_no_terminal_and_moves_no_column() {
    let mut observed = Observed::empty();
    let mut evil = job(1, JobState::Running, 0);
    evil.title = "\u{1b}]0;evil\u{7}日本語\n\t\u{1b}[2J".into();
    observed.jobs = vec![evil];
    observed.health.reasons = vec!["\u{1b}[31m".into()];
    let mut top = top(&observed, Pane::Jobs);
    let seen = lines(&mut top, 120, 20);
    assert!(!seen.iter().any(|line| line.contains(char::is_control)), "{seen:#?}");
    let row = line_with(&seen, "\u{fffd}]0;evil\u{fffd}日本語");
    assert!(row.contains("alice"), "{row}");
    let (head, user) = (line_with(&seen, "user"), row.find("alice").unwrap());
    let column = |line: &str, at: usize| ratatui::text::Span::raw(&line[..at]).width();
    assert_eq!(column(&head, head.find("user").unwrap()), column(&row, user), "{head}\n{row}");
}

#[test]
fn an_empty_cloud_has_empty_panes_and_a_small_terminal_a_sentence() {
    let mut top = top(&Observed::empty(), Pane::Nodes);
    for pane in Pane::ALL {
        top.handle_input(Input::Show(pane));
        let seen = lines(&mut top, 80, 20);
        assert!(seen[0].starts_with("ok: ") && seen[1].starts_with("0 of 0 nodes up, 0 sites"), "{seen:#?}");
        for input in [Input::Step(1), Input::Page(1), Input::Last, Input::Open, Input::Order(1), Input::Reverse] {
            top.handle_input(input);
        }
    }
    line_with(&lines(&mut top, 80, 20), "No file went from one site to another");
    assert!(lines(&mut top, 50, 10)[0].contains("too small: 50 by 10"));
    for size in [(0, 0), (1, 1), (60, 0), (0, 20), (3, 3)] {
        lines(&mut top, size.0, size.1);
    }
}

#[test]
fn keys_turn_the_panes_show_the_keys_and_leave() {
    let mut top = top(&Observed::of_nodes(1, 1), Pane::Nodes);
    top.handle_input(Input::Turn(-1));
    line_with(&lines(&mut top, 80, 20), "[5 links 0]");
    top.handle_input(Input::Turn(1));
    line_with(&lines(&mut top, 80, 20), "[1 nodes 1]");
    top.handle_input(Input::Help);
    let seen = lines(&mut top, 60, 20);
    assert!(
        line_with(&seen, "q, Ctrl-C").ends_with("leave") && !seen.iter().any(|line| line.contains('…')),
        "{seen:#?}"
    );
    top.handle_input(Input::Step(1));
    line_with(&lines(&mut top, 80, 20), "node-1");
    assert!(!top.is_over());
    top.handle_input(Input::Leave);
    assert!(top.is_over());
}

#[test]
fn what_is_printed_names_no_keys() {
    let mut top = Top::new(Pane::Nodes, Look { has_colour: false, is_printed: true });
    top.handle_answer(Observed::of_nodes(1, 1).answer());
    let seen = lines(&mut top, 80, 40);
    assert_eq!(seen.len(), 6, "{seen:#?}");
    assert!(seen[2].starts_with("[nodes 1]") && !seen.iter().any(|line| line.contains('>') || line.contains("leave")));
    let mut many = Top::new(Pane::Nodes, Look { has_colour: false, is_printed: true });
    many.handle_answer(Observed::of_nodes(100, 1).answer());
    assert_eq!(lines(&mut many, 80, 40).last().unwrap(), "1-35 of 101");
}
