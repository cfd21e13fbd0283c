//! Functions in Python and as programs, through the command line. They count as others do. A job reports when its
//! function raises, ends, never ends, starts processes or reads what it must not.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use cluster::{Cloud, Roles};

/// Lines of words and counts, with any blanks between, of all files below a folder.
fn counts(cloud: &Cloud, folder: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for path in cloud.ok(&["find", folder]).lines() {
        for line in cloud.ok(&["cat", path]).lines() {
            let (word, count) = line.split_once(char::is_whitespace).unwrap();
            let before = counts.insert(word.to_owned(), count.parse::<u64>().unwrap());
            assert_eq!(before, None, "{word} lies in one bucket");
        }
    }
    counts
}

const WORDS: &str = "
from collections import Counter

def words(segment, out):
    for line in segment.records():
        for word in bytes(line).split():
            out.emit(word + b'\\n', bucket=word)

def total(segment, out):
    for word, count in Counter(bytes(segment.buffer).split()).items():
        out.emit(b'%s %d\\n' % (word, count))
";

// Promise 22.
#[test]
fn words_are_counted_alike_by_a_program_and_by_python() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let text: String = (0..20_000).map(|number| format!("word{} and word{}\n", number % 7, number % 11)).collect();
    let file = cloud.file("text", &text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let mut expected = BTreeMap::new();
    for word in text.split_whitespace() {
        *expected.entry(word.to_owned()).or_default() += 1u64;
    }
    let python = cloud.file("words.py", WORDS);
    let (words, total) = (format!("{}:words", python.display()), format!("{}:total", python.display()));
    let each = "cmd:awk '{ for (at = 1; at <= NF; at++) print $at \"\\t\" 1 }'";
    let sum = "cmd:awk '{ sum[$1] += $2 } END { for (word in sum) print word, sum[word] }'";
    for (output, udf, then) in [("/python", &*words, &*total), ("/program", each, sum)] {
        let small = ["--segment-bytes", "10000:50000", "--buckets", "3"];
        cloud
            .ok(&[&["run", "--udf", udf, "--then", then, "--input", "/text", "--output", output][..], &small].concat());
        assert_eq!(counts(&cloud, output), expected, "{output}");
    }
    // Stages of different kinds after each other: each has an SPE of its own.
    let before = ["run", "--udf", &words, "--buckets", "3", "--input", "/text"];
    cloud.ok(&[&before[..], &["--then", "cmd:sort", "--then", &total, "--output", "/mixed"]].concat());
    assert_eq!(counts(&cloud, "/mixed"), expected);
}

const WRONG: &str = "
import os, sys, time

def raises(segment, out):
    for line in segment.records():
        out.emit(line, bucket=int(line))

def reads(segment, out):
    out.emit(open(segment.parameters['target'], 'rb').read())

def leaks(segment, out):
    kept = []
    while True:
        kept.append(bytearray(1 << 20))
        out.progress()

def forks(segment, out):
    os.fork()

def hangs(segment, out):
    while True: time.sleep(1)

def crashes(segment, out):
    print('out of cheese')
    os.abort()

def needs(segment, out):
    import no_such_module
";

// Promise 22.
#[test]
fn a_wrong_function_in_python_fails_its_job_with_its_place_and_harms_nothing() {
    let mut cloud = Roles::start(1, 1);
    cloud.kill("node-1");
    cloud.change("node-1", "spe_memory_bytes", "134217728");
    cloud.change("node-1", "spe_silence_seconds", "3");
    cloud.run_role("node-1");
    cloud.until_up(1);
    let text = cloud.file("text", "1\n2\nthree\n4\n");
    cloud.ok(&["put", "--records", "lines", text.to_str().unwrap(), "/text"]);
    let data = cloud.role_folder("node-1");
    let found = Command::new("find").arg(&data).args(["-name", "text*", "-type", "f"]).output().unwrap();
    let slice = String::from_utf8(found.stdout).unwrap().lines().next().unwrap().to_owned();
    assert!(Path::new(&slice).is_file());
    let key = data.join("key.pem");
    assert!(!fs::read(&key).unwrap().is_empty(), "the control: it is there");
    let python = cloud.file("wrong.py", WRONG);
    let node = cloud.pid("node-1");
    let refused = |target: &str, said: &str| {
        ["FileNotFoundError", "PermissionError"].iter().any(|name| said.contains(name)) && !target.is_empty()
    };
    for (function, target, expected) in [
        (
            "raises",
            "",
            "failed on `/text`, segment 0, record 2 (which begins \"three\"): ValueError: invalid literal for int()",
        ),
        ("raises", "", "File \"wrong.py\", line 6, in raises"),
        ("leaks", "", "MemoryError (`spe_memory_bytes`"),
        ("forks", "", "PermissionError"),
        ("hangs", "", "no sign of life for 3 s"),
        ("crashes", "", "SIGABRT (it aborted) after saying: out of cheese"),
        ("needs", "", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("absent", "", "`wrong.py` has no function `absent`; it has raises,"),
        ("reads", &slice, ""),
        ("reads", key.to_str().unwrap(), ""),
    ] {
        let udf = format!("{}:{function}", python.display());
        let target_parameter = format!("target={target}");
        let run = ["run", "--udf", &udf, "--input", "/text", "--output", "/out", "--param", &target_parameter];
        let ended = cloud.run(&run);
        assert_ne!(ended.code, 0, "{function}");
        assert!(ended.errors.contains(expected), "{function}: {}", ended.errors);
        assert!(target.is_empty() || refused(target, &ended.errors), "{function} {target}: {}", ended.errors);
    }
    assert_eq!(cloud.pid("node-1"), node, "the node did not notice");
    cloud.ok(&["run", "--udf", "cmd:cat", "--input", "/text", "--output", "/out"]);
}

#[test]
fn a_job_whose_program_never_ends_is_cancelled_at_once_and_a_missing_one_is_named() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1", "--processes"]);
    let text = cloud.file("text", "some text\n");
    cloud.ok(&["put", text.to_str().unwrap(), "/text"]);
    let run = |udf: &str| cloud.run(&["run", "--udf", udf, "--input", "/text", "--output", "/out"]);
    let missing = run("cmd:no-such-program -x");
    assert!(missing.code == 3 && missing.errors.contains("no program `no-such-program`"), "{}", missing.errors);
    let fails = run("cmd:sh -c 'echo so it is >&2; exit 7'");
    assert!(fails.errors.contains("`sh` ended with exit code 7 after saying: so it is"), "{}", fails.errors);
    let mut job =
        cloud.command(&["run", "--udf", "cmd:yes", "--input", "/text", "--output", "/never"]).spawn().unwrap();
    cloud.until("the job is at work", |cloud| {
        cloud.json(&["jobs"]).as_array().unwrap().iter().any(|job| job["state"] == "running")
    });
    let jobs = cloud.json(&["jobs"]);
    let job_at_work = jobs.as_array().unwrap().iter().find(|job| job["state"] == "running").unwrap();
    cloud.ok(&["job", job_at_work["id"].as_str().unwrap(), "--cancel"]);
    assert!(!job.wait().unwrap().success());
    cloud.ok(&["run", "--udf", "cmd:cat", "--input", "/text", "--output", "/out"]);
}

/// A wheel with one module is an archive (`zip`) of that and of what describes it.
const MAKE_WHEEL: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/skypack-1.5-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('skypack.py', 'STAR = b\"Vega\"')
    about = 'skypack-1.5.dist-info/'
    wheel.writestr(about + 'METADATA', 'Metadata-Version: 2.1\\nName: skypack\\nVersion: 1.5\\n')
    wheel.writestr(about + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(about + 'RECORD', '')
";

#[test]
fn python_packages_go_along_and_stay_at_the_nodes_for_the_next_job() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let wheels = cloud.folder().join("wheels");
    fs::create_dir(&wheels).unwrap();
    assert!(Command::new("python3").args(["-c", MAKE_WHEEL]).arg(&wheels).status().unwrap().success());
    cloud.ok(&["put", cloud.file("x", "x").to_str().unwrap(), "/in/x"]);
    let needs = |text: &str| cloud.file("requirements.txt", text).to_str().unwrap().to_owned();
    let udf = cloud.file("f.py", "import skypack\ndef f(segment, out): out.emit(skypack.STAR)\n");
    let udf = format!("{}:f", udf.display());
    let (file, wheels) = (needs("skypack==1.5\n"), wheels.to_str().unwrap());
    let run = |output: &str, more: &[&str]| {
        cloud.run(&[&["run", "--udf", &udf, "--input", "/in/x", "--output", output], more].concat())
    };
    for (output, detach) in [("/out/1", &[][..]), ("/out/2", &["--detach"])] {
        let ended = run(output, &[&["--requirements", &file, "--wheels", wheels], detach].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        if !detach.is_empty() {
            let job = String::from_utf8(ended.out).unwrap();
            cloud.ok(&["job", job.trim(), "--wait"]);
        }
        assert_eq!(cloud.ok(&["cat", &format!("{output}/part-*")]), "Vega");
    }
    let hidden = cloud.ok(&["find", "/out/.sphere-wheels-*"]);
    assert_eq!(hidden.lines().count(), 1, "the second job found them: {hidden}");
    let without = run("/out/3", &["--requirements", &file]);
    assert!(without.code == 2 && without.errors.contains("--wheels"), "{}", without.errors);
    let other = needs("nosuch==7\n");
    let missing = run("/out/4", &["--requirements", &other, "--wheels", wheels]);
    assert!(missing.code != 0 && missing.errors.contains("nosuch==7"), "{}", missing.errors);
}
