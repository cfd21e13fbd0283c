//! What became of a tuple: a row of the archive's manifest. It never holds the pixels.

use fits::ImageError;
use serde::{Deserialize, Serialize};

use super::Tuple;

/// A row of the manifest (contract: the columns of `manifest.csv`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestRow {
    /// The tuple's number in the table, from 1.
    pub tuple: u64,
    /// The image.
    pub path: String,
    /// What was asked for.
    pub selection: String,
    /// `ok`, or the class of what went wrong.
    pub status: String,
    /// The file in the archive; empty if there is none.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3 digest in hexadecimal.
    pub blake3: String,
    /// How long it took to cut it, in milliseconds.
    pub ms: f64,
    /// Where it was cut: `node` beside the image, or `client`.
    pub by: String,
    /// The [level](super::StorageLevel) that it was read from; none where a job cut it, which runs where images lie.
    #[serde(default)]
    pub level: Option<u8>,
    /// What went wrong.
    pub message: String,
}

impl ManifestRow {
    /// That of a cutout that was made.
    pub fn made(tuple: &Tuple, content: &[u8], ms: f64, by: &str) -> Self {
        let blake3 = blake3::hash(content).to_hex().to_string();
        Self { file: tuple.name.clone(), bytes: content.len() as u64, blake3, ms, ..Self::of(tuple, "ok", by) }
    }

    /// That of one that could not be made.
    pub fn failed(tuple: &Tuple, error: &ImageError, ms: f64, by: &str) -> Self {
        Self { message: error.to_string(), ms, ..Self::of(tuple, error.class(), by) }
    }

    /// That of a tuple whose image was not read at all.
    pub fn refused(tuple: &Tuple, status: &str, message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::of(tuple, status, "client") }
    }

    /// Whether there is a cutout.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    fn of(tuple: &Tuple, status: &str, by: &str) -> Self {
        Self {
            tuple: tuple.number,
            path: tuple.path.clone(),
            selection: tuple.selection.to_string(),
            status: status.to_owned(),
            file: String::new(),
            bytes: 0,
            blake3: String::new(),
            ms: 0.0,
            by: by.to_owned(),
            level: None,
            message: String::new(),
        }
    }
}
