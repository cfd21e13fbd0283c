//! The library that jobs bring along to the nodes. It lies beside the program, or where packages put libraries. It never
//! is looked for where a user's `PATH` or working folder says.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use client::Entry;
use client::job::{FunctionCode, FunctionSpec, JobOutput, JobSpec, StageSpec, check_file_bytes};
use protocol::Reason;
use terminal::Failure;

/// The library's bytes.
#[derive(Clone, Debug)]
pub(crate) struct JobLibrary {
    bytes: Vec<u8>,
}

impl JobLibrary {
    /// Reads the library.
    pub(crate) fn load() -> Result<Self, Failure> {
        let program = env::current_exe().map_err(|error| Failure::failed(format!("where am I? {error}")))?;
        let folder = program.parent().unwrap_or(Path::new("/"));
        let places = places(folder);
        for file in &places {
            match fs::read(file) {
                Ok(bytes) => {
                    check_file_bytes(NAME, bytes.len() as u64)?;
                    return Ok(Self { bytes });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::local("read the library of jobs", file, &error)),
            }
        }
        let places: Vec<_> = places.iter().map(|file| format!("`{}`", file.display())).collect();
        let message = format!("the library of jobs is missing: neither {} is there", places.join(" nor "));
        Err(Failure::new(Reason::NotFound, message))
    }

    /// A function of the library.
    pub(crate) fn function(&self, symbol: &str) -> FunctionSpec {
        let code = FunctionCode::Native { library: self.bytes.clone(), symbol: symbol.to_owned() };
        FunctionSpec { code, parameters: Vec::new() }
    }
}

/// A job over whole files, each of which is a task's own segment.
pub(crate) fn over_files(title: String, inputs: Vec<Entry>, stages: Vec<StageSpec>, output: JobOutput) -> JobSpec {
    JobSpec { records: Some(protocol::RecordFraming::File), ..JobSpec::new(title, inputs, stages, output) }
}

fn places(folder: &Path) -> [PathBuf; 2] {
    [folder.join(NAME), folder.join("../lib/sector").join(NAME)]
}

const NAME: &str = "libastroportal.so";
