//! Makes indexes: the files of offsets by which jobs find records of any length (path *job*; `docs/records.md`). A job
//! of the built-in function `offsets` makes them where the files are, so that only offsets travel. The indexes are
//! renamed into place, file by file, and never appear in part.

use std::{collections::BTreeSet, fmt};

use protocol::{
    Digest, RecordFraming, SectorPath, SliceId, Status, limits,
    message::{
        client_master::{Entry, EntryKind},
        spe::{FunctionCode, FunctionSpec},
    },
};
use sphere::records::record_index::{IndexHeader, index_path};

use super::{JobOutput, JobProgress, JobSpec, StageSpec, layout::StreamFiles};
use crate::{Client, ClientError};

/// How the records of a file to be indexed are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexedRecords {
    /// Lines.
    Lines,
    /// Records of one length in bytes.
    Fixed(u32),
    /// A record begins with each line that begins with this text, and extends to the next such line.
    Begins(String),
}

impl fmt::Display for IndexedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines => f.write_str("lines"),
            Self::Fixed(bytes) => write!(f, "fixed:{bytes}"),
            Self::Begins(text) => write!(f, "begins:{text}"),
        }
    }
}

impl Client {
    /// Makes the index of each of these files (`FILE.idx`), in place of an existing one, and gives the indexes' paths.
    /// An empty file needs no index and gets none, and an index among the files is left out.
    ///
    /// # Errors
    /// Those of a [job](Client::run_job). If it ends with one, some of the indexes may have been made; each is
    /// complete.
    pub async fn index(
        &self,
        files: &[Entry],
        records: &IndexedRecords,
        mut progress: impl FnMut(&JobProgress) + Send,
    ) -> Result<Vec<SectorPath>, ClientError> {
        let listed = StreamFiles::of(files, Some(RecordFraming::File))?.files;
        let wanted: BTreeSet<_> = listed.iter().filter(|file| file.bytes > 0).map(|file| &file.path).collect();
        let files: Vec<_> = files.iter().filter(|entry| wanted.contains(&entry.path)).cloned().collect();
        let mut made = Vec::new();
        for some in files.chunks(FILES_A_JOB_MAX) {
            made.extend(self.index_some(some, records, &mut progress).await?);
        }
        Ok(made)
    }

    async fn index_some(
        &self,
        files: &[Entry],
        records: &IndexedRecords,
        progress: &mut (impl FnMut(&JobProgress) + Send),
    ) -> Result<Vec<SectorPath>, ClientError> {
        let (mut parameters, mut targets) = (vec![("records".to_owned(), records.to_string())], Vec::new());
        let mut first = None;
        for (number, entry) in files.iter().enumerate() {
            let EntryKind::File(content) = &entry.kind else { continue };
            first = first.or(Some((entry.path.clone(), content.slice)));
            parameters.push((format!("head:{number}"), head(content.bytes, content.version.0, content.digest)));
            let long = || ClientError::Usage(format!("`{}.idx` is too long a name for an index", entry.path));
            targets.push(index_path(&entry.path).ok_or_else(long)?);
        }
        let Some((path, slice)) = first else { return Ok(Vec::new()) };
        let folder = folder(&path, slice)?;
        // An interrupted run may have left its own.
        match self.remove_now(&folder, true).await {
            Err(error) if error.status() != Status::NotFound => return Err(error),
            _ => {}
        }
        let function = FunctionSpec { code: FunctionCode::BuiltIn("offsets".into()), parameters };
        let spec = JobSpec {
            records: Some(RecordFraming::File),
            // One task for each file, so that the number of a part is that of its file.
            segment_bytes: Some((1, limits::SEGMENT_BYTES_DEFAULT.1)),
            ..JobSpec::new(
                if let [only] = files {
                    format!("index of {}", only.path)
                } else {
                    format!("index of {} files", files.len())
                },
                files.to_vec(),
                vec![StageSpec::local(function)],
                JobOutput::Folder(folder.clone()),
            )
        };
        let outcome = self.run_job(spec, progress).await?;
        for output in &outcome.outputs {
            let number = output.path.name().and_then(|name| name.strip_prefix("part-")?.parse::<usize>().ok());
            let target = number.and_then(|number| targets.get(number));
            let target = target.ok_or(ClientError::Unexpected { who: "job", request: "index" })?;
            self.rename(&output.path, target).await?;
        }
        self.remove_now(&folder, true).await?;
        Ok(targets)
    }
}

/// The head of an index, in hex.
fn head(bytes: u64, version: u64, digest: Digest) -> String {
    IndexHeader { bytes, version, digest }.encode().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where indexes are until they are complete: hidden, beside the first of their files.
fn folder(path: &SectorPath, slice: SliceId) -> Result<SectorPath, ClientError> {
    Ok(path.parent().unwrap_or_else(SectorPath::root).join(&format!(".index-{slice}"))?)
}

/// Most files of one job: the data about all of them goes to every SPE, and stays below 200 KiB with this limit.
const FILES_A_JOB_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_head_travels_as_hex() {
        let text = head(258, 3, Digest([0xab; 32]));
        assert!(text.starts_with("5345435452494458") && text.ends_with("abab") && text.len() == 128, "{text}");
    }

    #[test]
    fn indexes_wait_in_a_hidden_folder_beside_their_file() {
        let folder = folder(&"/a/b".parse().unwrap(), SliceId(0xab)).unwrap();
        assert_eq!((folder.parent().unwrap().as_str(), &folder.name().unwrap()[..7]), ("/a", ".index-"));
    }
}
