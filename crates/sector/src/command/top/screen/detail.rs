//! One node over time: what is known of it, and every metric as a curve. It never judges a metric.

use client::{LoadMetric, LoadSeries};
use ratatui::{buffer::Buffer, layout::Rect};
use terminal::show;

use super::{
    super::{
        super::{
            curves::curve,
            load::in_unit,
            nodes::{disks_in_words, held, state_in_words},
            work::or_dash,
        },
        model::{SPANS, Top},
        snapshot::ObservedNode,
    },
    grid::{Cell, Column, Grid, mark},
    rows, styles,
};

/// A line of it.
enum DetailLine {
    /// A sentence.
    Fact(String),
    /// The names of the columns below it.
    Head,
    /// A metric.
    Curve(LoadMetric),
}

/// Draws the node.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    let wanted = top.wanted_series();
    let (Some(snapshot), Some(detail)) = (&top.last, &mut top.detail) else { return };
    let Some(node) = snapshot.nodes.iter().find(|node| node.view.id == detail.node) else {
        return rows::say(area, &format!("{} is no node of the cloud any more. Esc leads back.", detail.node), buffer);
    };
    let series = snapshot.series.as_ref().filter(|(of, _)| Some(of) == wanted.as_ref()).map(|(_, series)| series);
    let mut lines: Vec<_> = facts(node, SPANS[detail.span].1).into_iter().map(DetailLine::Fact).collect();
    lines.push(DetailLine::Head);
    lines.extend(LoadMetric::ALL.map(DetailLine::Curve));
    detail.lines = lines.len();
    let grid = Grid::new(&COLUMNS, area.width);
    let window = detail.cursor.window(lines.len(), usize::from(area.height));
    for (row, at) in area.rows().zip(window) {
        match &lines[at] {
            DetailLine::Fact(text) => rows::say(row, text, buffer),
            DetailLine::Head => grid.draw_head(row, None, buffer),
            DetailLine::Curve(metric) => {
                let room = usize::from(grid.width(OVER_TIME));
                grid.draw_row(row, cells(*metric, series, room), false, styles::plain(), buffer);
            }
        }
        if at == detail.cursor.at() {
            mark(row, buffer);
        }
    }
}

/// What is known of a node, most important first.
fn facts(node: &ObservedNode, span: &str) -> Vec<String> {
    let view = &node.view;
    let mut facts = vec![
        format!("{}: {}; over the last {span} (left, right: less, more)", view.id, state_in_words(view)),
        format!(
            "{} of slices, {} free, {}, disks {}",
            show::size(view.used_bytes),
            show::size(view.free_bytes),
            show::count(view.slices as usize, "slice"),
            disks_in_words(&view.disks)
        ),
    ];
    for disk in view.disks.iter().filter(|disk| disk.state != "ok") {
        facts.push(format!("the disk {} is {}: {}", disk.folder, disk.state, disk.why));
    }
    facts.extend(view.links.iter().filter_map(|link| held(&view.id, link)));
    let machine = node.load.as_ref().map(|load| load.machine);
    let machine = machine.map_or_else(String::new, |machine| {
        format!(
            ", {}, {} of memory",
            show::count(machine.processors as usize, "processor"),
            show::size(machine.memory_bytes)
        )
    });
    facts.push(format!("{}/{}, {}, process {}{machine}", view.site, view.rack, view.address, view.pid));
    facts.push(format!("data in {}", view.data));
    facts
}

fn cells(metric: LoadMetric, series: Option<&LoadSeries>, room: usize) -> Vec<Cell> {
    let samples = series.map(|series| series.samples.as_slice()).unwrap_or_default();
    let values: Vec<_> = samples.iter().map(|sample| sample.map(|it| it.get(metric))).collect();
    let shown = |value: Option<u64>| or_dash(value.map(|value| in_unit(metric.unit(), value)));
    let texts = [
        metric.as_str().into(),
        shown(values.last().copied().flatten()),
        shown(values.iter().flatten().max().copied()),
        curve(&values, room),
    ];
    texts.map(Cell::Text).into()
}

/// The column of curves.
const OVER_TIME: usize = 3;
const COLUMNS: [Column; 4] = [
    Column { title: "metric", least: 16, most: 16, rank: 0, is_number: false },
    Column { title: "now", least: 12, most: 12, rank: 0, is_number: true },
    Column { title: "most", least: 12, most: 12, rank: 1, is_number: true },
    Column { title: "over time", least: 12, most: 60, rank: 0, is_number: false },
];
