//! Backups of a journal that was lost since: what was put together from it knows more.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_backup_of_before_a_rebuild_takes_no_later_wish_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.mkdir("ann", "/kept");
    bench.keep_for("/kept", 99_999);
    bench.mkdir("ann", "/open");
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.lose_journal(0);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(bench.lifetime("/kept"), Some(99_999));
    let set = ClientRequest::SetPolicy { path: path("/kept"), policy: Policy::default() };
    assert!(matches!(bench.ask("admin", set), ClientReply::Policy { .. }));
    bench.close_to_others("ann", "/open");
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(bench.lifetime("/kept"), None, "it was taken back");
    assert!(bench.is_closed_to("eve", "/open"));
}

#[test]
fn a_backup_from_the_middle_of_a_rebuild_costs_nothing_that_was_done_under_it_since() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.put("ann", create("/before"), 1);
    bench.mkdir("ann", "/kept");
    bench.keep_for("/kept", 99_999);
    bench.advance(seconds(3));
    bench.lose_journal(0);
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    let backup = bench.rows.clone();
    bench.come(&["n2", "n3"]);
    bench.advance(seconds(100));
    bench.put("ann", create("/under_it"), 2);
    bench.advance(seconds(3));
    // And once more: what nodes keep is of a third journal then, and says nothing of the second.
    bench.lose_journal(0);
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    bench.put("ann", create("/after"), 3);
    let set = ClientRequest::SetPolicy { path: path("/kept"), policy: Policy::default() };
    assert!(matches!(bench.ask("admin", set), ClientReply::Policy { .. }));
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    assert_eq!(bench.lifetime("/kept"), None, "it was taken back");
    for (at, bytes) in [("/before", 1), ("/under_it", 2), ("/after", 3)] {
        assert_eq!(content(&bench.stat(at).entry).bytes, bytes, "{at}");
    }
}
