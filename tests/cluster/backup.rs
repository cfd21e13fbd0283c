//! Backups with real processes: taken while files are written, put back over what was lost, refused where they are of
//! no use. What an operator does in which case is run from the page itself in `operations.rs`.

use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use cluster::{Cloud, SmallDisk, ended, poll_until, random_bytes};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Takes a backup of the cloud's two roles and says where it is.
fn backup(cloud: &Cloud, to: &Path) -> PathBuf {
    let taken = cloud.json(&["backup", text(to), "--folder", text(&cloud.folder().join("data"))]);
    assert_eq!(taken["parts"].as_array().unwrap().len(), 2, "{taken}");
    PathBuf::from(taken["backup"].as_str().unwrap())
}

fn settled(cloud: &Cloud) {
    cloud.until("the names are rebuilt", |cloud| cloud.json(&["rebuild", "status"])["state"] == "settled");
}

/// Every file below a folder, with its digest; of the embedded store's, which notes when it was opened, the name alone.
fn files_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match item.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_below(&item.path())),
            kind if kind.is_file() => {
                let is_store = item.path().extension().is_some_and(|end| end == "redb");
                let bytes = if is_store { Vec::new() } else { fs::read(item.path()).unwrap() };
                found.push((item.path(), blake3::hash(&bytes).to_hex().to_string()));
            }
            _ => {}
        }
    }
    found.sort();
    found
}

#[test]
fn without_a_folder_the_cloud_that_runs_here_is_backed_up_wherever_its_data_are() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    assert_ne!(cloud.data(), cloud.home.join("data"));
    let taken = cloud.json(&["backup", text(&cloud.folder().join("backups"))]);
    let folders: Vec<_> =
        taken["parts"].as_array().unwrap().iter().map(|part| part["folder"].as_str().unwrap()).collect();
    assert!(folders.len() == 2 && folders.iter().all(|folder| Path::new(folder).starts_with(cloud.data())), "{taken}");
    let examined = cloud.run(&["doctor"]).text();
    assert!(examined.contains(text(cloud.data())), "{examined}");
}

// Promise 63.
#[test]
fn a_backup_taken_under_load_is_put_back_and_costs_no_file_that_was_written_since() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let (old, new) = (cloud.random_file("old", 100_000), cloud.random_file("new", 120_000));
    for path in ["/kept", "/changed", "/gone"] {
        cloud.ok(&["put", text(&old), path]);
    }
    cloud.ok(&["put", text(&old), "/early/f"]);
    let backups = cloud.folder().join("backups");
    let (is_over, written) = (AtomicBool::new(false), &mut Vec::new());
    let taken = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut paths = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let path = format!("/load/{}", paths.len());
                cloud.ok(&["put", text(&new), &path]);
                paths.push(path);
            }
            paths
        });
        cloud.until("files are being written", |cloud| cloud.run(&["stat", "/load/1"]).code == 0);
        let taken = [backup(&cloud, &backups), backup(&cloud, &backups)];
        is_over.store(true, Ordering::Relaxed);
        *written = writer.join().unwrap();
        taken
    });
    assert_ne!(taken[0], taken[1], "each has a folder of its own");
    for (file, _) in files_below(&backups) {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    assert_eq!(fs::metadata(&taken[0]).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(cloud.json(&["backup", "--check", text(&taken[0])])["backup"], text(&taken[0]));

    // After the backup: written, written over, renamed, removed, made private, limited.
    cloud.ok(&["put", text(&new), "/changed"]);
    cloud.ok(&["put", text(&new), "/late"]);
    cloud.ok(&["mv", "/early", "/moved"]);
    cloud.ok(&["rm", "--now", "/gone"]);
    cloud.ok(&["mkdir", "/private"]);
    cloud.ok(&["acl", "set", "/private", "user:admin:rwxa"]);
    cloud.ok(&["quota", "set", "admin", "bytes=1TB"]);
    let acl = cloud.json(&["acl", "get", "/private"]);
    // What was on its way to a node at one change has arrived when it writes for the next but one.
    for last in ["/last", "/last/but", "/last/but/one"] {
        let begun = std::time::SystemTime::now();
        cloud.ok(&["mkdir", last]);
        cloud.until("every node keeps the folders", |cloud| {
            let kept = |node: u32| cloud.node_folder(&format!("node-{node}")).join("kept.redb");
            (1..=2).all(|node| fs::metadata(kept(node)).is_ok_and(|kept| kept.modified().unwrap() > begun))
        });
    }

    let restore = ["restore", text(&backups), "--role", "master"];
    let errors = cloud.fails(4, &restore);
    assert!(errors.contains("runs; stop it first"), "{errors}");
    cloud.down();
    let data = cloud.folder().join("data/master");
    let before = files_below(&data);
    cloud.ok(&[&restore[..], &["--check"]].concat());
    assert_eq!(files_below(&data), before, "a check changes nothing");
    let done = cloud.json(&restore);
    assert_eq!(done["backup"], text(&taken[1]), "the newest");
    let aside = PathBuf::from(done["parts"][0]["aside"][0].as_str().unwrap());
    assert!(aside.starts_with(&data) && aside.exists(), "what was there is put aside");
    cloud.up();
    settled(&cloud);
    for path in written.iter().map(String::as_str).chain(["/changed", "/late"]) {
        assert_eq!(cloud.run(&["cat", path]).out, random_bytes(120_000), "{path}");
    }
    for path in ["/kept", "/moved/f"] {
        assert_eq!(cloud.run(&["cat", path]).out, random_bytes(100_000), "{path}");
    }
    assert_eq!(cloud.json(&["acl", "get", "/private"]), acl);
    assert!(cloud.ok(&["quota", "list", "--json"]).contains("1000000000000"));
    // Removed for good since the backup: a name without bytes, which is listed and goes when an administrator says so.
    cloud.until("the name is listed", |cloud| {
        let conflicts = &cloud.json(&["rebuild", "status"])["conflicts"];
        let listed = conflicts.as_array().unwrap().iter().map(|conflict| (&conflict["path"], &conflict["kind"]));
        listed.eq([(&Value::from("/gone"), &Value::from("no-bytes"))])
    });
    cloud.fails(5, &["cat", "/gone"]);
    let health = cloud.run(&["health"]).text();
    assert!(health.contains("no node has its bytes"), "{health}");
    cloud.ok(&["rebuild", "dismiss", "--all"]);
    cloud.fails(3, &["stat", "/gone"]);
    assert_eq!(cloud.json(&["rebuild", "status"])["conflicts"], Value::Array(vec![]));
}

#[test]
fn a_restored_security_server_admits_nobody_by_old_sessions_and_says_what_happened() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.file("f", "content");
    cloud.ok(&["put", text(&file), "/f"]);
    let password = cloud.file("password", "correct horse battery\n");
    let add = |user: &str| {
        let mut command = cloud.command(&["user", "add", user, "--password-stdin"]);
        let ended = ended(command.stdin(fs::File::open(&password).unwrap()).output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
    };
    add("ann");
    let profile = cloud.folder().join("ann.toml");
    fs::copy(cloud.home.join("profile.toml"), &profile).unwrap();
    let login = ["--profile", text(&profile), "login", "ann", "--password-stdin"];
    let ended = ended(cloud.command(&login).stdin(fs::File::open(&password).unwrap()).output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    cloud.ok(&["--profile", text(&profile), "whoami"]);
    let backups = cloud.folder().join("backups");
    backup(&cloud, &backups);
    add("bob");
    cloud.down();
    let data = cloud.folder().join("data/security");
    fs::write(data.join("accounts.redb"), "a disk that went wrong").unwrap();
    let key = fs::read(data.join("authority.key")).unwrap();
    fs::remove_file(data.join("authority.key")).unwrap();
    assert_ne!(cloud.try_up().code, 0);
    cloud.ok(&["restore", text(&backups), "--role", "security"]);
    assert_eq!(fs::read(data.join("authority.key")).unwrap(), key);
    assert_eq!(fs::metadata(data.join("authority.key")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(data.join("accounts.redb.aside-1")).unwrap(), b"a disk that went wrong");
    cloud.up();
    assert_eq!(cloud.ok(&["cat", "/f"]), "content");
    let users = cloud.ok(&["user", "list", "--json"]);
    assert!(users.contains("\"ann\"") && !users.contains("\"bob\""), "{users}");
    // Her session may have been revoked since the backup; nobody knows.
    let port = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let address = port.lines().find(|line| line.starts_with("address")).unwrap().to_owned();
    let of_ann = fs::read_to_string(&profile).unwrap();
    let lines: Vec<_> = of_ann.lines().map(|line| if line.starts_with("address") { &address } else { line }).collect();
    fs::write(&profile, lines.join("\n")).unwrap();
    cloud.fails(4, &["--profile", text(&profile), "whoami"]);
    // The record has what happened after the backup, and that it is undone.
    let shown = cloud.ok(&["audit", "show", "--json"]);
    assert!(shown.contains("bob") && shown.contains("restore the accounts from a backup"), "{shown}");
    cloud.ok(&["audit", "verify"]);
}

// Promise 64.
#[test]
fn what_is_no_good_backup_is_refused_and_nothing_is_touched() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let backups = cloud.folder().join("backups");
    let data = cloud.folder().join("data");
    let good = backup(&cloud, &backups);
    let listed = |folder: &Path| fs::read_dir(folder).unwrap().count();
    // Nothing of a role there, or nothing at all.
    let empty = cloud.folder().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(cloud.fails(3, &["backup", text(&backups), "--folder", text(&empty)]).contains("neither"));
    cloud.fails(3, &["backup", text(&backups), "--folder", "/no/such/folder"]);
    assert_eq!(listed(&backups), 1, "and nothing half-done is left");
    cloud.down();
    // A stopped cloud is backed up too.
    backup(&cloud, &cloud.folder().join("stopped"));

    let before = files_below(&data);
    let said = |code: i32, from: &Path, what: &str| {
        let errors = cloud.fails(code, &["restore", text(from)]);
        assert!(errors.contains(what), "{errors}");
        assert_eq!(files_below(&data), before, "nothing was touched: {what}");
    };
    said(3, Path::new("/no/such/folder"), "cannot look for a backup");
    said(3, &empty, "there is no backup");
    let bad = |name: &str, change: &dyn Fn(&Path)| {
        let copy = cloud.folder().join(name);
        let status = std::process::Command::new("cp").arg("-r").arg(&good).arg(&copy).status().unwrap();
        assert!(status.success());
        change(&copy);
        copy
    };
    let flip = |file: PathBuf| {
        let mut bytes = fs::read(&file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(file, bytes).unwrap();
    };
    let altered = bad("altered", &|copy| flip(copy.join("master/rows")));
    said(6, &altered, "is not what was written");
    cloud.fails(6, &["backup", "--check", text(&altered)]);
    said(6, &bad("lacking", &|copy| fs::remove_file(copy.join("security/files/authority.key")).unwrap()), "is missing");
    said(6, &bad("renamed", &|copy| flip(copy.join("manifest.json"))), "is not what was written");
    // The manifest's second line is nobody's secret: a later version writes it too.
    let later = bad("later", &|copy| {
        let file = copy.join("manifest.json");
        let line = fs::read_to_string(&file).unwrap().lines().next().unwrap().replace("\"format\":1", "\"format\":9");
        fs::write(file, format!("{line}\n{}\n", blake3_of(&line))).unwrap();
    });
    said(4, &later, "use that version or a newer one");

    let other = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    other.down();
    let theirs = other.folder().join("data/master");
    let before = files_below(&theirs);
    let errors = cloud.fails(4, &["restore", text(&good), "--role", "master", "--folder", text(&theirs)]);
    assert!(errors.contains("another cloud"), "{errors}");
    assert_eq!(files_below(&theirs), before);
    cloud.fails(2, &["restore", text(&good), "--folder", text(&theirs)]);
}

// Promise 62.
#[test]
fn a_backup_that_is_broken_off_or_finds_no_room_leaves_nothing_behind() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let backups = cloud.folder().join("backups");
    // A role that tells the half of it, and then no more.
    let silent = cloud.folder().join("silent");
    fs::create_dir(&silent).unwrap();
    for name in ["journal.redb", "authority.pem"] {
        fs::copy(cloud.folder().join("data/master").join(name), silent.join(name)).unwrap();
    }
    let socket = UnixListener::bind(silent.join("backup.sock")).unwrap();
    let words = ["backup", text(&backups), "--folder", text(&silent)];
    let child = cloud.command(&words).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut told, _) = socket.accept().unwrap();
    told.write_all(b"SROW\x01\x01\x00\x00").unwrap();
    let _seen = poll_until("it writes what it heard", || fs::read_dir(&backups).ok()?.next());
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let ended = ended(child.wait_with_output().unwrap());
    assert!(ended.code == 130 && ended.errors.contains("nothing half-done is left"), "{ended:?}");
    assert_eq!(fs::read_dir(&backups).unwrap().count(), 0);

    // One that was killed is swept away by the next.
    fs::create_dir(backups.join(".unfinished-1")).unwrap();
    backup(&cloud, &backups);
    assert_eq!(fs::read_dir(&backups).unwrap().count(), 1);

    let small = cloud.folder().join("small");
    fs::create_dir(&small).unwrap();
    let Some(_disk) = SmallDisk::mount(&small, "32k") else { return };
    let errors = cloud.fails(5, &["backup", text(&small), "--folder", text(&cloud.folder().join("data"))]);
    assert!(errors.contains("no room"), "{errors}");
    assert_eq!(fs::read_dir(&small).unwrap().count(), 0);
}

/// The BLAKE3 of a text, in hexadecimal.
fn blake3_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
