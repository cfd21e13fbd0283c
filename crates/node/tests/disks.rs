//! A real node with several folders. The tests show what it stores where, and what it reports when a disk disappears
//! while it runs. They show that a disk keeps its slices wherever it is attached.
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use fake_cloud::{FakeCloud, FakeNode, content, header, path, put};
use protocol::{
    SliceHeader, SliceId, Status,
    message::{
        node_master::{Ack, HeldState, Order, Report},
        transfer::TransferReply,
    },
};

/// A node with another disk in `folder`.
async fn node_with_disk(cloud: &mut FakeCloud, id: &str, folder: &Path) -> (FakeNode, BTreeSet<u128>) {
    let folders = Some(vec![folder.to_owned()]);
    let (node, held) = cloud.node_with(id, |settings| settings.folders = folders).await;
    (node, held.iter().map(|held| held.metadata.header.slice.0).collect())
}

/// Stores slices 1 to 8 and returns those that are in `folder`.
async fn fill(cloud: &mut FakeCloud, node: &FakeNode, folder: &Path) -> BTreeSet<u128> {
    for slice in 1..=8 {
        cloud.put(node, slice, &content(100_000 + slice as usize)).await;
    }
    let is_here = |slice: &u128| folder.join("staging").join(SliceId(*slice).to_string()).exists();
    (1..=8).filter(is_here).collect()
}

async fn check_readable(cloud: &FakeCloud, node: &FakeNode, slices: impl Iterator<Item = u128>) {
    for slice in slices {
        assert!(cloud.get(node, slice).await.unwrap() == content(100_000 + slice as usize), "slice {slice}");
    }
}

/// The folder of a disk that is not the node's main one.
fn disk() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("sector");
    (folder, disk)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_goes_away_takes_its_slices_along_and_the_node_goes_on() {
    let (_mount, disk) = disk();
    let mut cloud = FakeCloud::start().await;
    let (node, _) = node_with_disk(&mut cloud, "n1", &disk).await;
    let lost = fill(&mut cloud, &node, &disk).await;
    assert!(!lost.is_empty() && lost.len() < 8, "both disks are used: {lost:?}");
    fs::rename(&disk, disk.with_extension("unmounted")).unwrap();
    let mut told = BTreeSet::new();
    while told.len() < lost.len() {
        match cloud.report(node.session).await {
            Report::Removed(slice) => drop(told.insert(slice.0)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, lost);
    for slice in &lost {
        assert_eq!(cloud.get(&node, *slice).await.unwrap_err().status(), Status::NotFound);
    }
    check_readable(&cloud, &node, (1..=8).filter(|slice| !lost.contains(slice))).await;
    for slice in 20..24 {
        cloud.put(&node, slice, b"new").await;
    }
    assert!(!disk.exists(), "nothing was begun where the disk was");
    // After a restart it goes on without the disk, and uses it again once it is back.
    node.stop().await;
    let (node, held) = node_with_disk(&mut cloud, "n1", &disk).await;
    assert!(held.is_disjoint(&lost) && held.len() == 12 - lost.len(), "{held:?}");
    assert!(!disk.exists());
    node.stop().await;
    fs::rename(disk.with_extension("unmounted"), &disk).unwrap();
    let (node, held) = node_with_disk(&mut cloud, "n1", &disk).await;
    assert_eq!(held.len(), 12);
    check_readable(&cloud, &node, 1..=8).await;
    node.stop().await;
}

// Promise 36.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_put_into_another_node_brings_its_slices_there() {
    let (_mount, disk) = disk();
    let mut cloud = FakeCloud::start().await;
    let (first, _) = node_with_disk(&mut cloud, "n1", &disk).await;
    let moved = fill(&mut cloud, &first, &disk).await;
    for slice in &moved {
        let place = Order::Place { header: SliceHeader { path: path(&format!("/in/{slice}")), ..header(*slice) } };
        assert_eq!(cloud.order(&first, place).await, Ack::Done);
    }
    first.stop().await;
    let (second, held) = node_with_disk(&mut cloud, "n2", &disk).await;
    assert_eq!(held, moved);
    check_readable(&cloud, &second, moved.iter().copied()).await;
    second.stop().await;
    let (_first, held) = cloud.node_with_inventory("n1").await;
    assert!(held.iter().all(|held| !moved.contains(&held.metadata.header.slice.0)));
    assert_eq!(held.len() + moved.len(), 8);
    assert!(held.iter().all(|held| held.state == HeldState::Staged));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_into_the_reserve_is_refused_as_unavailable() {
    let mut cloud = FakeCloud::start().await;
    // More than any disk has.
    let (node, _) = cloud.node_with("n1", |settings| settings.reserve_bytes = 1 << 43).await;
    let mut stream = cloud.connect(&node).await;
    let ticket = cloud.write_ticket(&node, header(1).slice.0);
    let TransferReply::Refused(refusal) = put(&mut stream, ticket, b"bytes").await else { panic!("it was taken") };
    assert_eq!(refusal.status(), Status::Unavailable);
    assert!(refusal.message.contains("reserve_bytes"), "{refusal}");
}
