//! People: login, sessions, revocation, and a security server that is away. Real processes.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use cluster::{Cloud, Ended, Roles, ended, poll_until};

/// Runs a command with a line or two of standard input.
pub(crate) fn with_input(mut command: Command, input: &str) -> Ended {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // A command that refuses at once may have ended before it reads anything.
    match child.stdin.take().expect("a pipe").write_all(input.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.expect("it reads"),
    }
    ended(child.wait_with_output().expect("it ends"))
}

/// Adds a user with the password `correct horse`.
fn add_user(cloud: &Cloud, user: &str) {
    let added = with_input(cloud.command(&["user", "add", user, "--password-stdin"]), "correct horse\n");
    assert_eq!(added.code, 0, "{}", added.errors);
}

/// What a login needs beside the user: the master's address and the authority's certificate.
pub(crate) fn cloud_of(cloud: &Cloud) -> (String, PathBuf) {
    let text = std::fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let address = text.lines().find_map(|line| line.strip_prefix("address = ")).expect("an address");
    (address.trim_matches('"').to_owned(), cloud.folder().join("data/security/authority.pem"))
}

pub(crate) fn log_in(cloud: &Cloud, user: &str, password: &str, profile: &Path) -> Ended {
    let (master, authority) = cloud_of(cloud);
    let authority = authority.to_str().unwrap();
    let profile = profile.to_str().unwrap();
    let arguments =
        ["login", user, "--password-stdin", "--master", &master, "--authority", authority, "--profile", profile];
    with_input(cloud.command(&arguments), &format!("{password}\n"))
}

fn session_of(cloud: &Cloud, user: &str) -> PathBuf {
    let profile = cloud.folder().join(format!("{user}.toml"));
    let ended = log_in(cloud, user, "correct horse", &profile);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    profile
}

/// A `get` of a large file on its way, slow enough to be caught: its output goes to a pipe that nobody empties.
fn begin_reading(cloud: &Cloud, profile: &Path, path: &str) -> std::process::Child {
    let mut command = cloud.command(&["--profile", profile.to_str().unwrap(), "cat", path]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

#[test]
fn a_person_logs_in_is_who_they_are_and_logs_out() {
    use std::os::unix::fs::PermissionsExt;
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    cloud.ok(&["group", "add", "astro"]);
    add_user(&cloud, "ann");
    cloud.ok(&["group", "join", "astro", "ann"]);
    let profile = cloud.folder().join("ann.toml");
    let wrong = log_in(&cloud, "ann", "wrong horse", &profile);
    assert_eq!(wrong.code, 4, "{}", wrong.errors);
    assert!(!profile.exists());
    let unknown = log_in(&cloud, "nobody", "wrong horse", &profile);
    assert_eq!((unknown.code, &unknown.errors), (4, &wrong.errors), "nobody learns who has an account");

    let profile = session_of(&cloud, "ann");
    assert_eq!(std::fs::metadata(&profile).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&profile).unwrap().contains("correct horse"));
    let as_ann = ["--profile", profile.to_str().unwrap()];
    let you = cloud.json(&[&as_ann[..], &["whoami"]].concat());
    assert_eq!((you["user"].as_str(), you["admin"].as_bool()), (Some("ann"), Some(false)));
    assert_eq!(you["groups"][0], "astro");
    let sessions = cloud.json(&["session", "list"]);
    assert_eq!(sessions[0]["session"], you["session"]);
    cloud.fails(4, &[&as_ann[..], &["user", "list"]].concat());

    cloud.ok(&[&as_ann[..], &["logout"]].concat());
    cloud.fails(4, &[&as_ann[..], &["whoami"]].concat());
    assert_eq!(cloud.json(&["session", "list"]).as_array().unwrap().len(), 0);
    // The administrator's token is not lost to a login by mistake.
    let over = with_input(cloud.command(&["login", "ann", "--password-stdin"]), "correct horse\n");
    assert_eq!(over.code, 2, "{}", over.errors);
}

// Promise 27.
#[test]
fn a_revoked_session_is_refused_within_ten_seconds_and_its_transfers_are_cut() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    add_user(&cloud, "ann");
    let file = cloud.random_file("big", 64 << 20);
    cloud.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/big"]);
    let profile = session_of(&cloud, "ann");
    // Over the network, where the node serves every byte.
    let text = std::fs::read_to_string(&profile).unwrap();
    std::fs::write(&profile, format!("over_network = true\n{text}")).unwrap();
    let mut reading = begin_reading(&cloud, &profile, "/big");
    // It has begun: the first byte is there.
    let mut out = reading.stdout.take().unwrap();
    std::io::Read::read_exact(&mut out, &mut [0]).unwrap();

    let session = cloud.json(&["session", "list"])[0]["session"].as_str().unwrap().to_owned();
    cloud.ok(&["session", "revoke", &session]);
    let revoked = Instant::now();
    // A new session at the master is refused at once; the one that is open ends with the next poll.
    cloud.fails(4, &["--profile", profile.to_str().unwrap(), "ls", "/"]);
    poll_until("the node knows", || {
        let log = std::fs::read_to_string(cloud.home.join("sector.log")).unwrap_or_default();
        log.contains("the tickets of a user were revoked").then_some(())
    });
    assert!(revoked.elapsed() < Duration::from_secs(10), "{:?}", revoked.elapsed());
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut out, &mut rest).unwrap();
    let ended = ended(reading.wait_with_output().unwrap());
    assert_eq!(ended.code, 4, "{}", ended.errors);
    assert!(rest.len() + 1 < 64 << 20, "it was cut off");
}

// Promise 27.
#[test]
fn what_a_user_does_in_another_session_goes_on_when_one_is_revoked() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    add_user(&cloud, "ann");
    let file = cloud.random_file("big", 64 << 20);
    cloud.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/big"]);
    let kept = session_of(&cloud, "ann");
    let text = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, format!("over_network = true\n{text}")).unwrap();
    let other = cloud.folder().join("other.toml");
    assert_eq!(log_in(&cloud, "ann", "correct horse", &other).code, 0);
    let mut reading = begin_reading(&cloud, &kept, "/big");
    let mut out = reading.stdout.take().unwrap();
    let mut read = vec![0];
    std::io::Read::read_exact(&mut out, &mut read).unwrap();

    // The other one ends itself. Its client has left the master by the time when the master hears of it.
    cloud.ok(&["--profile", other.to_str().unwrap(), "logout"]);
    poll_until("the node knows", || {
        let log = std::fs::read_to_string(cloud.home.join("sector.log")).unwrap_or_default();
        log.contains("the tickets of a user were revoked").then_some(())
    });
    std::io::Read::read_to_end(&mut out, &mut read).unwrap();
    let ended = ended(reading.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(read == std::fs::read(&file).unwrap());
}

// Promise 27.
#[test]
fn without_the_security_server_nobody_comes_in_and_a_transfer_under_way_goes_on() {
    let mut roles = Roles::start(1, 1);
    let file = roles.random_file("big", 32 << 20);
    roles.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/big"]);
    // As this profile says, over the network.
    let profile = roles.home.join("profile.toml");
    let mut reading = begin_reading(&roles, &profile, "/big");
    let mut out = reading.stdout.take().unwrap();
    std::io::Read::read_exact(&mut out, &mut [0]).unwrap();
    roles.kill("security");
    let errors = roles.fails(5, &["ls", "/"]);
    assert!(errors.contains("security server"), "{errors}");
    let new = roles.folder().join("new.toml");
    let login = ["login", "admin", "--password-stdin", "--profile", new.to_str().unwrap()];
    assert_eq!(with_input(roles.command(&login), "correct horse\n").code, 5);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut out, &mut rest).unwrap();
    assert_eq!(reading.wait().unwrap().code(), Some(0));
    assert_eq!(rest.len() + 1, 32 << 20);
    roles.run_role("security");
    roles.ok(&["ls", "/"]);
}

#[test]
fn a_disabled_user_is_out_and_a_service_account_comes_in_with_its_token_alone() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    cloud.ok(&["user", "add", "nightly", "--service"]);
    let profile = cloud.folder().join("nightly.toml");
    let file = profile.to_str().unwrap();
    cloud.ok(&["user", "token", "add", "nightly", "cron", "--life", "1d", "--write-profile", file]);
    assert_eq!(cloud.json(&["--profile", file, "whoami"])["user"], "nightly");
    cloud.ok(&["user", "disable", "nightly"]);
    cloud.fails(4, &["--profile", file, "whoami"]);
    cloud.ok(&["user", "enable", "nightly"]);
    cloud.ok(&["--profile", file, "whoami"]);
    cloud.ok(&["user", "token", "revoke", "nightly", "cron"]);
    cloud.fails(4, &["--profile", file, "whoami"]);
    cloud.fails(4, &["user", "remove", "admin"]);
    let passwd = with_input(cloud.command(&["user", "passwd", "nightly", "--password-stdin"]), "correct horse\n");
    assert_eq!(passwd.code, 4, "{}", passwd.errors);
}

/// Processes that run functions below a cloud's own process.
fn functions_of(cloud: &Cloud) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let top = cloud.node_pid("node-1");
    let is_below = |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| pid == top);
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_function = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(1) == Some(b"spe") && is_below(*pid)
    };
    pids.filter(is_function).collect()
}

// Promise 27.
#[test]
fn the_job_of_a_disabled_user_ends_within_ten_seconds_and_leaves_no_output() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    add_user(&cloud, "ann");
    let text = cloud.file("text", "some text\n");
    cloud.ok(&["put", "--copies", "1", text.to_str().unwrap(), "/text"]);
    cloud.ok(&["mkdir", "/ann"]);
    cloud.ok(&["acl", "set", "/ann", "user:ann:rwx"]);
    let source = "#include \"sector_udf.h\"\n\
        uint32_t sector_udf_abi_version(void) { return SECTOR_UDF_ABI_VERSION; }\n\
        int32_t spin(const sector_input *in, sector_output *out) { (void)in; (void)out; for (volatile int on = 1; on;) {} return 0; }\n";
    let udf = format!("{}:spin", cloud.compile("endless", source).display());
    let profile = session_of(&cloud, "ann");
    let words =
        ["--profile", profile.to_str().unwrap(), "run", "--udf", &udf, "--input", "/text", "--output", "/ann/out"];
    let running = cloud.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    poll_until("the function runs", || (!functions_of(&cloud).is_empty()).then_some(()));

    cloud.ok(&["user", "disable", "ann"]);
    let disabled = Instant::now();
    let ended = ended(running.wait_with_output().unwrap());
    assert_eq!(ended.code, 4, "{}", ended.errors);
    poll_until("the function is ended", || functions_of(&cloud).is_empty().then_some(()));
    assert!(disabled.elapsed() < Duration::from_secs(10), "{:?}", disabled.elapsed());
    cloud.fails(3, &["stat", "/ann/out"]);
}

// Promise 27.
#[test]
fn a_login_takes_the_cloud_from_the_usual_profile_and_never_loses_a_token() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    add_user(&cloud, "ann");
    let usual = cloud.home.join("profile.toml");
    let [ann, copy] = ["ann.toml", "copy.toml"].map(|name| cloud.folder().join(name));
    std::fs::copy(&usual, &copy).unwrap();
    // A new file, a copy of the usual one, and one with a session that is replaced by the next.
    for file in [&ann, &copy, &ann] {
        let words = ["login", "ann", "--password-stdin", "--profile", file.to_str().unwrap(), "--json"];
        let ended = with_input(cloud.command(&words), "correct horse\n");
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let you = cloud.json(&["--profile", file.to_str().unwrap(), "whoami"]);
        let logged_in: serde_json::Value = serde_json::from_str(&ended.text()).unwrap();
        assert_eq!((&logged_in["user"], &logged_in["session"]), (&you["user"], &you["session"]));
    }
    // A token that is nowhere else stays.
    let only = cloud.folder().join("only.toml");
    cloud.ok(&["user", "token", "add", "ann", "cron", "--write-profile", only.to_str().unwrap()]);
    for file in [&usual, &only] {
        let before = std::fs::read(file).unwrap();
        let words = ["login", "ann", "--password-stdin", "--profile", file.to_str().unwrap()];
        assert_eq!(with_input(cloud.command(&words), "correct horse\n").code, 2);
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
}

#[test]
fn passwords_change_and_a_new_clouds_administrator_cannot_be_locked_out_by_a_slip() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    add_user(&cloud, "ann");
    let passwd = |words: &[&str], input: &str| {
        with_input(cloud.command(&[&["user", "passwd", "--password-stdin"], words].concat()), input).code
    };
    let profile = session_of(&cloud, "ann");
    let as_ann = ["--profile", profile.to_str().unwrap()];
    assert_eq!(passwd(&as_ann, "wrong horse\nbattery staple\n"), 4);
    assert_eq!(passwd(&as_ann, "correct horse\nshort\n"), 2);
    assert_eq!(passwd(&as_ann, "correct horse\nbattery staple\n"), 0);
    assert_eq!(log_in(&cloud, "ann", "correct horse", &profile).code, 4);
    assert_eq!(passwd(&["ann"], "paper clip\n"), 0, "an administrator needs no old one");
    cloud.fails(4, &[&as_ann[..], &["whoami"]].concat());
    assert_eq!(log_in(&cloud, "ann", "paper clip", &profile).code, 0);

    cloud.fails(4, &["user", "set", "admin", "--address", "192.0.2.0/24"]);
    cloud.fails(4, &["user", "token", "revoke", "admin", "profile-1"]);
    // The administrator has none so far, and so none to give.
    assert_eq!(passwd(&[], "horse of the cloud\n"), 0);
    assert_eq!(passwd(&[], "horse of the cloud\nanother horse\n"), 0);
    cloud.ok(&["whoami"]);
}
