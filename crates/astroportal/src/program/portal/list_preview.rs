//! What the page shows of a list before it becomes a job: its first rows, each with its image, and what is wrong with
//! others. Each is cut by the words of a manifest. It never keeps anything.

use std::sync::Arc;

use astroportal::tuples::{ManifestRow, Tuple};
use axum::{
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use dali::{DaliRequest, typed};
use serde::Serialize;
use vo::Fault;

use super::{
    Portal,
    cut_order::{CutFormat, CutOrder},
    index_cache, soda, tuple_job,
};
use crate::nearest_images::NearestImages;

/// The answer (contract: what the page reads).
#[derive(Debug, Serialize)]
struct ListView {
    /// Rows of the list that make sense.
    rows: usize,
    /// Those that make none, in all.
    refused: usize,
    /// The first of each, those that make no sense and those that no image has, in their order.
    first: Vec<ListRow>,
}

#[derive(Debug, Serialize)]
struct ListRow {
    /// Its number in the list, from 1.
    tuple: u64,
    /// The image; empty if there is none.
    path: String,
    /// The part of it.
    selection: String,
    /// The name of the file to make.
    name: String,
    /// What is wrong with it.
    problem: Option<String>,
}

/// `/portal/list`: the list is in the form as `TUPLES`.
pub(super) async fn list(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    match read(&portal, request).await {
        Ok(view) => typed("application/json", serde_json::to_vec(&view).unwrap_or_default()),
        Err(fault) => dali::fault(&fault),
    }
}

async fn read(portal: &Portal, request: Request) -> Result<ListView, Fault> {
    let asked = DaliRequest::read(&portal.at, request).await?;
    let list = asked.parameters.one(soda::TUPLES)?.ok_or_else(|| Fault::Usage("the list is missing".into()))?;
    let mut list = tuple_job::read(list)?;
    let (rows, refused) = (list.tuples.len() + list.placed.len(), list.refused.len());
    list.refused.truncate(ROWS_SHOWN);
    list.tuples.truncate(ROWS_SHOWN);
    list.placed.truncate(ROWS_SHOWN);
    let mut first: Vec<_> = list.refused.into_iter().map(ListRow::from).collect();
    first.extend(list.tuples.into_iter().map(ListRow::from));
    if !list.placed.is_empty() {
        let index = index_cache::required(portal.index.as_deref())?;
        let (images, without) = index.find_images(&asked.caller.client, NearestImages::new(list.placed)).await?;
        first.extend(images.into_iter().flatten().map(ListRow::from));
        first.extend(without.into_iter().map(ListRow::from));
    }
    first.sort_by_key(|row| row.tuple);
    Ok(ListView { rows, refused, first })
}

/// `/portal/part`: `PATH`, and `PART` as manifests write it.
pub(super) async fn part(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let cut = async {
        let asked = DaliRequest::read(&portal.at, request).await?;
        let missing = || Fault::Usage("give PATH and PART".into());
        let path = asked.parameters.one("PATH")?.ok_or_else(missing)?.to_owned();
        let selection = asked.parameters.read_one("PART")?.ok_or_else(missing)?;
        let format = asked.parameters.one("RESPONSEFORMAT")?.map(CutFormat::parse).transpose()?.unwrap_or_default();
        let order = CutOrder { path, selection, band: None, time: None, polarisations: Vec::new(), format };
        Ok((format, portal.cutter.cut(&asked.caller.client, order).await?))
    };
    match cut.await {
        Ok((format, Some(cut))) => soda::file(format.media_type(), cut),
        Ok((_, None)) => StatusCode::NO_CONTENT.into_response(),
        Err(fault) => dali::fault(&fault),
    }
}

impl From<Tuple> for ListRow {
    fn from(tuple: Tuple) -> Self {
        let Tuple { number, path, selection, name } = tuple;
        Self { tuple: number, path, selection: selection.to_string(), name, problem: None }
    }
}

impl From<ManifestRow> for ListRow {
    fn from(row: ManifestRow) -> Self {
        let ManifestRow { tuple, path, selection, message, .. } = row;
        Self { tuple, path, selection, name: String::new(), problem: Some(message) }
    }
}

/// Rows that are shown of a list.
const ROWS_SHOWN: usize = 48;
