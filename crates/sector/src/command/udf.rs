//! Resolves `--udf`: a built-in function, one of a library, one of a Python file, or a program. Its code is read here
//! and travels with the job; this command never runs it.

use std::{fs, path::Path};

use protocol::{
    Reason, limits,
    message::spe::{FunctionCode, FunctionSpec, PythonCode, PythonFunction},
};
use terminal::{failure::Failure, show};

/// Reads a function's name.
pub(super) fn function(text: &str) -> Result<FunctionSpec, Failure> {
    let code = if functions::find(text).is_some() {
        FunctionCode::BuiltIn(text.into())
    } else if let Some(line) = text.strip_prefix(PROGRAM) {
        FunctionCode::Program { words: words(line)? }
    } else {
        in_file(text)?
    };
    Ok(FunctionSpec { code, parameters: Vec::new() })
}

/// The words of a command line, split as a shell would split them; no other shell syntax is applied.
fn words(line: &str) -> Result<Vec<String>, Failure> {
    let words = shlex::split(line).ok_or_else(|| Failure::usage(format!("`{line}` has a quote that does not end")))?;
    if words.is_empty() {
        return Err(Failure::usage(format!("`{PROGRAM}` names no program: write {PROGRAM}'PROGRAM ARGUMENTS'")));
    }
    Ok(words)
}

/// A library or a Python file, and the function in it.
fn in_file(text: &str) -> Result<FunctionCode, Failure> {
    let (file, name) = text.rsplit_once(':').ok_or_else(|| {
        let names: Vec<_> = functions::ALL.iter().map(|(name, _)| *name).collect();
        Failure::usage(format!(
            "`{text}` is neither LIBRARY.so:SYMBOL, FILE.py:FUNCTION, {PROGRAM}'PROGRAM ARGUMENTS' nor a built-in \
             function ({})",
            names.join(", ")
        ))
    })?;
    let (file, name) = (Path::new(file), name.to_owned());
    let bytes = fs::read(file).map_err(|error| Failure::local("read", file, &error))?;
    if bytes.len() > limits::LIBRARY_BYTES_MAX {
        let most = show::size(limits::LIBRARY_BYTES_MAX as u64);
        return Err(Failure::usage(format!("`{}` has more than {most}", file.display())));
    }
    if file.extension().is_none_or(|extension| extension != "py") {
        return Ok(FunctionCode::Native { library: bytes, symbol: name });
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Reason::Invalid, format!("`{}` is not a text in UTF-8", file.display())))?;
    // For tracebacks: their reader knows which folder it was.
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(FunctionCode::Python(PythonFunction { name, code: PythonCode::Source { file, text }, requires: Vec::new() }))
}

/// The prefix of a program and its arguments.
const PROGRAM: &str = "cmd:";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Status;

    use super::*;

    #[test]
    fn the_functions_that_clients_know_are_those_that_spes_have() {
        let declared: Vec<_> = protocol::built_in::ALL.iter().map(|function| function.name).collect();
        assert_eq!(declared, functions::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn a_function_is_built_in_or_in_a_library() {
        assert!(matches!(function("count").unwrap().code, FunctionCode::BuiltIn(_)));
        let failure = function("no-such").err().unwrap();
        assert_eq!(failure.reason.status(), Status::Usage);
        assert!(failure.message.contains("partition"), "the built-in ones are named: {}", failure.message);
        assert_eq!(function("/nonexistent.so:f").err().unwrap().reason.status(), Status::NotFound);
    }

    #[test]
    fn the_words_of_a_program_are_split_as_a_shell_does_and_left_alone() {
        let FunctionCode::Program { words } = function("cmd:awk '{ print $1 }' a\\ b $HOME *").unwrap().code else {
            panic!("no program")
        };
        assert_eq!(words, ["awk", "{ print $1 }", "a b", "$HOME", "*"]);
        for wrong in ["cmd:", "cmd:awk '{"] {
            assert_eq!(function(wrong).err().unwrap().reason.status(), Status::Usage, "{wrong}");
        }
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
