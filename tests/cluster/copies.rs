//! Copies that nodes make among themselves, while the client that ordered them sees no byte. Between sites, the links
//! of `sector oct testbed` count the bytes (this needs root, and the test says so if it has none). Other tests kill the
//! source in the middle, or copy from one cloud to another.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use cluster::{CliTestbed, Roles, ended, poll_until, random_bytes};

/// Bytes that a copy has received when it counts as under way.
const PART_BYTES: u64 = 4 << 20;
/// Enough that some seconds pass at the limit that the tests set.
const FILE_BYTES: usize = 24 << 20;

// Promise 54.
#[test]
fn a_copy_between_two_sites_passes_by_the_site_of_its_client() {
    let Some(testbed) = CliTestbed::up(&["--sites", "3", "--nodes-per-site", "1", "--rtt", "4ms"]) else { return };
    for (folder, site) in [("/here", "sites=site1"), ("/there", "sites=site2")] {
        testbed.ok_at("site3", &["mkdir", folder]);
        testbed.ok_at("site3", &["policy", "set", folder, "copies=1", site]);
    }
    testbed.random_file("in", FILE_BYTES);
    testbed.ok_at("site2", &["put", "in", "/there/a"]);
    let carried = |from: &str, to: &str| testbed.passed(from, to, "carried_bytes");
    let of_the_client = || {
        let to = ["site1", "site2"].map(|site| carried(site, "site3"));
        let from = ["site1", "site2"].map(|site| carried("site3", site));
        to.iter().chain(&from).sum::<u64>()
    };
    let (client_before, way_before) = (of_the_client(), carried("site2", "site1"));
    testbed.ok_at("site3", &["cp", "/there/a", "/here/a"]);
    let (client, way) = (of_the_client() - client_before, carried("site2", "site1") - way_before);
    assert!(way > FILE_BYTES as u64, "{way} bytes went from site to site");
    assert!(client < 1 << 20, "{client} bytes went to and from the client's site");
    assert!(testbed.run_at("site1", &["cat", "/here/a"]).out == random_bytes(FILE_BYTES));
}

/// A cloud in which `/from` lies at these sites and `/to` at the last of three.
fn three_nodes(sites: &str) -> Roles {
    let cloud = Roles::start(3, 3);
    let (copies, at) = (format!("copies={}", sites.split(',').count()), format!("sites={sites}"));
    for (folder, copies, sites) in [("/from", copies.as_str(), at.as_str()), ("/to", "copies=1", "sites=site-3")] {
        cloud.ok(&["mkdir", folder]);
        cloud.ok(&["policy", "set", folder, copies, sites]);
    }
    let file = cloud.random_file("in", FILE_BYTES);
    cloud.ok(&["put", file.to_str().unwrap(), "/from/a"]);
    let wanted = sites.split(',').count();
    cloud.until("the copies that are wished for are there", |cloud| cloud.good_copies("/from/a").len() == wanted);
    cloud
}

/// Bytes of copies at the third node that are under way, or were interrupted and are kept.
fn partial_bytes(cloud: &Roles) -> u64 {
    let Ok(items) = fs::read_dir(cloud.role_folder("node-3").join("partial")) else { return 0 };
    items.flatten().filter_map(|item| item.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn slice_at(cloud: &Roles, node: &str) -> PathBuf {
    cloud.role_folder(node).join("slices/from/a")
}

/// Begins a slow copy and returns once a part has arrived: the command, and the node that is read from.
fn begin_copy(cloud: &Roles) -> (Child, String) {
    let words = ["cp", "--limit", "4MB/s", "/from/a", "/to/a"];
    let child = cloud.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    poll_until("a part has come", || (partial_bytes(cloud) > PART_BYTES).then_some(()));
    let source = poll_until("a node has the slice open", || {
        ["node-1", "node-2"].into_iter().find(|node| cloud.has_open(node, &slice_at(cloud, node)))
    });
    (child, source.to_owned())
}

// Promise 54.
#[test]
fn a_copy_whose_source_is_killed_goes_on_from_another_node() {
    let mut cloud = three_nodes("site-1,site-2");
    let (child, source) = begin_copy(&cloud);
    cloud.kill(&source);
    let copied = ended(child.wait_with_output().unwrap());
    assert_eq!(copied.code, 0, "{}", copied.errors);
    assert!(cloud.run(&["cat", "/to/a"]).out == random_bytes(FILE_BYTES));
    assert_eq!(cloud.good_copies("/to/a"), ["node-3"]);
}

// Promise 54.
#[test]
fn a_copy_whose_only_source_dies_ends_in_one_sentence_and_resumes_when_repeated() {
    let mut cloud = three_nodes("site-1");
    let (child, source) = begin_copy(&cloud);
    cloud.kill(&source);
    let failed = ended(child.wait_with_output().unwrap());
    assert_eq!(failed.code, 5, "{}", failed.errors);
    let sentences = failed.errors.lines().filter(|line| line.starts_with("sector: ")).count();
    assert!(sentences == 1 && !failed.errors.contains("panicked"), "{}", failed.errors);
    cloud.fails(3, &["stat", "/to/a"]);
    assert!(partial_bytes(&cloud) > PART_BYTES, "what came is kept");
    cloud.run_role(&source);
    cloud.until_up(3);
    cloud.until("it can be copied", |cloud| cloud.run(&["cp", "/from/a", "/to/a"]).code == 0);
    assert!(cloud.run(&["cat", "/to/a"]).out == random_bytes(FILE_BYTES));
    assert_eq!(partial_bytes(&cloud), 0);
}

// Promise 54.
#[test]
fn a_copy_whose_command_is_killed_ends_and_shows_nothing() {
    let cloud = three_nodes("site-1");
    let (mut child, source) = begin_copy(&cloud);
    cluster::kill(child.id());
    child.wait().unwrap();
    poll_until("nobody reads any more", || (!cloud.has_open(&source, &slice_at(&cloud, &source))).then_some(()));
    cloud.fails(3, &["stat", "/to/a"]);
    assert!(partial_bytes(&cloud) < FILE_BYTES as u64);
}

/// The profile of a cloud's administrator.
fn profile(cloud: &Roles) -> String {
    cloud.home.join("profile.toml").to_str().unwrap().to_owned()
}

/// Begins a slow copy from one cloud of a single node to another; returns the command once a part has arrived.
fn begin_copy_from(there: &Roles, here: &Roles) -> Child {
    let words = ["cp", "--limit", "4MB/s", "--from-profile", &profile(there), "/a", "/b"];
    let child = here.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = || fs::read_dir(here.role_folder("node-1").join("partial")).ok()?.flatten().next()?.metadata().ok();
    poll_until("a part has come", || part().filter(|part| part.len() > PART_BYTES));
    child
}

// Promise 55.
#[test]
fn a_file_goes_from_cloud_to_cloud_and_its_client_speaks_to_no_node_that_has_it() {
    let (there, here) = (Roles::start(1, 1), Roles::start(1, 1));
    let file = there.random_file("in", FILE_BYTES);
    there.ok(&["put", file.to_str().unwrap(), "/a"]);
    let child = begin_copy_from(&there, &here);
    let pid = child.id();
    let pulling = poll_until("the node reads from the other cloud", || there.connected_node(here.pid("node-1")));
    assert_eq!((pulling.as_str(), here.connected_node(pid).as_deref()), ("node-1", Some("node-1")));
    assert_eq!(there.connected_node(pid), None, "the client has no connection to where the bytes are");
    let copied = ended(child.wait_with_output().unwrap());
    assert_eq!(copied.code, 0, "{}", copied.errors);
    assert!(here.run(&["cat", "/b"]).out == random_bytes(FILE_BYTES));
    // The other direction: a folder, ordered by a client of the cloud that has the files.
    here.ok(&["mkdir", "-p", "/d/empty"]);
    here.ok(&["mv", "/b", "/d/b"]);
    here.ok(&["cp", "-r", "--to-profile", &profile(&there), "/d", "/from-there"]);
    assert!(there.run(&["cat", "/from-there/b"]).out == random_bytes(FILE_BYTES));
    there.ok(&["stat", "/from-there/empty"]);
    here.fails(2, &["cp", "--to-profile", &profile(&there), "--from-profile", &profile(&there), "/d/b", "/x"]);
    here.fails(3, &["cp", "--from-profile", &profile(&there), "/nothing", "/x"]);
}

// Promise 55.
#[test]
fn a_copy_from_a_cloud_that_dies_midway_ends_in_one_sentence_and_shows_nothing() {
    let (mut there, here) = (Roles::start(1, 1), Roles::start(1, 1));
    let file = there.random_file("in", FILE_BYTES);
    there.ok(&["put", file.to_str().unwrap(), "/a"]);
    let child = begin_copy_from(&there, &here);
    there.kill("node-1");
    let failed = ended(child.wait_with_output().unwrap());
    assert_eq!(failed.code, 5, "{}", failed.errors);
    let sentences = failed.errors.lines().filter(|line| line.starts_with("sector: ")).count();
    assert!(sentences == 1 && !failed.errors.contains("panicked"), "{}", failed.errors);
    here.fails(3, &["stat", "/b"]);
}

#[test]
fn a_cloud_of_another_authority_is_refused() {
    let (there, here) = (Roles::start(1, 1), Roles::start(1, 1));
    let file = there.random_file("in", 1_000_000);
    there.ok(&["put", file.to_str().unwrap(), "/a"]);
    // A client that trusts another authority cannot even log in.
    let address = |cloud: &Roles| {
        let text = fs::read_to_string(profile(cloud)).unwrap();
        text.lines().find(|line| line.starts_with("address = ")).unwrap().to_owned()
    };
    let wrong = fs::read_to_string(profile(&here)).unwrap().replace(&address(&here), &address(&there));
    let wrong = here.file("wrong.toml", wrong);
    let refused = here.run(&["cp", "--from-profile", wrong.to_str().unwrap(), "/a", "/b"]);
    assert!(refused.code > 1 && refused.errors.contains("cannot log in at"), "{}: {}", refused.code, refused.errors);
    here.fails(3, &["stat", "/b"]);
}

// Promise 55.
#[test]
fn a_copy_goes_through_its_client_where_nodes_may_not_fetch_and_resumes_when_repeated() {
    let (there, mut here) = (Roles::start(1, 1), Roles::start(1, 1));
    let file = there.random_file("in", FILE_BYTES);
    there.ok(&["put", file.to_str().unwrap(), "/d/a"]);
    there.ok(&["put", there.file("small", "small").to_str().unwrap(), "/d/sub/small"]);
    here.kill("node-1");
    here.change("node-1", "third_party_from", "\"own-cloud\"");
    here.run_role("node-1");
    here.until_up(1);
    here.ok(&["profile", "add", "there", &profile(&there)]);
    let words = ["cp", "-r", "--limit", "4MB/s", "sector://@there/d", "/d"];
    let mut child = here.command(&words).stderr(Stdio::null()).spawn().unwrap();
    let part = || fs::read_dir(here.role_folder("node-1").join("partial")).ok()?.flatten().next()?.metadata().ok();
    poll_until("a part has come", || part().filter(|part| part.len() > PART_BYTES));
    let client = child.id();
    assert_eq!(there.connected_node(client).as_deref(), Some("node-1"), "the client itself reads there");
    assert!(Command::new("kill").args(["-INT", &client.to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    here.fails(3, &["stat", "/d/a"]);
    let again = here.run(&["cp", "-r", "sector://@there/d", "/d"]);
    assert!(again.code == 0 && again.errors.contains("had arrived before"), "{}", again.errors);
    assert!(here.run(&["cat", "/d/a"]).out == random_bytes(FILE_BYTES));
    assert_eq!(here.ok(&["cat", "/d/sub/small"]), "small");
    let modified = |cloud: &Roles| cloud.json(&["stat", "/d/a"])["modified"].clone();
    assert_eq!(modified(&here), modified(&there));
    here.ok(&["cp", "/d/a", "/copy"]);
}
