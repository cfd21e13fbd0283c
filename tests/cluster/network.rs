//! Cut cables: a site that cannot be reached, wholly or in one direction, in the middle of an upload or a download.
//! Each site has a network of its own; the tests need root, and say so where they have none.

use std::{
    io::{Read, Write},
    process::Stdio,
};

use cluster::{Roles, ended, poll_until, random_bytes};

/// The site of a node in a cloud of two.
fn site(node: &str) -> &'static str {
    if matches!(node, "node-1" | "node-3") { "site-1" } else { "site-2" }
}

#[test]
fn a_site_cut_off_during_a_put_costs_at_most_that_put_and_is_caught_up_with() {
    let Some(cloud) = Roles::start_apart(4, 2) else { return };
    let bytes = random_bytes(8 << 20);
    let mut child = cloud.command(&["put", "-", "/half"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes[..4 << 20]).unwrap();
    let target = poll_until("a node has received a part", || {
        (1..=4).map(|number| format!("node-{number}")).find(|node| cloud.unfinished_bytes(node) > 0)
    });
    cloud.network().cut(site(&target));
    let _ = input.write_all(&bytes[4 << 20..]);
    drop(input);
    let put = ended(child.wait_with_output().unwrap());
    match put.code {
        0 => assert!(cloud.run(&["cat", "/half"]).out == bytes),
        5 => assert_eq!(cloud.run(&["stat", "/half"]).code, 3),
        code => panic!("exit code {code}: {}", put.errors),
    }
    // The other site goes on alone.
    let file = cloud.random_file("in", 2_000_000);
    cloud.until("a file can be written", |cloud| cloud.run(&["put", file.to_str().unwrap(), "/alone"]).code == 0);
    assert!(cloud.good_copies("/alone").iter().all(|node| site(node) != site(&target)));
    cloud.network().mend(site(&target));
    cloud.until_up(4);
    cloud.until("copies lie in both sites", |cloud| {
        let copies = cloud.good_copies("/alone");
        copies.len() == 3 && copies.iter().any(|node| site(node) == site(&target))
    });
    cloud.until("all is well", |cloud| cloud.run(&["health"]).code == 0);
    cloud.until("nothing is left of the half file", |_| cloud.unfinished_bytes(&target) == 0);
}

#[test]
fn a_reader_does_not_notice_that_a_site_is_cut_off() {
    let Some(cloud) = Roles::start_apart(2, 2) else { return };
    let file = cloud.random_file("in", 32 << 20);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/f"]);
    let slice = |node: &str| cloud.role_folder(node).join("slices/f");
    cloud.until("both hold it", |_| slice("node-1").exists() && slice("node-2").exists());
    let mut child = cloud.command(&["cat", "/f"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut bytes = vec![0; 1 << 20];
    output.read_exact(&mut bytes).unwrap();
    let serving = poll_until("a node has the slice open", || {
        ["node-1", "node-2"].into_iter().find(|node| cloud.has_open(node, &slice(node)))
    });
    cloud.network().cut(site(serving));
    output.read_to_end(&mut bytes).unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(bytes == random_bytes(32 << 20));
    cloud.network().mend(site(serving));
    cloud.until_up(2);
}

#[test]
fn a_site_that_hears_and_is_not_heard_is_lost_and_comes_back() {
    let Some(cloud) = Roles::start_apart(4, 2) else { return };
    let file = cloud.random_file("in", 1_000_000);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/f"]);
    cloud.network().block_one_way("site-2", "home");
    let lost = |cloud: &cluster::Cloud, count: usize| {
        let nodes = cloud.json(&["nodes"]);
        nodes.as_array().unwrap().iter().filter(|node| node["state"] == "lost").count() == count
    };
    cloud.until("its nodes count as lost", |cloud| lost(cloud, 2));
    // What lies there alone cannot be had, and all else can: two copies lie in two sites.
    assert_eq!(cloud.run(&["cat", "/f"]).out, random_bytes(1_000_000));
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/g"]);
    cloud.network().unblock_one_way("site-2", "home");
    cloud.until_up(4);
    cloud.until("all is well", |cloud| cloud.run(&["health"]).code == 0);
    assert_eq!(cloud.run(&["cat", "/g"]).out, random_bytes(1_000_000));
}
