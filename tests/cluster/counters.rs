//! Counters through the command line. What functions in each language count is shown with their job, once for each
//! segment. Segments that were left out count nothing.

use cluster::Cloud;
use serde_json::{Value, json};

const IN_C: &str = r#"
    #include <string.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    SECTOR_UDF_EXPORT int32_t numbers(const sector_input *input, sector_output *output) {
        const char *at = (const char *)input->bytes, *end = at + input->length;
        for (uint64_t line = 0; at < end; line++) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            size_t length = stop ? (size_t)(stop - at) : (size_t)(end - at);
            sector_count(output, "lines", 1);
            if (memchr(at, 'x', length)) {
                output->fail(output, line, "no number");
                return 1;
            }
            at += length + 1;
        }
        return 0;
    }
"#;

const IN_PYTHON: &str = "
def numbers(segment, out):
    for line in segment.lines():
        out.count('lines')
        int(line)
";

/// The counters of a job's first stage. `job` is the JSON printed before; the job's record must have the same stages.
fn counters(cloud: &Cloud, job: &Value) -> Value {
    let id = job["id"].as_str().unwrap();
    let told = cloud.json(&["job", id]);
    assert_eq!(told["stages"], job["stages"]);
    told["stages"][0]["counters"].clone()
}

// Promise 19.
#[test]
fn counters_are_shown_by_stage_and_segments_left_out_have_counted_nothing() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    // Segments of ten lines each, one of which is unreadable in its middle.
    let text: String =
        (0..200).map(|line| if line == 123 { "xxxxxxxxx\n".to_owned() } else { format!("{line:9}\n") }).collect();
    let file = cloud.file("text", &text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let library = format!("{}:numbers", cloud.compile("numbers", IN_C).display());
    let python = format!("{}:numbers", cloud.file("numbers.py", IN_PYTHON).display());
    let awk = "cmd:awk '{ print \"reporter:counter:lines,1\" > \"/dev/stderr\" } /x/ { exit 1 }'";
    for (output, udf) in [("/c", &*library), ("/python", &*python), ("/program", awk)] {
        let run = ["run", "--udf", udf, "--input", "/text", "--output", output, "--max-errors", "1"];
        let job = cloud.json(&[&run[..], &["--segment-bytes", "100:100"]].concat());
        assert_eq!((&job["state"], &job["failed_segments"]), (&json!("done"), &json!(1)), "{job}");
        assert_eq!(counters(&cloud, &job), json!({ "lines": 190 }), "{output}");
        let shown = cloud.ok(&["job", job["id"].as_str().unwrap()]);
        assert!(shown.lines().any(|line| line.split_whitespace().eq(["0", "lines", "190"])), "{shown}");
    }
    let job = cloud.json(&["run", "--udf", "copy", "--input", "/text", "--output", "/copy"]);
    assert_eq!(counters(&cloud, &job), json!({}));
}
