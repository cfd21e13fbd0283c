//! What a job does with nodes at which attempts of earlier jobs came to nothing.

use sphere::{FinalOutput, StageOutput};

use super::{LOCAL, Script, script};

/// A job of one stage at `a`, which is marked, `b` and `c`, whose SPEs are 1, 2 and 3.
fn with_one_marked(files: &[(&str, u64, &str)]) -> Script {
    let mut script = script(&[("a!", 1), ("b", 1), ("c", 1)], files, LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         start 3 at c",
    );
    script
}

#[test]
fn a_marked_node_gets_no_bucket_while_there_are_others() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    let stages = [StageOutput::Buckets(4), StageOutput::Local];
    script(&[("a!", 4), ("b", 1), ("c", 1)], &files, &stages, FinalOutput::Return).play(
        "start 1 at a
         start 2 at a
         start 3 at a
         start 4 at a
         start 5 at b
         start 6 at c
         > ready 5
         run 0.0.1.0 on 5 at b: /y[0..100] to b,c,b,c
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to b,c,b,c
         > gone c
         drop 6
         > finish 0.0.1.0 0:1 1:2?
         deliver 0.0.1.0 from b: 1@b+1
         > gone b
         drop 5
         > ready 2
         run 0.0.1.1 on 2 at a: /y[0..100] from anyone to a+1,a+2,a+1,a+2 for 0,1",
    );
}

#[test]
fn where_all_nodes_are_marked_none_is() {
    let stages = [StageOutput::Buckets(3), StageOutput::Local];
    script(&[("a!", 1), ("b!", 1)], &[("/x", 100, "a b")], &stages, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b,a",
    );
}

#[test]
fn a_marked_node_leaves_tasks_to_other_holders_while_they_have_an_spe_free() {
    let files = [("/x", 100, "a b"), ("/y", 100, "a b"), ("/z", 100, "a")];
    with_one_marked(&files).play(
        "> ready 1
         run 0.0.2.0 on 1 at a: /z[0..100]
         > finish 0.0.2.0
         > ready 3
         > ready 2
         run 0.0.0.0 on 2 at b: /x[0..100]
         run 0.0.1.0 on 1 at a: /y[0..100]",
    );
}

#[test]
fn work_is_carried_to_a_marked_node_only_when_no_other_has_an_spe_free() {
    let files = [("/x", 100, "b"), ("/y", 100, "b"), ("/z", 100, "b")];
    with_one_marked(&files).play(
        "> ready 1
         > ready 2
         run 0.0.0.0 on 2 at b: /x[0..100]
         > ready 3
         run 0.0.1.0 on 3 at c: /y[0..100] from b
         run 0.0.2.0 on 1 at a: /z[0..100] from b",
    );
}

#[test]
fn a_task_that_failed_is_tried_at_a_marked_node_only_when_no_other_has_an_spe_free() {
    with_one_marked(&[("/x", 100, "a b")]).play(
        "> ready 1
         > ready 3
         > ready 2
         run 0.0.0.0 on 2 at b: /x[0..100]
         > fail 0.0.0.0 unavailable
         drop 2
         > wait 250
         start 5 at b
         > wait 750
         run 0.0.0.1 on 3 at c: /x[0..100] from b
         > fail 0.0.0.1 unavailable
         drop 3
         > wait 2000
         start 7 at c
         run 0.0.0.2 on 1 at a: /x[0..100]",
    );
}

#[test]
fn a_slow_attempt_gets_no_rival_at_a_marked_node() {
    let files = [("/x", 100, "b"), ("/y", 100, "b")];
    with_one_marked(&files).play(
        "> ready 2
         run 0.0.0.0 on 2 at b: /x[0..100]
         > ready 3
         run 0.0.1.0 on 3 at c: /y[0..100] from b
         > ready 1
         > wait 1000
         > finish 0.0.0.0
         > wait 1000
         run 0.0.1.1 on 2 at b: /y[0..100]",
    );
}
