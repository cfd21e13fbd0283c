//! What functions count, in each language, each in a real SPE: that it comes with the task's result, and what cannot be counted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use daemon::settings::NodeSettings;
use node::spe::{Sandbox, SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskRun};
use protocol::{
    Counters, JobId, NodeId, RecordFormat, SectorPath, SliceId,
    limits::{COUNTER_NAME_BYTES_MAX, COUNTERS_MAX},
    message::spe::{
        AttemptId, Function, FunctionCode, PartOrder, PythonCode, PythonFunction, SegmentOrder, SegmentSource,
    },
};

/// Runs a function over lines, a text a segment; what it counted, or why it failed.
async fn counted(code: FunctionCode, texts: &[&str]) -> Result<Counters, String> {
    let settings = NodeSettings { id: NodeId::new("node-1").unwrap(), ..NodeSettings::default() };
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = Arc::new(Sandbox::new(&settings));
    let tenant = sandbox.tenant(&code).await.unwrap();
    let program = SpeProgram { executable: env!("CARGO_BIN_EXE_sector-spe").into(), arguments: vec![] };
    let mut process = SpeProcess::start(&program, sandbox.lend(scratch.path()).unwrap(), tenant).unwrap();
    process.load(&Function { code, parameters: vec![] }, vec![]).await.unwrap();
    let segments = texts.iter().zip(0..).map(|(text, number)| segment(number, text)).collect();
    let attempt = AttemptId { job: JobId(1), stage: 0, run: 0, task: 0, attempt: 0 };
    let output = tempfile::tempfile_in(scratch.path()).unwrap();
    let task = TaskRun { attempt, segments, output, buckets: 1, hash: false };
    match process.run(task, &mut |_| {}).await {
        SpeOutcome::Finished(result) => Ok(result.counters),
        SpeOutcome::FunctionFailed(error) => Err(error.message),
        other => panic!("{other:?}"),
    }
}

fn segment(number: u64, text: &str) -> (SegmentOrder, Vec<SegmentFile>) {
    let (source, path) = (SegmentSource::Local(SliceId(number.into())), SectorPath::parse("/in").unwrap());
    let part = PartOrder::plain(source, path, 0, text.len() as u64, RecordFormat::Lines);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let file = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).unwrap();
    (SegmentOrder::alone(number, part), vec![file.into()])
}

fn python(text: &str) -> FunctionCode {
    let code = PythonCode::Source { file: "counts.py".into(), text: text.into() };
    FunctionCode::Python(PythonFunction { name: "f".into(), code, requires: vec![] })
}

fn program(script: &str) -> FunctionCode {
    FunctionCode::Program { words: vec!["awk".into(), script.into()] }
}

fn in_c(body: &str) -> FunctionCode {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("f.c"), folder.path().join("f.so"));
    let text = format!(
        "#include <stdio.h>\n#include \"sector_udf.h\"\nSECTOR_UDF_LIBRARY\n\
         SECTOR_UDF_EXPORT int32_t f(const sector_input *input, sector_output *output) {{ {body} return 0; }}"
    );
    fs::write(&source, text).unwrap();
    let include = workspace().join("crates/udf/include");
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"];
    let compiled = Command::new("cc").args(flags).arg(include).arg("-o").arg(&library).arg(&source).status();
    assert!(compiled.unwrap().success());
    FunctionCode::Native { library: fs::read(library).unwrap(), symbol: "f".into() }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test]
async fn what_is_counted_over_the_segments_of_a_task_comes_with_its_result_in_every_language() {
    let mut expected = Counters::new();
    expected.add("bytes of text", 11).unwrap();
    expected.add("segments", 2).unwrap();
    let texts = ["bee\ncow\n", "ox\n"];
    let c = "sector_count(output, \"segments\", 1); sector_count(output, \"bytes of text\", input->length);";
    assert_eq!(counted(in_c(c), &texts).await.unwrap(), expected);
    let py = "def f(segment, out):\n    out.count('segments')\n    for line in segment.lines():\n        \
              out.count('bytes of text', len(line) + 1)\n";
    assert_eq!(counted(python(py), &texts).await.unwrap(), expected);
    let awk = "{ print \"reporter:counter:bytes of text,\" length($0) + 1 > \"/dev/stderr\" } \
               END { printf \"reporter:counter:segments,1\" > \"/dev/stderr\" }";
    assert_eq!(counted(program(awk), &texts).await.unwrap(), expected);
    assert_eq!(counted(FunctionCode::BuiltIn("count".into()), &texts).await.unwrap(), Counters::new());
}

#[tokio::test]
async fn bad_names_and_one_counter_too_many_are_errors_of_the_function_in_every_language() {
    let many = format!("there are more than {COUNTERS_MAX} counters");
    let c = format!(
        "char name[9]; for (int at = 0; at <= {COUNTERS_MAX}; at++) {{ snprintf(name, 9, \"%d\", at); \
         sector_count(output, name, input->length); }}"
    );
    assert!(counted(in_c(&c), &["x\n"]).await.unwrap_err().contains(&many));
    let py = format!("def f(segment, out):\n    for at in range({COUNTERS_MAX} + 1): out.count(str(at))\n");
    assert!(counted(python(&py), &["x\n"]).await.unwrap_err().contains(&many));
    // Each segment has few of its own; the task has too many.
    let py = "def f(segment, out):\n    for at in range(40): out.count(f'{segment.index}.{at}')\n";
    assert!(counted(python(py), &["x\n"]).await.is_ok());
    assert!(counted(python(py), &["x\n", "y\n"]).await.unwrap_err().contains(&many));
    let awk = "END { for (at = 0; at < 65; at++) print \"reporter:counter:\" at \",1\" > \"/dev/stderr\" }";
    assert!(counted(program(awk), &["x\n"]).await.unwrap_err().contains(&many));

    let name = "cannot be the name of a counter";
    let long = "x".repeat(COUNTER_NAME_BYTES_MAX + 1);
    for bad in ["", "a\\nb", &long] {
        let c = format!("(void)input; sector_count(output, \"{bad}\", 1);");
        assert!(counted(in_c(&c), &["x\n"]).await.unwrap_err().contains(name), "{bad}");
        let py = format!("def f(segment, out): out.count('{bad}')");
        assert!(counted(python(&py), &["x\n"]).await.unwrap_err().contains(name), "{bad}");
    }
    for (bad, said) in
        [("'a', -1", "ValueError: a counter only grows"), ("'a', 1.5", "TypeError"), ("b'a'", "TypeError")]
    {
        let error = counted(python(&format!("def f(segment, out): out.count({bad})")), &["x\n"]).await.unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let awk = "END { print \"reporter:counter:lines,many\" > \"/dev/stderr\" }";
    assert!(counted(program(awk), &["x\n"]).await.unwrap_err().contains("reporter:counter:NAME,N"));
}
