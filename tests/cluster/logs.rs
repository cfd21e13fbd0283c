//! What functions print, through the command line: by segment, of successes and failures, in each language, while the
//! job runs and after it. Equal errors are said once.

use cluster::{Cloud, Roles};
use serde_json::{Value, json};

const PRINTING: &str = "
import sys
print('loaded')

def f(segment, out):
    lines = list(segment.lines())
    print('first', lines[0].decode())
    print('at last', lines[-1].decode(), file=sys.stderr, end='')
    if b'bad' in lines:
        print('\\x1b]0;evil\\x07')
        raise ValueError('not good')
";

const IN_C: &str = r#"
    #include <stdio.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    SECTOR_UDF_EXPORT int32_t f(const sector_input *input, sector_output *output) {
        (void)output;
        printf("first %.1s", (const char *)input->bytes);
        return 0;
    }
"#;

/// The texts of a job's log, by segment.
fn texts(log: &Value) -> Vec<(Option<u64>, String)> {
    let segments = log["segments"].as_array().unwrap();
    segments.iter().map(|log| (log["segment"].as_u64(), log["text"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn what_functions_print_is_kept_by_segment_in_each_language() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    // Segments of one line each.
    let text = cloud.file("text", "0 some\n1 some\n2 some\n");
    cloud.ok(&["put", "--records", "lines", text.to_str().unwrap(), "/text"]);
    let python = format!("{}:f", cloud.file("f.py", PRINTING).display());
    let library = format!("{}:f", cloud.compile("f", IN_C).display());
    let program = "cmd:sh -c 'read line; echo first $line >&2; echo reporter:counter:lines,1 >&2'";
    let languages = [
        ("/python", &*python, "first {} some\nat last {} some"),
        ("/c", &*library, "first {}"),
        ("/program", program, "first {} some"),
    ];
    for (output, udf, printed) in languages {
        let run = ["run", "--udf", udf, "--input", "/text", "--output", output, "--segment-bytes", "7:7"];
        let job = cloud.json(&run);
        let id = job["id"].as_str().unwrap();
        let mut found = texts(&cloud.json(&["job", id, "--logs"]));
        if output == "/python" {
            assert_eq!(found.remove(0), (None, "loaded".into()));
        }
        let expected: Vec<_> = (0..3).map(|line| (Some(line), printed.replace("{}", &line.to_string()))).collect();
        assert_eq!(found, expected, "{output}");
        let shown = cloud.ok(&["job", id, "--logs"]);
        assert!(shown.contains("stage 0, segment 2, at node-") && shown.contains("  first 2"), "{shown}");
    }
    let silent = cloud.json(&["run", "--udf", "copy", "--input", "/text", "--output", "/silent"]);
    let id = silent["id"].as_str().unwrap();
    assert_eq!(cloud.json(&["job", id, "--logs"]), json!({ "segments": [], "left_out": 0 }));
    assert!(cloud.ok(&["job", id, "--logs"]).contains("printed nothing"));
    cloud.fails(2, &["job", id, "--logs", "--errors"]);
    cloud.fails(3, &["job", "0000000000000001", "--logs"]);
}

#[test]
fn a_failed_jobs_log_ends_with_what_precedes_the_failure_and_is_safe_to_show() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "1"]);
    let text = cloud.file("text", "good\nbad\n");
    cloud.ok(&["put", "--records", "lines", text.to_str().unwrap(), "/text"]);
    let python = format!("{}:f", cloud.file("f.py", PRINTING).display());
    cloud.fails(1, &["run", "--udf", &python, "--input", "/text", "--output", "/out"]);
    let id = cloud.json(&["jobs", "--state", "failed"])[0]["id"].as_str().unwrap().to_owned();
    let log = cloud.json(&["job", &id, "--logs"]);
    let failed: Vec<_> = log["segments"].as_array().unwrap().iter().filter(|log| log["failed"] == true).collect();
    let [failure] = &failed[..] else { panic!("{log}") };
    assert!(failure["text"].as_str().unwrap().starts_with("first good\n"), "{failure}");
    let shown = cloud.ok(&["job", &id, "--logs"]);
    assert!(shown.contains(", which failed:") && shown.contains("]0;evil") && !shown.contains('\x1b'), "{shown:?}");
    // A function that cannot be loaded has printed too.
    let broken = format!("{}:f", cloud.file("broken.py", "print('so far')\nimport no_such_module\n").display());
    cloud.fails(2, &["run", "--udf", &broken, "--input", "/text", "--output", "/out"]);
    let newest = cloud.json(&["jobs"])[0]["id"].as_str().unwrap().to_owned();
    let log = cloud.json(&["job", &newest, "--logs"]);
    assert_eq!((&log["segments"][0]["text"], &log["segments"][0]["failed"]), (&json!("so far"), &json!(true)), "{log}");
}

#[test]
fn equal_errors_are_said_once_with_their_number() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "1"]);
    let text = cloud.file("text", "bad\n".repeat(50));
    cloud.ok(&["put", "--records", "lines", text.to_str().unwrap(), "/text"]);
    let python = format!("{}:f", cloud.file("f.py", PRINTING).display());
    let run = ["run", "--udf", &python, "--input", "/text", "--output", "/out", "--segment-bytes", "4:4"];
    let ended = cloud.run(&[&run[..], &["--max-errors", "50"]].concat());
    let told =
        |text: &str| (text.matches("ValueError: not good").count(), text.matches("50 segments failed alike").count());
    assert_eq!((ended.code, told(&ended.errors)), (0, (1, 1)), "{}", ended.errors);
    let job = cloud.json(&["jobs", "--state", "done"])[0].clone();
    let id = job["id"].as_str().unwrap();
    for shown in [cloud.ok(&["job", id]), cloud.ok(&["job", id, "--errors"]), job["errors"].to_string()] {
        assert_eq!(told(&shown), (1, 1), "{shown}");
    }
    assert_eq!(cloud.json(&["job", id, "--errors"]).as_array().unwrap().len(), 50, "a program gets all");
}

#[test]
fn jobs_are_chosen_by_state_and_by_user_and_logs_are_for_their_owner() {
    let cloud = Roles::start(1, 1);
    let text = cloud.file("text", "good\n");
    cloud.ok(&["put", "--records", "lines", text.to_str().unwrap(), "/text"]);
    cloud.ok(&["run", "--udf", "cmd:cat", "--input", "/text", "--output", "/out"]);
    cloud.fails(1, &["run", "--udf", "cmd:false", "--input", "/text", "--output", "/none"]);
    let count = |wanted: &[&str]| cloud.json(&[&["jobs"], wanted].concat()).as_array().unwrap().len();
    assert_eq!([count(&[]), count(&["--state", "done"]), count(&["--state", "failed"])], [2, 1, 1]);
    assert_eq!([count(&["--state", "lost"]), count(&["--user", "nobody"])], [0, 0]);
    let user = cloud.json(&["jobs"])[0]["user"].as_str().unwrap().to_owned();
    assert_eq!(count(&["--user", &user, "--state", "done"]), 1);
    cloud.fails(2, &["jobs", "--state", "finished"]);
}
