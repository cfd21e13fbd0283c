//! Disks: a flipped bit that `sector check` finds, one that fills, one whose mount goes away, and a role that dies.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
};

use cluster::{Cloud, SmallDisk, kill, random_bytes};
use serde_json::Value;

/// The results of a check by node, and its exit code.
fn check(cloud: &Cloud, path: &str) -> (i32, Vec<(String, String)>) {
    let ended = cloud.run(&["check", path, "--json"]);
    let views: Value = serde_json::from_str(&ended.text()).expect("one JSON document");
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut results: Vec<_> =
        views.as_array().unwrap().iter().map(|view| (text(&view["node"]), text(&view["result"]))).collect();
    results.sort();
    (ended.code, results)
}

fn results(states: [&str; 2]) -> Vec<(String, String)> {
    ["node-1", "node-2"].iter().zip(states).map(|(node, state)| ((*node).to_owned(), state.to_owned())).collect()
}

// Promise 33.
#[test]
fn a_check_finds_a_flipped_bit_and_later_the_copy_that_replaced_it() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2", "--processes"]);
    let file = cloud.random_file("in", 12_000_000);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/d/in"]);
    let native = cloud.node_folder("node-1").join("slices/d/in");
    cloud.until("both copies are good", |cloud| native.exists() && check(cloud, "/d/in") == (0, results(["ok", "ok"])));
    let mut bytes = fs::read(&native).unwrap();
    bytes[11_999_999] ^= 1;
    fs::write(&native, &bytes).unwrap();
    assert_eq!(check(&cloud, "/d/in"), (6, results(["corrupt", "ok"])));
    cloud.until("the copy is made again", |cloud| check(cloud, "/d/in") == (0, results(["ok", "ok"])));
    assert_eq!(fs::read(&native).unwrap(), random_bytes(12_000_000));
    // For people, over folders and globs; a folder only with -r.
    assert!(cloud.ok(&["check", "-r", "/d"]).contains("2 copies: 2 ok, 0 corrupt, 0 missing"));
    cloud.ok(&["check", "/d/*"]);
    assert!(cloud.fails(2, &["check", "/d"]).contains("-r"));
    cloud.fails(3, &["check", "/nothing"]);
    kill(cloud.node_pid("node-2"));
    cloud.until("the node is lost", |cloud| check(cloud, "/d/in") == (1, results(["ok", "unreachable"])));
}

// Promise 37.
#[test]
fn a_disk_that_fills_refuses_writes_and_nothing_else_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let Some(small) = SmallDisk::mount(&disk, "200m") else { return };
    let cloud = Cloud::start_in(folder, disk.join("data"), &["--nodes", "1", "--sites", "1"]);
    let file = cloud.random_file("in", 1_000_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/before"]);
    // Another program fills the disk, up to the middle of what is kept free.
    let filler = disk.join("filler");
    fs::write(&filler, vec![7; (small.free_mib() - 16) << 20]).unwrap();
    let errors = cloud.fails(5, &["put", file.to_str().unwrap(), "/while-full"]);
    assert!(errors.contains("room"), "{errors}");
    cloud.until("the master knows", |cloud| cloud.json(&["nodes"])[0]["free_bytes"] == 0);
    cloud.fails(5, &["put", file.to_str().unwrap(), "/while-full"]);
    assert_eq!(cloud.run(&["cat", "/before"]).out, random_bytes(1_000_000));
    cloud.ok(&["mv", "/before", "/renamed"]);
    assert_eq!(cloud.run(&["cat", "/renamed"]).out, random_bytes(1_000_000));
    assert_eq!(cloud.json(&["nodes"])[0]["disks"][0]["state"], "ok", "a full disk has not failed");
    fs::remove_file(&filler).unwrap();
    cloud.until("there is room again", |cloud| cloud.run(&["put", file.to_str().unwrap(), "/after"]).code == 0);
    assert_eq!(cloud.run(&["cat", "/after"]).out, random_bytes(1_000_000));
    cloud.fails(3, &["stat", "/while-full"]);
}

/// Another program fills a disk to its last byte.
fn fill(filler: &Path) {
    let mut file = File::create(filler).unwrap();
    for chunk in [1 << 20, 4 << 10] {
        while file.write_all(&vec![7; chunk]).is_ok() {}
    }
    assert_eq!(file.write_all(&[7; 4 << 10]).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

// Promise 26b, 37.
#[test]
fn a_disk_full_to_its_last_byte_ends_no_role_and_what_makes_room_goes_on() {
    for more in [&[][..], &["--processes"][..]] {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let Some(_small) = SmallDisk::mount(&disk, "200m") else { return };
        let words = [&["--nodes", "1", "--sites", "1"][..], more].concat();
        let cloud = Cloud::start_in(folder, disk.join("data"), &words);
        let file = cloud.random_file("in", 1_000_000);
        cloud.ok(&["put", file.to_str().unwrap(), "/before"]);
        let filler = disk.join("filler");
        fill(&filler);
        // Each of these is a session of its own, which has a line in the audit record.
        for _ in 0..15 {
            assert!(cloud.ok(&["ls", "/"]).contains("before"));
        }
        let says_so = |cloud: &Cloud| cloud.run(&["health"]).text().contains("the disk of the security server");
        cloud.until("health says it", says_so);
        cloud.fails(5, &["put", file.to_str().unwrap(), "/while-full"]);
        assert_eq!(cloud.run(&["cat", "/before"]).out, random_bytes(1_000_000));
        cloud.ok(&["rm", "--now", "/before"]);
        cloud.ok(&["nodes"]);
        fs::remove_file(&filler).unwrap();
        cloud.until("there is room again", |cloud| cloud.run(&["put", file.to_str().unwrap(), "/after"]).code == 0);
        cloud.ok(&["user", "add", "ann", "--service"]);
        cloud.ok(&["audit", "verify"]);
        assert!(cloud.ok(&["audit", "show"]).contains("add user"));
    }
}

// Promise 34.
#[test]
fn a_node_with_an_unreadable_sidecar_starts_serves_all_else_and_gets_a_new_copy() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.random_file("in", 1_000_000);
    for path in ["/d/bad", "/d/good"] {
        cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), path]);
    }
    let data = cloud.node_folder("node-1");
    let sidecar = data.join("slices/d/.bad.sector");
    cloud.until("it stands at its path", |_| sidecar.exists());
    cloud.down();
    // The disk is not broken, but every read of this one file fails with an error, whatever its name is.
    let bad = fs::metadata(&sidecar).unwrap().ino();
    let list = cloud.file("bad", bad.to_string());
    let shim = cloud.compile("bad_sector", BAD_SECTOR);
    let ended = cloud.try_up_with(&[("LD_PRELOAD", &shim), ("BAD_INODE", &list)]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let aside = || fs::read_dir(data.join("corrupt")).unwrap().map(|file| file.unwrap().metadata().unwrap().ino());
    assert!(aside().count() == 2 && aside().any(|inode| inode == bad), "bytes and sidecar are kept for the operator");
    assert_eq!(cloud.json(&["nodes"])[0]["disks"][0]["state"], "ok");
    assert_eq!(cloud.run(&["cat", "/d/good"]).out, random_bytes(1_000_000));
    assert_eq!(check(&cloud, "/d/good"), (0, results(["ok", "ok"])), "the disk serves its other slices");
    cloud.until("the copy is made again", |cloud| check(cloud, "/d/bad") == (0, results(["ok", "ok"])));
    cloud.until("in its place", |_| fs::metadata(&sidecar).is_ok_and(|found| found.ino() != bad));
    assert_eq!(cloud.run(&["cat", "/d/bad"]).out, random_bytes(1_000_000));
}

// Promise 34.
#[test]
fn a_disk_whose_mount_goes_away_takes_one_copy_of_its_files_and_its_node_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let disk = data.join("node-1/disk-2");
    fs::create_dir_all(&disk).unwrap();
    let Some(small) = SmallDisk::mount(&disk, "300m") else { return };
    let arguments = ["--nodes", "2", "--sites", "2", "--disks-per-node", "2"];
    let cloud = Cloud::start_in(folder, data, &arguments);
    let file = cloud.random_file("in", 2_000_000);
    // The main disk is the machine's, the second a small one of its own: enough files that both get some.
    for number in 0..12 {
        cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), &format!("/{number}")]);
    }
    let on_disk = || fs::read_dir(disk.join("slices")).map_or(0, Iterator::count);
    assert!(on_disk() > 0, "the fault must fire");
    drop(small);
    let state = |cloud: &Cloud| cloud.json(&["nodes"])[0]["disks"][1]["state"].clone();
    cloud.until("the disk is named", |cloud| state(cloud) == "failed");
    assert!(cloud.run(&["health"]).text().contains("disk-2"), "{}", cloud.run(&["health"]).text());
    cloud.until("every file has two copies again", |cloud| cloud.run(&["check", "-r", "/"]).code == 0);
    for number in 0..12 {
        assert_eq!(cloud.good_copies(&format!("/{number}")).len(), 2);
    }
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/new"]);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "nothing is begun where the disk was mounted");
    // Nor at the next start, which goes on without the disk and reports it.
    cloud.down();
    cloud.up();
    assert_eq!(state(&cloud), "missing");
    cloud.until("all is there", |cloud| cloud.run(&["check", "-r", "/"]).code == 0);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
}

#[test]
fn a_role_that_dies_is_said_and_the_cloud_ends_with_its_last_one() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2", "--processes"]);
    let pid = cloud.node_pid("node-2");
    kill(pid);
    let log = cloud.home.join("sector.log");
    let said = |what: &str| fs::read_to_string(&log).unwrap().contains(what);
    let message = format!("the node-2 (process {pid}) has ended by itself (signal: 9");
    cloud.until("it is said", |cloud| cloud.run(&["nodes"]).code == 0 && said(&message));
    assert_eq!(cloud.json(&["nodes"]).as_array().unwrap().len(), 2, "the others go on");
    let running = fs::read_to_string(cloud.home.join("running.toml")).unwrap();
    let up = running.lines().find_map(|line| line.strip_prefix("pid = ")).unwrap().to_owned();
    let children = Command::new("pgrep").args(["-P", &up]).output().unwrap();
    let children = String::from_utf8_lossy(&children.stdout).into_owned();
    let children: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(children.len(), 3, "security server, master, one node");
    children.into_iter().for_each(kill);
    let ended = |cloud: &Cloud| cloud.run(&["nodes"]).code == 5 && said("every role of the cloud has ended");
    cloud.until("that is said too", ended);
    cloud.until("nothing runs any more", |cloud| cloud.run(&["down"]).code == 3);
}

#[test]
fn the_doctor_and_the_bench_of_a_disk_say_what_they_found() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let findings = cloud.json(&["doctor"]);
    let names: Vec<_> = findings.as_array().unwrap().iter().map(|item| item["check"].as_str().unwrap()).collect();
    for name in ["rmem_max", "wmem_max", "open files", "memory", "clock", "disk room", "disk sync"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let folder = cloud.folder().to_str().unwrap().to_owned();
    let figures = cloud.json(&["oct", "bench", "io", &folder, "--bytes", "8MiB"]);
    assert!(figures.as_array().unwrap().iter().all(|figure| figure["bytes_per_s"].as_f64().unwrap() > 0.0));
    assert_eq!(figures.as_array().unwrap().len(), 4);
}

/// Preloaded before the system's library, it makes reads of one file fail with `EIO`, as a disk does with an
/// unreadable sector. The file `BAD_INODE` holds the inode number of that file.
const BAD_SECTOR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

static unsigned long long bad_inode(void) {
    static unsigned long long inode;
    if (inode == 0) {
        FILE *list = fopen(getenv("BAD_INODE"), "r");
        if (list == NULL || fscanf(list, "%llu", &inode) != 1) abort();
        fclose(list);
    }
    return inode;
}

ssize_t pread64(int file, void *buffer, size_t bytes, off64_t offset) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    struct stat found;
    if (next == NULL) next = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    if (fstat(file, &found) == 0 && found.st_ino == bad_inode()) {
        errno = EIO;
        return -1;
    }
    return next(file, buffer, bytes, offset);
}
"#;
