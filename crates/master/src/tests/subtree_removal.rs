//! Removing folders so large that their entries go in steps.

#![allow(clippy::unwrap_used)]

use protocol::message::request::{RemoveRequest, RenameRequest};

use super::*;

const FILES: usize = 1_300;

/// A folder of many files with two copies each, all at their places.
fn filled() -> Bench {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    for index in 0..FILES {
        let request = CreateRequest { parents: true, ..create(&format!("/big/{}/f{index}", index % 3)) };
        bench.put("ann", request, 10);
    }
    bench.advance(seconds(10));
    bench
}

fn remove() -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path("/big"), recursive: true, now: true })
}

fn held(bench: &Bench) -> Vec<usize> {
    bench.nodes.values().map(|fake| fake.held.len()).collect()
}

fn rows(bench: &Bench) -> usize {
    bench.rows.keys().filter(|(table, _)| *table == "names").count()
}

/// Makes the oldest batches durable, so many of them.
fn save(bench: &mut Bench, batches: usize) {
    for _ in 0..batches {
        let Some((batch, changes)) = bench.unsaved.pop_front() else { return };
        for change in changes {
            match change {
                RowChange::Set { table, key, value } => drop(bench.rows.insert((table, key), value)),
                RowChange::Remove { table, key } => drop(bench.rows.remove(&(table, key))),
            }
        }
        bench.master.handle_completion(bench.now, MasterCompletion::Saved { batch });
        bench.run();
    }
}

// Promise 11.
#[test]
fn a_large_folder_is_gone_at_once_and_its_bytes_a_little_later() {
    let mut bench = filled();
    assert_eq!(held(&bench), [FILES, FILES]);
    bench.done("ann", remove());
    assert!(!bench.exists("/big") && !bench.exists("/big/1/f1"));
    // The path is free, whatever of the old one is still to go.
    let entry = bench.put("ann", CreateRequest { parents: true, ..create("/big/1/f1") }, 7);
    bench.advance(seconds(60));
    assert_eq!(held(&bench), [1, 1]);
    assert_eq!(bench.holders(content(&entry).slice).len(), 2);
    assert_eq!((rows(&bench), bench.health()), (4, Health::default()));
}

// Promise 11.
#[test]
fn a_master_that_ends_while_a_large_folder_goes_goes_on_with_it() {
    for batches in [1, 2, 3] {
        let mut bench = filled();
        bench.saves = false;
        let asked = bench.ask_later("ann", remove());
        assert_eq!((bench.answer(asked), held(&bench)), (None, vec![FILES, FILES]), "nothing was saved");
        bench.advance(seconds(5));
        assert_eq!(held(&bench), [FILES, FILES], "nothing is removed that a crash would bring back");
        assert!(bench.unsaved.len() <= 4, "rows pile up");
        save(&mut bench, batches);
        assert_eq!(bench.answer(asked), Some(ClientReply::Done));
        bench.restart_master();
        bench.saves = true;
        assert!(!bench.exists("/big"), "what was answered stays");
        bench.join("n1");
        bench.join("n2");
        bench.advance(seconds(120));
        assert_eq!((held(&bench), rows(&bench), bench.health()), (vec![0, 0], 1, Health::default()), "{batches}");
    }
}

#[test]
fn a_large_folder_whose_removal_was_not_saved_is_whole_after_a_start() {
    let mut bench = filled();
    bench.saves = false;
    bench.ask_later("ann", remove());
    bench.advance(seconds(5));
    bench.restart_master();
    bench.saves = true;
    bench.join("n1");
    bench.join("n2");
    bench.advance(seconds(10));
    assert!(bench.exists("/big/2/f2"));
    assert_eq!((held(&bench), bench.health()), (vec![FILES, FILES], Health::default()));
}

#[test]
fn a_large_folder_that_is_renamed_is_placed_anew_everywhere() {
    let mut bench = filled();
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/big/1"), to: path("/one") }));
    bench.advance(seconds(60));
    let entry = bench.stat("/one/f1").entry;
    let slice = content(&entry).slice;
    for id in ["n1", "n2"] {
        assert_eq!(bench.node(id).held[&slice].metadata.header.path, path("/one/f1"));
        let moved = bench.node(id).held.values().filter(|held| held.metadata.header.path.is_within(&path("/one")));
        assert_eq!(moved.count(), FILES / 3);
    }
}
