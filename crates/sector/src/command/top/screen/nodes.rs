//! The pane of nodes: by site, each with its state in words and its load as bars. It never judges a load.

use bytesize::ByteSize;
use client::LoadMetric;
use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};

use super::{
    super::{
        super::{load::in_unit, nodes::state_in_words},
        model::Top,
        node_list::{NodeLine, NodeOrder, SiteSummary},
        snapshot::ObservedNode,
    },
    grid::{Cell, Column, Grid, MARK, mark},
    rows, styles,
    text::cut,
};

/// Draws the pane.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    let Some(snapshot) = &top.last else { return };
    let grid = Grid::new(&COLUMNS, area.width);
    let (head, body) = rows::head_and_body(area);
    let (order, is_reversed) = top.nodes.order();
    let by = NodeOrder::ALL.iter().position(|it| *it == order);
    grid.draw_head(head, by.map(|by| (by, is_reversed)), buffer);
    let window = top.nodes.cursor.window(top.nodes.lines().len(), usize::from(body.height));
    let chosen = (!top.look.is_printed).then_some(top.nodes.cursor.at());
    for (row, at) in body.rows().zip(window) {
        let is_chosen = chosen == Some(at);
        match &top.nodes.lines()[at] {
            NodeLine::Site(site) => draw_site(site, row, is_chosen, top, buffer),
            NodeLine::Node(at, _) => {
                let node = &snapshot.nodes[*at];
                let is_troubled = node.view.state != "up" || node.view.full || node.view.marks.failed > 0;
                let style = if is_troubled { styles::trouble(top.look) } else { styles::plain() };
                grid.draw_row(row, cells(node), is_chosen, style, buffer);
            }
        }
    }
}

fn draw_site(site: &SiteSummary, row: Rect, is_chosen: bool, top: &Top, buffer: &mut Buffer) {
    let SiteSummary { name, nodes, up, processor, received, sent, is_folded } = site;
    let fold = if *is_folded { '▸' } else { '▾' };
    let processor = processor.map_or_else(String::new, |share| format!(", processor {} %", (share + 5) / 10));
    let text =
        format!("{fold} {name}: {up} of {nodes} up{processor}, {}/s in, {}/s out", short(*received), short(*sent));
    let style = if up < nodes { styles::trouble(top.look) } else { styles::plain() };
    let text = cut(&text, usize::from(row.width.saturating_sub(MARK)));
    buffer.set_string(row.x + MARK, row.y, text, style.add_modifier(Modifier::BOLD));
    if is_chosen {
        mark(row, buffer);
    }
}

fn cells(node: &ObservedNode) -> Vec<Cell> {
    let number = |metric: LoadMetric| {
        let value = node.metric(metric);
        Cell::Text(value.map_or_else(|| "-".into(), |value| in_unit(metric.unit(), value)))
    };
    let rate = |metric| Cell::Text(node.metric(metric).map_or_else(|| "-".into(), short));
    vec![
        Cell::Text(node.view.id.clone()),
        Cell::Text(state_in_words(&node.view)),
        Cell::Share(node.share(LoadMetric::Processor)),
        Cell::Share(node.share(LoadMetric::Memory)),
        Cell::Share(node.share(LoadMetric::DiskBusy)),
        number(LoadMetric::DiskLatency),
        rate(LoadMetric::NetworkReceived),
        rate(LoadMetric::NetworkSent),
        number(LoadMetric::Spes),
        number(LoadMetric::Transfers),
    ]
}

/// A size in as few columns as it can have.
fn short(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec_short().to_string()
}

/// In the order of [`NodeOrder::ALL`]. All fit 80 columns, and all but the last-ranked 60.
const COLUMNS: [Column; 10] = [
    Column { title: "node", least: 11, most: 24, rank: 0, is_number: false },
    Column { title: "state", least: 8, most: 28, rank: 1, is_number: false },
    Column { title: "cpu", least: 6, most: 15, rank: 2, is_number: false },
    Column { title: "memory", least: 7, most: 15, rank: 2, is_number: false },
    Column { title: "disk", least: 6, most: 15, rank: 2, is_number: false },
    Column { title: "latency", least: 8, most: 9, rank: 6, is_number: true },
    Column { title: "in/s", least: 7, most: 7, rank: 3, is_number: true },
    Column { title: "out/s", least: 7, most: 7, rank: 3, is_number: true },
    Column { title: "SPEs", least: 5, most: 5, rank: 4, is_number: true },
    Column { title: "transfers", least: 6, most: 10, rank: 5, is_number: true },
];
