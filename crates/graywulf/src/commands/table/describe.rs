//! `sector table describe` and `list`: what tables are. It never reads a slice.

use client::{Client, SectorPath};
use serde::Serialize;
use terminal::{Failure, Failures, Global, show};

use crate::tables::{ColumnDescription, Layout, SliceDescription, TableFolder};

/// A table as JSON (contract: `table describe`).
#[derive(Serialize)]
pub(super) struct TableView<'table> {
    table: String,
    description: &'table str,
    rows: u64,
    bytes: u64,
    layout: &'table Layout,
    columns: &'table [ColumnDescription],
    slices: &'table [SliceDescription],
}

/// What is said of a table.
pub(super) fn view(table: &TableFolder) -> TableView<'_> {
    let TableFolder { path, description, .. } = table;
    TableView {
        table: path.to_string(),
        description: &description.description,
        rows: description.rows(),
        bytes: description.bytes(),
        layout: &description.layout,
        columns: &description.columns,
        slices: &description.slices,
    }
}

/// `sector table describe`.
pub(super) async fn run(cloud: &Client, path: &SectorPath, global: &Global) -> Result<(), Failure> {
    let table = TableFolder::open(cloud, path).await?;
    let view = view(&table);
    if global.json {
        return show::json(&view);
    }
    let slices = show::count(view.slices.len(), "slice");
    show::line(format!("{path}: {} rows in {slices} ({}), {}", view.rows, show::size(view.bytes), view.layout));
    if !view.description.is_empty() {
        show::line(view.description);
    }
    show::line("");
    let cells = |column: &ColumnDescription| {
        let ColumnDescription { name, column_type, unit, ucd, description } = column;
        [name, column_type, unit, ucd, description].map(Clone::clone).to_vec()
    };
    let rows: Vec<_> = view.columns.iter().map(cells).collect();
    show::table(&["column", "type", "unit", "ucd", "description"], &rows);
    let by = view.layout.columns().first().copied().unwrap_or_default();
    if !view.slices.is_empty() {
        show::line("");
        let shown = view.slices.iter().take(SLICES_SHOWN);
        let cells = |slice: &SliceDescription| {
            let (from, to) = slice.ranges.get(by).cloned().unwrap_or_default();
            vec![slice.file.clone(), slice.rows.to_string(), show::size(slice.bytes), from, to]
        };
        let rows: Vec<_> = shown.map(cells).collect();
        let (from, to) = (format!(" {by} from"), " to");
        let head =
            ["slice", " rows", " bytes", if by.is_empty() { "" } else { &from }, if by.is_empty() { "" } else { to }];
        show::table(&head, &rows);
        if view.slices.len() > SLICES_SHOWN {
            show::line(format!("… and {} more; --json has all", view.slices.len() - SLICES_SHOWN));
        }
    }
    Ok(())
}

/// `sector table list`.
pub(super) async fn list(cloud: &Client, folder: &SectorPath, global: &Global) -> Result<(), Failure> {
    let (found, unreadable) = TableFolder::all_below(cloud, folder).await?;
    let mut failures = Failures::default();
    unreadable.into_iter().for_each(|failure| failures.note(Err(failure)));
    if global.json {
        show::json(&found.iter().map(view).collect::<Vec<_>>())?;
    } else if !found.is_empty() {
        let cells = |table: &TableFolder| {
            let view = view(table);
            vec![
                view.table,
                view.rows.to_string(),
                view.slices.len().to_string(),
                show::size(view.bytes),
                view.layout.to_string(),
                view.description.to_owned(),
            ]
        };
        let rows: Vec<_> = found.iter().map(cells).collect();
        show::table(&["table", " rows", " slices", " bytes", "layout", "description"], &rows);
    }
    failures.into_result()
}

/// Slices that are shown to people.
const SLICES_SHOWN: usize = 20;
