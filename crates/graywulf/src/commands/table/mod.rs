//! `sector table`: makes, fills, describes, lists, drops and checks tables. It never runs a query.

mod create;
mod describe;
mod load;
mod sources;

use client::{Client, SectorPath};
use terminal::{Failure, Global, show};

use crate::{
    arguments::{OneTable, Table},
    engine::Engine,
    slices::check,
    tables::{DESCRIPTION_NAME, SLICES_NAME, TableFolder},
};

/// `sector table`.
pub(super) async fn run(cloud: &Client, command: Table, global: &Global) -> Result<(), Failure> {
    match command {
        Table::Create(arguments) => create::run(cloud, &arguments, global).await,
        Table::Load(arguments) => load::run(cloud, &arguments, global).await,
        Table::Describe(OneTable { table }) => describe::run(cloud, &SectorPath::parse(&table)?, global).await,
        Table::List(arguments) => describe::list(cloud, &SectorPath::parse(&arguments.folder)?, global).await,
        Table::Drop(OneTable { table }) => drop_table(cloud, &SectorPath::parse(&table)?, global).await,
        Table::Check(OneTable { table }) => check_table(cloud, &SectorPath::parse(&table)?, global).await,
    }
}

/// Removes a table. A folder that has anything else is left alone.
async fn drop_table(cloud: &Client, path: &SectorPath, global: &Global) -> Result<(), Failure> {
    let table = TableFolder::open(cloud, path).await?;
    let own = [DESCRIPTION_NAME, SLICES_NAME];
    let others = cloud.list(path).await?;
    let other = others.iter().find(|entry| !entry.path.name().is_some_and(|name| own.contains(&name)));
    if let Some(other) = other {
        let message = format!("`{}` is no part of the table: move it away first", other.path);
        return Err(Failure::new(client::Reason::NotEmpty, message).about(&other.path));
    }
    cloud.remove(path, true).await?;
    if !global.quiet && !global.json {
        let rows = table.description.rows();
        show::line(format!("dropped {path}: {rows} rows, which are in the trash as long as its policy says"));
    }
    Ok(())
}

async fn check_table(cloud: &Client, path: &SectorPath, global: &Global) -> Result<(), Failure> {
    let table = TableFolder::open(cloud, path).await?;
    let settings = sources::plain_settings()?;
    let found = check(cloud, &Engine::new(cloud, &settings)?, &table).await?;
    if global.json {
        show::json(&serde_json::json!({ "table": path.to_string(), "problems": found }))?;
    } else {
        for finding in &found {
            show::line(format!("{} {}", finding.path, finding.problem));
        }
        let slices = table.description.slices.len();
        if found.is_empty() && !global.quiet {
            show::line(format!("{path}: {} as described", show::count(slices, "slice")));
        }
    }
    match found.len() {
        0 => Ok(()),
        problems => {
            let message = format!("`{path}`: {}", show::count(problems, "problem"));
            let failure = Failure::new(client::Reason::Corrupt, message);
            Err(failure.about(path))
        }
    }
}
