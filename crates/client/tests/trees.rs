//! Folders that go up, come down and are copied, against a fake cloud that is real on the wire. The tests check what is
//! sent, what is skipped, and what is told of files that fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use client::{
    Client, Condition, Priority, PutOptions, SectorPath, Status, Throttle,
    tree::{
        self, CopyPlan, DownloadPlan, ExistingFiles, LocalLinks, TreeEvent, TreeObserver, TreeOutcome,
        UploadDestination, UploadPlan,
    },
};
use fake_cloud::FakeCloud;

/// What was told of a transfer.
#[derive(Clone, Default)]
struct Told {
    bytes: Arc<AtomicU64>,
    /// Paths of files that are done or failed, as they came.
    files: Arc<Mutex<Vec<PathBuf>>>,
}

impl Told {
    fn observer(&self) -> TreeObserver {
        let told = self.clone();
        Arc::new(move |event| match event {
            TreeEvent::Bytes(bytes) => drop(told.bytes.fetch_add(bytes, Ordering::Relaxed)),
            TreeEvent::Done(file) => told.files.lock().unwrap().push(file.to.clone()),
            TreeEvent::Failed(failed) => told.files.lock().unwrap().push(failed.to.clone()),
        })
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn path(text: &str) -> SectorPath {
    SectorPath::parse(text).unwrap()
}

/// A folder of small files, whose contents are their numbers.
fn local_folder(files: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..files {
        let file = folder.path().join(format!("part-{}/{number}", number % 3));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("file {number}")).unwrap();
    }
    folder
}

async fn upload(client: &Client, folder: &Path, options: &PutOptions, told: &Told) -> TreeOutcome {
    tree::upload(
        client,
        UploadPlan::below(folder, &path("/up"), LocalLinks::LeaveOut).unwrap(),
        options,
        &told.observer(),
    )
    .await
}

/// The bytes of all local files below a folder, by their paths in it.
fn local_bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let plan = UploadPlan::below(folder, &SectorPath::root(), LocalLinks::LeaveOut).unwrap();
    plan.files().iter().map(|file| (file.to.to_string(), fs::read(&file.file).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_goes_up_again_sends_only_what_is_new() {
    let cloud = FakeCloud::start(&["n1", "n2"]).await;
    let (client, folder, told) = (cloud.client().await, local_folder(100), Told::default());
    let outcome = upload(&client, folder.path(), &PutOptions::default(), &told).await;
    assert_eq!((outcome.files.len(), outcome.failures.len(), outcome.skipped()), (100, 0, 0));
    let all: u64 = local_bytes(folder.path()).values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!((outcome.bytes(), told.bytes(), cloud.world().received_bytes), (all, all, all));
    assert_eq!(told.files.lock().unwrap().len(), 100);
    let in_order = outcome.files.is_sorted_by(|a, b| a.from < b.from);
    assert!(in_order, "in the order of the plan, whatever was done first");
    let mut up: Vec<_> = local_bytes(folder.path()).into_keys().map(|file| format!("/up{file}")).collect();
    up.sort();
    assert_eq!(cloud.world().paths(), up);

    fs::write(folder.path().join("part-0/0"), "other bytes").unwrap();
    fs::write(folder.path().join("part-1/new"), "new").unwrap();
    let told = Told::default();
    let outcome = upload(&client, folder.path(), &PutOptions::default(), &told).await;
    assert_eq!((outcome.files.len(), outcome.skipped()), (101, 99));
    let sent = "other bytes".len() + "new".len();
    assert_eq!(cloud.world().received_bytes, all + sent as u64);
    assert_eq!(told.bytes(), outcome.bytes(), "what was there counts too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_condition_no_file_counts_as_there_already() {
    let cloud = FakeCloud::start(&["n1"]).await;
    let (client, folder) = (cloud.client().await, local_folder(3));
    upload(&client, folder.path(), &PutOptions::default(), &Told::default()).await;
    let options = PutOptions { condition: Condition::Absent, ..PutOptions::default() };
    let outcome = upload(&client, folder.path(), &options, &Told::default()).await;
    assert_eq!((outcome.files.len(), outcome.failures.len()), (0, 3));
    assert!(outcome.failures.iter().all(|failed| failed.error.status() == Status::Exists));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_fails_holds_up_no_other_and_is_told_with_its_reason() {
    let cloud = FakeCloud::start(&["n1"]).await;
    cloud.world().closed_paths.insert(path("/up/part-1/4"));
    let (client, folder, told) = (cloud.client().await, local_folder(50), Told::default());
    let outcome = upload(&client, folder.path(), &PutOptions::default(), &told).await;
    assert_eq!((outcome.files.len(), outcome.failures.len()), (49, 1));
    let failed = &outcome.failures[0];
    assert_eq!((failed.from.clone(), failed.to.to_str().unwrap()), (folder.path().join("part-1/4"), "/up/part-1/4"));
    assert_eq!(failed.error.status(), Status::Refused);
    assert!(told.files.lock().unwrap().contains(&"/up/part-1/4".into()));
    assert_eq!(outcome.into_result().unwrap_err().status(), Status::Refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_file_is_kept_replaced_or_fetched_anew_as_its_owner_says() {
    let cloud = FakeCloud::start(&["n1"]).await;
    cloud.add_bytes("/d/same", b"same".to_vec());
    cloud.add_bytes("/d/sub/other", b"from the cloud".to_vec());
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("same"), "same").unwrap();
    fs::write(folder.path().join("sub/other"), "mine").unwrap();
    let get = async |existing| {
        let plan = DownloadPlan::exactly(&client, &path("/d"), folder.path(), true).await.unwrap();
        assert_eq!((plan.files().len(), plan.bytes()), (2, 18));
        tree::download(&client, plan, existing, &Told::default().observer()).await
    };
    let kept = get(ExistingFiles::Keep).await;
    assert_eq!((kept.skipped(), kept.failures.len()), (1, 1));
    assert_eq!(
        (kept.failures[0].error.status(), fs::read(folder.path().join("sub/other")).unwrap()),
        (Status::Exists, b"mine".to_vec())
    );
    assert!(cloud.take_reads().is_empty(), "nothing was fetched");
    let replaced = get(ExistingFiles::Replace).await;
    assert_eq!((replaced.skipped(), replaced.files.len(), cloud.take_reads().len()), (1, 2, 1));
    assert_eq!(fs::read(folder.path().join("sub/other")).unwrap(), b"from the cloud");
    let anew = get(ExistingFiles::FetchAnew).await;
    assert_eq!((anew.skipped(), cloud.take_reads().len()), (0, 2));
}

#[tokio::test]
async fn an_upload_goes_into_a_folder_that_is_there_and_else_to_the_path_itself() {
    let cloud = FakeCloud::start(&["n1"]).await;
    cloud.add_bytes("/d/x", b"x".to_vec());
    let client = cloud.client().await;
    let into = async |to: &str, sources| UploadDestination::resolve(&client, to, sources).await.unwrap();
    let below = |folder: &str| UploadDestination::Into(path(folder));
    assert_eq!(into("/d", 1).await, below("/d"));
    assert_eq!(into("/d/x", 1).await, UploadDestination::Exactly(path("/d/x")), "a file is replaced");
    assert_eq!(into("/new", 1).await, UploadDestination::Exactly(path("/new")));
    assert_eq!(into("/new/", 1).await, below("/new"));
    assert_eq!(into("/new", 2).await, below("/new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_folder_holds_comes_to_the_destination_and_no_file_is_lost() {
    let cloud = FakeCloud::start(&["n1"]).await;
    for file in ["/a/1/x", "/a/2/x", "/b/y"] {
        cloud.add_bytes(file, file.as_bytes().to_vec());
    }
    let (client, folder) = (cloud.client().await, tempfile::tempdir().unwrap());
    let to = folder.path().to_str().unwrap();
    let plan = async |sources: &[&str], to: &str, recursive| {
        let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
        DownloadPlan::new(&client, &sources, to, recursive).await
    };
    let files = |plan: DownloadPlan| plan.files().iter().map(|file| file.file.clone()).collect::<Vec<_>>();
    assert_eq!(files(plan(&["/b/y"], &format!("{to}/new"), false).await.unwrap()), [folder.path().join("new")]);
    assert_eq!(files(plan(&["/b/y"], to, false).await.unwrap()), [folder.path().join("y")]);
    assert_eq!(files(plan(&["/a"], to, true).await.unwrap()), [folder.path().join("1/x"), folder.path().join("2/x")]);
    let new = format!("{to}/new");
    assert_eq!(
        files(plan(&["/a/2", "/b/y"], &new, true).await.unwrap()),
        ["x", "y"].map(|name| folder.path().join("new").join(name))
    );
    assert_eq!(plan(&["/a/1", "/a/2"], &new, true).await.unwrap_err().status(), Status::Usage, "both hold `x`");
    assert_eq!(plan(&["/a"], to, false).await.unwrap_err().reason(), client::Reason::IsFolder);
    assert_eq!(plan(&["/a/*/x"], to, false).await.unwrap_err().status(), Status::Usage, "both would be `x`");
    assert_eq!(plan(&["/none"], to, false).await.unwrap_err().status(), Status::NotFound);
}

// Promise 46.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_a_folder_go_at_the_same_time_and_share_the_limit() {
    let cloud = FakeCloud::start(&["n1"]).await;
    for number in 0..6 {
        cloud.add_bytes(&format!("/from/{number}"), vec![number; 100]);
    }
    // Only if so many are under way at once does any of them end.
    cloud.world().copies_awaited = 4;
    let throttle = Throttle::new(Some(4_000_000), Priority::Normal);
    let client = cloud.client().await.throttled(throttle);
    let plan = CopyPlan::new((&client, &client), &["/from".into()], "/to", true).await.unwrap();
    assert_eq!((plan.files().len(), plan.bytes()), (6, 600));
    let told = Told::default();
    let outcome = tree::copy((&client, &client), plan, &PutOptions::default(), &told.observer()).await.unwrap();
    assert_eq!((outcome.files.len(), outcome.failures.len(), told.bytes()), (6, 0, 600));
    let world = cloud.world();
    assert!((0..6).all(|number| world.files.contains_key(&path(&format!("/to/{number}")))));
    assert!(world.log.contains(&"make folder /to".into()));
    assert!(
        world.log.contains(&format!("copy at {:?}", Some(1_000_000))),
        "a quarter for each of four: {:?}",
        world.log
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_or_rename_in_which_a_file_would_be_lost_is_refused_before_anything_is_done() {
    let cloud = FakeCloud::start(&["n1"]).await;
    for file in ["/a/1/x", "/a/2/x", "/c/z"] {
        cloud.add_bytes(file, b"x".to_vec());
    }
    let client = cloud.client().await;
    let sources = ["/a/1/x".to_owned(), "/a/2/x".to_owned()];
    let both = (&client, &client);
    assert_eq!(CopyPlan::new(both, &sources, "/c", false).await.unwrap_err().status(), Status::Usage);
    assert_eq!(tree::plan_renames(&client, &sources, "/c").await.unwrap_err().status(), Status::Usage);
    let renames = tree::plan_renames(&client, &sources[..1], "/c").await.unwrap();
    assert_eq!(renames, [(path("/a/1/x"), path("/c/x"))]);
    let refused =
        async |from: &str, to: &str| CopyPlan::new(both, &[from.into()], to, true).await.unwrap_err().status();
    assert_eq!(refused("/a", "/a/1").await, Status::Usage, "into itself");
    assert_eq!(refused("/c/z", "/c/z").await, Status::Usage, "onto itself");
    assert_eq!(CopyPlan::new(both, &["/a".into(), "/c".into()], "/none", true).await.unwrap().files().len(), 3);
    assert_eq!(cloud.world().paths(), ["/a/1/x", "/a/2/x", "/c/z"]);
}
