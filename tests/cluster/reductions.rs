//! `filter`, `group` and `reduce` through the command line. Two stages give the result of a plain program. A job
//! reports a record that is not as it must be.

use std::collections::BTreeMap;

use cluster::Cloud;

/// All lines of the files below a folder, in order.
fn lines(cloud: &Cloud, folder: &str) -> Vec<String> {
    let files = cloud.ok(&["find", folder]);
    let mut lines: Vec<_> = files
        .lines()
        .flat_map(|path| cloud.ok(&["cat", path]).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

// Promise 22.
#[test]
fn words_are_counted_by_a_program_and_reduce_as_a_plain_program_counts_them() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let text: String = (0..20_000).map(|number| format!("word{}  and word{}\n", number % 7, number % 11)).collect();
    let file = cloud.file("text", &text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let mut counts = BTreeMap::<_, u64>::new();
    text.split_whitespace().for_each(|word| *counts.entry(word).or_default() += 1);
    let mut expected: Vec<_> = counts.iter().map(|(word, count)| format!("{word}\t{count}")).collect();
    expected.sort();
    let small = ["--segment-bytes", "10000:50000", "--buckets", "3", "--result-records", "lines"];
    let words = ["run", "--udf", "cmd:tr -s ' ' '\\n'", "--input", "/text"];
    let count = ["--then", "reduce", "--param", "reduction=count", "--output", "/counts"];
    cloud.ok(&[&words[..], &small, &count].concat());
    assert_eq!(lines(&cloud, "/counts"), expected);

    // The counts are lines: a further job chooses among them, and another one joins words with the same count in one
    // line.
    let chosen = ["run", "--udf", "filter", "--param", "at_least=2500", "--param", "lacks=and", "--input", "/counts"];
    cloud.ok(&[&chosen[..], &["--output", "/often", "--result-records", "lines"]].concat());
    let often = |(word, count): &(&&str, &u64)| **count >= 2500 && !word.contains("and");
    let mut kept: Vec<_> = counts.iter().filter(often).map(|(word, count)| format!("{word}\t{count}")).collect();
    kept.sort();
    assert_eq!(lines(&cloud, "/often"), kept);
    assert!(!kept.is_empty() && kept.len() < expected.len());
    let columns = ["--param", "key=column:2", "--param", "value=column:1", "--result-records", "lines"];
    let by_count = ["run", "--udf", "hash", "--then", "group", "--input", "/counts", "--output", "/by-count"];
    cloud.ok(&[&by_count[..], &columns, &["--buckets", "2"]].concat());
    let mut words_of = BTreeMap::<_, Vec<_>>::new();
    counts.iter().for_each(|(word, count)| words_of.entry(count.to_string()).or_default().push(*word));
    let found: BTreeMap<_, Vec<_>> = lines(&cloud, "/by-count")
        .iter()
        .map(|line| {
            let mut columns = line.split('\t').map(str::to_owned);
            let count = columns.next().unwrap();
            // Parts of a bucket come from several nodes, in any order.
            let mut words: Vec<_> = columns.collect();
            words.sort();
            (count, words)
        })
        .collect();
    assert!(found.iter().map(|(count, words)| (count, words.len())).eq(words_of.iter().map(|(c, w)| (c, w.len()))));
    assert!(found.values().flatten().eq(words_of.values().flatten()));
}

// Promise 22.
#[test]
fn fixed_records_are_partitioned_and_reduced_to_sums_in_the_order_of_their_keys() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let mut sums = BTreeMap::<_, i64>::new();
    let mut records = Vec::new();
    for number in 0..30_000_i32 {
        let (key, value) = (format!("key{:05}", (number * 7919) % 997), number - 9_000);
        records.extend(key.bytes().chain(value.to_le_bytes()));
        *sums.entry(key).or_default() += i64::from(value);
    }
    let file = cloud.file("records", &records);
    cloud.ok(&["put", "--records", "fixed:12", file.to_str().unwrap(), "/records"]);
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let cuts = format!("cuts={},{}", hex("key00300"), hex("key00700"));
    let stages = ["run", "--udf", "partition", "--then", "reduce", "--input", "/records", "--output", "/sums"];
    let parameters = ["--param", &cuts, "--param", "key=0:8", "--param", "value=8:i32", "--param", "reduction=sum"];
    let small = ["--segment-bytes", "12000:60000", "--buckets", "3"];
    let results = ["--result-records", "fixed:12", "--result-records", "fixed:16"];
    cloud.ok(&[&stages[..], &parameters, &small, &results].concat());
    let files = cloud.ok(&["find", "/sums"]);
    let found: Vec<u8> = files.lines().flat_map(|path| cloud.run(&["cat", path]).out).collect();
    let expected: Vec<u8> = sums.iter().flat_map(|(key, sum)| key.bytes().chain(sum.to_le_bytes())).collect();
    assert_eq!(files.lines().count(), 3);
    assert_eq!(cloud.json(&["stat", files.lines().next().unwrap()])["records"], "fixed:16");
    assert!(found == expected, "{} bytes where {} were expected", found.len(), expected.len());
}

#[test]
fn a_line_without_a_number_is_named_by_the_job_that_was_to_add_it() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let file = cloud.file("text", "a\t1\na\ttwo\n");
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let sum = ["run", "--udf", "reduce", "--param", "reduction=sum", "--input", "/text", "--output", "/sums"];
    let error = cloud.fails(1, &sum);
    assert!(error.contains("record 1") && error.contains("`two` is not a number"), "{error}");
    let error = cloud.fails(1, &["run", "--udf", "copy", "--then", "group", "--input", "/text", "--output", "/sums"]);
    assert!(error.contains("--result-records"), "{error}");
    let twice = ["--result-records", "lines", "--result-records", "lines"];
    let error = cloud.fails(2, &[&sum[..], &twice].concat());
    assert!(error.contains("2 times for 1 stages"), "{error}");
}

#[test]
fn a_reduction_alone_gives_one_record_a_key_and_parameters_are_for_their_stage() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let text: String = (0..3_000).map(|number| format!("word{}\n", number % 7)).collect();
    let file = cloud.file("text", &text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let expected: Vec<_> = (0..7).map(|word| format!("word{word}\t{}", 428 + u32::from(word < 4))).collect();
    // Many segments, each of which has all words.
    let small = ["--segment-bytes", "100:200", "--result-records", "lines", "--input", "/text"];
    let reduce = ["run", "--udf", "reduce", "--output"];
    cloud.ok(&[&reduce[..], &["/alone", "--param", "reduction=count"], &small].concat());
    assert_eq!(lines(&cloud, "/alone"), expected);
    let each = ["--then", "reduce", "--param", "0:reduction=count", "--param", "1:reduction=sum"];
    cloud.ok(&[&reduce[..], &["/each"], &each, &small].concat());
    assert_eq!(lines(&cloud, "/each"), expected);

    // What would be wrong without notice is refused before the job begins.
    let jobs = cloud.json(&["jobs"]);
    let twice = [&reduce[..], &["/none", "--then", "reduce", "--param", "reduction=count"], &small].concat();
    assert!(cloud.fails(2, &twice).contains("reduction=sum"));
    let typo = ["run", "--udf", "filter", "--param", "contains=a", "--param", "typo=1", "--output", "/none"];
    let error = cloud.fails(2, &[&typo[..], &small].concat());
    assert!(error.contains("`typo`") && error.contains("contains, lacks"), "{error}");
    let error = cloud.fails(2, &[&reduce[..], &["/none", "--param", "1:reduction=sum"], &small].concat());
    assert!(error.contains("a stage that the job does not have"), "{error}");
    let library = cloud.compile("declaring", DECLARING);
    let declaring = ["run", "--udf", &format!("{}:f", library.display()), "--param", "shortst=1", "--output", "/none"];
    let error = cloud.fails(2, &[&declaring[..], &small].concat());
    assert!(error.contains("`f` knows shortest, longest"), "{error}");
    assert_eq!(cloud.json(&["jobs"]), jobs);
}

const DECLARING: &str = r#"
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    SECTOR_UDF_PARAMETERS(f, "shortest,longest,")
    SECTOR_UDF_EXPORT int32_t f(const sector_input *input, sector_output *output) {
        (void)input;
        (void)output;
        return 0;
    }
"#;
