//! The web door, as programs and browsers use it: logins, rights, files with ranges, and uploads that go on. Also what
//! it says while the master is away. The page itself is tested in `tests/web`, in a real browser.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use cluster::{Cloud, Roles, program, random_bytes};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use ureq::{Agent, http::Response};

use crate::accounts::with_input;

/// A browser or a program at the web door.
pub(super) struct Visitor {
    pub(super) agent: Agent,
    page: String,
    cookie: Option<String>,
    token: Option<String>,
}

/// An answer: status, headers and body.
pub(super) struct Said {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: Vec<u8>,
}

impl Said {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The reason of a refusal with this status.
    pub(super) fn reason(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()["error"]["reason"].as_str().expect("a reason").to_owned()
    }
}

impl Visitor {
    pub(super) fn at(page: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0).build();
        Self { agent: config.into(), page: page.to_owned(), cookie: None, token: None }
    }

    /// Of the page of a cloud, logged in by a link.
    fn of(cloud: &Cloud) -> Self {
        let link = cloud.json(&["web"])["link"].as_str().unwrap().to_owned();
        let (page, code) = link.split_once("/#/login/").unwrap();
        let mut visitor = Self::at(page);
        let said = visitor.post("/login/link", &json!({"code": code}));
        assert_eq!(said.status, 200, "{}", said.text());
        visitor.take_cookie(&said);
        visitor
    }

    fn take_cookie(&mut self, said: &Said) {
        let cookie = said.header("set-cookie").split(';').next().unwrap();
        self.cookie = Some(cookie.to_owned());
    }

    /// A request with these headers, as the page would make it.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Said {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}/api/v1{path}", self.page));
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        if method != "GET" && self.token.is_none() {
            request = request.header("x-sector-request", "1");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        said(self.agent.run(request.body(body).unwrap()).unwrap())
    }

    pub(super) fn get(&self, path: &str) -> Said {
        self.ask("GET", path, &[], b"")
    }

    fn post(&self, path: &str, document: &Value) -> Said {
        self.ask("POST", path, &[], document.to_string().as_bytes())
    }
}

fn said(response: Response<ureq::Body>) -> Said {
    let (parts, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    body.as_reader().read_to_end(&mut bytes).unwrap();
    Said { status: parts.status.as_u16(), headers: parts.headers, body: bytes }
}

/// A gateway that the test starts with its own settings.
pub(super) struct Gateway {
    child: Child,
    pub(super) page: String,
}

impl Gateway {
    pub(super) fn start(cloud: &Cloud, settings: &str) -> Self {
        let profile = std::fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
        let master = profile.lines().find_map(|line| line.strip_prefix("address = ")).unwrap();
        let authority = cloud.data().join("security/authority.pem");
        let text = format!("master = {master}\nauthority = \"{}\"\n{settings}\n", authority.display());
        let file = cloud.file("gateway.toml", text);
        let mut command = Command::new(program());
        let child = command.arg("gateway").arg("--config").arg(file);
        let mut child =
            child.env("SECTOR_PART_OF_UP", "1").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.find_map(|line| Some(line.ok()?.strip_prefix("ready ")?.to_owned()));
        Self { child, page: ready.expect("it is ready") }
    }
}

impl Gateway {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_link_logs_in_once_and_a_session_ends_with_its_logout() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let link = cloud.ok(&["web"]).trim().to_owned();
    let (page, code) = link.split_once("/#/login/").expect("a link with a code that no server is sent");
    let mut visitor = Visitor::at(page);
    assert_eq!(visitor.get("/nodes").reason(401), "not_authenticated");
    let said = visitor.post("/login/link", &json!({"code": code}));
    assert_eq!(said.json()["user"], "admin");
    let cookie = said.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert_eq!(visitor.post("/login/link", &json!({"code": code})).reason(401), "not_authenticated", "once");
    visitor.take_cookie(&said);
    assert_eq!(visitor.get("/nodes").json()[0]["id"], "node-1");
    // Another site's page can send the cookie with a form, but not the header.
    let request = ureq::http::Request::builder().method("POST").uri(format!("{page}/api/v1/trash/empty"));
    let request = request.header("cookie", visitor.cookie.as_ref().unwrap()).body("").unwrap();
    assert_eq!(said_by(&visitor, request).reason(403), "no_right");
    // The session of before is not the one after a login: nobody can plant one.
    let again = cloud.ok(&["web"]).trim().rsplit('/').next().unwrap().to_owned();
    let said = visitor.post("/login/link", &json!({"code": again}));
    let old = visitor.cookie.clone();
    visitor.take_cookie(&said);
    assert_ne!(visitor.cookie, old);
    let mut before = Visitor::at(page);
    before.cookie = old;
    before.get("/nodes").reason(401);
    assert_eq!(visitor.post("/logout", &json!({})).status, 204);
    visitor.get("/nodes").reason(401);
    // The page, whether it was built in or not, and what surrounds it.
    let request = ureq::http::Request::get(format!("{page}/")).body("").unwrap();
    let said = said_by(&visitor, request);
    assert_eq!(said.status, 200);
    assert!(said.header("content-security-policy").starts_with("default-src 'none'"));
    assert_eq!((said.header("x-frame-options"), said.header("x-content-type-options")), ("DENY", "nosniff"));
    // Its log is whole once it has ended.
    cloud.down();
    let log = std::fs::read_to_string(cloud.home.join("sector.log")).unwrap();
    assert!(log.contains("web page http://") && !log.contains("/login/"), "a log lets nobody in: {log}");
}

fn said_by(visitor: &Visitor, request: ureq::http::Request<&str>) -> Said {
    said(visitor.agent.run(request).unwrap())
}

#[test]
fn files_go_in_and_out_by_ranges_and_an_upload_goes_on_after_a_cut() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let visitor = Visitor::of(&cloud);
    let bytes = random_bytes(3_000_000);
    // Names are names, whatever they look like elsewhere.
    let name = "/a%20b%3Cscript%3E%22%C3%A9.bin";
    let said = visitor.ask("PUT", &format!("/content{name}"), &[], &bytes);
    assert_eq!(said.json()["path"], "/a b<script>\"é.bin");
    let said = visitor.get(&format!("/content{name}"));
    assert!(said.body == bytes, "the bytes are those that were sent");
    assert!(
        said.header("content-disposition").starts_with("attachment; filename*=UTF-8''a%20b%3Cscript%3E%22%C3%A9.bin")
    );
    assert!(said.header("content-security-policy").contains("sandbox"));
    let etag = said.header("etag").to_owned();
    let part = visitor.ask("GET", &format!("/content{name}"), &[("range", "bytes=1000000-2000000")], b"");
    assert_eq!((part.status, part.header("content-range")), (206, "bytes 1000000-2000000/3000000"));
    assert!(part.body == bytes[1_000_000..=2_000_000]);
    let none = visitor.ask("GET", &format!("/content{name}"), &[("if-none-match", &etag)], b"");
    assert_eq!((none.status, none.body.len()), (304, 0));
    let other = [("range", "bytes=0-9"), ("if-range", "\"another\"")];
    assert_eq!(visitor.ask("GET", &format!("/content{name}"), &other, b"").status, 200, "a part of what it has not");
    assert_eq!(visitor.ask("GET", &format!("/content{name}"), &[("range", "bytes=3000000-")], b"").status, 416);
    let only_new = visitor.ask("PUT", &format!("/content{name}"), &[("if-none-match", "*")], b"x");
    assert_eq!(only_new.reason(409), "exists");

    let upload = visitor.post("/uploads", &json!({"path": "/up.bin", "bytes": bytes.len()})).json();
    let at = format!("/uploads/{}", upload["id"].as_str().unwrap());
    let send = |from: usize, until: usize| {
        visitor.ask("PATCH", &at, &[("upload-offset", &from.to_string())], &bytes[from..until])
    };
    assert_eq!(send(0, 1_000_000).json()["offset"], 1_000_000);
    let wrong = send(500_000, 600_000);
    assert_eq!((wrong.status, &wrong.json()["offset"]), (409, &json!(1_000_000)), "it says where to go on");
    assert_eq!(visitor.post(&format!("{at}/finish"), &json!({})).status, 409, "not all has arrived");
    assert_eq!(visitor.get(&at).json()["offset"], 1_000_000);
    assert_eq!(cloud.run(&["stat", "/up.bin"]).code, 3, "nothing is seen of it before");
    assert_eq!(send(1_000_000, bytes.len()).json()["offset"], bytes.len());
    let entry = visitor.post(&format!("{at}/finish"), &json!({})).json();
    assert_eq!(entry["digest"], blake3::hash(&bytes).to_hex().as_str());
    assert_eq!(visitor.post("/uploads", &json!({"path": "/up.bin", "bytes": 1})).reason(409), "exists");
    let given_up = visitor.post("/uploads", &json!({"path": "/up.bin", "bytes": 9, "replace": true})).json();
    let at = format!("/uploads/{}", given_up["id"].as_str().unwrap());
    assert_eq!(visitor.ask("DELETE", &at, &[], b"").status, 204);
    visitor.get(&at).reason(404);

    visitor.ask("DELETE", "/files?path=/up.bin", &[], b"");
    let trash = visitor.get("/trash").json();
    assert_eq!(trash[0]["path"], "/up.bin");
    assert_eq!(visitor.post("/trash/restore", &json!({"path": "/up.bin"})).json()["path"], "/up.bin");
    visitor.ask("PUT", "/content/up.bin", &[], b"another");
    assert_eq!(visitor.get("/versions?path=/up.bin").json()[0]["size_bytes"], bytes.len());
    assert_eq!(visitor.post("/folders", &json!({"path": "/f/g", "parents": true})).status, 204);
    assert_eq!(visitor.post("/rename", &json!({"from": "/up.bin", "to": "/f/g/h.bin"})).status, 204);
    let listed = visitor.get("/files?path=/f/g").json();
    assert_eq!((&listed["entries"][0]["path"], &listed["next"]), (&json!("/f/g/h.bin"), &Value::Null));
    for name in ["i", "j"] {
        visitor.post("/folders", &json!({"path": format!("/f/g/{name}")}));
    }
    let first = visitor.get("/files?path=/f/g&limit=2").json();
    assert_eq!((first["entries"].as_array().unwrap().len(), &first["next"]), (2, &json!("i")));
    let second = visitor.get("/files?path=/f/g&limit=2&after=i").json();
    assert_eq!((&second["entries"][0]["path"], &second["next"]), (&json!("/f/g/j"), &Value::Null));
    assert_eq!(visitor.get("/files?path=nowhere").reason(400), "invalid");
    assert_eq!(visitor.get("/files?path=/&colour=1").reason(400), "invalid");
}

#[test]
fn everyone_has_their_own_rights_and_visitors_of_a_public_page_only_read() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let added = with_input(cloud.command(&["user", "add", "ann", "--password-stdin"]), "correct horse\n");
    assert_eq!(added.code, 0, "{}", added.errors);
    let file = cloud.file("in", "secret bytes");
    cloud.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/secret"]);
    cloud.ok(&["acl", "set", "/secret", "user:admin:rw"]);
    cloud.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/open"]);
    let page = Visitor::of(&cloud).page;
    let mut ann = Visitor::at(&page);
    assert_eq!(ann.post("/login", &json!({"user": "ann", "password": "wrong horse"})).reason(401), "not_authenticated");
    let said = ann.post("/login", &json!({"user": "ann", "password": "correct horse"}));
    assert_eq!((&said.json()["user"], &said.json()["admin"]), (&json!("ann"), &json!(false)));
    ann.take_cookie(&said);
    assert_eq!(ann.get("/content/open").text(), "secret bytes");
    assert_eq!(ann.get("/content/secret").reason(403), "no_right");
    assert_eq!(ann.ask("PUT", "/content/secret", &[], b"x").reason(403), "no_right");
    assert_eq!(ann.get("/users").reason(403), "no_right");
    // What she may not know is left out of the state of the cloud, and takes nothing else with it.
    let request =
        ureq::http::Request::get(format!("{page}/api/v1/live")).header("cookie", ann.cookie.as_ref().unwrap());
    let (_, body) = ann.agent.run(request.body("").unwrap()).unwrap().into_parts();
    let lines = BufReader::new(body.into_reader()).lines().map_while(Result::ok);
    let first: Vec<_> = lines.filter(|line| !line.is_empty()).take(2).collect();
    assert_eq!(first[0], "event: overview", "{}", first[1]);
    assert!(first[1].contains("\"work\":[]"), "{}", first[1]);
    // A program, with a token.
    let token = cloud.ok(&["user", "token", "add", "ann", "script"]).trim().to_owned();
    let mut program = Visitor::at(&page);
    program.token = Some(basic("ann", &token));
    assert_eq!(program.get("/session").json()["user"], "ann");
    assert_eq!(program.ask("PUT", "/content/by-ann", &[], b"hers").json()["owner"], "ann");
    program.token = Some(basic("ann", &"0".repeat(64)));
    program.get("/session").reason(401);
    program.token = Some("Bearer x".into());
    program.get("/session").reason(401);
    // A public page has the rights of one user, and not to change anything.
    cloud.ok(&["user", "token", "add", "ann", "public", "--write-profile", "public.toml"]);
    let gateway = Gateway::start(&cloud, "listen = \"127.0.0.1:0\"\npublic_profile = \"public.toml\"");
    let visitor = Visitor::at(&gateway.page);
    assert_eq!(visitor.get("/session").json()["read_only"], true);
    assert_eq!(visitor.get("/content/open").text(), "secret bytes");
    assert_eq!(visitor.get("/content/secret").reason(403), "no_right");
    for (method, path) in [("PUT", "/content/by-ann"), ("DELETE", "/files?path=/by-ann"), ("POST", "/trash/empty")] {
        assert_eq!(visitor.ask(method, path, &[], b"").reason(401), "not_authenticated", "{method} {path}");
    }
}

fn basic(user: &str, token: &str) -> String {
    format!("Basic {}", data_encoding::BASE64.encode(format!("{user}:{token}").as_bytes()))
}

#[test]
fn every_request_of_the_description_is_there_and_wants_a_user() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let visitor = Visitor::of(&cloud);
    let stranger = Visitor::at(&visitor.page);
    let described = visitor.get("/openapi.json").json();
    let targets = visitor.get("/metrics").json();
    let of_node = targets.as_array().unwrap().iter().find(|target| target["labels"]["instance"] == "node-1").unwrap();
    let at = of_node["labels"]["__metrics_path__"].as_str().unwrap().strip_prefix("/api/v1").unwrap();
    let metrics = visitor.get(at);
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    assert!(metrics.text().contains("\nsector_node_slices "), "{}", metrics.text());
    visitor.get("/metrics/nobody").reason(404);
    // The gateway is one of the roles, and for administrators like all of them.
    assert!(targets.as_array().unwrap().iter().any(|target| target["labels"]["role"] == "gateway"), "{targets}");
    let own = visitor.get("/metrics/gateway").text();
    assert!(own.contains("sector_gateway_requests_total{request=\"GET /metrics\",status=\"200\"} 1\n"), "{own}");
    cloud.ok(&["user", "add", "ann", "--service"]);
    let token = cloud.ok(&["user", "token", "add", "ann", "tests"]);
    let mut ann = Visitor::at(&visitor.page);
    ann.token = Some(basic("ann", token.trim()));
    assert_eq!(ann.get("/metrics/gateway").reason(403), "no_right");
    let open = ["/login", "/login/link", "/login/browser", "/login/browser/{id}", "/logout", "/openapi.json"];
    let mut seen = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|_| !open.contains(&path.as_str())) {
            let at = path
                .replace("{path}", "x")
                .replace("{node}", "node-1")
                .replace("{job}", "0")
                .replace("{id}", "x")
                .replace("{of}", "master")
                .replace("{user}", "ann")
                .replace("{group}", "astro");
            let at = at.replace("{from}", "a").replace("{to}", "b");
            let said = stranger.ask(&method.to_uppercase(), &at, &[], b"{}");
            assert_eq!(said.status, 401, "{method} {path}: {}", said.text());
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen}");
}

#[test]
fn answers_are_compressed_for_those_who_can_read_it_and_files_never_are() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let visitor = Visitor::of(&cloud);
    let gzip = [("accept-encoding", "gzip, deflate, br, zstd")];
    let plain = visitor.get("/openapi.json");
    let packed = visitor.ask("GET", "/openapi.json", &gzip, b"");
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), ("", "gzip"));
    let mut text = Vec::new();
    GzDecoder::new(&packed.body[..]).read_to_end(&mut text).unwrap();
    assert!(text == plain.body && packed.body.len() < plain.body.len() / 3);
    // The bytes of a file are as they are, and so are answers that may hold a secret.
    let bytes = vec![b'x'; 100_000];
    let put = visitor.ask("PUT", "/content/x", &gzip, &bytes);
    let got = visitor.ask("GET", "/content/x", &gzip, b"");
    assert_eq!((put.header("content-encoding"), got.header("content-encoding")), ("", ""));
    assert!(got.body == bytes);
    let link = visitor.ask("POST", "/login/links", &gzip, b"{}");
    assert_eq!((link.status, link.header("content-encoding")), (200, ""));
    // Events come one by one through the compressed stream.
    let request = ureq::http::Request::get(format!("{}/api/v1/live", visitor.page));
    let request = request.header("cookie", visitor.cookie.as_ref().unwrap()).header("accept-encoding", "gzip");
    let (head, body) = visitor.agent.run(request.body("").unwrap()).unwrap().into_parts();
    assert_eq!(head.headers.get("content-encoding").unwrap(), "gzip");
    let lines = BufReader::new(GzDecoder::new(body.into_reader())).lines().map_while(Result::ok);
    assert_eq!(lines.filter(|line| line == "event: overview").take(2).count(), 2);
}

#[test]
fn a_job_is_started_as_by_the_command_and_refused_in_its_words() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "1"]);
    let visitor = Visitor::of(&cloud);
    visitor.ask("PUT", "/content/in", &[], b"one\ntwo\n");
    visitor.post("/folders", &json!({"path": "/full/inner", "parents": true}));
    let job = |change: &[(&str, Value)]| {
        let mut body = json!({"functions": ["count"], "inputs": [["/in"]], "output": "/out", "records": "lines"});
        change.iter().for_each(|(key, value)| body[*key] = value.clone());
        visitor.post("/jobs", &body)
    };
    // As the command has it, with the field to blame.
    for (field, value, options) in [
        ("functions", json!(["no-such"]), ["--udf", "no-such"]),
        ("functions", json!(["cmd:awk '{"]), ["--udf", "cmd:awk '{"]),
        ("params", json!(["typo=1"]), ["--param", "typo=1"]),
        ("params", json!(["typo"]), ["--param", "typo"]),
        ("inputs", json!([["/none"]]), ["--input", "/none"]),
        ("output", json!("/full"), ["--output", "/full"]),
        ("output", json!("/in"), ["--output", "/in"]),
        ("side", json!(["words"]), ["--side", "words"]),
        ("segment_bytes", json!("2:1"), ["--segment-bytes", "2:1"]),
        ("records", json!("pages"), ["--records", "pages"]),
        ("result_records", json!(["lines", "lines"]), ["--result-records", "lines"]),
    ] {
        let mut words = vec!["run", "--detach"];
        for (option, value) in [("--udf", "count"), ("--input", "/in"), ("--output", "/out")] {
            if options[0] != option {
                words.extend([option, value]);
            }
        }
        words.extend(options);
        if field == "result_records" {
            words.extend(options);
        }
        let said = cloud.run(&words);
        let refused = job(&[(field, value)]);
        assert_eq!(refused.json()["error"]["field"], field, "{}", refused.text());
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.code != 0 && said.errors.contains(&message), "{field}: `{message}` is not in: {}", said.errors);
    }
    assert_eq!(job(&[("inputs", json!([]))]).json()["error"]["field"], "inputs");
    assert_eq!(job(&[("colour", json!("red"))]).reason(400), "invalid");
    // A function in a file of the cloud is read with the rights of the user.
    assert_eq!(job(&[("functions", json!(["/none.py:f"]))]).reason(404), "not_found");
    let said = job(&[]);
    assert_eq!(said.status, 201, "{}", said.text());
    let id = said.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(cloud.json(&["job", &id, "--wait"])["state"], "done");
    assert_eq!(said.json()["title"], "count over /in");
    assert!(cloud.ok(&["cat", "/out/part-00000"]).contains("\t2\t8"), "two records of eight bytes");
    let names = visitor.get("/functions").json();
    assert!(names.as_array().unwrap().iter().any(|one| one["name"] == "filter" && one["parameters"][0] == "contains"));
}

#[test]
fn people_are_changed_as_by_the_commands() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let admin = Visitor::of(&cloud);
    let at = |method: &str, path: &str, body: &Value| admin.ask(method, path, &[], body.to_string().as_bytes());
    assert_eq!(at("POST", "/groups", &json!({"group": "astro"})).status, 201);
    let ann = json!({"user": "ann", "password": "correct horse", "groups": ["astro"], "addresses": ["127.0.0.0/8"]});
    assert_eq!(at("POST", "/users", &ann).status, 201);
    assert_eq!(at("POST", "/users", &ann).reason(409), "exists");
    let wrong = at("POST", "/users", &json!({"user": "a b", "password": "correct horse"}));
    assert_eq!((wrong.reason(400), &wrong.json()["error"]["field"]), ("invalid".into(), &json!("user")));
    let user =
        |name: &str| cloud.json(&["user", "list"]).as_array().unwrap().iter().find(|one| one["user"] == name).cloned();
    assert_eq!(user("ann").unwrap()["addresses"], json!(["127.0.0.0/8"]));
    assert_eq!(at("PATCH", "/users/ann", &json!({"enabled": false, "addresses": []})).status, 204);
    assert_eq!((&user("ann").unwrap()["enabled"], &user("ann").unwrap()["addresses"]), (&json!(false), &json!([])));
    assert_eq!(at("PATCH", "/users/ann", &json!({})).reason(400), "invalid");
    assert_eq!(at("PATCH", "/users/admin", &json!({"admin": false})).reason(403), "not_permitted", "the last one");
    assert_eq!(at("PATCH", "/users/ann", &json!({"enabled": true})).status, 204);
    assert_eq!(at("DELETE", "/groups/astro/members/ann", &json!({})).status, 204);
    assert_eq!(at("PUT", "/groups/astro/members/ann", &json!({})).status, 204);
    assert_eq!(cloud.json(&["group", "list"])[0]["members"], json!(["ann"]));
    let mut own = Visitor::at(&admin.page);
    let said = own.post("/login", &json!({"user": "ann", "password": "correct horse"}));
    own.take_cookie(&said);
    let made = own.post("/tokens", &json!({"user": "ann", "name": "script", "life_seconds": 3_600}));
    let token = made.json()["token"].as_str().unwrap().to_owned();
    assert_eq!((made.status, token.len()), (201, 64));
    let mut program = Visitor::at(&admin.page);
    program.token = Some(basic("ann", &token));
    assert_eq!(program.get("/session").json()["user"], "ann");
    assert_eq!(program.post("/tokens", &json!({"user": "ann", "name": "x"})).status, 403, "a token makes no tokens");
    assert_eq!(own.post("/users", &json!({"user": "eve", "password": "correct horse"})).reason(403), "no_right");
    assert_eq!(own.ask("DELETE", "/tokens?user=ann&name=script", &[], b"").status, 204);
    let quota = |body: Value| at("PUT", "/quotas", &body);
    assert_eq!(quota(json!({"user": "nobody", "bytes": 1})).json()["error"]["field"], "user");
    assert_eq!(quota(json!({"user": "ann", "bytes": 1_000, "files": 5})).status, 204);
    let quotas = cloud.json(&["quota", "list"]);
    let of_ann = quotas.as_array().unwrap().iter().find(|quota| quota["user"] == "ann").unwrap();
    assert_eq!((&of_ann["bytes"], &of_ann["files"]), (&json!(1_000), &json!(5)));
    admin.post("/folders", &json!({"path": "/f"}));
    let acl = |text: &str| at("PUT", "/acl", &json!({"path": "/f", "acl": text}));
    assert_eq!(acl("user:nobody:rw").json()["error"]["field"], "acl");
    assert_eq!(acl("group:astro:rw").json()["text"], "group:astro:rw");
    assert_eq!(at("DELETE", "/acl?path=/f", &json!({})).json()["own"], false);
    assert_eq!(at("PUT", "/users/ann/password", &json!({"new": "another horse"})).status, 204);
    assert_eq!(at("DELETE", "/groups/astro", &json!({})).status, 204);
    assert_eq!(at("DELETE", "/users/ann", &json!({})).status, 204);
    assert!(user("ann").is_none());
}

#[test]
fn without_the_master_the_page_says_so_and_comes_back_by_itself() {
    let mut roles = Roles::start(1, 1);
    roles.ok(&["user", "token", "add", "admin", "web", "--write-profile", "web.toml"]);
    let gateway = Gateway::start(&roles, "listen = \"127.0.0.1:0\"\npublic_profile = \"web.toml\"");
    let visitor = Visitor::at(&gateway.page);
    let request = ureq::http::Request::get(format!("{}/api/v1/live", gateway.page)).body("").unwrap();
    let (_, body) = visitor.agent.run(request).unwrap().into_parts();
    let mut lines = BufReader::new(body.into_reader()).lines().map_while(Result::ok);
    let mut next = |wanted: &str| {
        let line = lines.find(|line| line.starts_with("event: ") && line.ends_with(wanted));
        assert!(line.is_some(), "the stream ended before `{wanted}`");
    };
    next("overview");
    roles.kill("master");
    next("unreachable");
    roles.run_role("master");
    next("overview");
}
