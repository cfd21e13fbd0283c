//! What `sector up` remembers of the cloud in a data folder, and what it refuses to make of it.

use std::fs;

use cluster::{Cloud, random_bytes};

/// Starts it with these options alone.
fn start_with(cloud: &Cloud, options: &[&str]) -> cluster::Ended {
    cloud.run(&[&["up", "--detach", "--data", cloud.data().to_str().unwrap()], options].concat())
}

/// The nodes' values of a field.
fn of_nodes(cloud: &Cloud, field: &str) -> Vec<String> {
    let nodes = cloud.json(&["nodes"]);
    nodes.as_array().unwrap().iter().map(|node| node[field].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_plain_up_starts_the_nodes_sites_disks_and_port_that_were_there() {
    for arguments in [&[][..], &["--processes"][..]] {
        let shape = ["--nodes", "3", "--sites", "3", "--disks-per-node", "2"];
        let cloud = Cloud::start(&[&shape[..], arguments].concat());
        let file = cloud.random_file("a", 300_000);
        cloud.ok(&["put", "--copies", "3", file.to_str().unwrap(), "/a"]);
        cloud.down();
        let ended = start_with(&cloud, arguments);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert!(!ended.text().contains(":7011"), "the port was a free one: {}", ended.text());
        assert_eq!(of_nodes(&cloud, "site"), ["site-1", "site-2", "site-3"]);
        let nodes = cloud.json(&["nodes"]);
        assert!(nodes.as_array().unwrap().iter().all(|node| node["disks"].as_array().unwrap().len() == 2));
        assert_eq!(cloud.run(&["cat", "/a"]).out, random_bytes(300_000));
    }
}

#[test]
fn what_a_person_changed_in_settings_stays_and_is_in_use() {
    for arguments in [&[][..], &["--processes"][..]] {
        let cloud = Cloud::start(&[&["--nodes", "2"][..], arguments].concat());
        cloud.down();
        let file = cloud.data().join("node-2/settings.toml");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}# mine\nrack = \"rack-9\" # at the window\nspe_fork = true\n")).unwrap();
        cloud.up();
        assert_eq!(of_nodes(&cloud, "rack"), ["rack-1", "rack-9"]);
        let after = fs::read_to_string(&file).unwrap();
        assert!(after.contains("# mine\nrack = \"rack-9\" # at the window\nspe_fork = true\n"), "{after}");
        cloud.down();
        fs::write(&file, after.replace("rack-9\"", "rack-9")).unwrap();
        let broken = cloud.try_up();
        assert_eq!(broken.code, 2, "{}", broken.errors);
        assert!(broken.errors.contains("node-2/settings.toml, line "), "{}", broken.errors);
    }
}

#[test]
fn fewer_nodes_other_sites_and_another_port_are_refused_with_what_they_would_do() {
    let cloud = Cloud::start(&["--nodes", "3"]);
    cloud.down();
    for (options, says) in [
        (["--nodes", "1"], "sector node drain node-3 --wait"),
        (["--sites", "3"], "has 2 sites"),
        (["--disks-per-node", "2"], "has 1 data folders, not 2"),
        (["--port", "7011"], "takes any free port"),
    ] {
        let ended = start_with(&cloud, &options);
        assert_eq!(ended.code, 2, "{options:?}: {}", ended.errors);
        assert!(ended.errors.contains(says), "{}", ended.errors);
    }
    assert_eq!(cloud.run(&["down"]).code, 3, "nothing was started");
    cloud.up();
    assert_eq!(of_nodes(&cloud, "id").len(), 3);
}

#[test]
fn more_nodes_are_added_and_remembered_and_a_removed_one_is_not_started() {
    let cloud = Cloud::start(&["--nodes", "2"]);
    cloud.down();
    let ended = start_with(&cloud, &["--nodes", "3"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let log = fs::read_to_string(cloud.home.join("sector.log")).unwrap();
    assert!(log.contains("adds node-3 to the 2 nodes of "), "{log}");
    cloud.down();
    assert_eq!(start_with(&cloud, &[]).code, 0);
    assert_eq!(of_nodes(&cloud, "id"), ["node-1", "node-2", "node-3"]);
    cloud.ok(&["node", "drain", "node-2", "--wait"]);
    cloud.ok(&["node", "remove", "node-2"]);
    cloud.down();
    assert_eq!(start_with(&cloud, &["--nodes", "2"]).code, 0, "it has two now");
    cloud.until("both are up", |cloud| of_nodes(cloud, "state") == ["up", "up"]);
    assert_eq!(of_nodes(&cloud, "id"), ["node-1", "node-3"]);
}

#[test]
fn a_data_folder_that_was_moved_has_what_it_had() {
    let mut cloud = Cloud::start(&["--nodes", "1", "--disks-per-node", "2"]);
    let file = cloud.random_file("a", 5_000);
    cloud.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/a"]);
    cloud.down();
    let moved = cloud.folder().join("elsewhere");
    fs::rename(cloud.data(), &moved).unwrap();
    cloud.use_data(moved);
    cloud.up();
    assert!(cloud.node_folder("node-1").starts_with(cloud.data()));
    assert_eq!(cloud.run(&["cat", "/a"]).out, random_bytes(5_000));
}
