//! What functions print, by segment: in each language, before a failure, and without a bound to what they try.
#![allow(clippy::unwrap_used)]

mod lone_spe;

use lone_spe::{in_c, program, python, run_and_hear};
use protocol::limits;

/// What is printed over three segments, if the function prints `text` over each.
fn each(text: &str) -> Vec<(Option<u64>, String)> {
    (0..3).map(|segment| (Some(segment), text.replace("{}", &segment.to_string()))).collect()
}

const SEGMENTS: [&str; 3] = ["0\n", "1\n", "2\n"];

#[tokio::test]
async fn what_is_printed_belongs_to_its_segment_in_each_language() {
    let text = "def f(segment, out):\n    print('in', segment.index)\n    print('end', end='')\n";
    let (_, printed) = run_and_hear(python(&format!("print('loaded')\n{text}")), &[], &SEGMENTS).await;
    assert_eq!(printed, [vec![(None, "loaded".to_owned())], each("in {}\nend")].concat());
    let body = r#"(void)output; printf("in %llu\n", (unsigned long long)input->segment); printf("end");"#;
    assert_eq!(run_and_hear(in_c(body), &[], &SEGMENTS).await.1, each("in {}\nend"));
    let words = ["sh", "-c", "read line; echo in $line >&2; echo reporter:counter:lines,1 >&2; echo result"];
    let (ended, printed) = run_and_hear(program(&words), &[], &SEGMENTS).await;
    assert_eq!((ended.unwrap().0, printed), (b"result\n".repeat(3), each("in {}")));
}

#[tokio::test]
async fn what_precedes_a_failure_belongs_to_the_segment_that_failed() {
    let text = "import os\ndef f(segment, out):\n    print('at', segment.index)\n    if segment.index == 1:\n        ";
    for (end, said) in [("raise ValueError('no')", "ValueError: no"), ("os.abort()", "abort")] {
        let (ended, printed) = run_and_hear(python(&format!("{text}{end}\n")), &[], &SEGMENTS).await;
        let error = ended.unwrap_err();
        assert!(error.contains(said), "{error}");
        assert_eq!(printed[..2], each("at {}")[..2], "{end}");
        assert_eq!(printed.len(), 2, "{end}");
    }
    let (ended, printed) = run_and_hear(python("print('so far')\nimport no_such_module\n"), &[], &SEGMENTS).await;
    assert!(ended.unwrap_err().contains("no_such_module"));
    assert_eq!(printed, [(None, "so far".to_owned())]);
}

#[tokio::test]
async fn a_function_that_prints_without_end_or_closes_its_streams_harms_nobody() {
    let text = "def f(segment, out):\n    for number in range(100000):\n        print('line', number)\n";
    let (ended, printed) = run_and_hear(python(text), &[], &SEGMENTS).await;
    assert!(ended.is_ok());
    assert_eq!(printed.len(), 3);
    for (_, text) in printed {
        assert!(text.len() < limits::SEGMENT_LOG_BYTES_MAX + 100 && text.ends_with("line 99999"), "{}", text.len());
    }
    // A line that looks like a mark, and one that never ends.
    let text = "import os\ndef f(segment, out):\n    os.write(1, b'x' * 5000 + b'\\n\\0sector segment 7\\nafter')\n";
    let (ended, printed) = run_and_hear(python(text), &[], &["0\n"]).await;
    assert!(ended.is_ok());
    assert_eq!(printed[0], (Some(7), "x".repeat(5_000)), "it confuses nothing but its own log");
    let text = "import os\ndef f(segment, out):\n    os.closerange(1, 3)\n    out.emit(b'done')\n";
    assert_eq!(run_and_hear(python(text), &[], &SEGMENTS).await.0.unwrap().0, b"donedonedone");
}
