//! Folders whose files lie on the same nodes.

#![allow(clippy::unwrap_used)]

use protocol::message::request::{MakeFolderRequest, RenameRequest};

use super::{
    placement_constraints::{parents, replication_from_path},
    *,
};

const FOLDER: &str = "/copies=2,together";

fn bench() -> Bench {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1", "b/2", "c/1"]);
    bench.master.test_replication = Some(replication_from_path);
    bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path(FOLDER), parents: true }));
    bench
}

fn fill(bench: &mut Bench, from: usize, until: usize) -> Vec<SliceId> {
    let put = |bench: &mut Bench, index: usize| {
        let at = format!("{FOLDER}/{}/f{index}", index % 3);
        content(&bench.put("ann", parents(&at), 10)).slice
    };
    (from..until).map(|index| put(bench, index)).collect()
}

fn homes(bench: &Bench, slices: &[SliceId]) -> BTreeSet<Vec<String>> {
    slices.iter().map(|slice| bench.holders(*slice)).collect()
}

#[test]
fn all_files_of_a_folder_lie_on_the_same_nodes_also_those_below_it() {
    let mut bench = bench();
    let slices = fill(&mut bench, 0, 20);
    let homes = homes(&bench, &slices);
    assert_eq!(homes.len(), 1, "{homes:?}");
    let home = homes.first().unwrap();
    let sites: BTreeSet<_> = home.iter().map(|id| bench.node(id).place.site.clone()).collect();
    assert_eq!((home.len(), sites.len()), (2, 2), "they are spread as for any file: {home:?}");
}

// Promise 14.
#[test]
fn a_lost_node_is_replaced_by_one_other_for_the_whole_folder() {
    let mut bench = bench();
    let slices = fill(&mut bench, 0, 20);
    let home = bench.holders(slices[0]);
    bench.crash(&home[0]);
    bench.advance(seconds(80));
    let now_at: BTreeSet<Vec<String>> = slices
        .iter()
        .map(|slice| bench.holders(*slice).into_iter().filter(|id| *id != home[0]).collect::<Vec<_>>())
        .collect();
    assert_eq!(now_at.len(), 1, "{now_at:?}");
    let now_at = now_at.first().unwrap();
    assert!(now_at.len() == 2 && now_at.contains(&home[1]), "{now_at:?}");
    let further = fill(&mut bench, 20, 25);
    assert_eq!(homes(&bench, &further), BTreeSet::from([now_at.clone()]));
    // A node that comes late has copies that are no longer needed.
    bench.join(&home[0]);
    bench.advance(seconds(10));
    assert_eq!(homes(&bench, &slices), BTreeSet::from([now_at.clone()]));
    assert_eq!(bench.health(), Health::default());
}

// Promise 14.
#[test]
fn after_a_restart_the_folder_is_where_most_of_its_copies_are() {
    let mut bench = bench();
    let slices = fill(&mut bench, 0, 20);
    let home = bench.holders(slices[0]);
    bench.restart_master();
    bench.master.test_replication = Some(replication_from_path);
    for id in ["n5", "n4", "n3", "n2", "n1"] {
        bench.join(id);
    }
    bench.advance(seconds(1));
    let early = fill(&mut bench, 20, 22);
    bench.advance(seconds(100));
    let late = fill(&mut bench, 22, 30);
    for slices in [early, late, slices] {
        assert_eq!(homes(&bench, &slices), BTreeSet::from([home.clone()]));
    }
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_file_that_comes_into_the_folder_moves_to_its_nodes() {
    let mut bench = bench();
    let slices = fill(&mut bench, 0, 5);
    let home = bench.holders(slices[0]);
    let elsewhere = ["n1", "n2", "n3", "n4", "n5"].into_iter().find(|id| !home.contains(&(*id).into())).unwrap();
    let request = CreateRequest { at: Some(node(elsewhere)), copies: Some(2), ..create("/f") };
    let slice = content(&bench.put("ann", request, 10)).slice;
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path(&format!("{FOLDER}/f")) }));
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice), home);
}

#[test]
fn a_folder_whose_nodes_are_full_takes_files_all_the_same_and_has_them_moved_later() {
    let mut bench = bench();
    let first = fill(&mut bench, 0, 5)[0];
    let home = bench.holders(first);
    for id in &home {
        bench.node_mut(id).free_bytes = 0;
    }
    bench.advance(seconds(2));
    let outside = fill(&mut bench, 5, 8);
    assert!(homes(&bench, &outside).iter().all(|at| at.len() == 2 && !at.contains(&home[0])), "none is refused");
    assert_eq!(bench.health().misplaced, 3);
    for id in &home {
        bench.node_mut(id).free_bytes = 1_000_000;
    }
    bench.advance(seconds(60));
    assert_eq!(homes(&bench, &outside), BTreeSet::from([home]));
}
