//! Whether a local file already has the bytes of one in the cloud: this is how a transfer of many files resumes. It
//! compares length and digest, and never trusts names or times.

use std::path::Path;

use protocol::message::client_master::FileContent;

use crate::{ClientError, file::local_digest::digest_of};

/// Whether a local file has these bytes.
pub(super) async fn is_same(file: &Path, content: &FileContent) -> Result<bool, ClientError> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == content.bytes) {
        return Ok(false);
    }
    let local = file.to_path_buf();
    let digest = tokio::task::spawn_blocking(move || digest_of(&local)).await;
    let digest = digest.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    Ok(digest.map_err(ClientError::file("read", file))? == content.digest.0)
}
