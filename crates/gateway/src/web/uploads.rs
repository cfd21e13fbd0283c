//! Uploads piece by piece, which go on after a cut: the browser asks how many bytes arrived, and sends the rest. A
//! request never writes a file itself.

use axum::{
    Json,
    extract::{Path, Request},
    response::IntoResponse,
};
use client::{Condition, PutOptions, Reason, Refusal, views::EntryView};
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::{Answer, ApiError, document, done},
    ask::{Document, cloud_path},
    caller::Caller,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUpload {
    path: String,
    bytes: u64,
    #[serde(default)]
    replace: bool,
}

/// `POST /uploads`.
pub(crate) async fn begin(caller: Caller, Document(new): Document<NewUpload>) -> Answer {
    let session = caller.session()?;
    let path = cloud_path(&new.path)?;
    let condition = if new.replace { Condition::default() } else { Condition::Absent };
    let options = PutOptions { condition, bytes_expected: Some(new.bytes), ..PutOptions::default() };
    let writer = caller.client.open_writer(&path, options, false).await;
    let writer = writer.map_err(|error| ApiError::from(error).about(&path))?;
    let id = session.uploads().begin(writer, new.bytes)?;
    Ok((StatusCode::CREATED, Json(json!({"id": id, "offset": 0}))).into_response())
}

/// `GET /uploads/ID`.
pub(crate) async fn arrived(caller: Caller, Path(id): Path<String>) -> Answer {
    let upload = caller.session()?.uploads().get(&id)?;
    document(&json!({"offset": upload.arrived().await?, "bytes": upload.bytes, "path": upload.path.to_string()}))
}

/// `PATCH /uploads/ID`: bytes from `Upload-Offset` on.
pub(crate) async fn append(caller: Caller, Path(id): Path<String>, headers: HeaderMap, request: Request) -> Answer {
    let upload = caller.session()?.uploads().get(&id)?;
    let given = headers.get(OFFSET_HEADER).and_then(|at| at.to_str().ok()).and_then(|at| at.parse::<u64>().ok());
    let mut at =
        given.ok_or_else(|| ApiError::invalid(format!("the header `{OFFSET_HEADER}` says where the bytes go")))?;
    let offset = upload.arrived().await?;
    if at != offset {
        let error = Refusal::new(Reason::LeaseEnded, format!("{offset} bytes have arrived, not {at}; go on there"));
        let error = json!({"error": ApiError::from(error).view(), "offset": offset});
        return Ok((StatusCode::CONFLICT, Json(error)).into_response());
    }
    let mut body = request.into_body().into_data_stream();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| ApiError::invalid(format!("the upload broke off: {error}")))?;
        let next = at + piece.len() as u64;
        if next > upload.bytes {
            return Err(ApiError::invalid(format!("the upload was begun for {} bytes", upload.bytes)));
        }
        upload.write(at, piece).await?;
        at = next;
    }
    document(&json!({"offset": upload.arrived().await?}))
}

/// `POST /uploads/ID/finish`.
pub(crate) async fn finish(caller: Caller, Path(id): Path<String>) -> Answer {
    let uploads = caller.session()?.uploads();
    let upload = uploads.get(&id)?;
    let offset = upload.arrived().await?;
    if offset != upload.bytes {
        let message = format!("{offset} of {} bytes have arrived", upload.bytes);
        return Err(ApiError::from(Refusal::new(Reason::LeaseEnded, message)).about(&upload.path));
    }
    let entry = upload.finish().await;
    uploads.remove(&id);
    document(&EntryView::from(&entry?))
}

/// `DELETE /uploads/ID`.
pub(crate) async fn discard(caller: Caller, Path(id): Path<String>) -> Answer {
    let uploads = caller.session()?.uploads();
    let upload = uploads.get(&id)?;
    uploads.remove(&id);
    upload.discard().await;
    done()
}

/// Where the bytes of a request go.
const OFFSET_HEADER: &str = "upload-offset";
