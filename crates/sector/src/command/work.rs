//! `work`: all background work of the cloud in one table. It never starts, stops or speeds up any of it.

use client::{Client, WorkItem, WorkRow};
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::Global;

/// `sector work`.
pub(crate) async fn run(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let rows = cloud.work().await?;
    if global.json {
        return show::json(&rows.iter().map(|row| WorkView::of(row, global.json)).collect::<Vec<_>>());
    }
    let cells = |row: &WorkRow| {
        let view = WorkView::of(row, global.json);
        let fault = match (view.last_error_time, view.last_error) {
            (Some(time), Some(error)) => format!("{time} {error}"),
            _ => "-".into(),
        };
        let subject = if view.subject.is_empty() { "-".into() } else { view.subject };
        vec![view.at, view.work.into(), subject, view.state.into(), progress(&row.item), or_dash(view.next), fault]
    };
    let head = ["at", "work", "of", "state", "progress", "next", "last error"];
    show::table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    Ok(())
}

/// How far it is, for people.
fn progress(item: &WorkItem) -> String {
    let unit = item.kind.unit();
    let amount = |count: u64| if unit == "bytes" { show::size(count) } else { count.to_string() };
    let noun = if unit == "bytes" { String::new() } else { format!(" {unit}") };
    match (item.done, item.left) {
        (Some(done), Some(left)) => format!("{} of {}{noun}", amount(done), amount(done.saturating_add(left))),
        (Some(done), None) => format!("{}{noun}", amount(done)),
        (None, Some(left)) => format!("{}{noun} left", amount(left)),
        (None, None) => "-".into(),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

#[derive(Serialize)]
struct WorkView {
    at: String,
    work: &'static str,
    subject: String,
    state: &'static str,
    done: Option<u64>,
    left: Option<u64>,
    unit: &'static str,
    last_error: Option<String>,
    last_error_time: Option<String>,
    next: Option<String>,
    reported: String,
}

impl WorkView {
    fn of(row: &WorkRow, exact: bool) -> Self {
        let WorkRow { node, unix_millis, item } = row;
        let time = |millis| show::time(millis, exact);
        Self {
            at: node.as_ref().map_or_else(|| "master".into(), ToString::to_string),
            work: item.kind.as_str(),
            subject: item.subject.clone(),
            state: item.state.as_str(),
            done: item.done,
            left: item.left,
            unit: item.kind.unit(),
            last_error: item.last_fault.as_ref().map(|fault| fault.message.clone()),
            last_error_time: item.last_fault.as_ref().map(|fault| time(fault.unix_millis)),
            next: item.next_unix_millis.map(time),
            reported: time(*unix_millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use client::WorkKind;

    use super::*;

    #[test]
    fn progress_is_told_as_far_as_it_is_known() {
        let of = |kind, done, left| progress(&WorkItem { done, left, ..WorkItem::idle(kind) });
        assert_eq!(of(WorkKind::Mirror, Some(3), Some(1)), "3 of 4 nodes");
        assert_eq!(of(WorkKind::Repair, Some(3), None), "3 files");
        assert_eq!(of(WorkKind::Drain, None, Some(7)), "7 slices left");
        assert_eq!(of(WorkKind::DiskWatch, None, None), "-");
        assert!(!of(WorkKind::Scrub, Some(1 << 20), Some(1 << 20)).contains("bytes"));
    }
}
