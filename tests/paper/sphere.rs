//! Section 3 of the paper, claim by claim, and the test that holds each against the system. Most tests are beside what
//! they prove; one here checks that all of them exist.

use std::{fs, path::Path};

use cluster::{Cloud, workspace};

/// 3.5.2: "After processing is complete, the Sphere client can reorder the segments to correspond to the original order
/// in the input stream". Here they are numbered so.
#[test]
fn what_stays_where_it_was_made_is_numbered_in_the_order_of_the_stream() {
    let cloud = Cloud::start(&["--nodes", "3", "--sites", "1"]);
    let mut all = String::new();
    for name in ["a", "b", "c"] {
        let text: String = (0..3_000).map(|line| format!("line {line} of {name}\n")).collect();
        let file = cloud.file(name, &text);
        cloud.ok(&["put", "--records", "lines", "--copies", "1", file.to_str().unwrap(), &format!("/in/{name}")]);
        all += &text;
    }
    cloud.ok(&["run", "--udf", "copy", "--input", "/in", "--output", "/out", "--segment-bytes", "5000:9000"]);
    let segments = cloud.json(&["jobs"])[0]["stages"][0]["segments"].as_u64().unwrap();
    assert!(segments >= 12, "{segments}");
    let parts = cloud.ok(&["find", "/out"]);
    let found: String = parts.lines().map(|path| cloud.ok(&["cat", path])).collect();
    assert!(found == all, "the bytes are those of the input, in their order");
}

/// The claims of section 3, and the tests that hold each against the system:
///
/// | paper | claim | held by |
/// |---|---|---|
/// | 3.1 | an index beside each file says where its records are, and a function gets them one by one | `a_file_is_cut_at_whole_records_by_its_index_and_a_foreign_index_is_refused`, `records_that_begin_with_a_mark_of_their_own_reach_functions_whole` |
/// | 3.1 | the brown dwarfs of a sky of images are found by a stream, a function and its results | `test_an_example_runs` |
/// | 3.1 | nobody who writes a job moves data or looks after faults | `whatever_dies_every_record_is_in_the_output_once` |
/// | 3.2 | each record is processed independently, by as many as there are | `however_a_file_of_lines_is_cut_each_line_is_processed_once` |
/// | 3.2 | a record, a group of them, a segment or a file at a time | `records_of_fixed_length_whole_files_and_nothing_at_all_are_seen_as_they_are`, `a_built_in_function_runs_over_the_whole_and_over_parts_of_files` |
/// | 3.2 | an output is the input of another process | `a_sealed_bucket_is_the_input_of_the_next_stage` |
/// | 3.2 | several streams at once, A[] + B[] | `two_streams_are_read_record_by_record_whatever_the_function_is_written_in`, `streams_of_whole_files_are_paired_in_their_order` |
/// | 3.2 | a function names a bucket for each record, at any node | `results_reach_the_buckets_of_every_node_once` |
/// | 3.2 | a bucket is a file in the order in which results arrive | `a_bucket_of_winners_only_is_kept_as_it_is` |
/// | 3.2, Figure 3 | two stages sort a data set | `two_stages_sort_a_data_set_over_its_buckets` |
/// | 3.3 | libraries are sent to each SPE, once a stage | `each_conversation_loads_a_stage_once` |
/// | 3.3 | an SPE reads from its disk or from another node, and of the index its part | `a_segment_of_another_node_is_read_as_if_it_were_here` |
/// | 3.3 | it tells its progress | `progress_counts_what_is_done_and_what_is_being_read`, `only_signs_of_life_move_the_deadline` |
/// | 3.3 | it is released with the last segment, and when the client is gone | `a_driver_that_goes_away_ends_its_spe`, `a_dropped_driver_ends_its_conversations` |
/// | 3.4 | results stay on the node, or come back to the client | `a_task_over_a_local_slice_leaves_its_results_in_a_bucket_of_its_number`, `results_are_returned_in_the_order_of_buckets_with_empty_ones_empty` |
/// | 3.4 | the client alone decides, the master stays simple | `two_stages_with_a_shuffle_go_from_files_to_published_files` |
/// | 3.5.1 | segments of the average for each SPE, within bounds | `the_average_per_spe_decides_within_the_bounds`, `segments_are_of_8_to_128_mebibytes_by_default` |
/// | 3.5.1 | whole records of one file | `segments_are_within_their_bounds_and_whole_records` |
/// | 3.5.1 | a file may be a segment | `an_empty_file_has_a_segment_only_where_it_is_a_record` |
/// | 3.5.2 | the three rules | `own_bytes_come_first_then_other_files_then_the_order_of_the_stream` |
/// | 3.5.2 | a silent SPE is discarded, its segment given to another | `a_silent_spe_is_given_up_and_its_late_news_ignored` |
/// | 3.5.2 | results are on the local disk before they are sent, and go to where the bucket then is | `what_a_dead_node_could_not_take_is_kept_and_sent_to_another` |
/// | 3.5.2 | a bucket takes of a segment that is processed again no byte twice | `an_spe_that_dies_with_half_its_results_delivered_changes_nothing`, `losing_attempts_are_cut_out` |
/// | 3.5.2 | errors of input and function are reported, and tried nowhere else | `a_functions_error_is_reported_once_and_not_tried_elsewhere` |
/// | 3.5.2 | slow segments near the end run twice, the first to end counts | `a_slow_attempt_gets_a_rival_and_the_first_to_end_wins`, `an_spe_that_stands_still_in_the_middle_of_its_task_is_overtaken` |
/// | 3.5.2 | segments can be put back into the order of the stream | `what_stays_where_it_was_made_is_numbered_in_the_order_of_the_stream` |
/// | 3.6 | a map and a reduce are two stages | `words_are_counted_by_a_program_and_reduce_as_a_plain_program_counts_them` |
/// | 3.6 | the inverted index of two pages | `an_inverted_index_of_two_pages_is_the_papers` |
/// | 3.6 | an output is several files | `every_file_of_a_mapreduce_is_listed_at_once_and_the_same_after_a_restart` |
#[test]
fn every_claim_of_the_table_names_tests_that_are_there() {
    let mut sources = String::new();
    for folder in ["crates", "tests"] {
        read_sources(&workspace().join(folder), &mut sources);
    }
    let table = include_str!("sphere.rs").lines().filter(|line| line.starts_with("/// | 3."));
    let mut named = 0;
    for name in table.flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let is_there = ["fn", "def"].iter().any(|word| sources.contains(&format!("{word} {name}(")));
        assert!(is_there, "there is no test `{name}`");
        named += 1;
    }
    assert!(named > 30, "{named}");
}

fn read_sources(folder: &Path, all: &mut String) {
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            read_sources(&path, all);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "py") {
            *all += &fs::read_to_string(&path).unwrap();
        }
    }
}
