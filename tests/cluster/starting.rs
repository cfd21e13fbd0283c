//! Starting, stopping, starting again, and what can be wrong with it.

use std::{fs, net::TcpListener};

use cluster::{Cloud, ended, random_bytes};

// Promise 16.
#[test]
fn a_cloud_started_again_has_what_it_had() {
    for arguments in [&[][..], &["--processes"][..]] {
        let cloud = Cloud::start(arguments);
        let file = cloud.random_file("a", 300_000);
        cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/x/a"]);
        cloud.ok(&["mkdir", "/empty"]);
        let before = cloud.json(&["ls", "-R", "/"]);
        cloud.down();
        assert_eq!(cloud.run(&["ls", "/"]).code, 5, "nobody answers while it is down");
        cloud.up();
        assert_eq!(cloud.json(&["ls", "-R", "/"]), before);
        assert_eq!(cloud.run(&["cat", "/x/a"]).out, random_bytes(300_000));
    }
}

#[test]
fn four_nodes_in_two_sites_are_up_and_each_names_its_process_and_folder() {
    let cloud = Cloud::start(&["--processes"]);
    let nodes = cloud.json(&["nodes"]);
    let nodes = nodes.as_array().unwrap();
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().all(|node| node["state"] == "up"));
    let sites: std::collections::BTreeSet<_> = nodes.iter().map(|node| node["site"].as_str().unwrap()).collect();
    assert_eq!(sites.len(), 2);
    let pids: std::collections::BTreeSet<_> = nodes.iter().map(|node| node["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 4, "one process a node");
    assert!(nodes.iter().all(|node| fs::metadata(node["data"].as_str().unwrap()).unwrap().is_dir()));
}

#[test]
fn a_port_in_use_is_said_in_words() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut command = cloud.command(&["up", "--nodes", "1", "--sites", "1", "--port", &port, "--data"]);
    command.arg(folder.path().join("other")).env("SECTOR_HOME", folder.path().join("home"));
    let ended = ended(command.output().unwrap());
    assert_ne!(ended.code, 0);
    assert!(ended.errors.contains("in use") && ended.errors.contains(&port), "{}", ended.errors);
}

#[test]
fn a_second_cloud_on_the_same_data_is_refused() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let ended = cloud.try_up();
    assert_ne!(ended.code, 0);
    assert!(ended.errors.contains("already") || ended.errors.contains("down"), "{}", ended.errors);
    cloud.ok(&["ls", "/"]);
}

#[test]
fn a_broken_or_missing_profile_is_named() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let broken = cloud.file("broken.toml", "address = 7\n");
    let errors = cloud.fails(2, &["--profile", broken.to_str().unwrap(), "ls"]);
    assert!(errors.contains("broken.toml"), "{errors}");
    let errors = cloud.fails(3, &["--profile", "/nonexistent/profile.toml", "ls"]);
    assert!(errors.contains("sector up"), "{errors}");
}

#[test]
fn a_wrong_token_is_refused() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let profile = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let changed: String =
        profile
            .lines()
            .map(|line| {
                if line.starts_with("token") {
                    format!("token = \"{}\"\n", "00".repeat(32))
                } else {
                    format!("{line}\n")
                }
            })
            .collect();
    let file = cloud.file("stranger.toml", changed);
    cloud.fails(4, &["--profile", file.to_str().unwrap(), "ls"]);
}

#[test]
fn the_profile_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let mode = fs::metadata(cloud.home.join("profile.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn settings_with_an_unknown_key_are_refused_by_name() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let settings = cloud.file("node.toml", "colour = \"red\"\n");
    for role in ["security", "master", "node"] {
        let errors = cloud.fails(2, &[role, "--config", settings.to_str().unwrap()]);
        assert!(errors.contains("colour") || errors.contains("missing"), "{errors}");
    }
}
