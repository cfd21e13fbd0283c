//! A job as a person asks for it, at the command line and at the web door. It has names of functions, what stages result
//! in, and the line that describes the job. Both doors say in the same words what is wrong. It never reads a file.

use bytesize::ByteSize;
use protocol::{
    RecordFraming, built_in, limits,
    message::spe::{FunctionCode, FunctionSpec, PythonCode, PythonFunction},
};

use super::{SideFileSpec, StageSpec};
use crate::ClientError;

/// A function as its name says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedFunction {
    /// All of it is in the name: a built-in function, or a program.
    Whole(FunctionCode),
    /// It is in a library or in a file of Python, which [`function_in_file`] takes.
    InFile {
        /// The file.
        file: String,
        /// The function in it.
        name: String,
    },
}

/// Reads a function's name: a built-in one, `cmd:PROGRAM ARGUMENTS`, `LIBRARY.so:SYMBOL` or `FILE.py:FUNCTION`.
///
/// # Errors
/// `Usage`, with all that a name may be.
pub fn named_function(text: &str) -> Result<NamedFunction, ClientError> {
    if built_in::BuiltIn::find(text).is_some() {
        return Ok(NamedFunction::Whole(FunctionCode::BuiltIn(text.into())));
    }
    if let Some(line) = text.strip_prefix(PROGRAM) {
        return Ok(NamedFunction::Whole(FunctionCode::Program { words: words(line)? }));
    }
    let (file, name) = text.rsplit_once(':').ok_or_else(|| {
        let names: Vec<_> = built_in::ALL.iter().map(|function| function.name).collect();
        ClientError::Usage(format!(
            "`{text}` is neither LIBRARY.so:SYMBOL, FILE.py:FUNCTION, {PROGRAM}'PROGRAM ARGUMENTS' nor a built-in \
             function ({})",
            names.join(", ")
        ))
    })?;
    Ok(NamedFunction::InFile { file: file.to_owned(), name: name.to_owned() })
}

/// The function of this name in a file with these bytes. A name that ends in `.py` is that of a Python file.
///
/// # Errors
/// `Usage` if the file is too long, or no text.
pub fn function_in_file(file: &str, name: String, bytes: Vec<u8>) -> Result<FunctionCode, ClientError> {
    check_file_bytes(file, bytes.len() as u64)?;
    let (_, last) = file.rsplit_once('/').unwrap_or(("", file));
    if !last.ends_with(PYTHON) || last == PYTHON {
        return Ok(FunctionCode::Native { library: bytes, symbol: name });
    }
    let text = String::from_utf8(bytes).map_err(|_| ClientError::Usage(format!("`{file}` is not a text in UTF-8")))?;
    // For tracebacks: their reader knows which folder it was.
    let file = last.to_owned();
    Ok(FunctionCode::Python(PythonFunction { name, code: PythonCode::Source { file, text }, requires: Vec::new() }))
}

/// Refuses a file that is too long for a function, so that nobody needs to read it.
///
/// # Errors
/// `Usage` in that case.
pub fn check_file_bytes(file: &str, bytes: u64) -> Result<(), ClientError> {
    let most = limits::LIBRARY_BYTES_MAX as u64;
    if bytes <= most {
        return Ok(());
    }
    Err(ClientError::Usage(format!("`{file}` has more than {}", ByteSize::b(most).display().iec())))
}

/// The stages of a job: its functions, what the results of each are, and the files that all of them may read. All but
/// the last send their results to buckets. A single stage has buckets only where they are `asked` for.
///
/// # Errors
/// `Usage` if `results` is neither one for all stages nor one for each.
pub fn stages(
    functions: Vec<FunctionSpec>,
    results: &[RecordFraming],
    asked: Option<u32>,
    default: u32,
    side: &[SideFileSpec],
) -> Result<Vec<StageSpec>, ClientError> {
    let results = match results {
        [only] => vec![*only; functions.len()],
        each if each.len() == functions.len() => each.to_vec(),
        each => {
            return Err(ClientError::Usage(format!(
                "`--result-records` is given {} times for {} stages: give it once, or once for each",
                each.len(),
                functions.len()
            )));
        }
    };
    let last = functions.len().saturating_sub(1);
    let stage = |(number, (function, records))| StageSpec {
        function,
        // The last stage's results stay where they are made, unless buckets are requested and it is the only stage.
        buckets: (number < last || (last == 0 && asked.is_some())).then_some(asked.unwrap_or(default)),
        records,
        side_files: side.to_vec(),
    };
    Ok(functions.into_iter().zip(results).enumerate().map(stage).collect())
}

/// The line that describes a job.
pub fn job_title(functions: &[&str], inputs: &[Vec<String>]) -> String {
    let inputs: Vec<_> = inputs.iter().map(|patterns| patterns.join(" ")).collect();
    format!("{} over {}", functions.join(", then "), inputs.join(" with "))
}

/// Reads `MIN:MAX` with sizes like `8MiB:128MB`.
///
/// # Errors
/// A sentence that says how to write it.
pub fn segment_bytes(text: &str) -> Result<(u64, u64), String> {
    let size = |text: &str| text.parse::<ByteSize>().map(|size| size.as_u64());
    let (min, max) = text.split_once(':').ok_or("write MIN:MAX, for example 8MiB:128MiB")?;
    let (min, max) = (size(min)?, size(max)?);
    if min == 0 || min > max {
        return Err("the smallest segment must be more than nothing and no more than the largest".into());
    }
    Ok((min, max))
}

/// The words of a command line, split as a shell would split them; no other shell syntax is applied.
fn words(line: &str) -> Result<Vec<String>, ClientError> {
    let unended = || ClientError::Usage(format!("`{line}` has a quote that does not end"));
    let words = shlex::split(line).ok_or_else(unended)?;
    if words.is_empty() {
        let message = format!("`{PROGRAM}` names no program: write {PROGRAM}'PROGRAM ARGUMENTS'");
        return Err(ClientError::Usage(message));
    }
    // Quoted, it is a word as any other.
    let is_for_a_shell = |word: &&str| SHELL_WORDS.contains(word) && words.iter().any(|other| other == word);
    if let Some(word) = line.split_whitespace().find(is_for_a_shell) {
        let message = format!(
            "`{PROGRAM}` starts a program without a shell, which would be given `{word}` as an argument: write \
             {PROGRAM}sh -c '…' around what a shell shall read"
        );
        return Err(ClientError::Usage(message));
    }
    Ok(words)
}

/// What means something to a shell alone.
const SHELL_WORDS: [&str; 8] = ["|", "||", "&&", ";", "<", ">", ">>", "2>"];

/// The prefix of a program and its arguments.
const PROGRAM: &str = "cmd:";
/// The ending of a file of Python.
const PYTHON: &str = ".py";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn whole(text: &str) -> FunctionCode {
        match named_function(text).unwrap() {
            NamedFunction::Whole(code) => code,
            NamedFunction::InFile { file, name } => panic!("{name} in {file}"),
        }
    }

    #[test]
    fn a_function_is_built_in_a_program_or_in_a_file() {
        assert_eq!(whole("count"), FunctionCode::BuiltIn("count".into()));
        let in_file = NamedFunction::InFile { file: "/a:b.py".into(), name: "stars".into() };
        assert_eq!(named_function("/a:b.py:stars").unwrap(), in_file);
        let refused = named_function("no-such").unwrap_err().to_string();
        assert!(refused.contains("partition"), "the built-in ones are named: {refused}");
    }

    #[test]
    fn the_words_of_a_program_are_split_as_a_shell_does_and_left_alone() {
        let FunctionCode::Program { words } = whole("cmd:awk '{ print $1 }' a\\ b $HOME *") else {
            panic!("no program")
        };
        assert_eq!(words, ["awk", "{ print $1 }", "a b", "$HOME", "*"]);
        for right in ["cmd:grep '>'", "cmd:awk '$1 > 5 { print }'", "cmd:sh -c 'sort | uniq -c'"] {
            assert!(named_function(right).is_ok(), "{right}");
        }
        for wrong in ["cmd:", "cmd:awk '{", "cmd:wc -l > out", "cmd:sort | uniq -c"] {
            assert!(matches!(named_function(wrong), Err(ClientError::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn a_function_in_a_python_file_travels_as_its_text() {
        let code = function_in_file("/lib/sky.py", "stars".into(), b"def stars(x): pass".to_vec()).unwrap();
        let FunctionCode::Python(found) = code else { panic!("no Python") };
        assert_eq!(found.name, "stars");
        assert!(matches!(found.code, PythonCode::Source { file, text } if file == "sky.py" && text.starts_with("def")));
        assert!(function_in_file("/sky.py", "stars".into(), vec![0xff]).is_err());
        let library = function_in_file("/lib/sky.so", "stars".into(), vec![0xff]).unwrap();
        assert!(matches!(library, FunctionCode::Native { symbol, .. } if symbol == "stars"));
        let most = limits::LIBRARY_BYTES_MAX as u64;
        assert!(check_file_bytes("/a", most).is_ok() && check_file_bytes("/a", most + 1).is_err());
    }

    #[test]
    fn results_are_given_once_or_for_each_stage_and_the_last_has_no_buckets() {
        let function = |name: &str| FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters: vec![] };
        let two = vec![function("hash"), function("reduce")];
        let lines = RecordFraming::Lines;
        let made = stages(two.clone(), &[lines], None, 6, &[]).unwrap();
        assert_eq!(
            made.iter().map(|stage| (stage.buckets, stage.records)).collect::<Vec<_>>(),
            [(Some(6), lines), (None, lines)]
        );
        assert!(stages(two, &[lines; 3], None, 6, &[]).is_err());
        let alone = |asked| stages(vec![function("copy")], &[lines], asked, 6, &[]).unwrap()[0].buckets;
        assert_eq!((alone(None), alone(Some(3))), (None, Some(3)));
    }

    #[test]
    fn segment_sizes_take_units_and_refuse_nonsense() {
        assert_eq!(segment_bytes("8MiB:1GB"), Ok((8 << 20, 1_000_000_000)));
        for text in ["8MiB", "0:1", "2:1", "x:y", ":"] {
            assert!(segment_bytes(text).is_err(), "{text}");
        }
    }
}
