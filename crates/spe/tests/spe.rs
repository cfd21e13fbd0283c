//! The SPE as a whole (paper, 3.3 and 3.5.2): a real child process, functions of all three kinds, and every way they
//! may end. The child is `src/bin/sector-spe.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use protocol::{
    JobId, Reason, RecordFraming, SectorPath, SliceId, Status,
    message::spe::{AttemptId, FunctionCode, FunctionFailure, FunctionSpec, PartOrder, SegmentOrder, SegmentSource},
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use spe::{
    RuntimeKind, Sandbox, SandboxAllocation, SandboxSettings, SegmentFile, SpeOutcome, SpeProcess, SpeProgram,
    TaskOutput, TaskRun,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Another process of this executable: a node with an SPE that never ends, and the SPE's process id on its output.
const NODE_ARGUMENTS: &[&str] = &["a_node_to_be_killed", "--exact", "--ignored", "--nocapture", "--test-threads=1"];

#[tokio::test]
#[ignore = "the node of another test, to be killed"]
async fn a_node_to_be_killed() {
    // When run by hand (`--include-ignored`) there is no library for it.
    let Some(library) = env::var_os(LIBRARY_VARIABLE) else { return };
    let mut spe = Spe::with(&native(&fs::read(library).unwrap(), "never_ends", &[])).await;
    let id = spe.process.id().unwrap();
    let output = spe.output(0);
    let segments = vec![whole(0, b"x", RecordFraming::File)];
    let task = TaskRun { attempt: attempt(0), segments, output, buckets: 1 };
    spe.process.run(task, &mut |_| println!("\nat work: {id}")).await;
}

/// Where [`NODE_ARGUMENTS`] finds its library.
const LIBRARY_VARIABLE: &str = "SPE_TEST_LIBRARY";

#[test]
fn a_function_that_never_ends_ends_with_its_node() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("bad.so");
    fs::write(&library, &*BAD).unwrap();
    let mut node = Command::new(env::current_exe().unwrap())
        .args(NODE_ARGUMENTS)
        .env(LIBRARY_VARIABLE, &library)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let id = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("at work: ").map(str::to_owned)).unwrap();
    // `kill -9`: no destructor runs, and nobody tells the SPE.
    node.kill().unwrap();
    node.wait().unwrap();
    // It is gone, or a zombie that waits for the process that inherited it.
    let is_dead = || fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, |stat| stat.contains(") Z "));
    while !is_dead() {
        thread::yield_now();
    }
}

/// Where an SPE runs, with a node's usual settings.
fn place(folder: &Path) -> SandboxAllocation {
    Arc::new(Sandbox::new(&SandboxSettings::default())).allocate(folder).unwrap()
}

/// A scratch folder and an SPE in it.
struct Spe {
    process: SpeProcess,
    scratch: TempDir,
}

impl Spe {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let program = SpeProgram { executable: env!("CARGO_BIN_EXE_sector-spe").into(), arguments: vec![] };
        Self { process: SpeProcess::start(&program, place(scratch.path()), RuntimeKind::Library).unwrap(), scratch }
    }

    async fn with(function: &FunctionSpec) -> Self {
        let mut spe = Self::start();
        spe.process.load(function, vec![]).await.unwrap();
        spe
    }

    /// Runs a task into a fresh scratch file and returns that file.
    async fn run(
        &mut self,
        task: u32,
        segments: Vec<(SegmentOrder, Vec<SegmentFile>)>,
        buckets: u32,
    ) -> (SpeOutcome, File) {
        let output = self.output(task);
        let task = TaskRun { attempt: attempt(task), segments, output: output.try_clone().unwrap(), buckets };
        (self.process.run(task, &mut |_| {}).await, output)
    }

    fn output(&self, task: u32) -> File {
        let path = self.scratch.path().join(format!("output-{task}"));
        File::options().create_new(true).read(true).write(true).open(path).unwrap()
    }
}

fn attempt(task: u32) -> AttemptId {
    AttemptId { job: JobId(1), stage: 0, epoch: 0, task, attempt: 0 }
}

fn file_with(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn segment(number: u64, from: u64, until: u64, records: RecordFraming) -> SegmentOrder {
    let source = SegmentSource::Local(SliceId(number.into()));
    let path = SectorPath::parse(&format!("/in/{number}")).unwrap();
    SegmentOrder::single(number, PartOrder::plain(source, path, from, until, records))
}

/// One segment over the whole of a new file.
fn whole(number: u64, bytes: &[u8], records: RecordFraming) -> (SegmentOrder, Vec<SegmentFile>) {
    (segment(number, 0, bytes.len() as u64, records), vec![file_with(bytes).into()])
}

fn built_in(name: &str, parameters: &[(&str, &str)]) -> FunctionSpec {
    function(FunctionCode::BuiltIn(name.into()), parameters)
}

fn native(library: &[u8], symbol: &str, parameters: &[(&str, &str)]) -> FunctionSpec {
    function(FunctionCode::Native { library: library.to_vec(), symbol: symbol.into() }, parameters)
}

fn function(code: FunctionCode, parameters: &[(&str, &str)]) -> FunctionSpec {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    FunctionSpec { code, parameters }
}

fn finished((outcome, output): (SpeOutcome, File)) -> (TaskOutput, BTreeMap<u32, Vec<u8>>) {
    let SpeOutcome::Finished(result) = outcome else { panic!("{outcome:?}") };
    let buckets = buckets(&result, output);
    (result, buckets)
}

fn buckets(result: &TaskOutput, mut output: File) -> BTreeMap<u32, Vec<u8>> {
    let mut bytes = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut bytes).unwrap();
    let mut buckets: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for chunk in &result.chunks {
        let from = chunk.offset as usize;
        buckets.entry(chunk.bucket).or_default().extend(&bytes[from..from + chunk.bytes as usize]);
    }
    buckets
}

fn failed((outcome, _): (SpeOutcome, File)) -> FunctionFailure {
    let SpeOutcome::FunctionFailed(error) = outcome else { panic!("{outcome:?}") };
    error
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A C source as a library.
fn compile(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (file, library) = (folder.path().join("source.c"), folder.path().join("library.so"));
    fs::write(&file, source).unwrap();
    let status = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(workspace().join("crates/udf/include"))
        .arg("-o")
        .args([&library, &file])
        .status()
        .expect("a C compiler is needed for this test");
    assert!(status.success());
    fs::read(library).unwrap()
}

/// A library with functions that end in every way but the right one.
static BAD: LazyLock<Vec<u8>> = LazyLock::new(|| compile(BAD_SOURCE));

const BAD_SOURCE: &str = r#"
    #define _DEFAULT_SOURCE
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    _Static_assert(sizeof(sector_input) == 96 && sizeof(sector_output) == 56, "as on the Rust side");
    _Static_assert(sizeof(sector_stream) == 56, "as on the Rust side");
    #define FUNCTION(name) \
        int32_t name(const sector_input *input, sector_output *output); \
        int32_t name(const sector_input *input, sector_output *output)
    FUNCTION(errs) { output->fail(output, input->segment + 4, "no such star"); return 7; }
    FUNCTION(errs_silently) { (void)input; (void)output; return -3; }
    FUNCTION(aborts) { (void)input; (void)output; fprintf(stderr, "out of\ncheese\n"); abort(); }
    FUNCTION(segfaults) { (void)output; *(volatile int *)(input->length) = 1; return 0; }
    FUNCTION(divides) { (void)input; (void)output; raise(SIGFPE); return 0; }
    FUNCTION(exits) { (void)input; (void)output; exit(42); }
    FUNCTION(ends_itself) { (void)input; (void)output; raise(SIGTERM); return 0; }
    FUNCTION(emits_to_full) {
        static char bytes[3 << 20];
        (void)input;
        return output->emit(output, 0, bytes, sizeof bytes);
    }
    FUNCTION(fills_its_output) {
        char byte;
        (void)input;
        printf("what it prints is no message to the node\n");
        fflush(stdout);
        return read(0, &byte, 1) == 0 ? output->emit(output, 0, "fine\n", 5) : 1;
    }
    FUNCTION(never_ends) {
        (void)input;
        output->emit(output, 0, "", 0);
        for (;;) { usleep(1000); output->progress(output, 1); }
    }
"#;

#[tokio::test]
async fn a_built_in_function_runs_over_the_whole_and_over_parts_of_files() {
    let mut spe = Spe::with(&built_in("copy", &[])).await;
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
    let file = file_with(&bytes);
    let records = RecordFraming::Fixed(100);
    let segments = vec![
        (segment(5, 100_000, 2_500_000, records), vec![file.try_clone().unwrap().into()]),
        whole(6, b"", RecordFraming::Fixed(100)),
        (segment(7, 0, 100_000, records), vec![file.into()]),
    ];
    let (result, buckets) = finished(spe.run(0, segments, 1).await);
    assert_eq!((result.records_in, result.bytes_in, result.records_out), (25_000, 2_500_000, 25_000));
    assert!(buckets[&0] == [&bytes[100_000..2_500_000], &bytes[..100_000]].concat());
    assert_eq!(result.chunks.len(), 1);
}

/// The cost of a start, for `docs/performance.md`: not a test, since it checks no limit.
#[tokio::test]
#[ignore = "a measurement: `cargo test -p sector-spe --test spe -- --ignored --nocapture what_the_start`"]
async fn what_the_start_of_an_spe_takes() {
    let program = env!("CARGO_BIN_EXE_sector-spe");
    let (mut plain, mut confined) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let begun = std::time::Instant::now();
        // The same program, which ends at once if no node is at its standard input.
        let status = Command::new(program).stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        plain.push(begun.elapsed());
        assert!(!status.success());
        let begun = std::time::Instant::now();
        let spe = Spe::with(&built_in("copy", &[])).await;
        confined.push(begun.elapsed());
        drop(spe);
    }
    for (what, mut times) in
        [("the program alone, until it has ended", plain), ("an SPE, until it has loaded", confined)]
    {
        times.sort();
        let [tenth, median, ninetieth] = [20, 100, 180].map(|at| times[at].as_micros());
        println!("{what}: median {median} µs ({tenth}-{ninetieth})");
    }
}

#[tokio::test]
async fn one_process_runs_several_tasks_and_functions_one_after_the_other() {
    let mut spe = Spe::with(&built_in("count", &[])).await;
    let (_, buckets) = finished(spe.run(0, vec![whole(1, b"a\nb", RecordFraming::Lines)], 1).await);
    assert_eq!(buckets[&0], b"/in/1\t0\t2\t3\n");
    let id = spe.process.id();
    spe.process.load(&built_in("spread", &[("each", "64")]), vec![]).await.unwrap();
    let all: Vec<u8> = (0..=255).collect();
    let (result, buckets) = finished(spe.run(1, vec![whole(2, &all, RecordFraming::Fixed(1))], 4).await);
    assert_eq!(result.records_out, 256);
    assert!((0..4).all(|bucket| buckets[&bucket] == all[64 * bucket as usize..64 * (bucket as usize + 1)]));
    let (result, buckets) = finished(spe.run(2, vec![], 4).await);
    assert_eq!((result.records_in, buckets.len()), (0, 0));
    assert_eq!(spe.process.id(), id);
}

#[tokio::test]
async fn however_a_file_of_lines_is_cut_each_line_is_processed_once() {
    let mut random = 7u32;
    let mut lines = Vec::new();
    for number in 0..4_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        lines.push(format!("{number} {}", "x".repeat((random >> 24) as usize % 90)));
    }
    let text = lines.join("\n");
    let file = file_with(text.as_bytes());
    for pieces in [1, 2, 57, 1_500] {
        let mut spe = Spe::with(&built_in("copy", &[])).await;
        let end = text.len() as u64;
        let cut = |at: u64| end * at / pieces;
        let segments = (0..pieces)
            .map(|at| (segment(at, cut(at), cut(at + 1), RecordFraming::Lines), vec![file.try_clone().unwrap().into()]))
            .collect();
        let (result, buckets) = finished(spe.run(0, segments, 1).await);
        assert!(buckets[&0] == format!("{text}\n").as_bytes(), "{pieces} pieces");
        assert_eq!((result.records_in, result.bytes_in), (4_000, end));
    }
}

#[tokio::test]
async fn three_thousand_small_files_make_one_task_and_few_are_open_at_once() {
    let mut spe = Spe::with(&built_in("words", &[])).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let segments = (0..3_000u64)
        .map(|number| {
            let text = format!("file{number} common");
            let opened = Arc::clone(&opened);
            let file = SegmentFile::opened_by(move || {
                opened.fetch_add(1, Ordering::Relaxed);
                let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
                assert!(descriptors < 500, "{descriptors} descriptors");
                Ok(file_with(text.as_bytes()))
            });
            (segment(number, 0, format!("file{number} common").len() as u64, RecordFraming::File), vec![file])
        })
        .collect();
    let (result, buckets) = finished(spe.run(0, segments, 3).await);
    assert_eq!((result.records_in, result.records_out, opened.load(Ordering::Relaxed)), (3_000, 6_000, 3_000));
    let mut index = BTreeSet::new();
    for (bucket, bytes) in buckets {
        spe.process.load(&built_in("index", &[]), vec![]).await.unwrap();
        let (_, lines) = finished(spe.run(bucket + 1, vec![whole(0, &bytes, RecordFraming::File)], 1).await);
        index.extend(String::from_utf8(lines[&0].clone()).unwrap().lines().map(str::to_owned));
    }
    assert_eq!(index.len(), 3_001);
    assert!(index.contains("file77\t/in/77"));
    assert_eq!(index.first().unwrap().split(' ').count(), 3_000);
}

#[test]
fn the_header_is_strict_c_and_cpp() {
    let header = workspace().join("crates/udf/include/sector_udf.h");
    for (compiler, standard) in [("cc", "c11"), ("cc", "c17"), ("c++", "c++11"), ("c++", "c++20")] {
        let language = if compiler == "cc" { "c" } else { "c++" };
        let command = Command::new(compiler)
            .args(["-x", language, &format!("-std={standard}"), "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(["-fsyntax-only", "-"])
            .arg("-include")
            .arg(&header)
            .stdin(Stdio::piped())
            .spawn();
        let Ok(mut command) = command else {
            assert_eq!(compiler, "c++", "a C compiler is needed for this test");
            continue;
        };
        let source =
            "SECTOR_UDF_LIBRARY\nuint64_t hash(void);\nuint64_t hash(void) { return sector_key_hash(\"a\", 1); }\n";
        command.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(command.wait().unwrap().success(), "{compiler} {standard}");
    }
}

#[tokio::test]
async fn the_example_in_c_is_compiled_and_run() {
    let library = compile(&fs::read_to_string(workspace().join("examples/udf-c/matching_lines.c")).unwrap());
    let mut spe = Spe::with(&native(&library, "matching_lines", &[("text", "ee")])).await;
    let (result, buckets) = finished(spe.run(0, vec![whole(0, b"bee\ncow\ntree", RecordFraming::Lines)], 1).await);
    assert_eq!(buckets[&0], b"bee\ntree");
    assert_eq!((result.records_in, result.records_out), (3, 2));
    let error = failed(spe.run(1, vec![whole(3, b"bee", RecordFraming::File)], 1).await);
    assert!(error.message.contains("--records lines") && error.segment == 3 && error.record.is_none());
    let folder = spe.scratch;
    drop(spe.process);
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "only the two outputs are left in the scratch folder");
}

#[tokio::test]
async fn the_word_count_in_c_counts_in_two_stages_and_names_what_is_none_of_its_lines() {
    let library = compile(&fs::read_to_string(workspace().join("examples/udf-c/word_count.c")).unwrap());
    let mut spe = Spe::with(&native(&library, "words", &[])).await;
    // More words than the table begins with, in two segments of different formats.
    let text: String = (0..3_000).map(|word| format!(" w{}\tW{word} \n", word % 1_700)).collect();
    let segments = vec![whole(0, text.as_bytes(), RecordFraming::Lines), whole(1, b"w7  w7", RecordFraming::File)];
    let (result, words) = finished(spe.run(0, segments, 3).await);
    assert_eq!(result.counters.get("words"), Some(6_002));
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for word in text.split_whitespace().chain(["w7", "w7"]) {
        *expected.entry(word.to_owned()).or_default() += 1;
    }
    spe.process.load(&native(&library, "total", &[]), vec![]).await.unwrap();
    let mut counts = BTreeMap::new();
    for (task, (bucket, bytes)) in (1..).zip(&words) {
        let (_, totals) = finished(spe.run(task, vec![whole(0, bytes, RecordFraming::File)], 1).await);
        for line in String::from_utf8(totals[&0].clone()).unwrap().lines() {
            let (word, count) = line.split_once('\t').unwrap();
            assert_eq!(udf::key_hash(word.as_bytes()) % 3, u64::from(*bucket));
            assert_eq!(counts.insert(word.to_owned(), count.parse().unwrap()), None, "{word}");
        }
    }
    assert_eq!(counts, expected);
    let wrong = [("a\t1\nno tab\n", Some(1)), ("a\t1x\n", Some(0)), ("a\t1", Some(0)), ("a\t\n", Some(0))];
    for (task, (line, expected)) in (10..).zip(wrong) {
        let error = failed(spe.run(task, vec![whole(0, line.as_bytes(), RecordFraming::File)], 1).await);
        assert!(error.record == expected && error.message.contains("use `total` after `words`"), "{line}: {error:?}");
    }
}

#[tokio::test]
async fn the_example_in_rust_is_compiled_and_run_and_its_panic_is_its_error() {
    // A target folder of its own: the one of this test run may be locked.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("udf-example");
    let status = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--quiet", "--offline", "-p", "udf-example-rust", "--target-dir"])
        .arg(&target)
        .current_dir(workspace())
        .status()
        .unwrap();
    assert!(status.success());
    let library = fs::read(target.join("debug/libudf_example_rust.so")).unwrap();
    let mut spe = Spe::with(&native(&library, "word_count", &[("shortest", "2")])).await;
    let segments = vec![whole(0, b"bee cow a\nbee", RecordFraming::Lines), whole(1, b"bee", RecordFraming::File)];
    let (_, buckets) = finished(spe.run(0, segments, 5).await);
    let lines: BTreeSet<&str> =
        buckets.values().flat_map(|bytes| std::str::from_utf8(bytes).unwrap().lines()).collect();
    assert_eq!(lines, BTreeSet::from(["bee 2", "cow 1", "bee 1"]));
    let bucket = (udf::key_hash(b"bee") % 5) as u32;
    assert!(buckets[&bucket].starts_with(b"bee 2\n"));

    let error = failed(spe.run(1, vec![whole(8, b"ok\n\xff\n", RecordFraming::Lines)], 1).await);
    assert_eq!((error.segment, error.record), (8, Some(1)));
    spe.process.load(&native(&library, "panic_at", &[("word", "cow")]), vec![]).await.unwrap();
    let segments = vec![whole(0, b"bee", RecordFraming::File), whole(1, b"cow", RecordFraming::File)];
    let error = failed(spe.run(2, segments, 1).await);
    assert_eq!(error.message, "the function panicked: found cow in /in/1");
    assert_eq!((error.path.as_str(), error.segment), ("/in/1", 1));
    // The process has survived all of that.
    let (_, buckets) = finished(spe.run(3, vec![whole(0, b"bee", RecordFraming::File)], 1).await);
    assert!(buckets.is_empty());
}

#[tokio::test]
async fn libraries_that_cannot_be_used_are_refused_with_what_to_do() {
    let version = "unsigned sector_udf_abi_version(void); unsigned sector_udf_abi_version(void) { return 9; }";
    let newer = compile(&format!("{version} int f(void); int f(void) {{ return 0; }}"));
    let other = compile("int f(void); int f(void) { return 0; }");
    let unresolved = compile("int nowhere(void); int f(void); int f(void) { return nowhere(); }");
    let text = b"not a library";
    let mut spe = Spe::start();
    for (function, status, expected) in [
        (built_in("nothing", &[]), Status::NotFound, "there is no built-in function `nothing`"),
        (native(&BAD, "missing", &[]), Status::NotFound, "has no symbol `missing`"),
        (native(&BAD, "nul\0", &[]), Status::NotFound, "has no symbol"),
        (native(&newer, "f", &[]), Status::Usage, "was built for version 9"),
        (native(&other, "f", &[]), Status::Usage, "has no symbol `sector_udf_abi_version`"),
        (native(&unresolved, "f", &[]), Status::Usage, "nowhere"),
        (native(text, "f", &[]), Status::Usage, "cannot be loaded on this node"),
    ] {
        let refusal = spe.process.load(&function, vec![]).await.unwrap_err();
        assert!(refusal.status() == status && refusal.message.contains(expected), "{refusal:?}");
        assert!(!refusal.message.contains(&*spe.scratch.path().to_string_lossy()), "{refusal:?}");
    }
    let (outcome, _) = spe.run(0, vec![whole(0, b"", RecordFraming::File)], 1).await;
    assert!(
        matches!(&outcome, SpeOutcome::Refused(refusal) if refusal.message == "no function is loaded"),
        "{outcome:?}"
    );
    spe.process.load(&built_in("copy", &[]), vec![]).await.unwrap();
    finished(spe.run(1, vec![whole(0, b"still here", RecordFraming::File)], 1).await);
}

#[tokio::test]
async fn an_error_of_the_function_names_its_segment_and_record_and_the_process_goes_on() {
    let mut spe = Spe::with(&native(&BAD, "errs", &[])).await;
    let segments = (30..200).map(|number| whole(number, b"x", RecordFraming::File)).collect();
    let error = failed(spe.run(0, segments, 1).await);
    let (function, path, message) = ("errs".into(), SectorPath::parse("/in/30").unwrap(), "no such star".into());
    let record_start = vec![];
    assert_eq!(error, FunctionFailure { function, path, segment: 30, record: Some(34), message, record_start });
    spe.process.load(&native(&BAD, "errs_silently", &[]), vec![]).await.unwrap();
    let error = failed(spe.run(1, vec![whole(0, b"", RecordFraming::File)], 1).await);
    assert_eq!(error.message, "the function returned -3");
    spe.process.load(&native(&BAD, "fills_its_output", &[]), vec![]).await.unwrap();
    let (_, buckets) = finished(spe.run(2, vec![whole(0, b"", RecordFraming::File)], 1).await);
    assert_eq!(buckets[&0], b"fine\n");
}

#[tokio::test]
async fn a_function_that_ends_its_process_has_failed_on_the_segment_it_was_at() {
    for (symbol, expected) in [
        ("aborts", "SIGABRT (it aborted) after saying: cheese"),
        ("segfaults", "SIGSEGV"),
        ("divides", "SIGFPE"),
        ("exits", "exit code 42"),
    ] {
        let mut spe = Spe::with(&native(&BAD, symbol, &[])).await;
        let segments = (7..50).map(|number| whole(number, b"x", RecordFraming::File)).collect();
        let error = failed(spe.run(0, segments, 1).await);
        assert!(error.message.contains(expected), "{symbol}: {}", error.message);
        assert_eq!((error.segment, error.path.as_str()), (7, "/in/7"));
        assert!(!spe.process.is_ready());
        let (outcome, _) = spe.run(1, vec![], 1).await;
        assert!(matches!(outcome, SpeOutcome::Died(_)));
    }
}

#[tokio::test]
async fn a_process_that_is_killed_died_and_its_task_may_be_tried_again() {
    let mut spe = Spe::with(&native(&BAD, "ends_itself", &[])).await;
    let (outcome, _) = spe.run(0, vec![whole(0, b"", RecordFraming::File)], 1).await;
    assert!(matches!(&outcome, SpeOutcome::Died(why) if why.contains("SIGTERM")), "{outcome:?}");

    let mut spe = Spe::with(&native(&BAD, "never_ends", &[])).await;
    let pid = Pid::from_raw(spe.process.id().unwrap() as i32).unwrap();
    let task = TaskRun {
        attempt: attempt(0),
        segments: vec![whole(0, b"x", RecordFraming::File)],
        output: spe.output(0),
        buckets: 1,
    };
    // Killed when its first sign of life shows that it is working.
    let mut kill = |bytes| {
        assert_eq!(bytes, 1);
        kill_process(pid, Signal::KILL).unwrap();
    };
    let outcome = spe.process.run(task, &mut kill).await;
    assert!(matches!(&outcome, SpeOutcome::Died(why) if why.contains("SIGKILL")), "{outcome:?}");
}

#[tokio::test]
async fn dropping_a_task_and_its_process_ends_a_function_that_never_does() {
    let mut spe = Spe::with(&native(&BAD, "never_ends", &[])).await;
    let pid = Pid::from_raw(spe.process.id().unwrap() as i32).unwrap();
    let task = TaskRun {
        attempt: attempt(0),
        segments: vec![whole(0, b"x", RecordFraming::File)],
        output: spe.output(0),
        buckets: 1,
    };
    let (alive, mut heard) = mpsc::channel(1);
    {
        let mut progress = |_| {
            let _ = alive.try_send(());
        };
        tokio::select! {
            outcome = spe.process.run(task, &mut progress) => panic!("{outcome:?}"),
            _ = heard.recv() => {}
        }
    }
    let (outcome, _) = spe.run(1, vec![], 1).await;
    assert!(matches!(outcome, SpeOutcome::Died(_)), "a process left in the middle takes no other task");
    assert!(test_kill_process(pid).is_ok());
    drop(spe);
    // The runtime reaps it once it is dead: until then it can be signalled as a zombie.
    while test_kill_process(pid).is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_full_disk_and_an_unreadable_input_are_not_the_functions_fault() {
    let mut spe = Spe::with(&native(&BAD, "emits_to_full", &[])).await;
    let full = File::options().write(true).open("/dev/full").unwrap();
    let segments = vec![whole(0, b"x", RecordFraming::File)];
    let task = TaskRun { attempt: attempt(0), segments, output: full, buckets: 1 };
    let outcome = spe.process.run(task, &mut |_| {}).await;
    assert!(
        matches!(&outcome, SpeOutcome::Refused(refusal) if refusal.message.contains("could not write")),
        "{outcome:?}"
    );

    spe.process.load(&built_in("copy", &[]), vec![]).await.unwrap();
    let beyond = (segment(0, 0, 10, RecordFraming::File), vec![file_with(b"short").into()]);
    let (outcome, _) = spe.run(1, vec![beyond], 1).await;
    assert!(matches!(&outcome, SpeOutcome::Refused(refusal) if refusal.message.contains("has 5 bytes")), "{outcome:?}");

    let gone = SegmentFile::opened_by(|| Err(protocol::Refusal::new(Reason::NotFound, "the slice is gone")));
    let segments = vec![whole(0, b"a", RecordFraming::File), (segment(1, 0, 1, RecordFraming::File), vec![gone])];
    let (outcome, _) = spe.run(2, segments, 1).await;
    assert!(matches!(&outcome, SpeOutcome::Refused(refusal) if refusal.status() == Status::NotFound), "{outcome:?}");

    let error = failed(spe.run(3, vec![whole(4, &[0; 250], RecordFraming::Fixed(100))], 1).await);
    assert!(error.message.contains("250 bytes, which is no multiple of its record length of 100 bytes"), "{error:?}");
    // What the earlier tasks had in transit does not reach the next one.
    let (result, buckets) = finished(spe.run(4, vec![whole(0, b"whole", RecordFraming::File)], 1).await);
    assert_eq!((result.bytes_in, &buckets[&0][..]), (5, &b"whole"[..]));
}

#[tokio::test]
async fn a_program_that_is_no_spe_does_not_pass_for_one() {
    let scratch = tempfile::tempdir().unwrap();
    let program = |name: &str| SpeProgram { executable: name.into(), arguments: vec![] };
    let missing = SpeProcess::start(&program("/nonexistent/sector"), place(scratch.path()), RuntimeKind::Library);
    assert!(missing.is_err_and(|error| error.refusal().status() == Status::Unavailable));
    let mut process = SpeProcess::start(&program("true"), place(scratch.path()), RuntimeKind::Library).unwrap();
    assert!(process.load(&built_in("copy", &[]), vec![]).await.is_err());
    assert!(!process.is_ready());
}
