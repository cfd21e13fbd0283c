//! Draws the state of `sector top` into a buffer: the sentence of health, the panes' names, one pane, and the keys. It
//! never changes what is shown, except which rows of it are on the screen.

mod detail;
mod grid;
mod jobs;
mod links;
mod nodes;
mod rows;
mod styles;
mod text;
mod transfers;
mod work;

use std::collections::BTreeSet;

use client::JobState;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
};
use terminal::show;

use self::{
    rows::{put, say},
    text::{in_two, width},
};
use super::{super::nodes::health_in_words, keys::HELP, model::Top, snapshot::Snapshot};
use crate::arguments::Pane;

/// Draws everything.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    buffer.reset();
    if area.width < LEAST_COLUMNS || area.height < LEAST_ROWS {
        let (columns, rows) = (area.width, area.height);
        let text = format!("too small: {columns} by {rows}, and {LEAST_COLUMNS} by {LEAST_ROWS} are needed; q leaves");
        return say(area, &text, buffer);
    }
    let health = health_lines(top, usize::from(area.width));
    let parts = [Constraint::Length(health.len() as u16), Constraint::Length(1), Constraint::Length(1)];
    let parts = [&parts[..], &[Constraint::Fill(1), Constraint::Length(1)]].concat();
    let [head, facts, panes, body, foot] = area.layout(&Layout::vertical(parts));
    let state = top.last.as_ref().map_or("ok", |snapshot| snapshot.health.status);
    let style = if state == "ok" { styles::strong() } else { styles::trouble(top.look).patch(styles::strong()) };
    for (row, line) in head.rows().zip(&health) {
        put(row, line, style, buffer);
    }
    if let Some(snapshot) = &top.last {
        put(facts, &facts_line(snapshot, usize::from(area.width)), styles::plain(), buffer);
    }
    put(panes, &panes_line(top, usize::from(area.width)), styles::strong(), buffer);
    draw_body(top, body, buffer);
    // What is old is greyed, and the line that says so is not.
    if top.failure.is_some() {
        let old = Rect { y: head.y + 1, height: foot.y - head.y - 1, ..area };
        buffer.set_style(old, styles::stale(top.look));
    }
    put(foot, &foot_line(top), styles::plain(), buffer);
}

/// The columns of a screen that a text takes.
pub(super) fn columns_of(text: &str) -> usize {
    width(text)
}

fn draw_body(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    if top.is_help {
        for (row, (keys, what)) in area.rows().zip(HELP) {
            put(row, &format!("  {keys:<16}{what}"), styles::plain(), buffer);
        }
        return;
    }
    if top.last.is_none() {
        return say(area, "Waiting for the first state of the cloud …", buffer);
    }
    if top.detail.is_some() {
        return detail::draw(top, area, buffer);
    }
    match top.pane {
        Pane::Nodes => nodes::draw(top, area, buffer),
        Pane::Jobs => jobs::draw(top, area, buffer),
        Pane::Work => work::draw(top, area, buffer),
        Pane::Transfers => transfers::draw(top, area, buffer),
        Pane::Links => links::draw(top, area, buffer),
    }
}

/// The sentence of health, in two lines at most. While the master is away, it is that of an earlier time.
fn health_lines(top: &Top, columns: usize) -> Vec<String> {
    let health = top.last.as_ref().map(|snapshot| (health_in_words(&snapshot.health), snapshot.unix_millis));
    match (&top.failure, health) {
        (None, None) => vec!["the master is asked".into()],
        (None, Some((health, _))) => in_two(&health, columns),
        (Some(why), None) => vec![not_known(why)],
        (Some(why), Some((health, then))) => {
            vec![not_known(why), format!("at {}: {health}", show::time(then))]
        }
    }
}

fn not_known(why: &str) -> String {
    format!("not known now: {why}")
}

/// The cloud in figures: as many as fit.
fn facts_line(snapshot: &Snapshot, columns: usize) -> String {
    let up = snapshot.nodes.iter().filter(|node| node.view.state == "up").count();
    let sites: BTreeSet<_> = snapshot.nodes.iter().map(|node| &node.view.site).collect();
    let further = [
        show::count(sites.len(), "site"),
        format!("{} used", show::size(snapshot.health.used_bytes)),
        format!("{} free", show::size(snapshot.health.free_bytes)),
        show::time(snapshot.unix_millis),
    ];
    let mut line = format!("{up} of {} up", show::count(snapshot.nodes.len(), "node"));
    for fact in further {
        if width(&line) + width(&fact) + 2 <= columns {
            line = format!("{line}, {fact}");
        }
    }
    line
}

/// The names of the panes with their keys, and how much there is in each, where there is room for that. The one that is
/// shown is in brackets.
fn panes_line(top: &Top, columns: usize) -> String {
    let running = |snapshot: &Snapshot| snapshot.jobs.iter().filter(|job| job.state == JobState::Running).count();
    let known = top.last.as_deref();
    let line = |with_counts: bool| {
        let names = Pane::ALL.iter().enumerate().map(|(at, pane)| {
            let (name, count) = match pane {
                Pane::Nodes => ("nodes", known.map_or(0, |snapshot| snapshot.nodes.len())),
                Pane::Jobs => ("jobs", known.map_or(0, running)),
                Pane::Work => ("work", top.work.rows.len()),
                Pane::Transfers => ("waiting transfers", top.transfers.waiting as usize),
                Pane::Links => ("links", top.links.rows.len()),
            };
            let count = if with_counts { format!(" {count}") } else { String::new() };
            let key = if top.look.is_printed { String::new() } else { format!("{} ", at + 1) };
            if *pane == top.pane { format!("[{key}{name}{count}]") } else { format!(" {key}{name}{count} ") }
        });
        names.collect::<Vec<_>>().join(" ")
    };
    let whole = line(true);
    if width(whole.trim_end()) <= columns { whole } else { line(false) }
}

/// Which rows are on the screen, and the keys that matter here.
fn foot_line(top: &Top) -> String {
    let (shown, rows) = top.shown_rows();
    let place =
        if shown.len() == rows { String::new() } else { format!("{}-{} of {rows}", shown.start + 1, shown.end) };
    if top.look.is_printed {
        return place;
    }
    let keys = match (top.is_help, &top.detail, top.pane) {
        (true, ..) => "any key back",
        (false, Some(_), _) => "Esc back  left/right time",
        (false, None, Pane::Nodes) => "s sort  r reverse  Enter open",
        (false, None, Pane::Jobs) => "s sort  r reverse",
        (false, None, Pane::Work | Pane::Transfers | Pane::Links) => "",
    };
    ["q leave", "? keys", "Tab panes", keys, &place]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("  ")
}

/// What is drawn needs so much room: names, states and three bars beside each other.
const LEAST_COLUMNS: u16 = 60;
/// Ten rows of a pane, with the sentence of health.
const LEAST_ROWS: u16 = 16;
