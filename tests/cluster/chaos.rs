//! Roles that are killed in the middle of something. A test controls the progress of each upload and download by a
//! pipe. It proves that the process it kills was at work on the transfer.

use std::{
    fs,
    io::{Read, Write},
    process::{Child, Stdio},
};

use cluster::{Cloud, Roles, ended, poll_until, random_bytes};

/// A half-done `put -`.
struct HalfPut {
    child: Child,
    bytes: Vec<u8>,
}

impl HalfPut {
    /// Sends the first half, and waits until a node is seen to have some of it.
    fn begin(cloud: &Roles, bytes: usize, options: &[&str], path: &str) -> (Self, String) {
        let bytes = random_bytes(bytes);
        let words = [&["put"], options, &["-", path]].concat();
        let mut child =
            cloud.command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(&bytes[..bytes.len() / 2]).unwrap();
        // Not the next node of its chain, which has a part too.
        let pid = child.id();
        let target = poll_until("the command is connected to a node", || cloud.connected_node(pid));
        poll_until("that node has received a part", || (cloud.unfinished_bytes(&target) > 0).then_some(()));
        (Self { child, bytes }, target)
    }

    /// Sends the rest; the command then waits for the result.
    fn send_rest(&mut self) {
        let mut input = self.child.stdin.take().unwrap();
        // It may have given up already.
        let _ = input.write_all(&self.bytes[self.bytes.len() / 2..]);
    }

    fn end(self) -> (cluster::Ended, Vec<u8>) {
        (ended(self.child.wait_with_output().unwrap()), self.bytes)
    }
}

/// If the command reported success, the file is there, whole. Otherwise it is absent, or whole if the outcome could
/// not be known.
fn check_put(cloud: &Cloud, put: HalfPut, path: &str) -> i32 {
    let (ended, bytes) = put.end();
    assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
    let there = cloud.run(&["cat", path]);
    match ended.code {
        0 => assert_eq!(there.out, bytes),
        5 => assert!(there.code == 3 || there.out == bytes, "{}: {}", there.code, there.errors),
        code => panic!("exit code {code}: {}", ended.errors),
    }
    ended.code
}

fn put(cloud: &Cloud, bytes: usize, path: &str) {
    let file = cloud.random_file("in", bytes);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), path]);
}

#[test]
fn a_node_that_dies_in_the_middle_of_a_put_costs_at_most_that_put() {
    let mut cloud = Roles::start(3, 1);
    put(&cloud, 1_000_000, "/before");
    let (mut half, target) = HalfPut::begin(&cloud, 8 << 20, &[], "/half");
    cloud.kill(&target);
    half.send_rest();
    check_put(&cloud, half, "/half");
    // Until the dead node is known to be dead, it may be chosen again.
    let file = cloud.random_file("in", 3_000_000);
    cloud.until("the same put succeeds", |cloud| cloud.run(&["put", file.to_str().unwrap(), "/half"]).code == 0);
    assert_eq!(cloud.run(&["cat", "/half"]).out, random_bytes(3_000_000));
    assert_eq!(cloud.run(&["cat", "/before"]).out, random_bytes(1_000_000));
    cloud.run_role(&target);
    cloud.until("nothing is left of the half file", |_| cloud.unfinished_bytes(&target) == 0);
}

#[test]
fn a_put_waits_for_its_second_copy_and_ends_with_one_when_that_node_dies() {
    let mut cloud = Roles::start(2, 1);
    let options = ["--copies", "2", "--sync-copies", "2"];
    let (mut half, target) = HalfPut::begin(&cloud, 4 << 20, &options, "/f");
    let second = if target == "node-1" { "node-2" } else { "node-1" };
    cloud.pause(second);
    half.send_rest();
    // The first copy is whole. The second cannot be, since its node does nothing; so nothing is published.
    poll_until("the first copy is whole", || (cloud.unfinished_bytes(&target) == 0).then_some(()));
    assert_eq!(cloud.run(&["stat", "/f"]).code, 3);
    assert!(half.child.try_wait().unwrap().is_none(), "the put waits");
    cloud.kill(second);
    assert_eq!(check_put(&cloud, half, "/f"), 0);
    assert_eq!(cloud.good_copies("/f"), [target]);
    cloud.run_role(second);
    cloud.until("the second copy is made", |cloud| cloud.good_copies("/f").len() == 2);
}

#[test]
fn a_reader_does_not_notice_that_its_node_dies() {
    let mut cloud = Roles::start(3, 1);
    put(&cloud, 64 << 20, "/f");
    let holders = cloud.good_copies("/f");
    for holder in &holders {
        let native = cloud.role_folder(holder).join("slices/f");
        cloud.until("the slice is at its path", |_| native.exists());
    }
    let mut child = cloud.command(&["cat", "/f"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut bytes = vec![0; 1 << 20];
    output.read_exact(&mut bytes).unwrap();
    // The pipe is full and nothing empties it: the serving node is in the middle of it.
    let serving: Vec<_> = poll_until("a node has the slice open", || {
        let is_serving = |node: &&String| cloud.has_open(node, &cloud.role_folder(node).join("slices/f"));
        let serving: Vec<_> = holders.iter().filter(is_serving).cloned().collect();
        (!serving.is_empty()).then_some(serving)
    });
    assert!(child.try_wait().unwrap().is_none(), "the command waits for a reader");
    cloud.kill(&serving[0]);
    output.read_to_end(&mut bytes).unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(bytes == random_bytes(64 << 20), "the bytes are those that were written");
}

#[test]
fn a_copy_that_dies_half_made_is_made_again() {
    let mut cloud = Roles::start(2, 1);
    let bytes = 160 << 20;
    let (mut half, target) = HalfPut::begin(&cloud, bytes, &["--copies", "2", "--sync-copies", "1"], "/f");
    let second = if target == "node-1" { "node-2" } else { "node-1" };
    half.send_rest();
    for killed in [second, &*target] {
        let part = poll_until("a part of the copy is there", || {
            let part = cloud.partial_bytes(second);
            (part > 0).then_some(part)
        });
        cloud.kill(killed);
        assert!(part < bytes as u64 && cloud.partial_bytes(second) < bytes as u64, "it was half made");
        cloud.run_role(killed);
    }
    assert_eq!(check_put(&cloud, half, "/f"), 0);
    cloud.until("both copies are whole", |cloud| cloud.good_copies("/f").len() == 2);
    cloud.until("nothing is left over", |_| cloud.partial_bytes(second) == 0);
    let native = cloud.role_folder(second).join("slices/f");
    cloud.until("the second copy is at its path", |_| native.exists());
    assert!(fs::read(native).unwrap() == random_bytes(bytes));
}

#[test]
fn a_master_that_dies_in_the_middle_of_a_put_leaves_nothing_of_it_and_all_else() {
    let mut cloud = Roles::start(2, 1);
    put(&cloud, 1_000_000, "/before");
    let (mut half, target) = HalfPut::begin(&cloud, 4 << 20, &[], "/half");
    cloud.kill("master");
    half.send_rest();
    cloud.run_role("master");
    check_put(&cloud, half, "/half");
    cloud.until_up(2);
    assert_eq!(cloud.run(&["cat", "/before"]).out, random_bytes(1_000_000));
    let file = cloud.random_file("in", 3_000_000);
    cloud.until("the path can be written", |cloud| cloud.run(&["put", file.to_str().unwrap(), "/half"]).code == 0);
    cloud.until("nothing is left of the half file", |_| {
        let staged = cloud.role_folder(&target).join("staging");
        cloud.unfinished_bytes(&target) == 0 && fs::read_dir(staged).unwrap().next().is_none()
    });
}

#[test]
fn a_master_that_dies_while_a_commit_waits_has_published_it_whole_or_not_at_all() {
    let mut cloud = Roles::start(2, 1);
    let (mut half, target) = HalfPut::begin(&cloud, 4 << 20, &["--copies", "2", "--sync-copies", "2"], "/f");
    let second = if target == "node-1" { "node-2" } else { "node-1" };
    cloud.pause(second);
    half.send_rest();
    poll_until("the first copy is whole", || (cloud.unfinished_bytes(&target) == 0).then_some(()));
    assert!(half.child.try_wait().unwrap().is_none(), "the commit waits for the second copy");
    cloud.kill("master");
    cloud.resume(second);
    cloud.run_role("master");
    cloud.until_up(2);
    check_put(&cloud, half, "/f");
    let file = cloud.random_file("in", 2_000_000);
    cloud.until("the path can be written", |cloud| cloud.run(&["put", file.to_str().unwrap(), "/f"]).code == 0);
    cloud.until("both nodes hold it", |cloud| cloud.good_copies("/f").len() == 2);
    assert_eq!(cloud.run(&["cat", "/f"]).out, random_bytes(2_000_000));
}

#[test]
fn without_the_security_server_nobody_new_comes_in_and_bytes_go_on() {
    let mut cloud = Roles::start(2, 1);
    let (mut half, _) = HalfPut::begin(&cloud, 4 << 20, &[], "/half");
    cloud.kill("security");
    assert_eq!(cloud.run(&["ls", "/"]).code, 5, "nobody can say who this is");
    half.send_rest();
    let (ended, bytes) = half.end();
    assert_eq!(ended.code, 0, "who was in before stays in: {}", ended.errors);
    cloud.run_role("security");
    assert_eq!(cloud.run(&["cat", "/half"]).out, bytes);
}
