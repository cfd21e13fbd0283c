//! MalGen and MalStone through the command line: the same bytes whatever makes them, and the same answers whatever
//! counts them.

use std::collections::BTreeMap;

use cluster::{Cloud, Roles};

const GENERATE: [&str; 10] =
    ["oct", "malgen", "--records", "30k", "--sites", "60", "--marked", "20", "--entities", "500"];

/// The content of all files of a folder, one after the other.
fn content(cloud: &Cloud, folder: &str) -> Vec<u8> {
    cloud.ok(&["find", folder]).lines().flat_map(|path| cloud.run(&["cat", path]).out).collect()
}

fn generated(cloud: &Cloud) -> Vec<u8> {
    cloud.ok(&[&GENERATE[..], &["/log"]].concat());
    assert_eq!(cloud.ok(&["ls", "/"]).trim(), "log/", "nothing else is left");
    content(cloud, "/log")
}

#[test]
fn malgen_makes_the_same_bytes_with_any_number_of_nodes_and_spes() {
    let expected = generated(&Cloud::start(&["--nodes", "1"]));
    assert_eq!(expected.len(), 30_000 * 101);
    for nodes in ["2", "4"] {
        assert!(generated(&Cloud::start(&["--nodes", nodes])) == expected, "{nodes} nodes");
    }
    let mut cloud = Roles::start(2, 1);
    for (slots, seed) in [("1", "1"), ("5", "1"), ("5", "2")] {
        for node in ["node-1", "node-2"] {
            cloud.kill(node);
            cloud.change(node, "spe_slots", slots);
            cloud.run_role(node);
        }
        cloud.until_up(2);
        cloud.ok(&[&GENERATE[..], &["--slices", "3", "--seed", seed, "/log"]].concat());
        assert_eq!(cloud.ok(&["find", "/log"]).lines().count(), 3);
        assert_eq!(content(&cloud, "/log") == expected, seed == "1", "{slots} SPEs, seed {seed}");
        cloud.ok(&["rm", "-r", "--now", "/log"]);
    }
}

#[test]
fn malgen_says_what_it_made_and_refuses_what_cannot_be_made() {
    let cloud = Cloud::start(&["--nodes", "2"]);
    let made = cloud.json(&[&GENERATE[..], &["--probability", "0", "/log"]].concat());
    assert_eq!(made.to_string(), r#"{"compromised":0,"entities":500,"records":30000,"sites":60,"slices":8}"#);
    assert!(content(&cloud, "/log").chunks(101).all(|record| record[79] == b'0'));
    let none = cloud.json(&["oct", "malgen", "--records", "5", "--marked", "0", "/none"]);
    assert_eq!((&none["compromised"], &none["slices"], &none["sites"]), (&0.into(), &5.into(), &1.into()));
    cloud.fails(7, &["oct", "malgen", "--records", "5", "/log"]);
    let errors = cloud.fails(2, &["oct", "malgen", "--records", "5", "--sites", "9", "/x"]);
    assert!(errors.contains("1000 sites cannot be marked: there are 9"), "{errors}");
    let errors = cloud.fails(5, &["oct", "malgen", "--records", "10T", "/x"]);
    assert!(errors.contains("room"), "{errors}");
    cloud.ok(&["mkdir", "/x.malgen"]);
    let errors = cloud.fails(7, &["oct", "malgen", "--records", "5", "/x"]);
    assert!(errors.contains("`/x.malgen`"), "{errors}");
}

/// The answer of MalStone-A by the definition, over the text of the log.
fn totals(log: &str) -> String {
    let records: Vec<Vec<&str>> = log.lines().map(|line| line.split('|').collect()).collect();
    let mut last_flags: BTreeMap<&str, &str> = BTreeMap::new();
    let mut firsts: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for record in &records {
        let [_, time, site, flag, entity] = record[..] else { panic!("{record:?}") };
        let first = firsts.entry((site, entity)).or_insert(time);
        *first = (*first).min(time);
        if flag == "1" {
            let last = last_flags.entry(entity).or_insert(time);
            *last = (*last).max(time);
        }
    }
    let mut sites: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for ((site, entity), first) in firsts {
        let (marked, visitors) = sites.entry(site).or_default();
        *marked += u64::from(last_flags.get(entity).is_some_and(|last| *last >= first));
        *visitors += 1;
    }
    let line = |(site, (marked, visitors)): (&str, (u64, u64))| {
        format!("{},{marked},{visitors},{:.6}\n", site.parse::<u64>().unwrap(), marked as f64 / visitors as f64)
    };
    sites.into_iter().map(line).collect()
}

/// The lines of all slices, in their order; each slice must begin with the head.
fn lines(cloud: &Cloud, folder: &str, head: &str) -> String {
    let slice = |path: &str| {
        let text = cloud.ok(&["cat", path]);
        text.strip_prefix(head).unwrap_or_else(|| panic!("{path}: {text}")).to_owned()
    };
    cloud.ok(&["find", folder]).lines().map(slice).collect()
}

#[test]
fn malstone_gives_the_same_answers_in_any_number_of_slices() {
    let cloud = Cloud::start(&["--nodes", "3"]);
    let expected = totals(&String::from_utf8(generated(&cloud)).unwrap());
    cloud.ok(&["oct", "malstone", "a", "/log", "/a"]);
    assert_eq!(lines(&cloud, "/a", "site,marked,visitors,ratio\n"), expected);
    cloud.ok(&["oct", "malstone", "a", "/log", "/a-3", "--slices", "3", "--buckets", "11"]);
    assert_eq!(cloud.ok(&["find", "/a-3"]).lines().count(), 3);
    assert_eq!(lines(&cloud, "/a-3", "site,marked,visitors,ratio\n"), expected);
    // The last week has what the whole period has.
    cloud.ok(&["oct", "malstone", "b", "/log", "/b", "--slices", "2"]);
    let weeks = lines(&cloud, "/b", "site,week,marked,visitors,ratio\n");
    let last = weeks.lines().filter(|line| line.split(',').nth(1) == Some("53"));
    assert_eq!(last.map(|line| line.replacen(",53,", ",", 1) + "\n").collect::<String>(), expected);
    let numbers = |line: &str| line.split(',').take(2).map(|number| number.parse().unwrap()).collect::<Vec<u32>>();
    assert!(weeks.lines().map(numbers).is_sorted());
    // By records: as many as there are, and the flagged ones among them.
    cloud.ok(&["oct", "malstone", "b", "/log", "/events", "--per-event"]);
    let events = lines(&cloud, "/events", "site,week,flagged,events,ratio\n");
    let fields = events.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let sum: u64 = fields.filter(|line| line[1] == "53").map(|line| line[3].parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 30_000);
}

#[test]
fn malstone_names_what_is_damaged_empty_or_outside() {
    let cloud = Cloud::start(&["--nodes", "2"]);
    let log = generated(&cloud);
    // The second half of the year is left out, and counted.
    let half = cloud.json(&["oct", "malstone", "a", "/log", "/half", "--start", "2009-07-02", "--days", "183"]);
    let outside = log.chunks(101).filter(|record| record[32..42] < b"2009-07-02"[..]).count();
    assert_eq!((&half["records"], &half["outside"]), (&30_000.into(), &outside.into()));
    let said = cloud.ok(&["oct", "malstone", "a", "/log", "/week", "--days", "7", "--per-event"]);
    assert!(said.contains(" of them outside of the period"), "{said}");
    let mut damaged = log[..101 * 50].to_vec();
    damaged[101 * 40 + 79] = b'?';
    let file = cloud.file("damaged", &damaged);
    cloud.ok(&["put", file.to_str().unwrap(), "/bad/log"]);
    for more in [&[][..], &["--per-event"]] {
        let errors = cloud.fails(1, &[&["oct", "malstone", "b", "/bad", "/x"][..], more].concat());
        let expected = "the record at byte 4040 of `/bad/log` is damaged: its flag is neither 0 nor 1";
        assert!(errors.contains(expected), "{errors}");
    }
    let file = cloud.file("short", &log[..150]);
    cloud.ok(&["put", file.to_str().unwrap(), "/short"]);
    let errors = cloud.fails(2, &["oct", "malstone", "a", "/short", "/x"]);
    assert!(errors.contains("`/short` has 150 bytes"), "{errors}");
    let empty = cloud.file("empty", "");
    cloud.ok(&["put", empty.to_str().unwrap(), "/empty"]);
    cloud.ok(&["oct", "malstone", "b", "/empty", "/nothing"]);
    assert_eq!(content(&cloud, "/nothing"), b"");
    let errors = cloud.fails(2, &["oct", "malstone", "a", "/log", "/x", "--start", "2009-02-30"]);
    assert!(errors.contains("`2009-02-30` is no date"), "{errors}");
    cloud.fails(7, &["oct", "malstone", "a", "/log", "/half"]);
    cloud.fails(3, &["oct", "malstone", "a", "/none", "/x"]);
}
