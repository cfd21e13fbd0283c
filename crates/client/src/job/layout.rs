//! What a driver learns of a job's input before the job begins (path *job*, row 3). It finds where records begin, if
//! the bytes do not show it, and which files of several streams belong together (Sector/Sphere paper, 3.2: `A[] +
//! B[]`). Misfits, such as an index of other bytes or streams of different lengths, are refused before a node has done
//! any work. It reads indexes and footers, and never the files' records.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    RecordFraming, SectorPath, limits,
    message::client_master::{Entry, EntryKind},
};
use sphere::{
    FileLayout, FileLocator, InputFile, SplitPoint,
    records::{
        parquet_footer::{FooterError, TAIL_BYTES, footer_bytes, row_groups},
        record_index::indexed_path,
    },
};

use super::{JobSpec, alignment};
use crate::{Client, ClientError};

/// The input of a job, in the form that the rules need.
pub(super) async fn read(client: &Client, spec: &JobSpec) -> Result<Vec<InputFile>, ClientError> {
    let spacing_bytes = spec.segment_bytes.unwrap_or(limits::SEGMENT_BYTES_DEFAULT).0 / MARKS_A_SEGMENT;
    let streams: Vec<_> = std::iter::once(&spec.inputs).chain(&spec.zipped_inputs).collect();
    if streams.len() > limits::STREAMS_MAX {
        let message = format!("a job reads at most {} streams at once, not {}", limits::STREAMS_MAX, streams.len());
        return Err(ClientError::Usage(message));
    }
    let mut files = Vec::new();
    for entries in streams {
        files.push(StreamFiles::of(entries, spec.records)?);
    }
    if files.len() > 1 {
        return alignment::align(client, files, spacing_bytes).await;
    }
    let mut laid = Vec::new();
    for listed in files {
        let StreamFiles { files, mut indexes } = listed;
        for mut file in files {
            match file.records {
                RecordFraming::Index if file.bytes > 0 => {
                    let indexes = indexes.remove_entry(&file.path).into_iter().collect();
                    let one = StreamFiles { files: vec![file], indexes };
                    laid.extend(alignment::align(client, vec![one], spacing_bytes).await?);
                    continue;
                }
                // It has no records: as with lines, nothing is to be cut.
                RecordFraming::Index => file.records = RecordFraming::Lines,
                RecordFraming::Parquet => file.layout = parquet_layout(client, &file).await?,
                RecordFraming::File | RecordFraming::Fixed(_) | RecordFraming::Lines => {}
            }
            laid.push(file);
        }
    }
    Ok(laid)
}

/// The files of a stream, and the indexes beside some of them.
#[derive(Debug)]
pub(super) struct StreamFiles {
    pub(super) files: Vec<InputFile>,
    /// By the path of the file that they belong to.
    pub(super) indexes: BTreeMap<SectorPath, Entry>,
}

impl StreamFiles {
    /// An index beside its file is not an input by itself, even if a glob has matched it.
    pub(super) fn of(entries: &[Entry], records: Option<RecordFraming>) -> Result<Self, ClientError> {
        let mut listed = Self { files: Vec::new(), indexes: BTreeMap::new() };
        let paths: BTreeSet<&SectorPath> = entries.iter().map(|entry| &entry.path).collect();
        for entry in entries {
            let EntryKind::File(content) = &entry.kind else {
                return Err(ClientError::Usage(format!("`{}` is a folder; a job reads files", entry.path)));
            };
            if let Some(indexed) = indexed_path(&entry.path).filter(|indexed| paths.contains(indexed)) {
                listed.indexes.insert(indexed, entry.clone());
                continue;
            }
            listed.files.push(InputFile {
                path: entry.path.clone(),
                slice: content.slice,
                bytes: content.bytes,
                records: records.unwrap_or(content.records),
                nodes: entry.nodes.clone(),
                layout: FileLayout::default(),
            });
        }
        Ok(listed)
    }
}

/// The row groups of a Parquet file, by its footer.
async fn parquet_layout(client: &Client, file: &InputFile) -> Result<FileLayout, ClientError> {
    let wrong =
        |error: FooterError| ClientError::Usage(format!("`{}` cannot be read by row groups: {error}", file.path));
    let reader = client.open(&file.path).await?;
    if !matches!(&reader.entry().kind, EntryKind::File(content) if content.slice == file.slice) {
        return Err(ClientError::Usage(format!("`{}` was written anew just now: begin the job again", file.path)));
    }
    let tail_from = file.bytes.saturating_sub(TAIL_BYTES as u64);
    let tail = reader.read_at(tail_from, TAIL_BYTES).await?;
    let bytes = footer_bytes(&tail, file.bytes).map_err(wrong)?;
    let from = tail_from - bytes;
    // Its length is bounded, so it fits memory.
    let footer = reader.read_at(from, bytes as usize).await?;
    let mut record = 0;
    let mut marks = Vec::new();
    for group in row_groups(&footer, from).map_err(wrong)? {
        marks.push(SplitPoint { record, at: group.from });
        record += group.rows;
    }
    marks.push(SplitPoint { record, at: from });
    Ok(FileLayout { split_points: marks, locator: Some(FileLocator::Footer { from }), zipped: Vec::new() })
}

/// Marks in the smallest segment: possible cuts are this much finer than a segment.
const MARKS_A_SEGMENT: u64 = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::job::spec::tests::{entry, file};

    #[test]
    fn the_record_format_of_the_job_goes_before_that_of_its_files() {
        let entries = vec![entry("/a", file(RecordFraming::Lines))];
        assert_eq!(StreamFiles::of(&entries, None).unwrap().files[0].records, RecordFraming::Lines);
        let listed = StreamFiles::of(&entries, Some(RecordFraming::Fixed(10))).unwrap();
        let input = &listed.files[0];
        assert_eq!((input.records, input.bytes, input.slice), (RecordFraming::Fixed(10), 20, protocol::SliceId(7)));
        assert_eq!(input.nodes, [protocol::NodeId::new("a").unwrap()]);
    }

    #[test]
    fn a_folder_among_the_inputs_is_refused_by_name() {
        let error = StreamFiles::of(&[entry("/a/b", EntryKind::Folder)], None).unwrap_err();
        assert!(error.to_string().contains("/a/b"));
    }

    #[test]
    fn an_index_beside_its_file_is_no_input_and_one_without_is() {
        let entries: Vec<_> = ["/a", "/a.idx", "/b.idx"].map(|path| entry(path, file(RecordFraming::File))).into();
        let listed = StreamFiles::of(&entries, None).unwrap();
        let paths: Vec<_> = listed.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b.idx"]);
        assert_eq!(listed.indexes.keys().map(SectorPath::as_str).collect::<Vec<_>>(), ["/a"]);
    }
}
