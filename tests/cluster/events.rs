//! Events of a cloud, as people and programs follow them. The master dies meanwhile, users have rights, and the web door
//! passes events on. Webhooks go to a receiver that fails.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use cluster::{Cloud, Roles, free_port};
use serde_json::Value;

use crate::web::{Gateway, Visitor};

/// A command that follows, and what it has said.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn begin(cloud: &Cloud, arguments: &[&str]) -> Self {
        let words = [&["--json", "events", "--follow"], arguments].concat();
        let mut child = cloud.command(&words).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (told, heard) = sync_channel(MESSAGES_MAX);
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| told.send(line)));
        Self { child, lines: heard }
    }

    /// Events until one is about this.
    fn until(&self, subject: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let line = self.lines.recv().unwrap_or_else(|_| panic!("it ended before {subject}: {heard:?}"));
            let event: Value = serde_json::from_str(&line).unwrap();
            let is_last = event["subject"] == subject;
            heard.push(event);
            if is_last {
                return heard;
            }
        }
    }

    /// As Ctrl-C does; returns the exit code.
    fn interrupt(mut self) -> Option<i32> {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
        self.child.wait().unwrap().code()
    }
}

fn last_number(cloud: &Cloud) -> String {
    let events = cloud.json(&["events"]);
    events.as_array().unwrap().last().expect("nodes have joined")["number"].to_string()
}

fn subjects(events: &Value) -> Vec<String> {
    let told = |event: &Value| format!("{} {}", event["kind"].as_str().unwrap(), event["subject"].as_str().unwrap());
    events.as_array().unwrap().iter().map(told).collect()
}

#[test]
fn a_follower_misses_nothing_and_hears_nothing_twice_when_the_master_is_killed() {
    let mut roles = Roles::start(2, 1);
    let start = last_number(&roles);
    let follower = Follower::begin(&roles, &["--since", &start, "--path", "/d"]);
    let file = roles.random_file("in", 1_000);
    let put = |roles: &Roles, name: &str| roles.run(&["put", file.to_str().unwrap(), name]).code == 0;
    assert!(put(&roles, "/d/first"));
    let mut heard = follower.until("/d/first");
    assert!(put(&roles, "/d/unseen"));
    roles.kill("master");
    roles.run_role("master");
    for number in 0..5 {
        let name = format!("/d/{number}");
        roles.until("a file is put", |_| put(&roles, &name));
    }
    roles.kill("master");
    roles.run_role("master");
    roles.until("the last file is put", |_| put(&roles, "/d/last"));
    heard.extend(follower.until("/d/last"));
    let kept = roles.json(&["events", "--since", &start, "--path", "/d"]);
    assert_eq!(Value::from(heard.clone()), kept, "the follower heard each event once, and all of them");
    let names: Vec<_> = heard.iter().map(|event| event["subject"].as_str().unwrap()).collect();
    for name in ["/d/first", "/d/unseen", "/d/0", "/d/4", "/d/last"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
        let version = roles.json(&["stat", name])["version"].clone();
        assert!(heard.iter().any(|event| event["subject"] == name && event["version"] == version), "{name}");
    }
    assert!(heard.windows(2).all(|pair| pair[0]["number"].as_u64() < pair[1]["number"].as_u64()));
    assert_eq!(follower.interrupt(), Some(130));
    let all = subjects(&roles.json(&["events", "--since", &start, "--kind", "node_lost,node_joined"]));
    assert!(all.contains(&"node_joined node-1".to_owned()), "{all:?}");
}

#[test]
fn a_user_hears_of_what_the_user_may_read_and_a_gap_is_told() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    cloud.ok(&["user", "add", "ann", "--service"]);
    cloud.ok(&["user", "token", "add", "ann", "tests", "--write-profile", "ann.toml"]);
    let file = cloud.random_file("in", 10);
    for name in ["/open/a", "/secret/a"] {
        cloud.ok(&["put", file.to_str().unwrap(), name]);
    }
    cloud.ok(&["acl", "set", "/secret", "none"]);
    let start = last_number(&cloud);
    cloud.ok(&["put", file.to_str().unwrap(), "/secret/b"]);
    cloud.ok(&["mv", "/secret/a", "/open/b"]);
    cloud.ok(&["rm", "-r", "--now", "/secret"]);
    let admin = subjects(&cloud.json(&["events", "--since", &start]));
    assert_eq!(admin, ["file_published /secret/b", "entry_renamed /open/b", "entry_removed /secret"]);
    let ann = cloud.json(&["--profile", "ann.toml", "events", "--since", &start]);
    assert_eq!(subjects(&ann), ["entry_renamed /open/b"]);
    assert!(ann[0]["from"].is_null(), "{ann}");
    // What is not kept is told: in a document, and on standard error.
    let gap = cloud.json(&["events", "--since", "7"]);
    assert_eq!((&gap[0]["kind"], &gap[0]["after"]), (&Value::from("gap"), &Value::from(7)));
    let said = cloud.run(&["events", "--since", "7"]);
    assert!(said.errors.contains("events are missing here"), "{said:?}");
    cloud.fails(2, &["events", "--kind", "file_publisht"]);
    let words = cloud.ok(&["events", "--since", "1h", "--path", "/open/*", "--kind", "entry_renamed"]);
    assert!(words.contains("entry_renamed /open/b from /secret/a") && words.lines().count() == 1, "{words}");
}

#[test]
fn the_web_door_gives_pages_and_a_stream_that_goes_on_over_a_restart_of_master_and_gateway() {
    let mut roles = Roles::start(1, 1);
    roles.ok(&["user", "token", "add", "admin", "web", "--write-profile", "web.toml"]);
    let settings = "listen = \"127.0.0.1:0\"\npublic_profile = \"web.toml\"";
    let gateway = Gateway::start(&roles, settings);
    let file = roles.random_file("in", 10);
    roles.ok(&["put", file.to_str().unwrap(), "/a"]);
    let page = Visitor::at(&gateway.page).get("/events?kind=file_published").json();
    assert_eq!((page["events"][0]["subject"].as_str(), page["more"].as_bool()), (Some("/a"), Some(false)), "{page}");
    let last = page["last"].to_string();
    Visitor::at(&gateway.page).get("/events?since=soon").reason(400);
    Visitor::at(&gateway.page).get("/events?kind=nothing").reason(400);
    let (subject, id) = first_sent(&gateway, &last, || drop(roles.ok(&["put", file.to_str().unwrap(), "/b"])));
    assert_eq!(subject, "/b");
    drop(gateway);
    roles.ok(&["put", file.to_str().unwrap(), "/c"]);
    roles.kill("master");
    roles.run_role("master");
    let gateway = Gateway::start(&roles, settings);
    assert_eq!(first_sent(&gateway, &id, || ()).0, "/c", "nothing was missed meanwhile");
    let (subject, _) = first_sent(&gateway, "7", || ());
    assert_eq!(subject, "events", "a gap");
}

/// What is the first event after one in a stream of files that were published, and its id.
fn first_sent(gateway: &Gateway, after: &str, begun: impl FnOnce()) -> (String, String) {
    let url = format!("{}/api/v1/events?kind=file_published", gateway.page);
    let request = ureq::http::Request::get(url).header("accept", "text/event-stream").header("last-event-id", after);
    let visitor = Visitor::at(&gateway.page);
    let (parts, body) = visitor.agent.run(request.body("").unwrap()).unwrap().into_parts();
    assert_eq!(parts.status, 200);
    begun();
    let mut id = String::new();
    for line in BufReader::new(body.into_reader()).lines().map_while(Result::ok) {
        if let Some(new) = line.strip_prefix("id: ").or_else(|| line.strip_prefix("id:")) {
            id = new.to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ").or_else(|| line.strip_prefix("data:")) {
            let event: Value = serde_json::from_str(data).unwrap();
            assert_eq!(event["number"].to_string(), id);
            return (event["subject"].as_str().unwrap().to_owned(), id);
        }
    }
    panic!("the stream ended");
}

/// Memory in KiB and processor time in ticks of a process.
fn taken(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    (memory.trim().trim_end_matches(" kB").parse().unwrap(), ticks)
}

#[test]
#[ignore = "a measurement: `cargo test -p sector-tests --test processes a_thousand_streams -- --ignored --nocapture`"]
fn a_thousand_streams_of_events_are_all_told() {
    let roles = Roles::start(1, 1);
    roles.ok(&["user", "token", "add", "admin", "web", "--write-profile", "web.toml"]);
    let gateway = Gateway::start(&roles, "listen = \"127.0.0.1:0\"\npublic_profile = \"web.toml\"");
    let address = gateway.page.strip_prefix("http://").unwrap().to_owned();
    let pids = [("master", roles.pid("master")), ("gateway", gateway.pid())];
    let before = pids.map(|(_, pid)| taken(pid));
    let mut streams: Vec<_> = (0..1_000)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            let head =
                "GET /api/v1/events?kind=file_published HTTP/1.1\r\nHost: here\r\nAccept: text/event-stream\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            BufReader::new(stream)
        })
        .collect();
    // Each is told its place first.
    for stream in &mut streams {
        let mut line = String::new();
        while !line.starts_with("id:") {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0, "a stream ended");
        }
    }
    let begun = pids.map(|(_, pid)| taken(pid));
    // What a time without events takes.
    assert!(Command::new("sleep").arg("20").status().unwrap().success());
    let waited = pids.map(|(_, pid)| taken(pid));
    for (at, (role, _)) in pids.iter().enumerate() {
        let bytes = (begun[at].0.saturating_sub(before[at].0)) as f64 * 1_024.0 / 1_000.0;
        let share = (waited[at].1 - begun[at].1) as f64 / 20.0;
        println!("{role}: {bytes:.0} bytes a follower, {share:.1} % of a processor while nothing happens");
    }
    let file = roles.random_file("in", 10);
    for number in 0..20 {
        let name = format!("/f-{number}");
        let start = std::time::Instant::now();
        roles.ok(&["put", file.to_str().unwrap(), &name]);
        let put = start.elapsed();
        for stream in &mut streams {
            let mut line = String::new();
            while !line.contains(&format!("\"{name}\"")) {
                line.clear();
                assert!(stream.read_line(&mut line).unwrap() > 0, "a stream ended");
            }
        }
        if number % 5 == 0 {
            println!("put in {put:?}, and all have heard {:?} after it", start.elapsed() - put);
        }
    }
    let ended = pids.map(|(_, pid)| taken(pid));
    for (at, (role, _)) in pids.iter().enumerate() {
        let millis = (ended[at].1 - waited[at].1) as f64 * 10.0 / 20.0;
        println!("{role}: {millis:.0} ms of a processor an event, {} KiB in all", ended[at].0);
    }
}

/// A message that a receiver got, and what it is to answer.
struct Message {
    headers: String,
    body: String,
    answer: SyncSender<u16>,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        let line = self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.headers))
    }

    fn subject(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["type"], body["data"]["kind"]);
        body["data"]["subject"].as_str().unwrap().to_owned()
    }
}

/// Receives messages of a webhook; each waits for its answer.
fn receiver() -> (u16, Receiver<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, heard) = sync_channel(MESSAGES_MAX);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let told = told.clone();
            std::thread::spawn(move || receive(stream, &told));
        }
    });
    (port, heard)
}

fn receive(stream: TcpStream, told: &SyncSender<Message>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            (reader.read_line(&mut headers).ok()? > 0).then_some(())?;
        }
        let headers = headers.replace("\r\n", "\n").to_lowercase();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (answer, answered) = sync_channel(MESSAGES_MAX);
        told.send(Message { headers, body: String::from_utf8(body).ok()?, answer }).ok()?;
        let status = answered.recv().ok()?;
        let more = if status == 302 { "location: http://127.0.0.1:1/\r\n" } else { "" };
        write!(&stream, "HTTP/1.1 {status} So\r\n{more}content-length: 0\r\n\r\n").ok()?;
    }
}

#[test]
fn a_webhook_is_signed_tried_again_in_order_and_goes_on_after_a_restart() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    cloud.ok(&["user", "token", "add", "admin", "hook", "--write-profile", "hook.toml"]);
    cloud.file("hook.secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let ((port, messages), scraped) = (receiver(), free_port());
    let settings = format!(
        "listen = \"127.0.0.1:0\"\nmetrics_listen = \"127.0.0.1:{scraped}\"\nfolder = \"state\"\n[[webhook]]\nname = \"index\"\nurl = \"http://127.0.0.1:{port}/\"\n\
         secret_file = \"hook.secret\"\nprofile = \"hook.toml\"\nkinds = [\"file_published\"]\npath = \"/d/*\""
    );
    let gateway = Gateway::start(&cloud, &settings);
    let place = cloud.folder().join("state/webhook-index.json");
    cloud.until("the webhook knows where it begins", |_| place.exists());
    let file = cloud.random_file("in", 10);
    for name in ["/d/a", "/other", "/d/b"] {
        cloud.ok(&["put", file.to_str().unwrap(), name]);
    }
    let mut ids = Vec::new();
    // A redirection is a failure too: it is not followed.
    for status in [500, 302, 404, 204] {
        let message = messages.recv().unwrap();
        assert_eq!(message.subject(), "/d/a", "the first one first, until it is taken");
        ids.push(message.header("webhook-id").to_owned());
        assert!(is_signed(&message, &message.body), "{}", message.headers);
        assert!(!is_signed(&message, &message.body.replace("/d/a", "/d/c")), "a changed body is found");
        message.answer.send(status).unwrap();
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "by its id a receiver knows it again: {ids:?}");
    let message = messages.recv().unwrap();
    assert_eq!(message.subject(), "/d/b");
    // What was tried is counted, for whoever scrapes the gateway itself.
    let mut metrics = ureq::get(format!("http://127.0.0.1:{scraped}/metrics")).call().unwrap();
    let metrics = metrics.body_mut().read_to_string().unwrap();
    for (outcome, count) in [("failed", 3), ("taken", 1)] {
        let line = format!("sector_gateway_webhook_messages_total{{webhook=\"index\",outcome=\"{outcome}\"}} {count}");
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    // The gateway is killed before that is taken, and something happens while it is away.
    drop(gateway);
    drop(message);
    cloud.ok(&["put", file.to_str().unwrap(), "/d/c"]);
    let _gateway = Gateway::start(&cloud, &settings);
    let mut heard = Vec::new();
    while heard.last().is_none_or(|subject| subject != "/d/c") {
        let message = messages.recv().unwrap();
        heard.push(message.subject());
        message.answer.send(200).unwrap();
    }
    assert!(heard == ["/d/b", "/d/c"] || heard == ["/d/a", "/d/b", "/d/c"], "in order, none is missing: {heard:?}");
}

/// As a receiver checks it (Standard Webhooks), with a library of its own: Python's.
fn is_signed(message: &Message, body: &str) -> bool {
    let check = "import base64, hashlib, hmac, sys\n\
                 id, time, signature, body = sys.argv[1:]\n\
                 key = base64.b64decode('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')\n\
                 made = base64.b64encode(hmac.digest(key, f'{id}.{time}.{body}'.encode(), hashlib.sha256)).decode()\n\
                 sys.exit(made.lower() != signature.removeprefix('v1,'))";
    let [id, time, signature] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| message.header(name).to_owned());
    let status = Command::new("python3").args(["-c", check, &id, &time, &signature, body]).status().unwrap();
    status.success()
}

/// Far more lines or messages than a test waits for.
const MESSAGES_MAX: usize = 10_000;
