//! Resolves `--udf`: a built-in function, one of a library, one of a Python file, or a program. Its code is read here
//! and travels with the job; this command never runs it.

use std::{fs, path::Path};

use client::job::{FunctionSpec, NamedFunction, function_in_file, named_function};
use terminal::failure::Failure;

/// Reads a function's name, and its file where it is in one.
pub(super) fn function(text: &str) -> Result<FunctionSpec, Failure> {
    let code = match named_function(text)? {
        NamedFunction::Whole(code) => code,
        NamedFunction::InFile { file, name } => {
            let bytes = fs::read(&file).map_err(|error| Failure::local("read", Path::new(&file), &error))?;
            function_in_file(&file, name, bytes)?
        }
    };
    Ok(FunctionSpec { code, parameters: Vec::new() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::{
        Status,
        message::spe::{FunctionCode, PythonCode},
    };

    use super::*;

    #[test]
    fn the_functions_that_clients_know_are_those_that_spes_have() {
        let declared: Vec<_> = protocol::built_in::ALL.iter().map(|function| (function.name, function.does)).collect();
        assert_eq!(declared, functions::ALL);
    }

    #[test]
    fn a_function_is_built_in_or_in_a_library() {
        assert!(matches!(function("count").unwrap().code, FunctionCode::BuiltIn(_)));
        assert_eq!(function("no-such").err().unwrap().reason.status(), Status::Usage);
        assert_eq!(function("/nonexistent.so:f").err().unwrap().reason.status(), Status::NotFound);
    }

    #[test]
    fn a_function_in_a_python_file_travels_as_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sky.py");
        fs::write(&file, "def stars(segment):\n    pass\n").unwrap();
        let FunctionCode::Python(found) = function(&format!("{}:stars", file.display())).unwrap().code else {
            panic!("no Python")
        };
        assert_eq!(found.name, "stars");
        assert!(matches!(found.code, PythonCode::Source { file, text } if file == "sky.py" && text.starts_with("def")));
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(function(&format!("{}:stars", file.display())).err().unwrap().reason.status(), Status::Usage);
    }
}
