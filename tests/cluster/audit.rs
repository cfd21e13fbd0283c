//! The audit record as an operator reads it.

use std::io::{BufRead, BufReader};

use cluster::Cloud;
use serde_json::Value;

fn lines(cloud: &Cloud, words: &[&str]) -> Vec<Value> {
    cloud.json(&[&["audit"], words].concat()).as_array().unwrap().clone()
}

#[test]
fn the_record_is_shown_without_each_commands_session_and_by_time_kind_and_path() {
    let cloud = Cloud::start(&["--nodes", "1"]);
    cloud.ok(&["mkdir", "-p", "/a/b", "/ab"]);
    cloud.ok(&["acl", "add", "/a/b", "user:bob:r", "--unknown"]);
    cloud.ok(&["acl", "add", "/ab", "user:bob:r", "--unknown"]);
    assert_eq!(cloud.json(&["acl", "get", "/a/b"])["text"], "user:bob:r,everyone:rx", "what held for it stays");
    assert_eq!(lines(&cloud, &["--kind", "grant"]).len(), 2, "what was done before is in the record");
    let is_session = |line: &Value| line["what"] == "open session";
    assert!(!lines(&cloud, &[]).iter().any(is_session));
    assert!(lines(&cloud, &["--all"]).iter().any(is_session), "they are in the record");
    let grants = lines(&cloud, &["--since", "1h", "--kind", "grant", "--path", "/a"]);
    assert_eq!(grants.len(), 1, "{grants:?}");
    assert_eq!(grants[0]["object"], "/a/b");
    assert_eq!(lines(&cloud, &["show", "--since", "1h", "--kind", "grant", "--path", "/a"]), grants);
    assert!(lines(&cloud, &["--since", "0s", "--kind", "grant"]).is_empty());
    cloud.fails(2, &["audit", "--kind", "gift"]);
    cloud.fails(2, &["audit", "--since", "yesterday"]);
}

#[test]
fn a_record_that_is_followed_shows_what_comes() {
    let cloud = Cloud::start(&["--nodes", "1"]);
    let mut command = cloud.command(&["audit", "--follow", "--kind", "grant", "--path", "/a", "--json"]);
    let mut following = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    cloud.ok(&["mkdir", "/a"]);
    for whom in ["user:ann:r", "user:bob:r"] {
        cloud.ok(&["acl", "add", "/a", whom, "--unknown"]);
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&line["kind"], &line["object"]), (&"grant".into(), &"/a".into()));
    }
    following.kill().unwrap();
    following.wait().unwrap();
}
