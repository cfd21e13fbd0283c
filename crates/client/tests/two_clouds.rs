//! Copies between two fake clouds that are real on the wire, where nodes may not fetch from each other. The tests check
//! what passes through the client, what is sent once more, and which cloud an error names.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use client::{
    Client, ClientError, PutOptions, Reason, Refusal, SectorPath, Status,
    tree::{self, CopyPlan, SyncFolder, SyncOptions, SyncPlan, TreeEvent, TreeObserver, TreeOutcome},
};
use fake_cloud::FakeCloud;

/// Two clouds, of which the second forbids its nodes to fetch.
struct TwoClouds {
    there: FakeCloud,
    here: FakeCloud,
    clients: (Client, Client),
}

impl TwoClouds {
    async fn start() -> Self {
        let (there, here) = (FakeCloud::start(&["n1"]).await, FakeCloud::start(&["n2"]).await);
        here.world().pulls_refused = Some(Refusal::new(Reason::NotPermitted, "as its setting says"));
        let clients = (there.client().await.named("east"), here.client().await.named("west"));
        Self { there, here, clients }
    }

    fn pair(&self) -> (&Client, &Client) {
        (&self.clients.0, &self.clients.1)
    }

    async fn plan(&self, from: &str, to: &str) -> Result<CopyPlan, ClientError> {
        CopyPlan::new(self.pair(), &[from.into()], to, true).await
    }

    /// Copies, and gives also the bytes that were told.
    async fn copy(&self, from: &str, to: &str) -> (TreeOutcome, u64) {
        let (told, plan) = (Arc::new(AtomicU64::new(0)), self.plan(from, to).await.unwrap());
        let seen = Arc::clone(&told);
        let observer: TreeObserver = Arc::new(move |event| {
            if let TreeEvent::Bytes(bytes) = event {
                seen.fetch_add(bytes, Ordering::Relaxed);
            }
        });
        let outcome = tree::copy(self.pair(), plan, &PutOptions::default(), &observer).await.unwrap();
        (outcome, told.load(Ordering::Relaxed))
    }

    /// The bytes of a file of the second cloud.
    fn content(&self, path: &str) -> Vec<u8> {
        let world = self.here.world();
        world.slices[&world.files[&SectorPath::parse(path).unwrap()].slice].clone()
    }
}

/// More than a few frames.
fn large() -> Vec<u8> {
    (0..9_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

// Promise 55.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_pass_through_the_client_with_their_dates_where_nodes_may_not_fetch() {
    let clouds = TwoClouds::start().await;
    clouds.there.add_bytes("/d/large", large());
    clouds.there.add_bytes("/d/empty", Vec::new());
    clouds.there.add_bytes("/d/sub/small", b"small".to_vec());
    let (outcome, told) = clouds.copy("/d", "/to").await;
    assert_eq!((outcome.files.len(), outcome.failures.len(), outcome.kept_bytes), (3, 0, 0), "{:?}", outcome.failures);
    assert_eq!((told, clouds.here.world().received_bytes), (9_000_005, 9_000_005));
    assert!(clouds.content("/to/large") == large());
    assert_eq!((clouds.content("/to/sub/small"), clouds.content("/to/empty")), (b"small".to_vec(), Vec::new()));
    assert!(clouds.here.world().log.contains(&"date 0 for /to/large".into()), "{:?}", clouds.here.world().log);
    let refused = clouds.here.world().log.iter().filter(|line| *line == "copy refused").count();
    let (again, _) = clouds.copy("/d", "/to").await;
    assert_eq!((again.skipped(), clouds.here.world().received_bytes), (3, 9_000_005));
    assert!((1..=3).contains(&refused), "{refused}");
}

// Promise 55.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_has_already_is_not_sent_again_unless_it_is_wrong() {
    let clouds = TwoClouds::start().await;
    clouds.there.add_bytes("/a", large());
    clouds.here.world().partial_upload = Some(large()[..4_000_000].to_vec());
    let (outcome, told) = clouds.copy("/a", "/right").await;
    assert_eq!((outcome.failures.len(), outcome.kept_bytes, told), (0, 4_000_000, 9_000_000));
    assert_eq!(clouds.here.world().received_bytes, 5_000_000);
    assert!(clouds.content("/right") == large());
    clouds.here.world().partial_upload = Some(vec![0; 4_000_000]);
    let (outcome, told) = clouds.copy("/a", "/wrong").await;
    assert_eq!((outcome.failures.len(), told), (0, 9_000_000));
    assert_eq!(clouds.here.world().received_bytes, 5_000_000 + 5_000_000 + 9_000_000, "once more, from its beginning");
    assert!(clouds.content("/wrong") == large());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_names_the_cloud_in_which_it_happened() {
    let clouds = TwoClouds::start().await;
    clouds.there.add_bytes("/d/x", b"x".to_vec());
    clouds.here.world().closed_paths.insert(SectorPath::parse("/to/x").unwrap());
    let (outcome, _) = clouds.copy("/d", "/to").await;
    let error = &outcome.failures[0].error;
    assert!(error.to_string().starts_with("in the cloud `west`: "), "{error}");
    assert_eq!((error.status(), error.cause().status()), (Status::Refused, Status::Refused));
    let missing = clouds.plan("/none", "/to").await.unwrap_err();
    assert!(missing.to_string().starts_with("in the cloud `east`: "), "{missing}");
    assert_eq!(missing.status(), Status::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_becomes_equal_to_one_of_another_cloud_even_of_the_same_path() {
    let clouds = TwoClouds::start().await;
    clouds.there.add_bytes("/d/x", b"x".to_vec());
    clouds.there.add_bytes("/d/sub/y", b"new".to_vec());
    clouds.here.add_bytes("/d/x", b"x".to_vec());
    clouds.here.add_bytes("/d/sub/y", b"old".to_vec());
    let folder = SyncFolder::Cloud(SectorPath::parse("/d").unwrap());
    let plan = async || SyncPlan::new(clouds.pair(), &folder, &folder, &SyncOptions::default()).await.unwrap();
    let observer: TreeObserver = Arc::new(|_| ());
    let outcome = tree::sync(clouds.pair(), plan().await, &observer).await.unwrap();
    assert_eq!((outcome.transfers.files.len(), outcome.transfers.skipped()), (2, 1));
    assert_eq!(clouds.content("/d/sub/y"), b"new");
    let again = tree::sync(clouds.pair(), plan().await, &observer).await.unwrap();
    assert!(again.actions.is_empty() && again.transfers.skipped() == 2, "{:?}", again.actions);
    let (one, _) = &clouds.clients;
    let refused = SyncPlan::new((one, one), &folder, &folder, &SyncOptions::default()).await.unwrap_err();
    assert_eq!(refused.status(), Status::Usage, "in one cloud they are the same folder");
}
