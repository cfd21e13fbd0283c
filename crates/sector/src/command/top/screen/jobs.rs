//! The pane of jobs: how far each is, how fast it reads, and how much of it stays where its bytes lie. It never starts
//! or stops one.

use client::{JobRecord, JobState};
use ratatui::{buffer::Buffer, layout::Rect};
use terminal::show;

use super::{
    super::{
        super::work::or_dash,
        job_list::{JobOrder, local, progress, segments},
        job_rates::{JobRates, bytes_read},
        model::Top,
    },
    grid::{Cell, Column, Grid},
    rows, styles,
};

/// Draws the pane.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    let Some(snapshot) = &top.last else { return };
    if snapshot.jobs.is_empty() {
        return rows::say(area, "There is no job yet. `sector run` starts one.", buffer);
    }
    let grid = Grid::new(&COLUMNS, area.width);
    let (head, body) = rows::head_and_body(area);
    let (order, is_reversed) = top.jobs.order();
    grid.draw_head(head, ORDERS.iter().position(|it| *it == Some(order)).map(|by| (by, is_reversed)), buffer);
    let window = top.jobs.cursor.window(top.jobs.rows().len(), usize::from(body.height));
    let chosen = (!top.look.is_printed).then_some(top.jobs.cursor.at());
    for (row, at) in body.rows().zip(window) {
        let job = &snapshot.jobs[top.jobs.rows()[at]];
        let is_troubled = matches!(job.state, JobState::Failed | JobState::Lost);
        let style = if is_troubled { styles::trouble(top.look) } else { styles::plain() };
        grid.draw_row(row, cells(job, &top.rates), chosen == Some(at), style, buffer);
    }
}

fn cells(job: &JobRecord, rates: &JobRates) -> Vec<Cell> {
    let (done, all) = segments(job);
    // The rate of a job that has ended would be that of nothing.
    let rate = rates.of(job.job).filter(|_| job.state == JobState::Running);
    let percent = local(job).map(|share| format!("{} %", (share + 5) / 10));
    vec![
        Cell::Text(job.state.as_str().into()),
        Cell::Text(job.title.clone()),
        Cell::Text(job.user.to_string()),
        Cell::Share(Some(progress(job))),
        Cell::Text(format!("{done}/{all}")),
        Cell::Text(or_dash(rate.map(|rate| format!("{}/s", show::size(rate))))),
        Cell::Text(or_dash(percent)),
        Cell::Text(show::size(bytes_read(job))),
        Cell::Text(show::time(job.started_unix_millis)),
        Cell::Text(job.job.to_string()),
    ]
}

const COLUMNS: [Column; 10] = [
    Column { title: "state", least: 9, most: 9, rank: 0, is_number: false },
    Column { title: "what", least: 12, most: 200, rank: 0, is_number: false },
    Column { title: "user", least: 7, most: 12, rank: 3, is_number: false },
    Column { title: "progress", least: 10, most: 16, rank: 0, is_number: false },
    Column { title: "segments", least: 9, most: 13, rank: 4, is_number: true },
    Column { title: "rate", least: 12, most: 12, rank: 1, is_number: true },
    Column { title: "local", least: 6, most: 6, rank: 2, is_number: true },
    Column { title: "read", least: 10, most: 10, rank: 5, is_number: true },
    Column { title: "started", least: 20, most: 20, rank: 6, is_number: false },
    Column { title: "id", least: 16, most: 16, rank: 7, is_number: false },
];
/// What each column is sorted by.
const ORDERS: [Option<JobOrder>; 10] = [
    Some(JobOrder::State),
    None,
    Some(JobOrder::User),
    Some(JobOrder::Progress),
    None,
    Some(JobOrder::Rate),
    Some(JobOrder::Local),
    None,
    Some(JobOrder::Started),
    None,
];
