//! Clouds by name: `sector profile`, and which profile commands use.

use std::fs;

use cluster::Cloud;
use serde_json::Value;

/// The names of the profiles, and which of them are marked as in use.
fn listed(cloud: &Cloud) -> Vec<(String, bool)> {
    let list = cloud.json(&["profile", "list"]);
    let profiles = list.as_array().unwrap().iter();
    profiles.map(|one| (one["name"].as_str().unwrap().to_owned(), one["in_use"] == true)).collect()
}

#[test]
fn clouds_have_names_and_commands_use_the_one_that_was_chosen() {
    let cloud = Cloud::start(&["--nodes", "1"]);
    assert_eq!(listed(&cloud), [("default".into(), true)]);
    cloud.ok(&["profile", "add", "chicago"]);
    let broken = fs::read_to_string(cloud.home.join("profile.toml")).unwrap().replace("127.0.0.1", "nothing.invalid");
    let broken = cloud.file("broken.toml", broken);
    cloud.ok(&["profile", "add", "nowhere", broken.to_str().unwrap()]);
    cloud.fails(7, &["profile", "add", "chicago"]);
    cloud.ok(&["profile", "add", "chicago", "--force"]);
    assert_eq!(listed(&cloud), [("chicago".into(), false), ("default".into(), true), ("nowhere".into(), false)]);
    cloud.ok(&["--profile", "chicago", "ls", "/"]);
    let errors = cloud.fails(5, &["--profile", "nowhere", "ls", "/"]);
    assert!(errors.contains("cannot find the address of `nothing.invalid`"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");

    // `down` stops no other cloud than the one that commands go to.
    let elsewhere = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let port = elsewhere.lines().find_map(|line| line.strip_prefix("address = ")).unwrap().trim_matches('"');
    let port = port.rsplit(':').next().unwrap().to_owned();
    let elsewhere = cloud.file("elsewhere.toml", elsewhere.replace(&port, "1"));
    let errors = cloud.fails(2, &["--profile", elsewhere.to_str().unwrap(), "down"]);
    assert!(errors.contains("--profile default down"), "{errors}");

    cloud.ok(&["profile", "use", "nowhere"]);
    cloud.fails(5, &["ls", "/"]);
    cloud.ok(&["--profile", "default", "ls", "/"]);
    cloud.ok(&["profile", "use", "chicago"]);
    cloud.ok(&["ls", "/"]);
    assert_eq!(listed(&cloud).iter().filter(|(_, used)| *used).count(), 1);

    cloud.fails(4, &["profile", "remove", "chicago"]);
    cloud.ok(&["profile", "remove", "nowhere"]);
    for words in [["profile", "remove", "nowhere"], ["profile", "use", "nowhere"], ["profile", "show", "nowhere"]] {
        cloud.fails(3, &words);
    }
    cloud.fails(2, &["profile", "add", "../up"]);
    let shown = cloud.run(&["profile", "show", "chicago", "--json"]);
    let view: Value = serde_json::from_slice(&shown.out).unwrap();
    assert_eq!((view["user"].as_str(), view["in_use"].as_bool()), (Some("admin"), Some(true)));
    let profile = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let token = profile.lines().find_map(|line| line.strip_prefix("token = ")).unwrap().trim_matches('"');
    for words in [&["profile", "show"][..], &["profile", "list"][..]] {
        assert!(!cloud.ok(words).contains(token), "a token is never printed");
    }
}
