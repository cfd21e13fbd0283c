//! `sector table create`: columns from a file, from the command line, or from both. It never loads a row.

use client::{Client, SectorPath};
use terminal::{Failure, Global, show};

use super::sources;
use crate::{
    arguments::Create,
    engine::Engine,
    tables::{ColumnDescription, Layout, TableDescription, TableFolder},
};

/// `sector table create`.
pub(super) async fn run(cloud: &Client, arguments: &Create, global: &Global) -> Result<(), Failure> {
    let path = SectorPath::parse(&arguments.table)?;
    let mut columns = Vec::new();
    if let Some(like) = &arguments.like {
        let files = sources::expand(cloud, std::slice::from_ref(like)).await?;
        let [file] = &files[..] else {
            return Err(Failure::usage(format!("--like takes one file, and {} match", files.len())));
        };
        columns = file.columns(&Engine::new(cloud, &sources::plain_settings()?)?).await?;
    }
    for column in &arguments.column {
        place(&mut columns, column);
    }
    let layout = layout(arguments)?;
    if let Layout::Zones { ra, dec, .. } = &layout {
        for (name, ucd) in [(ra, "pos.eq.ra;meta.main"), (dec, "pos.eq.dec;meta.main")] {
            say_position(&mut columns, name, ucd);
        }
    }
    let mut description =
        TableDescription::new(columns, layout).map_err(|wrong| Failure::usage(wrong.to_string()).about(&path))?;
    description.description = arguments.description.clone().unwrap_or_default();
    let table = TableFolder::create(cloud, &path, description).await?;
    if global.json {
        return show::json(&super::describe::view(&table));
    }
    if !global.quiet {
        let columns = show::count(table.description.columns.len(), "column");
        show::line(format!("made {path}: {columns}, {}", table.description.layout));
    }
    Ok(())
}

/// A column that zones are made of is an angle in degrees, and the position of its row, unless it says something else.
fn say_position(columns: &mut [ColumnDescription], name: &str, ucd: &str) {
    if let Some(column) = columns.iter_mut().find(|column| column.name == name) {
        if column.unit.is_empty() {
            column.unit = "deg".into();
        }
        if column.ucd.is_empty() {
            column.ucd = ucd.into();
        }
    }
}

/// Puts a column in the place of the one with its name, else at the end. What it does not say stays.
fn place(columns: &mut Vec<ColumnDescription>, column: &ColumnDescription) {
    let Some(known) = columns.iter_mut().find(|known| known.name.eq_ignore_ascii_case(&column.name)) else {
        return columns.push(column.clone());
    };
    let said = |now: &String, before: &String| if now.is_empty() { before.clone() } else { now.clone() };
    *known = ColumnDescription {
        name: known.name.clone(),
        column_type: said(&column.column_type, &known.column_type),
        unit: said(&column.unit, &known.unit),
        ucd: said(&column.ucd, &known.ucd),
        description: known.description.clone(),
    };
}

fn layout(arguments: &Create) -> Result<Layout, Failure> {
    match (&arguments.key[..], &arguments.zones[..]) {
        ([], []) => Ok(Layout::Unordered),
        ([], [ra, dec]) => {
            let height_arcsec = arguments.zone_height;
            if !(ZONE_ARCSEC_MIN..=ZONE_ARCSEC_MAX).contains(&height_arcsec) {
                let message = format!("--zone-height: from {ZONE_ARCSEC_MIN} to {ZONE_ARCSEC_MAX} arc seconds");
                return Err(Failure::usage(message));
            }
            Ok(Layout::Zones { ra: ra.trim().into(), dec: dec.trim().into(), height_arcsec })
        }
        ([], _) => Err(Failure::usage("--zones takes two columns: RA,DEC")),
        (key, _) => Ok(Layout::Key(key.iter().map(|column| column.trim().to_owned()).collect())),
    }
}

const ZONE_ARCSEC_MIN: f64 = 1.0;
const ZONE_ARCSEC_MAX: f64 = 3600.0 * 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_the_command_line_wins_over_the_files() {
        let column = |name: &str, column_type: &str, unit: &str| ColumnDescription {
            name: name.into(),
            column_type: column_type.into(),
            unit: unit.into(),
            ucd: String::new(),
            description: "of the file".into(),
        };
        let mut columns = vec![column("RA", "text", "deg"), column("dec", "double", "")];
        place(&mut columns, &column("ra", "double", ""));
        place(&mut columns, &column("mag", "real", "mag"));
        assert_eq!(columns, [column("RA", "double", "deg"), column("dec", "double", ""), column("mag", "real", "mag")]);
    }
}
