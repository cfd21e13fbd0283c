//! Folders that become equal from one cloud to another: what goes and what is removed, and what an error says.

use std::fs;

use cluster::Cloud;

/// Two clouds. The first knows itself as `own` and `again`, and the other as `west`.
fn two_clouds() -> (Cloud, Cloud) {
    let (east, west) = (Cloud::start(&["--nodes", "1"]), Cloud::start(&["--nodes", "1"]));
    let profile = |cloud: &Cloud| cloud.home.join("profile.toml").to_str().unwrap().to_owned();
    for (name, cloud) in [("own", &east), ("again", &east), ("west", &west)] {
        east.ok(&["profile", "add", name, &profile(cloud)]);
    }
    for name in ["a.txt", "sub/b.txt", "sub/deep/c.bin"] {
        east.ok(&["put", east.file(&format!("src/{name}"), name).to_str().unwrap(), &format!("/d/{name}")]);
    }
    (east, west)
}

/// The paths and dates below a folder.
fn dated(cloud: &Cloud, folder: &str) -> Vec<(String, String)> {
    let entries = cloud.json(&["ls", "-R", folder]);
    let files = entries.as_array().unwrap().iter().filter(|entry| entry["kind"] == "file");
    files.map(|file| (file["path"].to_string(), file["modified"].to_string())).collect()
}

#[test]
fn a_folder_becomes_equal_to_one_of_another_cloud_and_a_second_run_sends_nothing() {
    let (east, west) = two_clouds();
    west.ok(&["put", west.file("old", "old").to_str().unwrap(), "/d/old"]);
    let sync = ["sync", "--delete", "sector://d", "sector://@west/d"];
    let planned = east.ok(&[&sync[..], &["--dry-run"]].concat());
    let expected =
        ["make-folder sub/", "make-folder sub/deep/", "new a.txt", "new sub/b.txt", "new sub/deep/c.bin", "remove old"];
    assert_eq!(planned.lines().collect::<Vec<_>>(), expected);
    assert_eq!(west.ok(&["find", "/"]), "/d/old\n", "nothing was done");
    let synced = east.json(&sync);
    assert_eq!((synced["files"].as_u64(), synced["deleted"].as_u64()), (Some(3), Some(1)));
    assert_eq!(dated(&west, "/d"), dated(&east, "/d"));
    assert_eq!(west.ok(&["cat", "/d/sub/deep/c.bin"]), "sub/deep/c.bin");
    west.ok(&["trash", "restore", "/d/old"]);
    let again = east.json(&["sync", "--exclude", "old", "sector://d", "sector://@west/d"]);
    assert_eq!((again["files"].as_u64(), again["skipped"].as_u64()), (Some(3), Some(3)));
    // The other direction, between two clouds of which neither is that of the command, and to this machine.
    let home = west.home.join("profiles");
    fs::create_dir_all(&home).unwrap();
    fs::copy(east.home.join("profile.toml"), home.join("east.toml")).unwrap();
    west.ok(&["profile", "add", "own"]);
    fs::remove_file(west.home.join("profile.toml")).unwrap();
    west.ok(&["sync", "sector://@own/d", "sector://@east/back"]);
    assert_eq!(east.ok(&["find", "/back"]), "/back/a.txt\n/back/old\n/back/sub/b.txt\n/back/sub/deep/c.bin\n");
    west.ok(&["sync", "sector://@east/back", "local"]);
    assert_eq!(fs::read_to_string(west.folder().join("local/sub/b.txt")).unwrap(), "sub/b.txt");
    west.ok(&["cp", "-r", "sector://@east/d/sub", "sector://@own/copy"]);
    assert_eq!(west.ok(&["--profile", "own", "cat", "/copy/deep/c.bin"]), "sub/deep/c.bin");
}

#[test]
fn an_error_says_which_cloud_and_what_makes_no_sense_is_refused() {
    let (east, _west) = two_clouds();
    let missing = east.fails(3, &["sync", "sector://@west/none", "sector://d"]);
    assert!(missing.contains("in the cloud `west`: there is no folder `/none`"), "{missing}");
    let missing = east.fails(3, &["cp", "/none", "sector://@west/d"]);
    assert!(missing.contains("in the cloud `default`: "), "{missing}");
    east.fails(3, &["sync", "sector://@nobody/d", "sector://d"]);
    for arguments in [
        // Two names of one cloud.
        &["sync", "sector://@own/d", "sector://@again/d"][..],
        &["sync", "sector://@own/d", "sector://d/sub"],
        &["cp", "-r", "sector://@own/d", "sector://@again/d/sub"],
        &["cp", "-r", "sector://@own/d", "/d", "sector://@west/d"],
        &["sync", "sector://@/d", "sector://d"],
        &["sync", "sector://@../d", "sector://d"],
        // Only `cp` and `sync` have two clouds.
        &["ls", "sector://@west/d"],
        &["put", "src/a.txt", "sector://@west/a"],
    ] {
        east.fails(2, arguments);
    }
    assert_eq!(east.ok(&["find", "/"]), "/d/a.txt\n/d/sub/b.txt\n/d/sub/deep/c.bin\n");
}
