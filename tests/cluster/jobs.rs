//! Sphere jobs through the command line: built-in functions, functions in C and Rust, and functions that misbehave.

use std::{collections::BTreeMap, fs, process::Command};

use cluster::{Cloud, ended, random_bytes, workspace};

fn cloud() -> Cloud {
    Cloud::start(&["--nodes", "2", "--sites", "2"])
}

/// Output lines `word count` of all files below a folder, added up.
fn counts(cloud: &Cloud, folder: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for path in cloud.ok(&["find", folder]).lines() {
        for line in cloud.ok(&["cat", path]).lines() {
            let (word, count) = line.split_once(' ').unwrap();
            *counts.entry(word.to_owned()).or_default() += count.parse::<u64>().unwrap();
        }
    }
    counts
}

#[test]
fn an_inverted_index_of_two_pages_is_the_papers() {
    let cloud = cloud();
    let (first, second) = (cloud.file("w1.html", "bee cow\n"), cloud.file("w2.html", "bee, camel."));
    cloud.ok(&["put", first.to_str().unwrap(), second.to_str().unwrap(), "/pages/"]);
    cloud.ok(&[
        "run",
        "--udf",
        "words",
        "--input",
        "/pages",
        "--buckets",
        "3",
        "--then",
        "index",
        "--output",
        "/index",
    ]);
    let mut lines: Vec<_> = cloud.ok(&["find", "/index"]).lines().map(|path| cloud.ok(&["cat", path])).collect();
    lines.sort();
    let mut all: Vec<_> = lines.concat().lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["bee\t/pages/w1.html /pages/w2.html", "camel\t/pages/w2.html", "cow\t/pages/w1.html"]);
}

#[test]
fn terasort_by_hand() {
    let cloud = cloud();
    cloud.ok(&["oct", "terasort", "gen", "--records", "50000", "--files", "3", "/gen"]);
    let generated = cloud.json(&["oct", "terasort", "validate", "/gen"]);
    assert_eq!(generated["records"], 50_000);
    assert_eq!(generated["sorted"], false);
    cloud.ok(&["oct", "terasort", "sort", "/gen", "/sorted", "--buckets", "5"]);
    let sorted = cloud.json(&["oct", "terasort", "validate", "/sorted"]);
    assert_eq!((&sorted["records"], &sorted["checksum"]), (&generated["records"], &generated["checksum"]));
    assert_eq!(sorted["sorted"], true);
    // By eye, too: the files in order of their names are in order of their keys.
    let mut keys = Vec::new();
    for path in cloud.ok(&["find", "/sorted"]).lines() {
        keys.extend(cloud.run(&["cat", path]).out.chunks(100).map(|record| record[..10].to_vec()));
    }
    assert_eq!(keys.len(), 50_000);
    assert!(keys.is_sorted());
}

#[test]
fn more_records_than_the_disks_hold_are_refused_at_once() {
    let cloud = cloud();
    let errors = cloud.fails(5, &["oct", "terasort", "gen", "--records", "99999999999999", "/gen"]);
    assert!(errors.contains("room"), "{errors}");
    cloud.fails(3, &["ls", "/gen"]);
}

#[test]
fn functions_in_c_and_in_rust_see_every_line_once() {
    let cloud = cloud();
    let text: String = (0..20_000).map(|number| format!("word{} and word{}\n", number % 7, number % 11)).collect();
    let file = cloud.file("text", &text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let mut expected = BTreeMap::new();
    for word in text.split_whitespace() {
        *expected.entry(word.to_owned()).or_default() += 1u64;
    }
    let c = fs::read_to_string(workspace().join("examples/udf-c/matching_lines.c")).unwrap();
    let library = cloud.compile("matching_lines", &c);
    let udf = format!("{}:matching_lines", library.display());
    // Small segments: several, cut at lines, none lost and none twice.
    let small = ["--segment-bytes", "10000:50000", "--param", "text=word3"];
    cloud.ok(&[&["run", "--udf", &udf, "--input", "/text", "--output", "/c"][..], &small[..]].concat());
    let mut found: Vec<String> = Vec::new();
    for path in cloud.ok(&["find", "/c"]).lines() {
        found.extend(cloud.ok(&["cat", path]).lines().map(str::to_owned));
    }
    let mut wanted: Vec<_> = text.lines().filter(|line| line.contains("word3")).map(str::to_owned).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    let build = Command::new("cargo")
        .args(["build", "--quiet", "--package", "udf-example-rust"])
        .current_dir(workspace())
        .status();
    assert!(build.unwrap().success());
    let udf = format!("{}:word_count", workspace().join("target/debug/libudf_example_rust.so").display());
    let then = udf.replace(":word_count", ":add_counts");
    cloud.ok(&["run", "--udf", &udf, "--input", "/text", "--buckets", "3", "--then", &then, "--output", "/rust"]);
    assert_eq!(counts(&cloud, "/rust"), expected);
}

#[test]
fn a_library_without_the_symbol_or_the_version_is_named() {
    let cloud = cloud();
    let file = cloud.file("text", "x\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/text"]);
    let library = cloud.compile(
        "other",
        "#include \"sector_udf.h\"\nuint32_t sector_udf_abi_version(void) { return SECTOR_UDF_ABI_VERSION; }\n",
    );
    let udf = format!("{}:absent", library.display());
    let errors = cloud.run(&["run", "--udf", &udf, "--input", "/text", "--output", "/out"]);
    assert_ne!(errors.code, 0);
    assert!(errors.errors.contains("absent"), "{}", errors.errors);
    let library = cloud.compile("strange", "int absent(void) { return 0; }\n");
    let udf = format!("{}:absent", library.display());
    let errors = cloud.run(&["run", "--udf", &udf, "--input", "/text", "--output", "/out"]);
    assert_ne!(errors.code, 0);
    assert!(errors.errors.contains("version"), "{}", errors.errors);
    cloud.fails(2, &["run", "--udf", "no-such-function", "--input", "/text", "--output", "/out"]);
    cloud.fails(3, &["run", "--udf", "count", "--input", "/missing", "--output", "/out"]);
}

// Promise 22.
#[test]
fn a_function_that_crashes_fails_its_job_and_nothing_else() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1", "--processes"]);
    let file = cloud.file("text", "some text\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/text"]);
    let source = "#include \"sector_udf.h\"\n#include <stdlib.h>\n\
        uint32_t sector_udf_abi_version(void) { return SECTOR_UDF_ABI_VERSION; }\n\
        int32_t crash(const sector_input *in, sector_output *out) { (void)in; (void)out; *(volatile int *)0 = 1; return 0; }\n\
        int32_t leave(const sector_input *in, sector_output *out) { (void)in; (void)out; exit(3); }\n";
    let library = cloud.compile("bad", source);
    let pid = cloud.node_pid("node-1");
    for function in ["crash", "leave"] {
        let udf = format!("{}:{function}", library.display());
        let ended = cloud.run(&["run", "--udf", &udf, "--input", "/text", "--output", "/out"]);
        assert_eq!(ended.code, 1, "{}", ended.errors);
        assert!(ended.errors.contains("/text"), "the input is named: {}", ended.errors);
        assert_eq!(cloud.node_pid("node-1"), pid, "the node did not notice");
        cloud.fails(3, &["stat", "/out/part-00000"]);
    }
    cloud.ok(&["run", "--udf", "count", "--input", "/text", "--output", "/out"]);
    let jobs = cloud.json(&["jobs"]);
    let states: Vec<_> = jobs.as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "failed", "failed"], "newest first");
}

/// Copies lines, and fails at one that says `bad`; at one that says `worse`, its process crashes.
const PICKY: &str = r#"
#include "sector_udf.h"
#include <string.h>
#include <stdlib.h>
SECTOR_UDF_LIBRARY
int32_t picky(const sector_input *input, sector_output *output);
int32_t picky(const sector_input *input, sector_output *output) {
    const char *at = (const char *)input->bytes, *end = at + input->length;
    for (uint64_t record = 0; at < end; record++) {
        const char *stop = memchr(at, 10, (size_t)(end - at));
        size_t length = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
        if (length > 3 && memcmp(at, "bad", 3) == 0) {
            output->fail(output, record, "no such star");
            return 1;
        }
        if (length > 5 && memcmp(at, "worse", 5) == 0) abort();
        if (output->emit(output, 0, at, length) != 0) return 1;
        at += length;
    }
    return 0;
}
"#;

// Promise 21.
#[test]
fn a_job_goes_on_without_the_segments_on_which_its_function_fails_and_says_which() {
    let cloud = cloud();
    let library = cloud.compile("picky", PICKY);
    let udf = format!("{}:picky", library.display());
    // One file is one segment; small ones of a node share a task.
    for (name, text) in [("a", "one\ntwo\n"), ("b", "three\nbad\tstar\nfour\n"), ("c", "worse\n"), ("d", "five\n")] {
        let file = cloud.file(name, text);
        cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), &format!("/in/{name}")]);
    }
    let run = |errors_max: &str, output: &str| {
        cloud.run(&["run", "--udf", &udf, "--input", "/in", "--max-errors", errors_max, "--output", output])
    };
    let failed = run("1", "/none");
    assert_eq!(failed.code, 1, "{}", failed.errors);
    cloud.fails(3, &["ls", "/none"]);
    let done = run("2", "/out");
    assert_eq!(done.code, 0, "{}", done.errors);
    let said = String::from_utf8_lossy(&done.out).into_owned();
    assert!(said.contains("with 2 errors, see /out/errors.jsonl; job "), "{said}");
    let mut lines: Vec<String> = Vec::new();
    for path in cloud.ok(&["find", "/out"]).lines().filter(|path| path.contains("part-")) {
        lines.extend(cloud.ok(&["cat", path]).lines().map(str::to_owned));
    }
    lines.sort();
    assert_eq!(lines, ["five", "one", "two"], "nothing of a segment that failed, all else once");

    let jobs = cloud.json(&["jobs"]);
    let id = jobs[0]["id"].as_str().unwrap();
    let view = cloud.json(&["job", id]);
    assert_eq!((&view["state"], &view["failed_segments"]), (&"done".into(), &2.into()));
    assert_eq!(view["error_slice"], "/out/errors.jsonl");
    assert_eq!((&view["stages"][0]["done"], &view["stages"][0]["failed"]), (&2.into(), &2.into()));
    let errors = cloud.json(&["job", id, "--errors"]);
    let errors: BTreeMap<_, _> =
        errors.as_array().unwrap().iter().map(|error| (error["slice"].as_str().unwrap(), error)).collect();
    let bad = errors["/in/b"];
    assert_eq!((&bad["function"], &bad["message"]), (&"picky".into(), &"no such star".into()));
    assert_eq!(
        (&bad["record"], &bad["record_start"], &bad["first_record"]),
        (&1.into(), &r"bad\tstar".into(), &0.into())
    );
    assert_eq!((&bad["stage"], &bad["from"], &bad["until"]), (&0.into(), &0.into(), &20.into()));
    let worse = errors["/in/c"];
    assert!(worse["record"].is_null() && worse["message"].as_str().unwrap().contains("SIGABRT"), "{worse}");
    let said = cloud.ok(&["job", id, "--errors"]);
    assert!(said.contains(r#"record 1 (which begins "bad\tstar"): no such star"#), "{said}");
    let counts = (&view["stages"][0]["segments"], &view["stages"][0]["retried"]);
    assert_eq!(counts, (&4.into(), &0.into()), "no node and no SPE failed");
}

#[test]
fn a_file_that_is_no_multiple_of_its_record_is_refused_by_name() {
    let cloud = cloud();
    let file = cloud.random_file("odd", 1_050);
    cloud.ok(&["put", "--records", "fixed:100", file.to_str().unwrap(), "/odd"]);
    let errors = cloud.run(&["run", "--udf", "count", "--input", "/odd", "--output", "/out"]);
    assert_ne!(errors.code, 0);
    assert!(errors.errors.contains("/odd") && errors.errors.contains("1050"), "{}", errors.errors);
}

#[test]
fn an_output_folder_that_holds_results_is_not_mixed_with_new_ones() {
    let cloud = cloud();
    let file = cloud.file("text", "x\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/text"]);
    cloud.ok(&["run", "--udf", "count", "--input", "/text", "--output", "/out"]);
    cloud.fails(7, &["run", "--udf", "count", "--input", "/text", "--output", "/out"]);
}

#[test]
fn a_job_can_be_left_alone_and_asked_for() {
    let cloud = cloud();
    let file = cloud.random_file("bytes", 2_000_000);
    cloud.ok(&["put", "--records", "fixed:100", file.to_str().unwrap(), "/bytes"]);
    let job = cloud.ok(&["run", "--detach", "--udf", "copy", "--input", "/bytes", "--output", "/out"]);
    let job = job.trim();
    cloud.ok(&["job", job, "--wait"]);
    let view = cloud.json(&["job", job]);
    assert_eq!(view["state"], "done");
    assert_eq!(view["stages"][0]["bytes_in"], 2_000_000);
    assert_eq!(cloud.run(&["cat", "/out/part-00000"]).out, random_bytes(2_000_000));
    let missing = ended(cloud.command(&["job", "ffff"]).output().unwrap());
    assert_eq!(missing.code, 3);
}
