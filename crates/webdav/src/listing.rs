//! The entries of a folder, page by page, and answers that are cut off rather than look whole. It never asks for a
//! page before the one before it was taken.

use std::{collections::VecDeque, io};

use axum::body::Body;
use bytes::Bytes;
use client::{Entry, SectorPath};
use dav_server::fs::FsResult;
use futures_util::{Stream, StreamExt, stream};

use crate::request::DavRequest;

/// The entries of a folder by name. An error is the last of them, and is noted: what was sent is not whole.
pub(crate) fn entries(request: DavRequest, folder: SectorPath) -> impl Stream<Item = FsResult<Entry>> {
    let begin = Pages { request, folder, page: VecDeque::new(), after: None, more: true };
    stream::unfold(begin, |mut pages| async move {
        loop {
            if let Some(entry) = pages.page.pop_front() {
                return Some((Ok(entry), pages));
            }
            if !pages.more {
                return None;
            }
            if let Err(error) = pages.turn().await {
                pages.more = false;
                pages.request.cut(&error);
                return Some((Err(pages.request.failed(&error)), pages));
            }
        }
    })
}

struct Pages {
    request: DavRequest,
    folder: SectorPath,
    page: VecDeque<Entry>,
    after: Option<SectorPath>,
    more: bool,
}

impl Pages {
    async fn turn(&mut self) -> Result<(), client::ClientError> {
        let page = self.request.client.page(&self.folder, false, self.after.take()).await?;
        self.after = page.next.or_else(|| page.entries.last().map(|last| last.path.clone()));
        self.more = page.more && self.after.is_some();
        self.page = page.entries.into();
        Ok(())
    }
}

/// An answer whose connection breaks at its end if a list in it is not whole. A client would take it for whole else.
pub(crate) fn unless_cut(body: dav_server::body::Body, request: DavRequest) -> Body {
    let end = stream::once(async move { request.why_cut().map(|why| Err(io::Error::other(why))) });
    let end = end.filter_map(|end: Option<io::Result<Bytes>>| async { end });
    Body::from_stream(body.chain(end))
}
