//! A function in an SPE of its own, a real one, without a node around it.
// Each test uses some of it.
#![allow(clippy::unwrap_used, dead_code)]

use std::{
    fs::{self, File},
    io::{Read, Seek, Write},
    path::Path,
    process::Command,
    sync::Arc,
};

use protocol::{
    Counters, JobId, RecordFraming, SectorPath, SideFileName, SliceId,
    message::spe::{
        AttemptId, FunctionCode, FunctionSpec, PartOrder, PythonCode, PythonFunction, SegmentOrder, SegmentOutput,
        SegmentSource,
    },
};
use spe::{Sandbox, SandboxSettings, SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskRun};

/// What a function wrote and counted, or why it failed.
pub(crate) type Ended = Result<(Vec<u8>, Counters), String>;
/// What it printed: while it was loaded, and over each segment.
pub(crate) type Heard = Vec<(Option<u64>, String)>;

/// Runs a function over lines, a text a segment, with these side files; what it wrote and counted, or why it failed.
pub(crate) async fn run(code: FunctionCode, side: &[(&str, &[u8])], texts: &[&str]) -> Ended {
    run_and_hear(code, side, texts).await.0
}

/// The same, with what it printed: while it was loaded, and over each segment.
pub(crate) async fn run_and_hear(code: FunctionCode, side: &[(&str, &[u8])], texts: &[&str]) -> (Ended, Heard) {
    let settings = SandboxSettings { node: "node-1".into(), ..SandboxSettings::default() };
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = Arc::new(Sandbox::new(&settings));
    let tenant = sandbox.runtime_kind(&code).await.unwrap();
    let program = SpeProgram { executable: env!("CARGO_BIN_EXE_sector-spe").into(), arguments: vec![] };
    let mut process = SpeProcess::start(&program, sandbox.allocate(scratch.path()).unwrap(), tenant).unwrap();
    let side = side.iter().map(|(name, bytes)| (SideFileName::new(*name).unwrap(), file(bytes))).collect();
    let loaded = process.load(&FunctionSpec { code, parameters: vec![] }, side).await;
    let mut printed = process.take_printed().segments;
    if let Err(refusal) = loaded {
        return (Err(refusal.message), heard(printed));
    }
    let segments = texts.iter().zip(0..).map(|(text, number)| segment(number, text)).collect();
    let attempt = AttemptId { job: JobId(1), stage: 0, epoch: 0, task: 0, attempt: 0 };
    let mut output = tempfile::tempfile_in(scratch.path()).unwrap();
    let task = TaskRun { attempt, segments, output: output.try_clone().unwrap(), buckets: 1 };
    let outcome = process.run(task, &mut |_| {}).await;
    printed.extend(process.take_printed().segments);
    let ended = match outcome {
        SpeOutcome::Finished(result) => {
            let mut written = Vec::new();
            output.rewind().unwrap();
            output.read_to_end(&mut written).unwrap();
            Ok((written, result.counters))
        }
        SpeOutcome::FunctionFailed(error) => Err(error.message),
        other => panic!("{other:?}"),
    };
    (ended, heard(printed))
}

fn heard(printed: Vec<SegmentOutput>) -> Heard {
    printed.into_iter().map(|output| (output.segment, output.text())).collect()
}

/// The function `f` of a module.
pub(crate) fn python(text: &str) -> FunctionCode {
    let code = PythonCode::Source { file: "f.py".into(), text: text.into() };
    FunctionCode::Python(PythonFunction { name: "f".into(), code, requires: vec![] })
}

pub(crate) fn program(words: &[&str]) -> FunctionCode {
    FunctionCode::Program { words: words.iter().map(|word| (*word).to_owned()).collect() }
}

/// A function with this body, which has `input` and `output`.
pub(crate) fn in_c(body: &str) -> FunctionCode {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("f.c"), folder.path().join("f.so"));
    let text = format!(
        "#include <stdio.h>\n#include \"sector_udf.h\"\nSECTOR_UDF_LIBRARY\n\
         SECTOR_UDF_EXPORT int32_t f(const sector_input *input, sector_output *output) {{ {body} return 0; }}"
    );
    fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../udf/include");
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"];
    let compiled = Command::new("cc").args(flags).arg(include).arg("-o").arg(&library).arg(&source).status();
    assert!(compiled.unwrap().success());
    FunctionCode::Native { library: fs::read(library).unwrap(), symbol: "f".into() }
}

fn segment(number: u64, text: &str) -> (SegmentOrder, Vec<SegmentFile>) {
    let (source, path) = (SegmentSource::Local(SliceId(number.into())), SectorPath::parse("/in").unwrap());
    let part = PartOrder::plain(source, path, 0, text.len() as u64, RecordFraming::Lines);
    (SegmentOrder::single(number, part), vec![file(text.as_bytes()).into()])
}

/// A file that is open for reading alone.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).unwrap()
}
