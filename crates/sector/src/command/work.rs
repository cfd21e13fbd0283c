//! `work`: all background work of the cloud in one table. It never starts, stops or speeds up any of it.

use client::{Client, WorkItem, WorkRow, views::WorkView};
use terminal::{failure::Failure, show};

use crate::arguments::Global;

/// `sector work`.
pub(crate) async fn run(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let rows = cloud.work().await?;
    if global.json {
        return show::json(&rows.iter().map(WorkView::from).collect::<Vec<_>>());
    }
    let cells = |row: &WorkRow| {
        let view = WorkView::from(row);
        let fault = row.item.last_fault.as_ref();
        let fault = fault.map(|fault| format!("{} {}", show::time(fault.unix_millis), fault.message));
        let subject = if view.subject.is_empty() { "-".into() } else { view.subject };
        let next = or_dash(row.item.next_unix_millis.map(show::time));
        vec![view.at, view.work.into(), subject, view.state.into(), progress(&row.item), next, or_dash(fault)]
    };
    let head = ["at", "work", "of", "state", "progress", "next", "last error"];
    show::table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    Ok(())
}

/// How far it is, for people.
pub(super) fn progress(item: &WorkItem) -> String {
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

pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
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
