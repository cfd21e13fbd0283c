//! Files that are written piece by piece, against a fake cloud that is real on the wire: what appears, and when nothing
//! does.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use client::{ClientError, Condition, EntryKind, PutOptions, SectorPath, Status};
use fake_cloud::FakeCloud;

const MIB: usize = 1024 * 1024;

fn path(text: &str) -> SectorPath {
    SectorPath::parse(text).unwrap()
}

fn content_at(cloud: &FakeCloud, path: &SectorPath) -> Vec<u8> {
    let world = cloud.world();
    world.slices[&world.files[path].slice].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_appears_whole_when_it_is_finished_and_not_before() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let (client, path) = (cloud.client().await, path("/x"));
    for pieces in [vec![], vec![5], vec![100_000; 37], vec![5 * MIB, 1, MIB]] {
        let mut file = client.open_writer(&path, PutOptions::default(), false).await.unwrap();
        let mut expected = Vec::new();
        for (number, bytes) in pieces.iter().enumerate() {
            let piece = vec![number as u8; *bytes];
            expected.extend_from_slice(&piece);
            file.write(piece).await.unwrap();
        }
        assert!(!cloud.world().files.contains_key(&path), "{pieces:?}");
        let entry = file.finish().await.unwrap();
        assert!(matches!(entry.kind, EntryKind::File(content) if content.bytes == expected.len() as u64));
        assert!(content_at(&cloud, &path) == expected, "{pieces:?}");
        cloud.world().files.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_faster_than_the_network_waits_for_it() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let (client, path) = (cloud.client().await, path("/x"));
    let mut file = client.open_writer(&path, PutOptions::default(), false).await.unwrap();
    let mut ahead_most = 0;
    for number in 1..=128_u64 {
        file.write(vec![7; MIB]).await.unwrap();
        ahead_most = ahead_most.max(number * MIB as u64 - cloud.world().received_bytes);
    }
    // Chunks, frames, and what the system itself holds of a connection.
    assert!(ahead_most <= 48 * MIB as u64, "{ahead_most} bytes waited in memory");
    file.finish().await.unwrap();
    assert_eq!(content_at(&cloud, &path).len(), 128 * MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_file_that_is_given_up_or_forgotten_nothing_appears() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let client = cloud.client().await;
    for bytes in [10, 3 * MIB] {
        let mut file = client.open_writer(&path("/given-up"), PutOptions::default(), false).await.unwrap();
        file.write(vec![1; bytes]).await.unwrap();
        file.discard().await;
        let mut file = client.open_writer(&path("/forgotten"), PutOptions::default(), false).await.unwrap();
        file.write(vec![1; bytes]).await.unwrap();
        drop(file);
    }
    // Only the large ones had begun to be sent.
    while cloud.world().log.iter().filter(|line| line.starts_with("abandon")).count() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(cloud.world().files.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failure_no_later_call_publishes_a_part_of_the_file() {
    let cloud = FakeCloud::start(&["n1"]).await;
    cloud.world().closed_paths.insert(path("/closed"));
    let client = cloud.client().await;
    let mut file = client.open_writer(&path("/closed"), PutOptions::default(), false).await.unwrap();
    let error = loop {
        if let Err(error) = file.write(vec![1; MIB]).await {
            break error;
        }
    };
    assert_eq!(error.status(), Status::Refused);
    cloud.world().closed_paths.clear();
    assert!(file.write(vec![2; MIB]).await.is_err());
    assert!(file.finish().await.is_err());
    assert!(cloud.world().files.is_empty());
}

#[tokio::test]
async fn what_is_in_the_way_is_told_before_anything_is_sent() {
    let cloud = FakeCloud::start(&["n1"]).await;
    cloud.add_bytes("/d/x", b"x".to_vec());
    let client = cloud.client().await;
    let folder = client.open_writer(&path("/d"), PutOptions::default(), false).await.unwrap_err();
    assert!(matches!(folder, ClientError::IsFolder { .. }));
    let only_new = PutOptions { condition: Condition::Absent, ..PutOptions::default() };
    assert_eq!(client.open_writer(&path("/d/x"), only_new.clone(), false).await.unwrap_err().status(), Status::Exists);
    client.open_writer(&path("/d/y"), only_new, false).await.unwrap();
}
