//! What functions count, in each language, each in a real SPE: that it comes with the task's result, and what cannot be
//! counted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lone_spe;

use lone_spe::{in_c, program, python, run};
use protocol::{
    Counters,
    limits::{COUNTER_NAME_BYTES_MAX, COUNTERS_MAX},
    message::spe::FunctionCode,
};

/// What a function counted over lines, a text a segment, or why it failed.
async fn counted(code: FunctionCode, texts: &[&str]) -> Result<Counters, String> {
    run(code, &[], texts).await.map(|(_, counters)| counters)
}

#[tokio::test]
async fn counters_over_a_tasks_segments_come_with_its_result_in_every_language() {
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
    assert_eq!(counted(program(&["awk", awk]), &texts).await.unwrap(), expected);
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
    assert!(counted(program(&["awk", awk]), &["x\n"]).await.unwrap_err().contains(&many));

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
    assert!(counted(program(&["awk", awk]), &["x\n"]).await.unwrap_err().contains("reporter:counter:NAME,N"));
}
