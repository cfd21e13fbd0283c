//! A link that is really thin: it is found by what it carries when it is full, named, and no copy goes over it. Needs root,
//! and says so where it has none.

use cluster::CliTestbed;
use serde_json::Value;

/// What is marked as slow.
fn slow(marks: &Value) -> Vec<String> {
    let marks = marks.as_array().unwrap().iter().filter(|mark| mark["state"] == "slow");
    marks.map(|mark| mark["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_thin_link_is_named_and_no_copy_goes_over_it_as_long_as_there_are_others() {
    let words = ["--sites", "3", "--nodes-per-site", "1", "--rtt", "10ms", "--rate", "40mbit"];
    let Some(testbed) = CliTestbed::up(&words) else { return };
    testbed.set(&["site1", "site2", "--rate", "4mbit"]);
    let at = |site: &str, words: &[&str]| testbed.ok_at(site, words);
    let marks = || serde_json::from_str::<Value>(&at("site1", &["mark", "list", "--json"])).unwrap();
    for (site, bytes) in [("site1", 8 << 20), ("site2", 8 << 20), ("site3", 64 << 20)] {
        let file = testbed.random_file(site, bytes);
        at(site, &["mkdir", "-p", &format!("/{site}")]);
        at(site, &["policy", "set", &format!("/{site}"), "copies=1", &format!("sites={site}")]);
        at(site, &["put", file.to_str().unwrap(), &format!("/{site}/f")]);
    }
    let mut turns = 0;
    while slow(&marks()).is_empty() {
        turns += 1;
        assert!(turns < 12, "no link was found: {}", at("site1", &["links"]));
        // Both wide links are filled from the third site, and the thin one.
        let pairs = [("site3", "site1"), ("site3", "site2"), ("site1", "site2")];
        for (from, to) in pairs.into_iter().skip(if turns == 1 { 0 } else { 2 }) {
            let here = testbed.folder().join("out");
            at(to, &["get", "-f", &format!("/{from}/f"), here.to_str().unwrap()]);
        }
    }
    assert_eq!(slow(&marks()), ["link site1 site2"], "neither of its nodes");
    println!("after {turns} turns: {}", marks()[0]["reason"]);
    let file = testbed.random_file("new", 100_000);
    for number in 0..8 {
        let path = format!("/new-{number}");
        at("site3", &["put", "--copies", "2", "--sync-copies", "2", file.to_str().unwrap(), &path]);
        let stat: Value = serde_json::from_str(&at("site3", &["stat", "--json", &path])).unwrap();
        let held: Vec<_> = stat["copies"].as_array().unwrap().iter().map(|copy| copy["node"].clone()).collect();
        assert!(held.len() == 2 && held.contains(&"node-3".into()), "{held:?}");
    }
}
