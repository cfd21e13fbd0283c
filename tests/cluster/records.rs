//! How files fall into records, through the command line: by an index beside them, and several streams read together
//! (Sector/Sphere paper, 3.1 and 3.2).

use cluster::Cloud;

/// Lines of many lengths, some empty.
fn lines(seed: u64, count: u64) -> Vec<String> {
    let length = |number: u64| (number.wrapping_mul(seed | 1) >> 3) % 97;
    (0..count).map(|number| format!("{number}:{}", "x".repeat(length(number) as usize))).collect()
}

fn put(cloud: &Cloud, name: &str, content: impl AsRef<[u8]>, path: &str) {
    put_as(cloud, name, content, path, "file");
}

fn put_as(cloud: &Cloud, name: &str, content: impl AsRef<[u8]>, path: &str, records: &str) {
    let file = cloud.file(name, content);
    cloud.ok(&["put", "--records", records, file.to_str().unwrap(), path]);
}

/// All lines of all files of a folder, sorted.
fn sorted_lines(cloud: &Cloud, folder: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for path in cloud.ok(&["find", folder]).lines() {
        found.extend(cloud.ok(&["cat", path]).lines().map(str::to_owned));
    }
    found.sort();
    found
}

/// `path`, `from`, `records`, `bytes` of each segment that `count` saw.
fn counted(cloud: &Cloud, folder: &str) -> Vec<(String, u64, u64, u64)> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let segment = |line: &String| {
        let fields: Vec<_> = line.split('\t').collect();
        (fields[0].to_owned(), number(fields[1]), number(fields[2]), number(fields[3]))
    };
    sorted_lines(cloud, folder).iter().map(segment).collect()
}

// Promise 20.
#[test]
fn a_file_is_cut_at_whole_records_by_its_index_and_a_foreign_index_is_refused() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let text = lines(5, 5_000).join("\n") + "\n";
    put(&cloud, "a", &text, "/in/a");
    put(&cloud, "b", "one\ntwo", "/in/b");
    put(&cloud, "empty", "", "/in/empty");
    let run = ["run", "--udf", "count", "--input", "/in", "--records", "index", "--segment-bytes", "1000:20000"];
    let refused = cloud.fails(2, &[&run[..], &["--output", "/none"]].concat());
    assert!(refused.contains("sector index /in/a"), "{refused}");

    assert_eq!(cloud.json(&["index", "/in"]), serde_json::json!(["/in/a.idx", "/in/b.idx"]));
    cloud.ok(&[&run[..], &["--output", "/counted"]].concat());
    let segments = counted(&cloud, "/counted");
    assert!(segments.iter().all(|segment| !segment.0.ends_with(".idx")), "an index is no input: {segments:?}");
    let of = |path: &str| segments.iter().filter(|segment| segment.0 == path).cloned().collect::<Vec<_>>();
    let sums = |list: &[(String, u64, u64, u64)]| list.iter().fold((0, 0), |sum, s| (sum.0 + s.2, sum.1 + s.3));
    assert_eq!((sums(&of("/in/a")), sums(&of("/in/b"))), ((5_000, text.len() as u64), (2, 7)));
    assert!(of("/in/a").len() >= text.len() / 20_000, "{segments:?}");
    let bytes = text.as_bytes();
    assert!(
        of("/in/a").iter().all(|s| s.3 <= 20_000 && (s.1 == 0 || bytes[s.1 as usize - 1] == b'\n')),
        "{segments:?}"
    );

    put(&cloud, "a2", text.replace('x', "y"), "/in/a");
    let refused = cloud.fails(2, &[&run[..], &["--output", "/none"]].concat());
    assert!(
        refused.contains("/in/a.idx") && refused.contains("version") && refused.contains("sector index"),
        "{refused}"
    );
    // Made again, it fits; so does the index of a copy, whose bytes are the same.
    cloud.ok(&["index", "/in/a"]);
    cloud.ok(&["mkdir", "/copy"]);
    cloud.ok(&["cp", "/in/a", "/copy/a"]);
    cloud.ok(&["cp", "/in/a.idx", "/copy/a.idx"]);
    cloud.ok(&["run", "--udf", "count", "--input", "/copy/*", "--records", "index", "--output", "/again"]);
    assert_eq!(sums(&counted(&cloud, "/again")), (5_000, text.len() as u64));
}

#[test]
fn records_that_begin_with_a_mark_of_their_own_reach_functions_whole() {
    let cloud = Cloud::start(&["--nodes", "2"]);
    let genes: String = (0..400).map(|gene| format!(">gene{gene}\n{}", "ACGT\n".repeat(gene % 13))).collect();
    put(&cloud, "genes", &genes, "/genes.fa");
    cloud.ok(&["index", "/genes.fa", "--begins", ">"]);
    let python = cloud.file(
        "genes.py",
        "def lengths(segment, out):\n    assert segment.format == 'index' and len(segment.starts) > 1\n    for gene in \
         segment.records():\n        name, *bases = bytes(gene).splitlines()\n        out.emit(name[1:] + b' %d\\n' % \
         sum(map(len, bases)))\n",
    );
    let udf = format!("{}:lengths", python.display());
    let small = ["--records", "index", "--segment-bytes", "500:2000"];
    cloud.ok(&[&["run", "--udf", &udf, "--input", "/genes.fa", "--output", "/lengths"][..], &small].concat());
    let mut expected: Vec<_> = (0..400).map(|gene| format!("gene{gene} {}", gene % 13 * 4)).collect();
    expected.sort();
    assert_eq!(sorted_lines(&cloud, "/lengths"), expected);
}

const JOIN_PYTHON: &str = "
def join(segment, out):
    for left, right in segment.aligned():
        out.emit(bytes(left).rstrip() + b'=' + bytes(right).rstrip() + b'\\n')

def names(segment, out):
    first, second = segment.streams
    out.emit(b'%s %s %d\\n' % (first.path.encode(), second.path.encode(), len(second)))
";

const JOIN_C: &str = "
#include \"sector_udf.h\"
#include <string.h>
SECTOR_UDF_LIBRARY
SECTOR_UDF_EXPORT int32_t join(const sector_input *in, sector_output *out) {
    const sector_stream *left = sector_stream_at(in, 0), *right = sector_stream_at(in, 1);
    if (!right || sector_stream_at(in, 2) || right->record_format != SECTOR_RECORDS_INDEX) return 9;
    for (uint64_t at = 0; at < right->record_count; at++) {
        char line[256];
        uint64_t length = right->starts[at + 1] - right->starts[at];
        memcpy(line, left->bytes + at * left->record_bytes, left->record_bytes);
        line[left->record_bytes] = '=';
        memcpy(line + left->record_bytes + 1, right->bytes + (right->starts[at] - right->from), length);
        if (out->emit(out, 0, line, left->record_bytes + 1 + length)) return 1;
    }
    return 0;
}
";

// Promise 20.
#[test]
fn two_streams_are_read_record_by_record_whatever_the_function_is_written_in() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let texts = lines(7, 3_000);
    let keys: Vec<_> = (0..3_000).map(|number| format!("key{number:05}")).collect();
    // The streams' files end at different records: the first has three of keys, the second two of texts.
    for (name, range) in [("1", 0..100), ("2", 100..2_500), ("3", 2_500..3_000)] {
        put_as(&cloud, name, keys[range.clone()].concat(), &format!("/keys/{name}"), "fixed:8");
        put(&cloud, &format!("k{name}"), keys[range].join("\n") + "\n", &format!("/key-lines/{name}"));
    }
    for (name, range) in [("1", 0..1_700), ("2", 1_700..3_000)] {
        put_as(&cloud, &format!("t{name}"), texts[range].join("\n") + "\n", &format!("/texts/{name}"), "index");
    }
    cloud.ok(&["index", "/texts", "/key-lines"]);
    let mut expected: Vec<_> = keys.iter().zip(&texts).map(|(key, text)| format!("{key}={text}")).collect();
    expected.sort();
    let python = format!("{}:join", cloud.file("join.py", JOIN_PYTHON).display());
    let c = format!("{}:join", cloud.compile("join", JOIN_C).display());
    // Each file says itself how it falls into records: keys are of one length, texts have an index.
    let small = ["--segment-bytes", "2000:30000"];
    for (udf, output) in [(&*python, "/python"), (&c, "/c")] {
        cloud
            .ok(&[&["run", "--udf", udf, "--input", "/keys", "--input", "/texts", "--output", output][..], &small]
                .concat());
        assert_eq!(sorted_lines(&cloud, output), expected, "{output}");
    }
    let program = ["run", "--udf", "cmd:paste -d= - stream-2", "--input", "/key-lines", "--input", "/texts"];
    cloud.ok(&[&program[..], &["--records", "index", "--output", "/program"], &small].concat());
    assert_eq!(sorted_lines(&cloud, "/program"), expected);

    let refused =
        cloud.fails(2, &["run", "--udf", &python, "--input", "/keys/1", "--input", "/texts", "--output", "/none"]);
    assert!(refused.contains("stream 1 has 100 records and stream 2 has 3000"), "{refused}");
    let run = ["run", "--udf", &python, "--input", "/keys", "--input", "/texts", "--records", "lines"];
    let refused = cloud.fails(2, &[&run[..], &["--output", "/none"]].concat());
    assert!(refused.contains("`lines`") && refused.contains("index"), "{refused}");
}

// Promise 20.
#[test]
fn streams_of_whole_files_are_paired_in_their_order() {
    let cloud = Cloud::start(&["--nodes", "2"]);
    for (name, bytes) in [("1", 10), ("2", 20), ("3", 0)] {
        put(&cloud, name, "x", &format!("/images/{name}"));
        put(&cloud, &format!("m{name}"), "y".repeat(bytes), &format!("/masks/{name}"));
    }
    let udf = format!("{}:names", cloud.file("names.py", JOIN_PYTHON).display());
    let run = ["run", "--udf", &udf, "--records", "file", "--input", "/images"];
    cloud.ok(&[&run[..], &["--input", "/masks", "--output", "/pairs"]].concat());
    assert_eq!(
        sorted_lines(&cloud, "/pairs"),
        ["/images/1 /masks/1 10", "/images/2 /masks/2 20", "/images/3 /masks/3 0"]
    );
    let refused = cloud.fails(2, &[&run[..], &["--input", "/masks/[12]", "--output", "/none"]].concat());
    assert!(refused.contains("3 and 2 files"), "{refused}");
}

#[test]
fn row_groups_are_for_python_and_other_bytes_are_no_parquet() {
    let cloud = Cloud::start(&["--nodes", "2"]);
    put(&cloud, "text", "no parquet at all", "/text");
    let run = ["run", "--udf", "count", "--input", "/text", "--records", "parquet", "--output", "/none"];
    let refused = cloud.fails(2, &run);
    assert!(refused.contains("`/text`") && refused.contains("no Parquet file"), "{refused}");
}
