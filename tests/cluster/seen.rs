//! A cloud that is looked at: its background work in one table, and what its roles count, as `docs/metrics.md` has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use cluster::{Cloud, Roles, ended, free_port, workspace};
use serde_json::Value;

/// The rows of one place: what each is, and its state.
fn work_at(rows: &Value, at: &str) -> BTreeSet<String> {
    let rows = rows.as_array().unwrap().iter().filter(|row| row["at"] == at);
    rows.map(|row| row["work"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn all_background_work_of_a_cloud_is_one_table() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let at_nodes = BTreeSet::from(["certificate-renewal", "disk-watch", "scrub"].map(str::to_owned));
    cloud.until("both nodes have reported their work", |cloud| {
        let rows = cloud.json(&["work"]);
        ["node-1", "node-2"].iter().all(|node| work_at(&rows, node) == at_nodes)
    });
    let rows = cloud.json(&["work"]);
    for work in ["repair", "reconcile", "mirror", "rebuild", "trash-purge", "rebalance", "certificate-renewal"] {
        assert!(work_at(&rows, "master").contains(work), "{work}: {rows}");
    }
    let renewal = rows.as_array().unwrap().iter().find(|row| row["work"] == "certificate-renewal").unwrap();
    assert!(renewal["next"].is_string() && renewal["last_error"].is_null(), "{renewal}");
    let shown = cloud.ok(&["work"]);
    assert!(shown.lines().next().unwrap().starts_with("at"), "{shown}");
    // What was removed goes for good at a known time.
    let file = cloud.random_file("in", 1 << 20);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/a"]);
    cloud.ok(&["rm", "/a"]);
    let purge = cloud.json(&["work"]);
    let purge = purge.as_array().unwrap().iter().find(|row| row["work"] == "trash-purge").unwrap().clone();
    assert!(purge["next"].is_string(), "it says when the trash is emptied next: {purge}");
}

/// The metrics of a role according to the page.
fn on_the_page(title: &str) -> BTreeSet<String> {
    let page = fs::read_to_string(workspace().join("docs/metrics.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(title)).unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    names.map(|name| name.strip_suffix("_total").unwrap_or(name).to_owned()).collect()
}

/// The metrics that a text has, whether there are values of them or not.
fn named(text: &str) -> BTreeSet<String> {
    let heads = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
    heads.map(|head| head.split(' ').next().unwrap().to_owned()).collect()
}

/// The sum of all values of a metric whose lines contain this.
fn sum(text: &str, part: &str) -> f64 {
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// What a scraper gets at the port of a role.
fn scraped(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    text.to_owned()
}

#[test]
fn every_role_counts_what_the_page_of_metrics_says_also_at_a_port_of_its_own() {
    let mut cloud = Roles::start(2, 2);
    let with_ports = [("security", "Security server"), ("master", "Master"), ("node-1", "Node")];
    let with_ports = with_ports.map(|(role, title)| {
        let port = free_port();
        cloud.stop(role);
        cloud.change(role, "metrics_listen", &format!("\"127.0.0.1:{port}\""));
        cloud.run_role(role);
        (role, title, port)
    });
    cloud.until_up(2);
    let file = cloud.random_file("in", 3 << 20);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/a"]);
    cloud.until("both copies are there", |cloud| cloud.good_copies("/a").len() == 2);
    cloud.fails(3, &["stat", "/nothing"]);
    let of = |role: &str| cloud.ok(&["metrics", role]);
    for (role, title) in [("master", "Master"), ("node-1", "Node"), ("security", "Security server")] {
        let text = of(role);
        assert_eq!(named(&text), on_the_page(title), "{role}\n{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
    for (role, title, port) in with_ports {
        assert_eq!(named(&scraped(port)), on_the_page(title), "{role}");
    }
    let master = of("master");
    assert!(sum(&master, "sector_master_events_total{kind=\"file_published\"}") >= 1.0, "{master}");
    assert!(sum(&master, "sector_master_requests_total{request=\"stat\",outcome=\"not-found\"}") >= 1.0, "{master}");
    assert!(sum(&master, "sector_journal_saves_total") >= 1.0, "{master}");
    assert_eq!(sum(&master, "sector_master_nodes{state=\"up\"}"), 2.0, "{master}");
    // Each node has the file: one from the client, the other from the first.
    let carried = |direction: &str| {
        let of_node = |node: &str| {
            let text = of(node);
            let lines = text.lines().filter(|line| line.contains("node_carried") && line.contains(direction));
            sum(&lines.collect::<Vec<_>>().join("\n"), "")
        };
        of_node("node-1") + of_node("node-2")
    };
    for direction in ["sent", "received"] {
        assert!(carried(direction) >= f64::from(3 << 20), "{direction}: one copy went from node to node");
    }
    let security = of("security");
    assert!(sum(&security, "sector_security_questions_total{question=\"open-session\",outcome=\"done\"}") >= 1.0);
    assert!(!master.contains("/a"), "no path is a label: {master}");
    cloud.fails(3, &["metrics", "node-9"]);
    // Prometheus still hears of nodes when the master is away.
    cloud.kill("master");
    let (_, _, port) = with_ports[2];
    assert!(scraped(port).contains("sector_node_slices 1\n"));
}

#[test]
fn the_load_of_every_node_is_seen_and_that_of_one_over_time() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let told = |page: &Value| page["nodes"].as_array().unwrap().iter().all(|node| node["load"].is_object());
    cloud.until("both nodes have told their load", |cloud| told(&cloud.json(&["load"])));
    let page = cloud.json(&["load"]);
    assert_eq!((page["sample_seconds"].as_u64(), page["nodes"].as_array().unwrap().len()), (Some(1), 2), "{page}");
    for node in page["nodes"].as_array().unwrap() {
        let (all, used) = (node["memory_bytes"].as_u64().unwrap(), node["load"]["memory_bytes"].as_u64().unwrap());
        assert!(node["processors"].as_u64().unwrap() > 0 && 0 < used && used < all, "{node}");
        assert!(node["load"]["node_memory_bytes"].as_u64().unwrap() > 0, "{node}");
        assert_eq!(node["disks"].as_array().unwrap().len(), 1, "one a data folder: {node}");
    }
    let shown = cloud.ok(&["load"]);
    assert!(shown.starts_with("node ") && shown.lines().count() == 3, "{shown}");
    let series = cloud.json(&["load", "node-1"]);
    let samples = series["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 60, "a minute by the second");
    assert!(samples.iter().any(Value::is_object), "{series}");
    assert!(cloud.ok(&["load", "node-1", "--last", "1h"]).contains("disk-latency"));
    assert!(sum(&cloud.ok(&["metrics", "node-2"]), "sector_machine_memory_used_bytes") > 0.0);
    let earlier = cloud.json(&["load", "--ago", "23h"]);
    assert!(earlier["nodes"][0]["load"].is_null(), "there was no cloud then: {earlier}");
    cloud.fails(3, &["load", "node-9"]);
    for too_long in [["load", "--ago", "2d", "-q"], ["load", "node-1", "--last", "2d"]] {
        cloud.fails(2, &too_long);
    }
}

#[test]
fn what_went_between_sites_is_seen_and_that_of_one_link_over_time() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.random_file("in", 8 << 20);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/a"]);
    let sites = |link: &Value| ["from", "to"].map(|end| link[end].as_str().unwrap().to_owned());
    // Each second is rounded by itself.
    let in_a_minute = |cloud: &Cloud, [from, to]: &[String; 2]| {
        let series = cloud.json(&["links", from, to]);
        let samples = series["samples"].as_array().unwrap();
        samples.iter().filter_map(|sample| sample["sent_bytes_per_second"].as_u64()).sum::<u64>() + 60
    };
    let full = |cloud: &Cloud| {
        let links = cloud.json(&["links"]);
        let mut between = links.as_array().unwrap().iter().filter(|link| link["from"] != link["to"]);
        between.find(|link| in_a_minute(cloud, &sites(link)) >= 8 << 20).cloned()
    };
    cloud.until("a copy went from one site to the other", |cloud| full(cloud).is_some());
    let link = full(&cloud).unwrap();
    assert!(link["round_trip_seconds"].as_f64().unwrap() > 0.0, "{link}");
    assert!(link["limit_bytes_per_second"].is_null(), "{link}");
    let [from, to] = &sites(&link);
    let shown = cloud.ok(&["links"]);
    assert!(shown.starts_with("from ") && shown.contains(" ms"), "{shown}");
    assert!(cloud.ok(&["links", from, to, "--last", "1h"]).contains("retransmitted"));
    let metrics = ["node-1", "node-2"].map(|node| cloud.ok(&["metrics", node])).concat();
    let is_sent = |line: &&str| line.starts_with("sector_node_link_bytes_total") && line.contains("direction=\"sent\"");
    let sent: Vec<_> = metrics.lines().filter(is_sent).collect();
    assert!(sum(&sent.join("\n"), "") >= f64::from(8 << 20), "{metrics}");
    let earlier = cloud.json(&["links", "--ago", "23h"]);
    assert!(earlier[0]["sent_bytes_per_second"].is_null(), "there was no cloud then: {earlier}");
    cloud.fails(3, &["links", from, "nowhere"]);
    for wrong in [vec!["links", "--ago", "2d", "-q"], vec!["links", from, to, "--last", "2d"], vec!["links", from]] {
        cloud.fails(2, &wrong);
    }
}

#[test]
fn the_security_server_logs_for_whom_it_refuses() {
    let cloud = Roles::start(1, 1);
    cloud.fails(3, &["user", "remove", "nobody"]);
    let log = fs::read_to_string(cloud.log_file("security")).unwrap();
    let refused = lines_with(&log, &["refused", "question=\"accounts\"", "user=admin", "login=", "address="]);
    assert_eq!(refused.len(), 1, "{log}");
}

/// The lines of a log that have all these parts.
fn lines_with<'a>(log: &'a str, parts: &[&str]) -> Vec<&'a str> {
    log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).collect()
}

/// A field, with its name, of the first line that says this.
fn field(log: &str, what: &str, name: &str) -> String {
    let line = *lines_with(log, &[what]).first().unwrap_or_else(|| panic!("no line says `{what}`: {log}"));
    line.split_whitespace().find(|word| word.starts_with(name)).unwrap().to_owned()
}

/// A collector of traces: what it is sent, by OTLP over HTTP with JSON.
struct Collector {
    address: String,
    received: Receiver<Value>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = sync_channel(1_024);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || while_open(BufReader::new(stream), &sender));
            }
        });
        Self { address, received }
    }

    /// All spans so far, each with the service that it comes from.
    fn spans(&self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        for request in self.received.try_iter() {
            for resource in request["resourceSpans"].as_array().unwrap() {
                let attributes = resource["resource"]["attributes"].as_array().unwrap();
                let service = attributes.iter().find(|attribute| attribute["key"] == "service.name").unwrap();
                let service = service["value"]["stringValue"].as_str().unwrap();
                let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
                all.extend(spans.iter().map(|span| (service.to_owned(), span.clone())));
            }
        }
        all
    }
}

/// Takes the requests of one connection.
fn while_open(mut stream: BufReader<TcpStream>, sender: &SyncSender<Value>) {
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if length == 0 || stream.read_exact(&mut body).is_err() {
            return;
        }
        sender.send(serde_json::from_slice(&body).unwrap()).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    }
}

/// Fails unless the spans of a trace hang together: one of the client above all, and each below another of them. Returns
/// how many there are of each role, by name.
fn one_trace(spans: &[(String, Value)], trace: &str) -> BTreeMap<String, usize> {
    let of_it: Vec<_> = spans.iter().filter(|(_, span)| span["traceId"] == trace).collect();
    let ids: BTreeSet<_> = of_it.iter().map(|(_, span)| span["spanId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), of_it.len(), "each has an id of its own: {of_it:?}");
    let above_all: Vec<_> = of_it.iter().filter(|(_, span)| span["parentSpanId"].is_null()).collect();
    assert!(above_all.len() == 1 && above_all[0].0 == "sector-client", "{trace}: {above_all:?}");
    for (service, span) in &of_it {
        let parent = span["parentSpanId"].as_str();
        assert!(parent.is_none_or(|parent| ids.contains(parent)), "{service} {span}");
    }
    let mut counts = BTreeMap::new();
    for (service, span) in of_it {
        *counts.entry(format!("{service} {}", span["name"].as_str().unwrap())).or_default() += 1;
    }
    counts
}

#[test]
fn an_upload_and_a_job_are_followed_by_their_ids_through_all_logs_and_in_traces() {
    let mut cloud = Roles::start(2, 2);
    let collector = Collector::start();
    let traced = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address.as_str());
    let roles = ["master", "node-1", "node-2"];
    for role in roles {
        cloud.stop(role);
        let variables = [("SECTOR_LOG", "debug"), traced];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        cloud.set_variables(role, variables.to_vec());
        cloud.run_role(role);
    }
    cloud.until_up(2);
    let log = |cloud: &Roles, role: &str| fs::read_to_string(cloud.log_file(role)).unwrap();
    let file = cloud.random_file("in", 1 << 20);
    let run = |arguments: &[&str]| ended(cloud.command(arguments).env(traced.0, traced.1).output().unwrap());
    let put = run(&["-vv", "put", "--copies", "1", file.to_str().unwrap(), "/a"]);
    assert_eq!(put.code, 0, "{}", put.errors);
    // The client's log names the slice, and so do those of the master and of the node that took the bytes.
    let slice = field(&put.errors, "an upload begins", "slice=");
    let at_master = log(&cloud, "master");
    let begun = lines_with(&at_master, &["a write may begin", &slice]);
    assert!(!begun.is_empty() && !lines_with(&at_master, &["a slice is published", &slice]).is_empty(), "{slice}");
    let took =
        |node: &&str| !lines_with(&log(&cloud, node), &["write: ", "a slice begins to arrive", &slice]).is_empty();
    assert_eq!(["node-1", "node-2"].iter().filter(|node| took(node)).count(), 1, "{slice}");
    // What the client asked in its session, the master did in the same.
    let session = field(&put.errors, "the master is asked", "session=");
    assert!(begun.iter().all(|line| line.contains(&session) && line.contains("name=\"create\"")), "{begun:?}");

    let ran = run(&["-vv", "--json", "run", "--udf", "copy", "--input", "/a", "--output", "/b"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    let job: Value = serde_json::from_slice(&ran.out).unwrap();
    let job_id = job["id"].as_str().unwrap();
    let job = format!("job={job_id}");
    assert!(!lines_with(&ran.errors, &["job: ", "a job begins", &job]).is_empty(), "{}", ran.errors);
    let at_master = log(&cloud, "master");
    for what in ["a job is admitted", "a job has ended"] {
        assert!(!lines_with(&at_master, &[what, &job]).is_empty(), "{what}: {job}");
    }
    let ran = |node: &&str| !lines_with(&log(&cloud, node), &["job: ", "a driver of the job speaks", &job]).is_empty();
    assert!(["node-1", "node-2"].iter().any(ran), "{job}");

    // A role that stops sends what it still has.
    for role in roles {
        cloud.stop(role);
    }
    let spans = collector.spans();
    let of_put = one_trace(&spans, slice.strip_prefix("slice=").unwrap());
    for span in ["sector-client upload", "sector-master request", "sector-node write"] {
        assert!(of_put.contains_key(span), "{span}: {of_put:?}");
    }
    let of_job = one_trace(&spans, &format!("{job_id:0>32}"));
    for span in ["sector-client job", "sector-master request", "sector-node job"] {
        assert!(of_job.contains_key(span), "{span}: {of_job:?}");
    }
}
