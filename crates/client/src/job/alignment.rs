//! Files whose records are found by an index, and files of several streams that are read together (path *job*, row 3).
//! Streams of `fixed` or `index` records are aligned by record: they are long arrays, and where their files end does
//! not matter. Streams of `file` records are aligned by file. It reads some offsets of an index at a time, and never
//! keeps more of them than marks.

use std::collections::BTreeMap;

use protocol::{
    RecordFraming, SectorPath,
    message::client_master::{Entry, EntryKind},
};
use sphere::{
    FileLayout, FileLocator, InputFile, SplitPoint, SplitPointChooser,
    records::record_index::{INDEX_HEADER_BYTES, IndexHeader, OFFSET_BYTES, index_path, index_records, offsets_of},
};

use super::layout::StreamFiles;
use crate::{Client, ClientError, file::reader::FileReader};

/// The files of these streams: those of the first, with the files that are read beside them.
pub(super) async fn align(
    client: &Client,
    streams: Vec<StreamFiles>,
    spacing_bytes: u64,
) -> Result<Vec<InputFile>, ClientError> {
    let formats = || streams.iter().flat_map(|listed| &listed.files);
    if formats().all(|file| file.records == RecordFraming::File) {
        return by_file(streams);
    }
    if let Some(odd) = formats().find(|file| !matches!(file.records, RecordFraming::Fixed(_) | RecordFraming::Index)) {
        return Err(ClientError::Usage(format!(
            "`{}` has `{}` records, by which streams cannot be read together: give all of them `fixed:BYTES`, `index` (made by \
             `sector index`) or `file` records",
            odd.path, odd.records
        )));
    }
    let mut arrays = Vec::new();
    for listed in streams {
        let mut array = Vec::new();
        for file in listed.files.into_iter().filter(|file| file.bytes > 0) {
            array.push(Records::open(client, file, &listed.indexes).await?);
        }
        arrays.push(array);
    }
    check_counts(&arrays)?;
    by_record(&arrays, spacing_bytes).await
}

/// The first files together, the second files together, and so on.
fn by_file(streams: Vec<StreamFiles>) -> Result<Vec<InputFile>, ClientError> {
    let counts: Vec<_> = streams.iter().map(|listed| listed.files.len()).collect();
    if counts.iter().any(|count| *count != counts[0]) {
        let counts = counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
        return Err(ClientError::Usage(format!(
            "the streams have {counts} files; those that are read together file by file have as many"
        )));
    }
    let whole = |mut file: InputFile| {
        file.layout.split_points = vec![SplitPoint { record: 0, at: 0 }, SplitPoint { record: 1, at: file.bytes }];
        file
    };
    let mut streams = streams.into_iter().map(|listed| listed.files.into_iter().map(whole));
    let Some(first) = streams.next() else { return Ok(Vec::new()) };
    let mut others: Vec<_> = streams.collect();
    Ok(first
        .map(|mut file| {
            file.layout.zipped = others.iter_mut().filter_map(Iterator::next).collect();
            file
        })
        .collect())
}

fn check_counts(arrays: &[Vec<Records>]) -> Result<(), ClientError> {
    let count = |array: &Vec<Records>| array.iter().map(|file| file.count).sum::<u64>();
    let Some(expected) = arrays.first().map(count) else { return Ok(()) };
    match (2..).zip(&arrays[1..]).find(|(_, array)| count(array) != expected) {
        None => Ok(()),
        Some((number, array)) => Err(ClientError::Usage(format!(
            "stream 1 has {expected} records and stream {number} has {}; those that are read together have as many",
            count(array)
        ))),
    }
}

/// Cuts arrays with equal numbers of records wherever a file of one of them ends; what lies between is read together.
async fn by_record(arrays: &[Vec<Records>], spacing_bytes: u64) -> Result<Vec<InputFile>, ClientError> {
    let mut rows = Vec::new();
    let mut marks_kept = 0;
    // For each array, the current file and its next record.
    let mut at = vec![(0, 0); arrays.len()];
    loop {
        let here: Vec<_> = arrays.iter().zip(&at).filter_map(|(array, (file, _))| array.get(*file)).collect();
        if here.len() < arrays.len() || here.is_empty() {
            return Ok(rows);
        }
        let left = |(file, (_, record)): (&&Records, &(usize, u64))| file.count - record;
        let count = here.iter().zip(&at).map(left).min().unwrap_or(0);
        let begun: Vec<_> = at.iter().map(|(_, record)| *record).collect();
        let marks = choose_marks(&here, &begun, count, spacing_bytes).await?;
        marks_kept += marks.iter().map(Vec::len).sum::<usize>();
        if marks_kept > MARKS_MAX {
            return Err(ClientError::Usage(format!(
                "the input has more than {MARKS_MAX} places to be cut at; let the smallest segment be larger (`--segment-bytes`)"
            )));
        }
        let mut parts = here.iter().zip(marks).map(|(records, marks)| {
            let layout = FileLayout { split_points: marks, locator: records.guide.clone(), zipped: Vec::new() };
            InputFile { layout, ..records.file.clone() }
        });
        if let Some(mut first) = parts.next() {
            first.layout.zipped = parts.collect();
            rows.push(first);
        }
        for ((file, record), records) in at.iter_mut().zip(&here) {
            *record += count;
            if *record == records.count {
                (*file, *record) = (*file + 1, 0);
            }
        }
    }
}

/// Marks for `count` records of each file, from record `begun` on.
async fn choose_marks(
    files: &[&Records],
    begun: &[u64],
    count: u64,
    spacing_bytes: u64,
) -> Result<Vec<Vec<SplitPoint>>, ClientError> {
    let mut firsts = Vec::new();
    for (file, record) in files.iter().zip(begun) {
        let at = file.offsets(*record, 0).await?;
        firsts.push(SplitPoint { record: *record, at: at.first().copied().unwrap_or(0) });
    }
    let mut chooser = SplitPointChooser::new(&firsts, spacing_bytes);
    let mut done = 0;
    while done < count {
        let step = (count - done).min(OFFSETS_AT_ONCE);
        let mut ends = Vec::new();
        for (file, record) in files.iter().zip(begun) {
            let mut offsets = file.offsets(record + done, step).await?;
            offsets.remove(0);
            ends.push(offsets);
        }
        chooser.take(&ends);
        done += step;
    }
    Ok(chooser.finish())
}

/// A file, and where its records are.
struct Records {
    file: InputFile,
    count: u64,
    guide: Option<FileLocator>,
    /// Its index; `None` if records have one length.
    index: Option<FileReader>,
    record_bytes: u64,
}

impl Records {
    async fn open(
        client: &Client,
        file: InputFile,
        indexes: &BTreeMap<SectorPath, Entry>,
    ) -> Result<Self, ClientError> {
        if let RecordFraming::Fixed(record_bytes) = file.records {
            let record_bytes = u64::from(record_bytes.max(1));
            let count = file.bytes / record_bytes;
            if !file.bytes.is_multiple_of(record_bytes) {
                return Err(ClientError::Usage(format!(
                    "`{}` has {} bytes, which is no multiple of its record length of {record_bytes} bytes; give the right \
                     record format or repair the file",
                    file.path, file.bytes
                )));
            }
            return Ok(Self { file, count, guide: None, index: None, record_bytes });
        }
        let path = &file.path;
        let missing = || ClientError::Usage(format!("`{path}` has no index: make one with `sector index {path}`"));
        let place = index_path(path).ok_or_else(missing)?;
        let entry = match indexes.get(path) {
            Some(entry) => entry.clone(),
            None => client.find(&place).await?.ok_or_else(missing)?,
        };
        let reader = client.open(&place).await?;
        let wrong = |why: String| {
            ClientError::Usage(format!("the index `{place}` {why}: make it again with `sector index {path}`"))
        };
        let header = reader.read_at(0, INDEX_HEADER_BYTES as usize).await?;
        let header = IndexHeader::decode(&header).map_err(|error| wrong(format!("cannot be used, since {error}")))?;
        let (now, _) = client.locate(path).await?;
        if now.slice != file.slice || !header.is_of(now.bytes, &now.digest) {
            let (then, now) = (header.version, now.version.0);
            return Err(wrong(format!("was made for version {then} of `{path}`, whose version {now} has other bytes")));
        }
        let count = index_records(reader.bytes()).map_err(|error| wrong(format!("cannot be used, since {error}")))?;
        let EntryKind::File(content) = &reader.entry().kind else { return Err(missing()) };
        let guide = FileLocator::Index { path: place.clone(), slice: content.slice, nodes: entry.nodes.clone() };
        let records = Self { count, guide: Some(guide), index: None, record_bytes: 0, file };
        let edges = [read_offsets(&reader, &place, 0, 0).await?, read_offsets(&reader, &place, count, 0).await?];
        if edges.concat() != [0, records.file.bytes] {
            return Err(ClientError::Usage(format!(
                "the index `{place}` does not cover its file: make it again with `sector index {}`",
                records.file.path
            )));
        }
        Ok(Self { index: Some(reader), ..records })
    }

    /// Where `count` records begin, from number `record` on, and where the last of them ends.
    async fn offsets(&self, record: u64, count: u64) -> Result<Vec<u64>, ClientError> {
        match &self.index {
            None => Ok((record..=record + count).map(|record| record * self.record_bytes).collect()),
            Some(index) => read_offsets(index, &self.file.path, record, count).await,
        }
    }
}

/// Reads offsets from an index; they must be in order.
async fn read_offsets(index: &FileReader, path: &SectorPath, record: u64, count: u64) -> Result<Vec<u64>, ClientError> {
    let range = offsets_of(record..record + count);
    // Only a few are read at once, so they fit memory.
    let bytes = index.read_at(range.start, (range.end - range.start) as usize).await?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let offsets: Vec<_> = bytes.chunks_exact(OFFSET_BYTES as usize).map(number).collect();
    if offsets.len() as u64 != count + 1 || !offsets.is_sorted() {
        let message = format!("the index of `{path}` is damaged at record {record}: make it again with `sector index`");
        return Err(ClientError::Usage(message));
    }
    Ok(offsets)
}

/// Offsets read at once: 1 MiB.
const OFFSETS_AT_ONCE: u64 = (1 << 20) / OFFSET_BYTES;
/// Most marks that a driver keeps: at 16 bytes each they take 256 MiB.
const MARKS_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SliceId;

    use super::*;

    fn file(path: &str, bytes: u64, records: RecordFraming) -> InputFile {
        let path = path.parse().unwrap();
        InputFile { path, slice: SliceId(1), bytes, records, nodes: vec![], layout: FileLayout::default() }
    }

    fn fixed(path: &str, record_bytes: u32, count: u64) -> Records {
        let record_bytes_long = u64::from(record_bytes);
        let file = file(path, record_bytes_long * count, RecordFraming::Fixed(record_bytes));
        Records { file, count, guide: None, index: None, record_bytes: record_bytes_long }
    }

    fn listed(files: Vec<InputFile>) -> StreamFiles {
        StreamFiles { files, indexes: BTreeMap::new() }
    }

    #[tokio::test]
    async fn arrays_are_cut_where_a_file_of_any_of_them_ends() {
        let first = vec![fixed("/a1", 10, 4), fixed("/a2", 10, 6)];
        let second = vec![fixed("/b1", 1, 1), fixed("/b2", 1, 7), fixed("/b3", 1, 2)];
        let rows = by_record(&[first, second], 1000).await.unwrap();
        let edges = |file: &InputFile| {
            let marks = &file.layout.split_points;
            format!("{}[{}..{}]", file.path, marks[0].at, marks[marks.len() - 1].at)
        };
        let shown: Vec<_> = rows.iter().map(|row| format!("{} {}", edges(row), edges(&row.layout.zipped[0]))).collect();
        let expected =
            ["/a1[0..10] /b1[0..1]", "/a1[10..40] /b2[0..3]", "/a2[0..40] /b2[3..7]", "/a2[40..60] /b3[0..2]"];
        assert_eq!(shown, expected);
        assert!(rows.iter().all(|row| row.layout.split_points.len() == row.layout.zipped[0].layout.split_points.len()));
    }

    #[test]
    fn streams_with_other_numbers_of_records_or_files_are_refused_with_both_numbers() {
        let error = check_counts(&[vec![fixed("/a", 2, 9)], vec![fixed("/b", 1, 4), fixed("/c", 1, 4)]]).unwrap_err();
        assert!(error.to_string().contains("9 records and stream 2 has 8"), "{error}");
        let one = |path| file(path, 5, RecordFraming::File);
        let error = by_file(vec![listed(vec![one("/a"), one("/b")]), listed(vec![one("/c")])]).unwrap_err();
        assert!(error.to_string().contains("2 and 1 files"), "{error}");
    }

    #[test]
    fn files_are_paired_in_their_order() {
        let one = |path, bytes| file(path, bytes, RecordFraming::File);
        let streams = vec![listed(vec![one("/a", 1), one("/b", 2)]), listed(vec![one("/c", 3), one("/d", 0)])];
        let rows = by_file(streams).unwrap();
        let pairs: Vec<_> = rows.iter().map(|row| (row.path.as_str(), row.layout.zipped[0].path.as_str())).collect();
        assert_eq!(pairs, [("/a", "/c"), ("/b", "/d")]);
        assert_eq!(rows[1].layout.zipped[0].layout.split_points[1], SplitPoint { record: 1, at: 0 });
    }
}
