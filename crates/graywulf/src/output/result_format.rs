//! The names of the formats of results. This file never writes one.

use std::path::Path;

use clap::ValueEnum;

use crate::engine::FileKind;

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultFormat {
    /// Columns to look at, no more rows than --rows
    Table,
    /// Values between commas, the first line the names
    Csv,
    /// The same, with tabs
    Tsv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow: to a file its file format, to standard output its stream
    Arrow,
    /// FITS, a binary table
    Fits,
    /// VOTable of the Virtual Observatory, rows as bytes (BINARY2)
    Votable,
    /// VOTable, rows as text (TABLEDATA)
    VotableTd,
}

impl ResultFormat {
    /// What the end of a file's name says.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        // What is written can be read under the same name.
        match (FileKind::of_name(name), path.extension()?.to_str()?.to_ascii_lowercase().as_str()) {
            (Some(FileKind::Csv), _) => Some(Self::Csv),
            (Some(FileKind::Tsv), _) => Some(Self::Tsv),
            (Some(FileKind::JsonLines), _) => Some(Self::Jsonl),
            (Some(FileKind::Parquet), _) => Some(Self::Parquet),
            (None, "json") => Some(Self::Json),
            (None, "arrow" | "feather") => Some(Self::Arrow),
            (None, "fits" | "fit" | "fts") => Some(Self::Fits),
            (None, "vot" | "votable" | "xml") => Some(Self::Votable),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_format() {
        assert_eq!(ResultFormat::of_file(Path::new("a/b.CSV")), Some(ResultFormat::Csv));
        assert_eq!(ResultFormat::of_file(Path::new("a.parquet")), Some(ResultFormat::Parquet));
        assert_eq!(ResultFormat::of_file(Path::new("a")), None);
        assert_eq!(ResultFormat::of_file(Path::new("a.txt")), None);
    }
}
