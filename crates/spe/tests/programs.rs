//! Functions in Python and programs, each in a real SPE: their input, their output, and every way in which they may
//! end. Hostile ones are tested in `escape.rs` and in `tests/cluster/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use protocol::{
    JobId, RecordFraming, Refusal, SectorPath, SliceId, Status,
    message::spe::{
        AttemptId, FunctionCode, FunctionFailure, FunctionSpec, ModuleFile, PartOrder, PythonCode, PythonFunction,
        SegmentOrder, SegmentSource,
    },
};
use spe::{Sandbox, SandboxSettings, SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskOutput, TaskRun};
use tempfile::TempDir;

/// A function loaded into an SPE of its own.
struct Spe {
    process: SpeProcess,
    scratch: TempDir,
}

impl Spe {
    async fn try_with(function: &FunctionSpec, change: impl FnOnce(&mut SandboxSettings)) -> Result<Self, Refusal> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // Each as a node of its own, so that no two have the same user.
        let node = format!("node-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let mut settings = SandboxSettings { node, ..SandboxSettings::default() };
        change(&mut settings);
        let scratch = tempfile::tempdir().unwrap();
        let sandbox = Arc::new(Sandbox::new(&settings));
        let tenant = sandbox.runtime_kind(&function.code).await?;
        let program = SpeProgram { executable: env!("CARGO_BIN_EXE_sector-spe").into(), arguments: vec![] };
        let mut process = SpeProcess::start(&program, sandbox.allocate(scratch.path()).unwrap(), tenant).unwrap();
        process.load(function, vec![]).await?;
        Ok(Self { process, scratch })
    }

    async fn with(function: &FunctionSpec) -> Self {
        Self::try_with(function, |_| ()).await.unwrap()
    }

    async fn run(&mut self, segments: Vec<(SegmentOrder, Vec<SegmentFile>)>, buckets: u32) -> (SpeOutcome, File) {
        let output = tempfile::tempfile_in(self.scratch.path()).unwrap();
        let attempt = AttemptId { job: JobId(1), stage: 0, epoch: 0, task: 0, attempt: 0 };
        let task = TaskRun { attempt, segments, output: output.try_clone().unwrap(), buckets };
        (self.process.run(task, &mut |_| {}).await, output)
    }

    /// The single bucket that these bytes result in.
    async fn results(&mut self, bytes: &[u8], records: RecordFraming) -> String {
        let (_, mut buckets) = finished(self.run(vec![whole(0, bytes, records)], 1).await);
        String::from_utf8(buckets.remove(&0).unwrap_or_default()).unwrap()
    }

    async fn error(&mut self, bytes: &[u8], records: RecordFraming) -> FunctionFailure {
        let (outcome, _) = self.run(vec![whole(4, bytes, records)], 1).await;
        let SpeOutcome::FunctionFailed(error) = outcome else { panic!("{outcome:?}") };
        error
    }
}

fn python(name: &str, text: &str) -> FunctionSpec {
    let code = PythonCode::Source { file: "sky.py".into(), text: text.into() };
    let function = PythonFunction { name: name.into(), code, requires: vec![] };
    let parameters = vec![("mag".into(), "5".into()), ("mag".into(), "6".into())];
    FunctionSpec { code: FunctionCode::Python(function), parameters }
}

fn program(words: &[&str]) -> FunctionSpec {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    FunctionSpec { code: FunctionCode::Program { words }, parameters: vec![("my key".into(), "a b".into())] }
}

async fn refused(function: &FunctionSpec) -> Refusal {
    Spe::try_with(function, |_| ()).await.err().expect("a refusal")
}

fn segment(number: u64, from: u64, until: u64, records: RecordFraming) -> SegmentOrder {
    let source = SegmentSource::Local(SliceId(number.into()));
    let path = SectorPath::parse(&format!("/in/{number}")).unwrap();
    SegmentOrder::single(number, PartOrder::plain(source, path, from, until, records))
}

fn file_with(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    // Opened as the node opens it: nobody may write through it.
    File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).unwrap()
}

fn whole(number: u64, bytes: &[u8], records: RecordFraming) -> (SegmentOrder, Vec<SegmentFile>) {
    (segment(number, 0, bytes.len() as u64, records), vec![file_with(bytes).into()])
}

fn finished((outcome, mut output): (SpeOutcome, File)) -> (TaskOutput, BTreeMap<u32, Vec<u8>>) {
    let SpeOutcome::Finished(result) = outcome else { panic!("{outcome:?}") };
    let mut bytes = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut bytes).unwrap();
    let mut buckets: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for chunk in &result.chunks {
        let from = chunk.offset as usize;
        buckets.entry(chunk.bucket).or_default().extend(&bytes[from..from + chunk.bytes as usize]);
    }
    (result, buckets)
}

// Promise 22.
#[tokio::test]
async fn a_python_function_sees_each_record_of_its_part_and_its_results_reach_buckets() {
    let text = "def f(segment, out):
    for record in segment.records():
        assert isinstance(record, memoryview)
        out.emit(bytes(record) + b'\\n', bucket=bytes(record[:1]))
        out.emit(b'%d\\n' % len(record), bucket=5)
    out.write(b'%s %d %d %s %d\\n' % (segment.path.encode(), segment.offset, segment.index,
              segment.parameters['mag'].encode(), segment.buckets), bucket=2, records=1)
";
    let mut spe = Spe::with(&python("f", text)).await;
    let bytes = "bee\ncow\n\nbat\n".repeat(3_000);
    let file = file_with(bytes.as_bytes());
    // The cut is within a line, which belongs to the first part.
    let end = bytes.len() as u64;
    let parts = vec![
        (segment(7, 0, 18_002, RecordFraming::Lines), vec![file.try_clone().unwrap().into()]),
        (segment(8, 18_002, end, RecordFraming::Lines), vec![file.into()]),
    ];
    let (result, buckets) = finished(spe.run(parts, 3).await);
    assert_eq!((result.records_in, result.bytes_in, result.records_out), (12_000, end, 24_002));
    let all: Vec<String> =
        buckets.values().flat_map(|bytes| std::str::from_utf8(bytes).unwrap().lines().map(str::to_owned)).collect();
    let count = |line: &str| all.iter().filter(|found| *found == line).count();
    assert_eq!(["bee", "cow", "bat", "", "3", "0"].map(count), [3_000, 3_000, 3_000, 3_000, 9_000, 3_000]);
    let in_bucket = |key: &str| (udf::key_hash(key.as_bytes()) % 3) as u32;
    let text = |bucket: u32| String::from_utf8_lossy(&buckets[&bucket]).into_owned();
    assert_eq!(text(in_bucket("b")).matches("bee\n").count(), 3_000);
    assert!(text(2).contains("/in/7 0 7 6 3\n") && text(2).contains("/in/8 18005 8 6 3\n"));
}

#[tokio::test]
async fn records_of_fixed_length_whole_files_and_nothing_at_all_are_seen_as_they_are() {
    let text = "def f(segment, out):
    records = [bytes(record) for record in segment.records()]
    out.emit(repr([segment.format, records, len(segment), bytes(segment.buffer), segment.buffer.readonly]).encode())
";
    let mut spe = Spe::with(&python("f", text)).await;
    let seen = spe.results(b"aabbcc", RecordFraming::Fixed(2)).await;
    assert_eq!(seen, "['fixed', [b'aa', b'bb', b'cc'], 6, b'aabbcc', True]");
    assert_eq!(spe.results(b"a\nb", RecordFraming::File).await, "['file', [b'a\\nb'], 3, b'a\\nb', True]");
    assert_eq!(spe.results(b"", RecordFraming::Lines).await, "['lines', [], 0, b'', True]");
    assert_eq!(spe.results(b"\n\r\n", RecordFraming::Lines).await, "['lines', [b'', b'\\r'], 3, b'\\n\\r\\n', True]");
}

#[tokio::test]
async fn a_function_of_one_argument_returns_or_yields_its_records() {
    let text = "def f(segment):
    for line in segment.lines():
        yield line.upper()
        yield 'key', b'.'
def g(segment):
    return bytes(segment.buffer)[::-1]
def h(segment):
    print('nothing to return')
";
    for (name, expected) in [("f", "A.B."), ("g", "b\na"), ("h", "")] {
        assert_eq!(
            Spe::with(&python(name, text)).await.results(b"a\nb", RecordFraming::Lines).await,
            expected,
            "{name}"
        );
    }
}

#[tokio::test]
async fn large_records_and_many_of_them_arrive_whole_and_in_order() {
    let text = "def f(segment, out):
    for size in (1, 70_000, 0, 3_000_000, 5):
        out.emit(b'x' * size, bucket='a key' if size % 2 else 1)
    out.write(bytearray(b'y' * 2_000_000), bucket=1, records=7)
    for number in range(100_000):
        out.emit(b'%d\\n' % number, bucket=1)
";
    let mut spe = Spe::with(&python("f", text)).await;
    let (result, buckets) = finished(spe.run(vec![whole(0, b"", RecordFraming::File)], 2).await);
    assert_eq!(result.records_out, 5 + 7 + 100_000);
    let numbers: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let key = (udf::key_hash(b"a key") % 2) as u32;
    let mut expected: BTreeMap<u32, String> = BTreeMap::new();
    for size in [1, 70_000, 0, 3_000_000, 5] {
        *expected.entry(if size % 2 == 1 { key } else { 1 }).or_default() += &"x".repeat(size);
    }
    *expected.entry(1).or_default() += &("y".repeat(2_000_000) + &numbers);
    expected.retain(|_, text| !text.is_empty());
    assert!(buckets.into_iter().eq(expected.into_iter().map(|(bucket, text)| (bucket, text.into_bytes()))));
}

#[tokio::test]
async fn the_interpreter_stays_for_the_next_segment_also_after_an_error() {
    let text = "import os
seen = []
def f(segment, out):
    seen.append(segment.index)
    if len(segment) == 1: raise KeyError('gone')
    out.emit(b'%d %d' % (os.getpid(), len(seen)))
";
    let mut spe = Spe::with(&python("f", text)).await;
    let first = spe.results(b"aa", RecordFraming::File).await;
    assert!(spe.error(b"a", RecordFraming::File).await.message.starts_with("KeyError: 'gone'"));
    let third = spe.results(b"aa", RecordFraming::File).await;
    let (id, count) = first.split_once(' ').unwrap();
    assert_eq!((count, third), ("1", format!("{id} 3")));
}

// Promise 22.
#[tokio::test]
async fn what_a_function_raises_comes_back_with_its_record_and_where_it_was() {
    let text = "def inner(record):
    return int(record)
def f(segment, out):
    for record in segment.records():
        inner(bytes(record))
def after(segment, out):
    for record in segment.records(): pass
    raise SystemExit('enough')
def wrong(segment, out):
    for record in segment.records(): out.emit('text')
def bucket(segment, out):
    out.emit(b'', bucket=1.5)
def memory(segment, out):
    bytearray(1 << 60)
";
    let mut spe = Spe::with(&python("f", text)).await;
    for (bytes, records) in [(&b"1\n2\nthree\n4\n"[..], RecordFraming::Lines), (b"0102x304", RecordFraming::Fixed(2))] {
        let error = spe.error(bytes, records).await;
        assert_eq!((error.function.as_str(), error.segment, error.record), ("f", 4, Some(2)));
        let lines: Vec<_> = error.message.lines().collect();
        assert!(lines[0].starts_with("ValueError: invalid literal for int()"), "{}", error.message);
        assert!(lines.contains(&"  File \"sky.py\", line 2, in inner") && error.message.contains("return int(record)"));
        assert!(!error.message.contains("<string>"), "none of our own frames: {}", error.message);
    }
    for (name, record, said) in [
        ("after", None, "SystemExit: enough"),
        ("wrong", Some(0), "TypeError: a record is bytes, and not a text"),
        ("bucket", None, "TypeError: a bucket is a number, bytes or a text, and not 1.5"),
        ("memory", None, "MemoryError (`spe_memory_bytes` of the node"),
    ] {
        let error = Spe::with(&python(name, text)).await.error(b"a\nb\n", RecordFraming::Lines).await;
        assert_eq!(error.record, record, "{name}");
        assert!(error.message.starts_with(said), "{}", error.message);
    }
}

// Promise 22.
#[tokio::test]
async fn a_function_that_cannot_be_loaded_is_refused_before_its_first_segment() {
    let text = "def g(segment, out): pass\nclass Sky: pass\nnumber = 4\ndef three(a, b, c): pass\n";
    for (function, said) in [
        (python("f", text), "`sky.py` has no function `f`; it has g, three"),
        (python("number", text), "`number` is no function"),
        (python("three", text), "`three` takes (a, b, c): a function takes (segment, out), or (segment) alone"),
        (python("f", "def f(:\n"), "(sky.py, line 1)"),
        (python("f", "import no_such_module\n"), "needs the module `no_such_module`"),
        (python("f", "1 / 0\n"), "ZeroDivisionError: division by zero"),
        (pickled((3, 8), vec![]), "was pickled by Python 3.8, and this node's functions run in Python 3."),
    ] {
        let refusal = refused(&function).await;
        assert_eq!(refusal.status(), Status::Usage, "{refusal}");
        assert!(refusal.message.contains(said), "{refusal}");
    }
    let ended = refused(&python("f", "import os\nprint('bye', flush=True)\nos._exit(3)\n")).await;
    assert!(ended.message.contains("exit code 3 after saying: bye"), "{ended}");
    let mut settings = SandboxSettings { python: Some("/nonexistent/python3".into()), ..SandboxSettings::default() };
    let missing = Sandbox::new(&settings).runtime_kind(&python("g", text).code).await.unwrap_err();
    assert_eq!(missing.status(), Status::Unavailable);
    assert!(missing.message.contains("/nonexistent/python3") && missing.message.contains("spe_python"), "{missing}");
    settings.python = None;
    assert!(Sandbox::new(&settings).runtime_kind(&python("g", text).code).await.is_ok());
}

#[tokio::test]
async fn modules_that_a_function_requires_are_looked_at_before_it_is_loaded() {
    let requiring = |name: &str, version: Option<&str>| {
        let mut function = python("g", "def g(segment, out): pass\n");
        if let FunctionCode::Python(python) = &mut function.code {
            python.requires = vec![(name.into(), version.map(str::to_owned))];
        }
        function
    };
    let _ = Spe::with(&requiring("json", None)).await;
    let missing = refused(&requiring("no_such_module", None)).await;
    assert!(missing.message.contains("`g` needs the module `no_such_module`"), "{missing}");
    let other = refused(&requiring("json", Some("0.0.1"))).await;
    assert!(other.message.contains("`g` needs `json` 0.0.1, and the Python of this node has"), "{other}");
}

fn pickled(python: (u8, u8), bytes: Vec<u8>) -> FunctionSpec {
    let code = PythonCode::Pickle { bytes, python };
    let function = PythonFunction { name: "len".into(), code, requires: vec![] };
    FunctionSpec { code: FunctionCode::Python(function), parameters: vec![] }
}

#[tokio::test]
async fn a_pickle_of_the_nodes_own_python_is_taken() {
    let (python, bytes) = pickled_here();
    // `len(segment)`: a number cannot be emitted.
    let mut spe = Spe::with(&by_cloudpickle(pickled(python, bytes), "0.0.1")).await;
    let error = spe.error(b"abc", RecordFraming::File).await;
    assert!(error.message.starts_with("TypeError: 'int' object is not iterable"), "{}", error.message);
}

#[tokio::test]
async fn a_pickle_that_cannot_be_read_names_the_other_cloudpickle_that_made_it() {
    let (python, mut bytes) = pickled_here();
    bytes.truncate(bytes.len() / 2);
    let refused = refused(&by_cloudpickle(pickled(python, bytes), "0.0.1")).await.message;
    assert!(refused.contains("`len` could not be loaded: "), "{refused}");
    assert!(refused.contains("it was pickled by cloudpickle 0.0.1, and the Python of this node ("), "{refused}");
    assert!(refused.contains("python3"), "{refused}");
}

/// The function, said to be made by this version of `cloudpickle`.
fn by_cloudpickle(mut function: FunctionSpec, version: &str) -> FunctionSpec {
    if let FunctionCode::Python(python) = &mut function.code {
        python.requires = vec![("cloudpickle".into(), Some(version.into()))];
    }
    function
}

/// `len` as the node's own Python pickles it, and the version of that.
fn pickled_here() -> ((u8, u8), Vec<u8>) {
    let asked = std::process::Command::new("python3")
        .args(["-I", "-c", "import pickle,sys;print(sys.version_info[1]);print(pickle.dumps(len).hex())"])
        .output()
        .unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    let (minor, pickle) = text.trim().split_once('\n').unwrap();
    let digits = (0..pickle.len() / 2).map(|at| &pickle[2 * at..2 * at + 2]);
    ((3, minor.parse().unwrap()), digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect())
}

#[tokio::test]
async fn a_function_that_ends_its_interpreter_is_told_as_one_in_a_library_is() {
    for (body, said) in [
        ("import os; os._exit(9)", "the function ended its process with exit code 9"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the function ended its process with SIGSEGV"),
        ("import os; print('out of cheese'); os.abort()", "SIGABRT (it aborted) after saying: out of cheese"),
    ] {
        let mut spe = Spe::with(&python("f", &format!("def f(segment, out):\n    {body}\n"))).await;
        let error = spe.error(b"x", RecordFraming::File).await;
        assert!(error.message.contains(said), "{}", error.message);
    }
}

#[tokio::test]
async fn a_function_that_takes_the_socket_of_its_interpreter_fails_alone() {
    let text = "def f(segment, out):
    import os
    for number in range(3, 10):
        try: os.write(number, b'nonsense' * 100)
        except OSError: pass
def g(segment, out):
    out._link.send(b'numb' + b'\\xff' * 20)
";
    for name in ["f", "g"] {
        let mut spe = Spe::with(&python(name, text)).await;
        let error = spe.error(b"x", RecordFraming::File).await;
        assert!(error.message.starts_with("the function broke its interpreter"), "{}", error.message);
        // The next segment gets a new one.
        let error = spe.error(b"x", RecordFraming::File).await;
        assert!(error.message.starts_with("the function broke its interpreter"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_silent_function_and_a_silent_program_are_ended() {
    let silent = python("f", "import time\ndef f(segment, out):\n    while True: time.sleep(1)\n");
    for function in [silent, program(&["sleep", "1000"])] {
        let mut spe =
            Spe::try_with(&function, |settings| settings.silence_max = Some(Duration::from_secs(1))).await.unwrap();
        let error = spe.error(b"x", RecordFraming::File).await;
        assert!(error.message.contains("no sign of life for 1 s"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_program_reads_its_segment_and_what_it_prints_are_the_results() {
    let mut spe = Spe::with(&program(&["tr", "a-z", "A-Z"])).await;
    let bytes = "bee cow\n".repeat(200_000);
    assert!(spe.results(bytes.as_bytes(), RecordFraming::Lines).await == bytes.to_uppercase());
    let part = vec![(segment(3, 1, 5, RecordFraming::Fixed(2)), vec![file_with(b"abcdefgh").into()])];
    let (result, buckets) = finished(spe.run(part, 1).await);
    assert_eq!((result.records_in, buckets[&0].as_slice()), (2, &b"BCDE"[..]));
}

// Promise 22.
#[tokio::test]
async fn the_lines_of_a_program_find_the_bucket_of_their_key() {
    let mut spe = Spe::with(&program(&["cat"])).await;
    let (result, buckets) = finished(spe.run(vec![whole(0, b"bee\t1\ncow\nbee\t2", RecordFraming::Lines)], 5).await);
    assert_eq!((result.records_in, result.records_out), (3, 3));
    let bucket = |key: &[u8]| (udf::key_hash(key) % 5) as u32;
    let found = String::from_utf8_lossy(&buckets[&bucket(b"bee")]).into_owned();
    assert!(found.starts_with("bee\t1\n") && found.contains("bee\t2\n"), "{found}");
    assert!(String::from_utf8_lossy(&buckets[&bucket(b"cow")]).contains("cow\n"));
}

#[tokio::test]
async fn a_program_knows_its_segment_by_its_environment_and_nothing_of_the_nodes() {
    let mut spe = Spe::with(&program(&["env"])).await;
    let (_, buckets) =
        finished(spe.run(vec![(segment(3, 2, 4, RecordFraming::Fixed(2)), vec![file_with(b"abcd").into()])], 1).await);
    let mut found: Vec<_> = std::str::from_utf8(&buckets[&0]).unwrap().lines().collect();
    found.retain(|line| !["LANG=", "LC_ALL=", "TZ="].iter().any(|name| line.starts_with(name)));
    found.sort_unstable();
    let expected = [
        "HOME=/scratch",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "SECTOR_BUCKETS=1",
        "SECTOR_OFFSET=2",
        "SECTOR_PARAM_my_key=a b",
        "SECTOR_PATH=/in/3",
        "SECTOR_RECORDS=fixed:2",
        "SECTOR_SEGMENT=3",
        "TMPDIR=/scratch",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_program_may_read_nothing_print_first_or_close_its_output() {
    let long = "a line of text\n".repeat(100_000);
    for (words, expected) in [
        (&["true"][..], ""),
        (&["head", "-n", "1"], "a line of text\n"),
        (&["echo", "hello"], "hello\n"),
        (&["sh", "-c", "exec >&-; read line; read line"], ""),
    ] {
        let mut spe = Spe::with(&program(words)).await;
        assert_eq!(spe.results(long.as_bytes(), RecordFraming::Lines).await, expected, "{words:?}");
    }
}

// Promise 22.
#[tokio::test]
async fn a_program_that_fails_is_told_with_its_last_words() {
    let script = "echo one >&2; echo two >&2; exit 3";
    for (words, said) in [
        (&["sh", "-c", script][..], "the program `sh` ended with exit code 3 after saying: one / two"),
        (&["sh", "-c", "kill -SEGV $$"], "the program `sh` ended with SIGSEGV (a bad memory access)"),
        (&["sh", "-c", "echo half a result; exit 1"], "the program `sh` ended with exit code 1"),
    ] {
        let error = Spe::with(&program(words)).await.error(b"x", RecordFraming::File).await;
        assert_eq!((error.function.as_str(), error.segment, error.message.as_str()), ("sh", 4, said));
    }
}

#[tokio::test]
async fn exit_codes_that_mean_no_error_can_be_named() {
    let mut function = program(&["grep", "cow"]);
    let error = Spe::with(&function).await.error(b"bee\n", RecordFraming::Lines).await;
    assert_eq!(error.message, "the program `grep` ended with exit code 1");
    function.parameters.push(("exit_codes".into(), "0, 1".into()));
    let mut spe = Spe::with(&function).await;
    assert_eq!(spe.results(b"bee\n", RecordFraming::Lines).await, "");
    assert_eq!(spe.results(b"bee\ncow\n", RecordFraming::Lines).await, "cow\n");
    function.parameters.push(("exit_codes".into(), "none".into()));
    assert_eq!(refused(&function).await.status(), Status::Usage);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_refused_before_its_first_segment() {
    for name in ["no-such-program", "/usr/bin/no-such-program", "/root/.bashrc"] {
        let refusal = refused(&program(&[name])).await;
        assert_eq!(refusal.status(), Status::NotFound);
        assert!(refusal.message.contains(name) && refusal.message.contains("spe_read_paths"), "{refusal}");
    }
}

#[tokio::test]
async fn a_program_that_prints_without_end_stops_at_the_length_of_a_file() {
    let mut spe = Spe::try_with(&program(&["yes"]), |settings| settings.file_bytes = 4 << 20).await.unwrap();
    let (outcome, output) = spe.run(vec![whole(0, b"", RecordFraming::File)], 1).await;
    let SpeOutcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
    assert!(refusal.message.contains("could not write its results"), "{refusal}");
    assert!(output.metadata().unwrap().size() <= 4 << 20);
    // The SPE is still usable.
    let (outcome, _) = spe.run(vec![], 1).await;
    assert!(matches!(outcome, SpeOutcome::Finished(_)), "{outcome:?}");
}

#[tokio::test]
async fn neither_python_nor_a_program_starts_processes_unless_the_settings_allow_it() {
    let pipe = program(&["sh", "-c", "cat | tr a-z A-Z"]);
    let error = Spe::with(&pipe).await.error(b"bee", RecordFraming::File).await;
    assert!(error.message.contains("ork") && error.message.ends_with("`spe_fork` is true"), "{}", error.message);
    let forks = python("f", "import os\ndef f(segment, out):\n    if not os.fork(): os._exit(0)\n");
    let error = Spe::with(&forks).await.error(b"bee", RecordFraming::File).await;
    assert!(error.message.starts_with("PermissionError"), "{}", error.message);
    let mut spe = Spe::try_with(&pipe, |settings| settings.fork = true).await.unwrap();
    assert_eq!(spe.results(b"bee", RecordFraming::File).await, "BEE");
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_ended_before_the_next_segment() {
    // Each leaves a process behind that holds the output open, and there is room for only a few.
    let words = ["sh", "-c", "sleep 1000 & echo done"];
    let change = |settings: &mut SandboxSettings| {
        settings.fork = true;
        settings.threads_max = 8;
    };
    let mut spe = Spe::try_with(&program(&words), change).await.unwrap();
    for _ in 0..20 {
        assert_eq!(spe.results(b"x", RecordFraming::File).await, "done\n");
    }
}

#[tokio::test]
async fn neither_python_nor_a_program_sees_the_nodes_files() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    std::fs::write(&kept, "a secret").unwrap();
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    let error = Spe::with(&program(&["cat", &shown(&kept)])).await.error(b"", RecordFraming::File).await;
    assert!(error.message.contains("cat: "), "{}", error.message);
    let text = format!("def f(segment, out):\n    out.emit(open({:?}, 'rb').read())\n", shown(&kept));
    let error = Spe::with(&python("f", &text)).await.error(b"", RecordFraming::File).await;
    let refused = ["FileNotFoundError", "PermissionError"];
    assert!(refused.iter().any(|name| error.message.starts_with(name)), "{}", error.message);
}

/// The cost of Python in an SPE, for `docs/performance.md`: not a test, since it checks no limit.
#[tokio::test]
#[ignore = "a measurement: `SPE_PYTHON=/venv/bin/python cargo test --release -p sector-node --test programs -- --ignored --nocapture`"]
async fn what_python_takes_in_an_spe() {
    // A Python with NumPy and pyarrow.
    let Some(interpreter) = std::env::var_os("SPE_PYTHON") else { return };
    let text = "import pyarrow.compute as compute
def rows(segment, out):
    batch = segment.arrow()
    kept = batch.filter(compute.match_substring(batch.column(0).cast('binary'), b'ab'))
    out.write(repr((batch.num_rows, kept.num_rows)).encode())
def nothing(segment, out):
    pass
";
    let local = "import mmap, pyarrow, sys, time
import pyarrow.compute as compute
def run(path):
    with open(path, 'rb') as file:
        memory = pyarrow.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        rows = memory.size // 16
        batch = pyarrow.record_batch([pyarrow.Array.from_buffers(pyarrow.binary(16), rows, [None, memory])], names=['record'])
        kept = batch.filter(compute.match_substring(batch.column(0).cast('binary'), b'ab'))
        return repr((batch.num_rows, kept.num_rows))
for line in sys.stdin:
    begun = time.perf_counter()
    got = run(sys.argv[1])
    print(time.perf_counter() - begun, got, flush=True)
";
    let change = |settings: &mut SandboxSettings| settings.python = Some(interpreter.clone().into());
    let mut state = 1u64;
    let bytes: Vec<u8> = (0..128 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b'a' + (state >> 60) as u8
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, &bytes).unwrap();
    let mut beside = std::process::Command::new(&interpreter)
        .args(["-I", "-c", local, path.to_str().unwrap()])
        .env("OMP_NUM_THREADS", "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = std::io::BufRead::lines(std::io::BufReader::new(beside.stdout.take().unwrap()));
    let mut spe = Spe::try_with(&python("rows", text), change).await.unwrap();
    let records = RecordFraming::Fixed(16);
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        let begun = std::time::Instant::now();
        let order = segment(0, 0, bytes.len() as u64, records);
        let (_, found) = finished(spe.run(vec![(order, vec![File::open(&path).unwrap().into()])], 1).await);
        inside.push(begun.elapsed().as_secs_f64());
        beside.stdin.as_mut().unwrap().write_all(b"again\n").unwrap();
        let answer = answers.next().unwrap().unwrap();
        let (seconds, got) = answer.split_once(' ').unwrap();
        outside.push(seconds.parse::<f64>().unwrap());
        assert_eq!(String::from_utf8_lossy(&found[&0]), got);
    }
    drop(beside.stdin.take());
    beside.wait().unwrap();
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (inside, outside) = (median(&mut inside), median(&mut outside));
    println!("128 MiB of Arrow: {inside:.4} s in an SPE, {outside:.4} s on the file itself, {:.2} x", inside / outside);
    let mut spe = Spe::try_with(&python("nothing", text), change).await.unwrap();
    let mut each = Vec::new();
    for _ in 0..11 {
        let small = file_with(&bytes[..4096]);
        let segments =
            (0..500).map(|at| (segment(at, 0, 4096, records), vec![small.try_clone().unwrap().into()])).collect();
        let begun = std::time::Instant::now();
        let _ = finished(spe.run(segments, 1).await);
        each.push(begun.elapsed().as_secs_f64() / 500.0);
    }
    println!("a segment of 4 KiB: {:.3} ms", median(&mut each) * 1e3);
}

#[tokio::test]
async fn modules_that_go_along_are_imported_before_those_of_the_node() {
    let text = "import colorsys\nfrom catalogue.stars import N\ndef f(segment, out):\n    out.emit(b'%d %s' % (N, colorsys.NAME))\n";
    let mut function = python("f", text);
    let module = |path: &str, text: &str| ModuleFile { path: path.into(), bytes: text.into() };
    let FunctionCode::Python(code) = &mut function.code else { panic!("no Python") };
    code.code = code.code.clone().with_modules(vec![
        module("colorsys.py", "NAME = b'mine'\n"),
        module("catalogue/__init__.py", ""),
        module("catalogue/stars.py", "import os\nN = int(open(os.path.join(os.path.dirname(__file__), 'n')).read())\n"),
        module("catalogue/n", "7"),
    ]);
    let mut spe = Spe::with(&function).await;
    assert_eq!(spe.results(b"x", RecordFraming::File).await, "7 mine");
}
