//! The side files of a job's stages (path *job*, row 2c): small files that every call of a stage's function may read.
//! They are found before the job begins, and each is pinned to its version at that time. A node that finds another
//! version refuses, and the job ends: a job never reads two versions.

use std::{collections::BTreeSet, str::FromStr};

use protocol::{SectorPath, SideFileName, SliceId, limits, message::client_master::EntryKind};
use serde::{Deserialize, Serialize};

use super::JobSpec;
use crate::{Client, ClientError};

/// A file that every call of a stage's function may read, under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideFileSpec {
    /// The name by which the function asks for it.
    pub name: SideFileName,
    /// Its path: a file of at most [`SIDE_FILE_BYTES_MAX`](limits::SIDE_FILE_BYTES_MAX) bytes.
    pub path: SectorPath,
}

impl FromStr for SideFileSpec {
    type Err = String;

    /// Reads `NAME=PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').ok_or("write NAME=PATH, for example words=/dictionary")?;
        let name = SideFileName::new(name).map_err(|error| error.to_string())?;
        Ok(Self { name, path: SectorPath::parse(path).map_err(|error| error.to_string())? })
    }
}

/// A side file in the version that the job reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PinnedFile {
    pub(super) file: SideFileSpec,
    pub(super) slice: SliceId,
    pub(super) bytes: u64,
}

/// The side files of each stage.
pub(super) async fn pin_side_files(client: &Client, spec: &JobSpec) -> Result<Vec<Vec<PinnedFile>>, ClientError> {
    let mut stages = Vec::with_capacity(spec.stages.len());
    for stage in &spec.stages {
        check_names(&stage.side_files)?;
        let mut pinned = Vec::with_capacity(stage.side_files.len());
        for file in &stage.side_files {
            let kind = client.stat(&file.path).await?.entry.kind;
            pinned.push(pinned_as(file, &kind)?);
        }
        stages.push(pinned);
    }
    check_count(&stages)?;
    Ok(stages)
}

fn check_names(files: &[SideFileSpec]) -> Result<(), ClientError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = files.iter().find(|file| !names.insert(&file.name)) {
        return Err(ClientError::Usage(format!("two side files of a stage are called `{}`", twice.name)));
    }
    let most = limits::SIDE_FILES_MAX;
    if files.len() > most {
        let message = format!("a stage has at most {most} side files, not {}: put some into one", files.len());
        return Err(ClientError::Usage(message));
    }
    Ok(())
}

fn pinned_as(file: &SideFileSpec, kind: &EntryKind) -> Result<PinnedFile, ClientError> {
    let SideFileSpec { name, path } = file;
    let EntryKind::File(content) = kind else {
        return Err(ClientError::Usage(format!("the side file `{name}` is a folder, `{path}`: name a file")));
    };
    let most = limits::SIDE_FILE_BYTES_MAX;
    if content.bytes > most {
        return Err(ClientError::Usage(format!(
            "the side file `{name}`, `{path}`, has {} bytes, and each node would fetch all of them: {most} at most; make it \
             an input",
            content.bytes
        )));
    }
    Ok(PinnedFile { file: file.clone(), slice: content.slice, bytes: content.bytes })
}

fn check_count(stages: &[Vec<PinnedFile>]) -> Result<(), ClientError> {
    let different: BTreeSet<_> = stages.iter().flatten().map(|file| file.slice).collect();
    let most = limits::JOB_SIDE_FILES_MAX;
    if different.len() > most {
        let message = format!("the stages of a job have at most {most} different side files, not {}", different.len());
        return Err(ClientError::Usage(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{RecordFraming, Status};

    use super::*;
    use crate::job::spec::tests::file as file_kind;

    fn side_file(name: &str) -> SideFileSpec {
        SideFileSpec { name: SideFileName::new(name).unwrap(), path: "/words".parse().unwrap() }
    }

    #[test]
    fn a_stage_names_its_side_files_apart_and_not_too_many() {
        let many = |count: usize| (0..count).map(|number| side_file(&format!("f{number}"))).collect::<Vec<_>>();
        assert!(check_names(&many(limits::SIDE_FILES_MAX)).is_ok());
        let error = check_names(&many(limits::SIDE_FILES_MAX + 1)).unwrap_err();
        assert!(error.status() == Status::Usage && error.to_string().contains("at most 16"), "{error}");
        let error = check_names(&[side_file("a"), side_file("b"), side_file("a")]).unwrap_err();
        assert!(error.to_string().contains("`a`"), "{error}");
    }

    #[test]
    fn folders_and_large_files_are_refused_by_name_and_the_version_is_kept() {
        let words = side_file("words");
        let pinned = pinned_as(&words, &file_kind(RecordFraming::File)).unwrap();
        assert_eq!((pinned.slice, pinned.bytes), (SliceId(7), 20));
        let error = pinned_as(&words, &EntryKind::Folder).unwrap_err();
        assert!(error.to_string().contains("`words` is a folder"), "{error}");
        let EntryKind::File(mut content) = file_kind(RecordFraming::File) else { panic!("no file") };
        content.bytes = limits::SIDE_FILE_BYTES_MAX;
        assert!(pinned_as(&words, &EntryKind::File(content.clone())).is_ok());
        content.bytes += 1;
        let error = pinned_as(&words, &EntryKind::File(content)).unwrap_err();
        assert!(error.status() == Status::Usage && error.to_string().contains("268435457 bytes"), "{error}");
    }

    #[test]
    fn a_file_of_several_stages_counts_once() {
        let pinned = |slice| PinnedFile { file: side_file("a"), slice: SliceId(slice), bytes: 1 };
        let most = limits::JOB_SIDE_FILES_MAX as u128;
        let stages: Vec<_> = (0..most).map(|slice| vec![pinned(slice), pinned(0)]).collect();
        assert!(check_count(&stages).is_ok());
        assert!(check_count(&[stages, vec![vec![pinned(most)]]].concat()).is_err());
    }
}
