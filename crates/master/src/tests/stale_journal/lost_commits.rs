//! The journal has lost its last moment, and no node was told how far it was: only slices at their paths show it.

use protocol::message::request::{AbandonRequest, RemoveRequest};

use super::*;
use crate::actions::JOURNAL_TABLE;

// Promise 17.
#[test]
fn what_the_disk_lost_in_the_last_moment_shows_by_what_is_placed() {
    // No node was told how far the journal was: only the slices there show it.
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/before"), 1);
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    let kept: Vec<_> = bench.nodes.values().map(|fake| fake.mirror.clone()).collect();
    bench.put("ann", create("/last"), 2);
    for (fake, kept) in bench.nodes.values_mut().zip(kept) {
        fake.mirror = kept;
    }
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "its own rows are the newest copy");
    bench.advance(seconds(100));
    assert_eq!(content(&bench.stat("/last").entry).bytes, 2);
}

// Promise 17.
#[test]
fn a_commit_that_the_disk_lost_shows_though_a_newer_version_was_committed_before_it() {
    for ends in [true, false] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.advance(seconds(3));
        let older = bench.created("ann", create("/older"));
        bench.put("ann", create("/newer"), 1);
        let backup = bench.rows.clone();
        let kept: Vec<_> = bench.nodes.values().map(|fake| fake.mirror.clone()).collect();
        bench.write(&older, 2);
        let number = bench.commit_later("ann", older.lease, 2);
        assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
        if ends {
            // Nothing was lost, and it was removed since: no node may take that for a loss.
            bench.node_mut("n2").answers = false;
            bench.done(
                "ann",
                ClientRequest::Remove(RemoveRequest { path: path("/older"), recursive: false, now: true }),
            );
            bench.restart_master();
            bench.node_mut("n2").answers = true;
            bench.come(&["n1", "n2"]);
            assert_eq!(bench.rebuild_status().state, RebuildState::New);
            assert_eq!(bench.all_paths(), ["/newer"]);
        } else {
            for (fake, kept) in bench.nodes.values_mut().zip(kept) {
                fake.mirror = kept;
            }
            bench.bring_back(&backup);
            bench.come(&["n1", "n2"]);
            assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
            assert_eq!(bench.all_paths(), ["/newer", "/older"]);
        }
        assert!(bench.rows.keys().all(|(table, key)| *table != JOURNAL_TABLE || key[0] != 0x0b), "no row is left");
    }
}

// Promise 17.
#[test]
fn a_write_that_was_overtaken_and_given_up_leaves_no_row() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let older = bench.created("ann", create("/older"));
    bench.put("ann", create("/newer"), 1);
    let count =
        |bench: &Bench| bench.rows.keys().filter(|(table, key)| *table == JOURNAL_TABLE && key[0] == 0x0b).count();
    assert_eq!(count(&bench), 1);
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(older.lease)));
    assert_eq!(count(&bench), 0);
}

#[test]
fn a_file_of_a_later_journal_at_a_known_node_without_rows_shows_that_the_journal_is_old() {
    for first in ["n1", "n2"] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.put("ann", create("/f"), 1);
        bench.advance(seconds(3));
        bench.lose_journal(0);
        bench.join_each(&["n1", "n2"]);
        bench.advance(seconds(3));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        let backup = bench.rows.clone();
        bench.lose_journal(0);
        bench.join_each(&["n1", "n2"]);
        bench.advance(seconds(3));
        bench.put("ann", create("/f"), 2);
        bench.advance(seconds(3));
        bench.bring_back(&backup);
        // It shows nothing but the file: the disk with its rows is gone.
        bench.node_mut(first).mirror = None;
        bench.come(&[first, if first == "n1" { "n2" } else { "n1" }]);
        bench.advance(seconds(5));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        assert_eq!(content(&bench.stat("/f").entry).bytes, 2, "{first}");
    }
}
