//! A client that reads, against nodes that fail in every way. The reader gets all bytes, and the right ones, or is told
//! that there are none.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use std::{
    fs,
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use client::{ByteRuns, CarrierChoice, Client, GetOptions, Priority, SectorPath, Throttle};
use fake_cloud::{FakeCloud, reading::ReadFault};
use protocol::Status;

const MIB: u64 = 1024 * 1024;
/// Long enough to be read from several nodes, or by several threads.
const LARGE_BYTES: usize = 40 * 1024 * 1024 + 12_345;
const SMALL_BYTES: usize = 3 * 1024 * 1024 + 77;

/// Bytes in which no two blocks are alike.
fn content(bytes: usize) -> Vec<u8> {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 1u64;
        let mut content = Vec::with_capacity(LARGE_BYTES + 8);
        while content.len() < LARGE_BYTES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            content.extend(state.to_le_bytes());
        }
        content
    });
    CONTENT[..bytes].to_vec()
}

/// Fetches a file and gives its bytes; the count is compared with the bytes.
async fn get(client: &Client, path: &SectorPath, file: &Path) -> Result<Vec<u8>, client::ClientError> {
    get_with(client, path, file, GetOptions { overwrite: true, ..GetOptions::default() }).await
}

async fn get_with(
    client: &Client,
    path: &SectorPath,
    file: &Path,
    options: GetOptions,
) -> Result<Vec<u8>, client::ClientError> {
    let counted = AtomicU64::new(0);
    let count = |bytes| {
        counted.fetch_add(bytes, Ordering::Relaxed);
    };
    client.get_file(path, file, options, &count).await?;
    let bytes = fs::read(file).unwrap();
    assert_eq!(counted.into_inner(), bytes.len() as u64, "every byte is counted once");
    let beside = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "no part and no ledger remain");
    Ok(bytes)
}

async fn cat(client: &Client, path: &SectorPath) -> Result<Vec<u8>, client::ClientError> {
    Ok(client.read(path, None, Vec::new(), &|_| ()).await?.1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_comes_from_all_nodes_at_once() {
    let cloud = FakeCloud::start(&["n1", "n2", "n3"]).await;
    let (client, bytes) = (cloud.client().await, content(LARGE_BYTES));
    let path = cloud.add_bytes("/large", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    assert!(get(&client, &path, &folder.path().join("large")).await.unwrap() == bytes);
    let reads = cloud.take_reads();
    for node in ["n1", "n2", "n3"] {
        assert!(reads.iter().any(|(of, _)| of == node), "{node} was not used: {reads:?}");
    }
    assert!(cat(&client, &path).await.unwrap() == bytes, "and in order");
    let part = client.read(&path, Some(5..35 * MIB), Vec::new(), &|_| ()).await.unwrap().1;
    assert!(part == bytes[5..35 * MIB as usize]);
}

// Promise 56.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_node_is_asked_for_several_ranges_at_once_each_on_its_own_connection() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let (client, bytes) = (cloud.far_client(CarrierChoice::Quic).await, content(LARGE_BYTES));
    let path = cloud.add_bytes("/large", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    assert!(get(&client, &path, &folder.path().join("large")).await.unwrap() == bytes);
    let mut read: Vec<_> = cloud.take_reads().into_iter().map(|(_, range)| range).collect();
    read.sort_by_key(|range| range.start);
    let (lengths, most): (Vec<_>, _) =
        (read.iter().map(|range| (range.end - range.start) / MIB).collect(), cloud.world().reads_most);
    assert_eq!(lengths, [8, 8, 8, 8, 8, 0], "each byte once, in long ranges, and what is left over");
    assert!((2..=4).contains(&most), "{most} at once");
    assert!(cat(&client, &path).await.unwrap() == bytes);
    assert_eq!(cloud.take_reads().len(), 1, "in order one conversation brings all");
}

// Promise 53.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_quic_faults_of_far_nodes_are_made_good_by_others_as_over_tcp() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder) = (cloud.far_client(CarrierChoice::Quic).await, tempfile::tempdir().unwrap());
    let bytes = content(SMALL_BYTES);
    let path = cloud.add_bytes("/file", bytes.clone());
    for fault in [ReadFault::Flip(2 * MIB), ReadFault::DieAfter(MIB)] {
        cloud.fail("n1", fault.clone());
        assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == bytes, "{fault:?}");
    }
}

// Promise 46.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_download_keep_to_its_limit_together_also_on_this_machine() {
    let cloud = FakeCloud::start(&["n1", "n2", "n3"]).await;
    cloud.open_local_door("n2", None);
    let throttle = Throttle::new(Some(1_200_000_000), Priority::Low);
    let (client, bytes) = (cloud.client().await.throttled(throttle.clone()), content(LARGE_BYTES));
    let path = cloud.add_bytes("/large", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    assert!(get(&client, &path, &folder.path().join("large")).await.unwrap() == bytes);
    let paces: Vec<_> = cloud.world().log.iter().filter(|line| line.starts_with("pace")).cloned().collect();
    let third = "pace TransferQos { rate_bytes_per_second: Some(400000000), priority: Low }";
    assert!(!paces.is_empty() && paces.iter().all(|pace| pace == third), "{paces:?}");
    assert_eq!(cloud.take_reads().len(), paces.len(), "each request says it");
    assert!(throttle.transferred_bytes() >= bytes.len() as u64, "no byte went by another way");
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bytes_from_one_node_are_read_again_from_another() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    for (length, bad) in [(LARGE_BYTES, 30 * MIB + 5), (SMALL_BYTES, 2 * MIB)] {
        let bytes = content(length);
        let path = cloud.add_bytes("/file", bytes.clone());
        cloud.fail("n1", ReadFault::Flip(bad));
        assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == bytes);
        assert!(cat(&client, &path).await.unwrap() == bytes);
    }
    let bytes = content(SMALL_BYTES);
    let path = cloud.add_bytes("/file", bytes);
    cloud.fail("n2", ReadFault::Flip(2 * MIB));
    let error = cat(&client, &path).await.unwrap_err();
    assert_eq!(error.status(), Status::Unavailable, "where both are bad nothing is made up: {error}");
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_in_the_midst_is_replaced() {
    let cloud = FakeCloud::start(&["n1", "n2", "n3"]).await;
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    for length in [LARGE_BYTES, SMALL_BYTES] {
        let bytes = content(length);
        let path = cloud.add_bytes("/file", bytes.clone());
        for _ in 0..2 {
            cloud.fail("n1", ReadFault::DieAfter(MIB));
            cloud.fail("n3", ReadFault::DieAfter(2 * MIB));
            assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == bytes);
        }
        cloud.fail("n1", ReadFault::DieAfter(MIB));
        cloud.fail("n3", ReadFault::DieAfter(2 * MIB));
        assert!(cat(&client, &path).await.unwrap() == bytes);
    }
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_range_of_a_silent_node_comes_from_another_without_waiting_for_it() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, bytes) = (cloud.client().await, content(LARGE_BYTES));
    let path = cloud.add_bytes("/large", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    cloud.fail("n1", ReadFault::StallAfter(MIB));
    // No node is ever given up for being slow here: its last range is simply read from the other too.
    let patient = GetOptions { overwrite: true, stall: Duration::from_secs(100_000), kept_bytes: None };
    assert!(get_with(&client, &path, &folder.path().join("large"), patient).await.unwrap() == bytes);
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_keeps_still_is_given_up_after_a_while() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, bytes) = (cloud.client().await, content(SMALL_BYTES));
    let path = cloud.add_bytes("/small", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    cloud.fail("n1", ReadFault::StallAfter(MIB));
    let hasty = GetOptions { overwrite: true, stall: Duration::from_secs(2), kept_bytes: None };
    assert!(get_with(&client, &path, &folder.path().join("small"), hasty).await.unwrap() == bytes);
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_with_holes_is_gone_on_with_and_compared_as_a_whole() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, bytes) = (cloud.client().await, content(LARGE_BYTES));
    let path = cloud.add_bytes("/large", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large");
    let break_off = || {
        cloud.fail("n1", ReadFault::DieAfter(3 * MIB));
        cloud.fail("n2", ReadFault::DieAfter(9 * MIB));
    };
    break_off();
    let error = get(&client, &path, &file).await.unwrap_err();
    assert_eq!(error.status(), Status::Unavailable, "{error}");
    assert!(!file.exists());
    cloud.world().read_faults.clear();
    cloud.take_reads();
    assert!(get(&client, &path, &file).await.unwrap() == bytes);
    let reads = cloud.take_reads();
    assert!(reads.iter().all(|(_, range)| range.start != 0), "the first range was there already: {reads:?}");

    break_off();
    get(&client, &path, &file).await.unwrap_err();
    cloud.world().read_faults.clear();
    let part = fs::read_dir(folder.path()).unwrap().map(|item| item.unwrap().path());
    let part = part.into_iter().find(|path| path.extension().is_some_and(|end| end == "part")).unwrap();
    let mut damaged = fs::read(&part).unwrap();
    damaged[7] ^= 1;
    fs::write(&part, damaged).unwrap();
    let error = get(&client, &path, &file).await.unwrap_err();
    assert_eq!(error.status(), Status::Corrupt, "{error}");
    assert!(get(&client, &path, &file).await.unwrap() == bytes, "and the next one begins anew");
}

// Promise 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_while_it_is_read_is_never_mixed() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    for length in [LARGE_BYTES, SMALL_BYTES] {
        let bytes = content(length);
        let path = cloud.add_bytes("/file", bytes.clone());
        cloud.fail("n1", ReadFault::ReplaceAfter(MIB, path.clone()));
        let error = client.read(&path, None, Vec::new(), &|_| ()).await.unwrap_err();
        assert_eq!(error.status(), Status::Unavailable, "{error}");
        let new: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == new);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_this_machine_is_read_from_its_disk_and_nothing_goes_over_the_network() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    cloud.open_local_door("n2", None);
    for length in [0, 1, SMALL_BYTES, LARGE_BYTES] {
        let bytes = content(length);
        let path = cloud.add_bytes("/file", bytes.clone());
        assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == bytes);
        assert!(cat(&client, &path).await.unwrap() == bytes);
    }
    assert_eq!(cloud.take_reads(), []);
}

// Promise 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_block_on_this_machine_is_told_to_its_node_and_read_elsewhere() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    cloud.open_local_door("n1", Some(2 * MIB + 9));
    for length in [LARGE_BYTES, SMALL_BYTES] {
        let bytes = content(length);
        let path = cloud.add_bytes("/file", bytes.clone());
        assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == bytes);
        let suspect = format!("suspect n1 {} {}", 2 * MIB, 2 * MIB + 65_536);
        cloud.until_logged(&suspect).await;
        cloud.take_reads();
        assert!(cat(&client, &path).await.unwrap() == bytes);
        cloud.until_logged(&suspect).await;
        assert!(!cloud.take_reads().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_one_copy_on_this_machine_is_bad_another_here_is_read() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    cloud.open_local_door("n1", Some(2 * MIB + 9));
    cloud.open_local_door("n2", None);
    for length in [LARGE_BYTES, SMALL_BYTES] {
        let bytes = content(length);
        let path = cloud.add_bytes("/file", bytes.clone());
        assert!(get(&client, &path, &folder.path().join("file")).await.unwrap() == bytes);
        assert!(cat(&client, &path).await.unwrap() == bytes);
    }
    assert_eq!(cloud.take_reads(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_socket_that_is_not_here_costs_nothing_but_the_try() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let (client, bytes) = (cloud.client().await, content(SMALL_BYTES));
    let path = cloud.add_bytes("/file", bytes.clone());
    cloud.name_a_door_elsewhere("n1");
    assert!(cat(&client, &path).await.unwrap() == bytes);
}

/// Reads at several places, several reads at once.
async fn read_around(client: &Client, path: &SectorPath, bytes: &[u8]) {
    let file = client.open(path).await.unwrap();
    assert_eq!(file.bytes(), bytes.len() as u64);
    let mut reads = tokio::task::JoinSet::new();
    for step in 0..200u64 {
        let (file, offset) = (file.clone(), step * 1_000_003 % (bytes.len() as u64 + 5_000));
        let length = [1, 100, 65_536, 300_000, 2_500_000][step as usize % 5];
        reads.spawn(async move { (offset as usize, length, file.read_at(offset, length).await.unwrap()) });
    }
    while let Some(read) = reads.join_next().await {
        let (offset, length, found) = read.unwrap();
        let expected = &bytes[offset.min(bytes.len())..(offset + length).min(bytes.len())];
        assert!(found == expected, "{length} bytes from {offset}");
    }
    assert_eq!(file.read_at(u64::MAX, 10).await.unwrap(), b"");
    for (from, until) in [(0, bytes.len()), (70_001, 1_500_000), (5, 5)] {
        let (mut stream, mut found) = (file.stream(from as u64..until as u64), Vec::new());
        while let Some(piece) = stream.next().await {
            found.extend(piece.unwrap());
        }
        assert!(found == bytes[from..until], "{from}..{until}");
    }
    let runs = ByteRuns { from: 70_001, run_bytes: 200, stride_bytes: 4_096, runs: 600 };
    let run = |run: usize| bytes[70_001 + run * 4_096..][..200].to_vec();
    assert!(file.read_runs(&runs).await.unwrap() == (0..600).flat_map(run).collect::<Vec<_>>());
    let past = ByteRuns { runs: 5_000, ..runs };
    assert_eq!(file.read_runs(&past).await.unwrap_err().status(), Status::Usage);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_opened_again_only_where_it_is_another_one() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let client = cloud.client().await;
    let path = cloud.add_bytes("/file", content(SMALL_BYTES));
    let known = client.open(&path).await.unwrap();
    assert!(client.reopen(&known).await.unwrap().is_none());
    // Another session has other rights, and tickets of its own.
    assert!(cloud.client().await.reopen(&known).await.unwrap().is_some());
    let new = content(SMALL_BYTES / 2);
    cloud.add_bytes("/file", new.clone());
    let now = client.reopen(&known).await.unwrap().expect("it has another content");
    assert!(now.read_at(0, SMALL_BYTES).await.unwrap() == new);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_reads_are_right_over_the_network_and_on_this_machine() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, bytes) = (cloud.client().await, content(SMALL_BYTES));
    let path = cloud.add_bytes("/file", bytes.clone());
    read_around(&client, &path, &bytes).await;
    assert!(!cloud.take_reads().is_empty());
    cloud.fail("n1", ReadFault::DieAfter(10 * MIB));
    read_around(&client, &path, &bytes).await;
    cloud.take_reads();
    cloud.open_local_door("n2", None);
    read_around(&client, &path, &bytes).await;
    assert_eq!(cloud.take_reads(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_reads_leave_a_bad_copy_on_this_machine_for_a_good_one_elsewhere() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, bytes) = (cloud.client().await, content(SMALL_BYTES));
    let path = cloud.add_bytes("/file", bytes.clone());
    cloud.open_local_door("n1", Some(MIB));
    read_around(&client, &path, &bytes).await;
    cloud.until_logged(&format!("suspect n1 {MIB} {}", MIB + 65_536)).await;
}

// Promise 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_file_keeps_its_version_or_says_that_it_is_gone() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, old) = (cloud.client().await, content(SMALL_BYTES));
    let path = cloud.add_bytes("/file", old.clone());
    let remote = client.open(&path).await.unwrap();
    assert!(remote.read_at(0, 1_000).await.unwrap() == old[..1_000]);
    cloud.open_local_door("n1", None);
    let local = client.open(&path).await.unwrap();
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    cloud.world().replace(&path, new.clone());
    let error = remote.read_at(0, 1_000).await.unwrap_err();
    assert_eq!(error.status(), Status::Unavailable, "{error}");
    assert!(local.read_at(5, 1_000_000).await.unwrap() == old[5..1_000_005], "its file is still open");
    let again = client.open(&path).await.unwrap();
    assert!(again.read_at(0, 1_000).await.unwrap() == new[..1_000]);
}
