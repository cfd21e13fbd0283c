//! Python modules of the user's own that travel with a function (`--py-modules`). A folder that is a package goes as that
//! package; another folder holds modules, as one in `PYTHONPATH` does. Its files are read here, and laid down in the
//! scratch folder of each SPE. It never sends what Python itself has made from them, nor what is hidden.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use protocol::{
    limits,
    message::spe::{FunctionCode, FunctionSpec, ModuleFile},
};

use crate::ClientError;

/// Reads the files of modules: each path is a file `NAME.py`, a package's folder, or a folder of modules.
///
/// # Errors
/// `Usage` if a path is neither, two files would lie at one place, or all together are longer than
/// [`LIBRARY_BYTES_MAX`](limits::LIBRARY_BYTES_MAX). `File` if something cannot be read.
pub fn read_modules(paths: &[PathBuf]) -> Result<Vec<ModuleFile>, ClientError> {
    let mut read = Reading::default();
    for path in paths {
        let name = path.canonicalize().map_err(|error| unreadable(path, error))?;
        let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !path.is_dir() {
            if path.extension().is_none_or(|extension| extension != "py") {
                let message = format!("`{}` is no module of Python: give a file NAME.py or a folder", path.display());
                return Err(ClientError::Usage(message));
            }
            read.file(path, name)?;
        } else if path.join(PACKAGE_MARK).is_file() {
            read.folder(path, &format!("{name}/"))?;
        } else {
            read.folder(path, "")?;
        }
    }
    read.files.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some([twice, ..]) = read.files.windows(2).find(|pair| matches!(pair, [a, b] if a.path == b.path)) {
        return Err(ClientError::Usage(format!("two of the modules have a file `{}`: send one of them", twice.path)));
    }
    Ok(read.files)
}

/// Gives the modules to all functions in Python.
///
/// # Errors
/// `Usage` if none is in Python.
pub fn give_modules(functions: &mut [FunctionSpec], modules: &[ModuleFile]) -> Result<(), ClientError> {
    if modules.is_empty() {
        return Ok(());
    }
    let mut has_python = false;
    for function in functions {
        if let FunctionCode::Python(python) = &mut function.code {
            python.code = python.code.clone().with_modules(modules.to_vec());
            has_python = true;
        }
    }
    if has_python {
        return Ok(());
    }
    Err(ClientError::Usage("modules of Python are for functions in Python, of which the job has none".into()))
}

#[derive(Default)]
struct Reading {
    files: Vec<ModuleFile>,
    bytes: usize,
}

impl Reading {
    fn folder(&mut self, folder: &Path, prefix: &str) -> Result<(), ClientError> {
        for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
            let entry = entry.map_err(|error| unreadable(folder, error))?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            // Links are followed where they lead to files: a folder may lead back to one above it.
            let is_folder = entry.file_type().map_err(|error| unreadable(&path, error))?.is_dir();
            if name.starts_with('.') || name == CACHE || name.ends_with(".pyc") {
                continue;
            }
            if is_folder {
                self.folder(&path, &format!("{prefix}{name}/"))?;
            } else if path.is_file() {
                self.file(&path, format!("{prefix}{name}"))?;
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &Path, path: String) -> Result<(), ClientError> {
        let most = limits::LIBRARY_BYTES_MAX;
        let length = fs::metadata(file).map_err(|error| unreadable(file, error))?.len();
        // Before it is read: somebody may have named a folder of data.
        if length > (most - self.bytes) as u64 || self.files.len() >= limits::ORDER_WORDS_MAX {
            let message = format!(
                "the modules are longer than {most} bytes together: install what is large on the nodes, and give data as \
                 side files"
            );
            return Err(ClientError::Usage(message));
        }
        let bytes = fs::read(file).map_err(|error| unreadable(file, error))?;
        self.bytes = most.min(self.bytes + bytes.len());
        self.files.push(ModuleFile { path, bytes });
        Ok(())
    }
}

fn unreadable(file: &Path, source: io::Error) -> ClientError {
    ClientError::File { what: "read", file: file.to_owned(), source }
}

/// What makes a folder a package.
const PACKAGE_MARK: &str = "__init__.py";
/// Where Python keeps what it has made of modules.
const CACHE: &str = "__pycache__";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;

    use super::*;

    fn paths(paths: &[PathBuf]) -> Result<Vec<String>, Status> {
        let read = read_modules(paths).map_err(|error| error.status())?;
        Ok(read.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn a_package_goes_by_its_name_and_a_folder_of_modules_without() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for made in ["sky/deep", "sky/__pycache__", "sky/.git", "lib/inner"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        for file in [
            "sky/__init__.py",
            "sky/deep/data.txt",
            "sky/__pycache__/x.pyc",
            "sky/.git/config",
            "lib/a.py",
            "lib/inner/b.py",
            "one.py",
        ] {
            fs::write(root.join(file), file).unwrap();
        }
        let named = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
        assert_eq!(
            paths(&named(&["sky", "lib", "one.py"])),
            Ok(["a.py", "inner/b.py", "one.py", "sky/__init__.py", "sky/deep/data.txt"].map(str::to_owned).to_vec())
        );
        assert_eq!(paths(&named(&["one.py", "one.py"])), Err(Status::Usage));
        assert_eq!(paths(&named(&["sky/deep/data.txt"])), Err(Status::Usage));
        assert_eq!(paths(&named(&["none"])), Err(Status::NotFound));
        fs::write(root.join("lib/large"), vec![0; limits::LIBRARY_BYTES_MAX]).unwrap();
        assert_eq!(paths(&named(&["lib"])), Err(Status::Usage));
    }

    #[test]
    fn modules_are_for_functions_in_python() {
        let program = FunctionSpec { code: FunctionCode::Program { words: vec!["tr".into()] }, parameters: vec![] };
        let modules = [ModuleFile { path: "a.py".into(), bytes: vec![] }];
        assert!(give_modules(&mut [program.clone()], &modules).is_err());
        assert!(give_modules(&mut [program], &[]).is_ok());
    }
}
