//! The Python packages of a job (`--requirements`, `--wheels`; path *job*). The wheels of a folder of this machine go to
//! the cloud as one archive, and each node makes an environment of them once. What is required must be among them. It
//! never downloads anything, and never looks into a wheel.

use std::{
    fs::{self, File},
    io::{self, Cursor},
    path::Path,
};

use protocol::{
    Digest, Policy, SectorPath, SideFileName, limits,
    message::{
        client_master::{Entry, EntryKind},
        spe::{FunctionCode, WHEELS_SIDE_FILE},
    },
};
use sphere::OutputFolder;

use super::{JobOutput, JobSpec, SideFileSpec};
use crate::{Client, ClientError, PutOptions, file::local_time::unix_millis};

/// The packages that a job's functions in Python import.
#[derive(Clone)]
pub struct PythonEnvironment {
    requirements: String,
    archive: Vec<u8>,
    digest: Digest,
}

impl PythonEnvironment {
    /// What is required, as pip reads it from a file of requirements, and the folder with the wheels.
    ///
    /// # Errors
    /// `Usage` where nothing is required, the folder has no wheel, or there are more than
    /// [`REQUIREMENTS_BYTES_MAX`](limits::REQUIREMENTS_BYTES_MAX) and
    /// [`SIDE_FILE_BYTES_MAX`](limits::SIDE_FILE_BYTES_MAX) bytes of them. `File` where one cannot be read.
    pub fn read(requirements: String, wheels: &Path) -> Result<Self, ClientError> {
        let is_empty = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
        if requirements.lines().all(is_empty) {
            return Err(ClientError::Usage(
                "nothing is required: name a package in each line, such as numpy==2.0".into(),
            ));
        }
        if requirements.len() > limits::REQUIREMENTS_BYTES_MAX {
            let most = limits::REQUIREMENTS_BYTES_MAX;
            return Err(ClientError::Usage(format!("the requirements have more than {most} bytes")));
        }
        let archive = packed(wheels)?;
        let digest = Digest(*blake3::hash(&archive).as_bytes());
        Ok(Self { requirements, archive, digest })
    }

    /// Gives it to the functions in Python of a job. The wheels go to a file beside the job's output. Later jobs with the
    /// same wheels find it there, and it ends by itself a week after it was written.
    ///
    /// # Errors
    /// `Usage` where no function is in Python, or the job's results have no folder; those of a put.
    pub async fn give_to(&self, client: &Client, spec: &mut JobSpec) -> Result<(), ClientError> {
        let is_python = |stage: &&mut super::StageSpec| matches!(stage.function.code, FunctionCode::Python(_));
        if !spec.stages.iter_mut().any(|stage| is_python(&stage)) {
            let message = "Python packages are for functions in Python, of which the job has none";
            return Err(ClientError::Usage(message.into()));
        }
        let JobOutput::Folder(target) = &spec.output else {
            return Err(ClientError::Usage("a job with Python packages needs an output folder".into()));
        };
        // What cannot be the place of an output is refused as such, and later.
        let Some(folder) = OutputFolder::at(target, false) else { return Ok(()) };
        let path = folder.wheels(self.digest)?;
        self.put(client, &path).await?;
        let wheels = SideFileSpec { name: wheels_name()?, path };
        for stage in spec.stages.iter_mut().filter(is_python) {
            let FunctionCode::Python(function) = &mut stage.function.code else { continue };
            function.code = function.code.clone().with_requirements(self.requirements.clone());
            stage.side_files.push(wheels.clone());
        }
        Ok(())
    }

    /// Writes the archive, unless it is there and stays for a while.
    async fn put(&self, client: &Client, path: &SectorPath) -> Result<(), ClientError> {
        let there = client.find(path).await?;
        if there.is_some_and(|entry| self.is_fresh(&entry)) {
            return Ok(());
        }
        let options =
            PutOptions { bytes_expected: Some(self.archive.len() as u64), parents: true, ..PutOptions::default() };
        Box::pin(client.put(Cursor::new(self.archive.clone()), path, &options, &|_| ())).await?;
        // What is kept in memory ends by itself.
        if !path.is_in_memory() {
            let policy = Policy { lifetime_seconds: Some(LIFETIME_SECONDS), ..Policy::default() };
            client.set_policy(path, policy).await?;
        }
        Ok(())
    }

    fn is_fresh(&self, there: &Entry) -> bool {
        let EntryKind::File(content) = &there.kind else { return false };
        let now = unix_millis(std::time::SystemTime::now()).unwrap_or_default();
        content.digest == self.digest && there.modified_unix_millis.saturating_add(FRESH_MILLIS) > now
    }
}

impl std::fmt::Debug for PythonEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PythonEnvironment({} bytes of wheels)", self.archive.len())
    }
}

/// The wheels of a folder in one archive, the same for the same wheels.
fn packed(folder: &Path) -> Result<Vec<u8>, ClientError> {
    let unreadable = |source| ClientError::file("read", folder)(source);
    let items = fs::read_dir(folder).map_err(unreadable)?.collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
    let mut wheels: Vec<_> = items.into_iter().map(|item| item.path()).filter(|path| is_wheel(path)).collect();
    wheels.sort();
    if wheels.is_empty() {
        return Err(ClientError::Usage(format!(
            "`{}` holds no wheel (NAME.whl): fetch those of your requirements with `pip download --only-binary :all: -r \
             FILE -d DIR`, or make them with `pip wheel`",
            folder.display()
        )));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for wheel in wheels {
        let failed = |source| ClientError::file("read", &wheel)(source);
        let (file, length) =
            File::open(&wheel).and_then(|file| Ok((file.try_clone()?, file.metadata()?.len()))).map_err(failed)?;
        let most = limits::SIDE_FILE_BYTES_MAX;
        if archive.get_ref().len() as u64 + length > most {
            return Err(ClientError::Usage(format!(
                "the wheels in `{}` are longer than {most} bytes together: install what is large on the nodes, and name \
                 that Python as `spe_python`",
                folder.display()
            )));
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(length);
        header.set_mode(0o644);
        let name = wheel.file_name().unwrap_or_default();
        archive.append_data(&mut header, name, file).map_err(failed)?;
    }
    archive.into_inner().map_err(unreadable)
}

fn is_wheel(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|extension| extension == "whl")
}

fn wheels_name() -> Result<SideFileName, ClientError> {
    SideFileName::new(WHEELS_SIDE_FILE).map_err(|error| ClientError::Usage(error.to_string()))
}

/// How long the archive stays in the cloud: a job may wait long for its turn.
const LIFETIME_SECONDS: u64 = 7 * 86_400;
/// How old one may be that is used again: so each job has it for five days at least.
const FRESH_MILLIS: u64 = 2 * 86_400_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;

    use super::*;

    fn wheels(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn read(requirements: &str, folder: &Path) -> Result<PythonEnvironment, String> {
        PythonEnvironment::read(requirements.into(), folder).map_err(|error| {
            assert_eq!(error.status(), Status::Usage, "{error}");
            error.to_string()
        })
    }

    #[test]
    fn the_wheels_of_a_folder_go_as_one_archive_which_is_the_same_for_the_same_wheels() {
        let one = wheels(&[("b-1-py3-none-any.whl", b"bb"), ("a-1-py3-none-any.whl", b"a"), ("notes.txt", b"no")]);
        let other = wheels(&[("a-1-py3-none-any.whl", b"a"), ("b-1-py3-none-any.whl", b"bb")]);
        let archive = packed(one.path()).unwrap();
        assert_eq!(archive, packed(other.path()).unwrap());
        let mut read = tar::Archive::new(&archive[..]);
        let names = read.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
        assert_eq!(names.collect::<Vec<_>>(), ["a-1-py3-none-any.whl", "b-1-py3-none-any.whl"]);
    }

    #[test]
    fn nothing_required_and_no_wheel_are_refused_with_what_to_do() {
        let folder = wheels(&[("a-1.tar.gz", b"source")]);
        assert!(read("numpy\n", folder.path()).unwrap_err().contains("pip download"));
        fs::write(folder.path().join("a-1-py3-none-any.whl"), "").unwrap();
        assert!(read("# none\n\n", folder.path()).unwrap_err().contains("nothing is required"));
        assert!(read(&"a".repeat(limits::REQUIREMENTS_BYTES_MAX + 1), folder.path()).is_err());
        assert!(read("a", folder.path()).is_ok());
        let large = File::create(folder.path().join("b-1-py3-none-any.whl")).unwrap();
        large.set_len(limits::SIDE_FILE_BYTES_MAX).unwrap();
        assert!(read("a", folder.path()).unwrap_err().contains("spe_python"), "before a byte of it is read");
    }
}
