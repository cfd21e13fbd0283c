//! `mark`: what is marked as slow, and what an administrator decides about it. It never judges: the master does.

use client::{Client, views::MarkView};
use protocol::message::marks::MarkChange;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, MarkCommand, MarkDecision, MarkedThing};

/// `sector mark`.
pub(crate) async fn run(cloud: &Client, command: MarkCommand, global: &Global) -> Result<(), Failure> {
    match command {
        MarkCommand::List => list(cloud, global).await,
        MarkCommand::Add(MarkDecision { thing, reason }) => change(cloud, &thing, MarkChange::Add(reason)).await,
        MarkCommand::Clear(thing) => change(cloud, &thing, MarkChange::Clear).await,
        MarkCommand::Ignore(MarkDecision { thing, reason }) => change(cloud, &thing, MarkChange::Ignore(reason)).await,
    }
}

async fn change(cloud: &Client, thing: &MarkedThing, change: MarkChange) -> Result<(), Failure> {
    let subject = thing.subject().map_err(Failure::usage)?;
    Ok(cloud.change_mark(subject, change).await?)
}

async fn list(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let views: Vec<_> = cloud.marks().await?.iter().map(MarkView::from).collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|mark| {
            let until = mark.until.map_or_else(|| "cleared".into(), |until| show::time_of(&until));
            let by = mark.by.unwrap_or_else(|| "measured".into());
            vec![mark.what, mark.state.to_owned(), by, show::time_of(&mark.since), until, mark.reason]
        })
        .collect();
    show::table(&["what", "state", "by", "since", "until", "why"], &rows);
    Ok(())
}
