//! Logins that others decide, through the command line: a directory (`slapd`) and an OpenID Connect provider. Real
//! processes.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use cluster::{Ended, Roles};

use crate::{
    accounts::{cloud_of, log_in},
    op::Op,
    slapd::Slapd,
};

/// A cloud whose security server has read these lines before its settings, and these tables behind them.
fn cloud_with(lines: &str, tables: &str) -> Roles {
    let mut roles = Roles::start(1, 1);
    roles.kill("security");
    let settings = roles.role_folder("security").join("settings.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{lines}\n{text}\n{tables}\n")).unwrap();
    roles.run_role("security");
    roles
}

/// A directory of which the cloud asks every ten seconds who is still in it.
fn directory(slapd: &Slapd) -> String {
    let password = slapd.file("service.password");
    fs::write(&password, "secret of sector\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "[providers.staff]\nkind = \"ldap\"\nurls = [\"ldaps://localhost:{}\"]\nauthority = {:?}\n\
         user_base = \"ou=people,dc=example,dc=org\"\nbind_dn = \"cn=sector,dc=example,dc=org\"\n\
         bind_password_file = {password:?}\nadmin_group = \"cn=admins,ou=groups,dc=example,dc=org\"\n\
         recheck_seconds = 10\n\
         [providers.staff.groups]\n\"cn=astro,ou=groups,dc=example,dc=org\" = \"astro\"\n",
        slapd.tls_port,
        slapd.file("authority.pem"),
    )
}

/// `whoami` with a profile.
fn who(cloud: &Roles, profile: &Path) -> Ended {
    cloud.run(&["--profile", profile.to_str().unwrap(), "whoami", "--json"])
}

fn profile_of(cloud: &Roles, user: &str) -> PathBuf {
    let profile = cloud.folder().join(format!("{user}.toml"));
    let ended = log_in(cloud, user, &format!("secret of {user}"), &profile);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    profile
}

// Promise 44.
#[test]
fn a_directorys_users_come_in_with_its_groups_and_are_out_once_removed_there() {
    let mut slapd = Slapd::start();
    let cloud = cloud_with("provider_order = [\"staff\"]", &directory(&slapd));
    let alice = profile_of(&cloud, "alice");
    let you: serde_json::Value = serde_json::from_slice(&who(&cloud, &alice).out).unwrap();
    assert_eq!((&you["user"], &you["groups"][0], &you["admin"]), (&"alice".into(), &"astro".into(), &true.into()));
    let bob = profile_of(&cloud, "bob");
    let users = cloud.json(&["user", "list"]);
    let known: Vec<_> = users.as_array().unwrap().iter().map(|user| (&user["user"], &user["provider"])).collect();
    let staff = "staff".into();
    assert_eq!(known[1..], [(&"alice".into(), &staff), (&"bob".into(), &staff)]);
    assert!(users[0]["provider"].is_null(), "{users}");
    // Neither a wrong password nor the name of an account of the cloud's own.
    for (user, password) in [("bob", "secret of alice"), ("admin", "secret of alice"), ("nobody", "x")] {
        let ended = log_in(&cloud, user, password, &cloud.folder().join("none.toml"));
        assert_eq!(ended.code, 4, "{user}: {}", ended.errors);
    }
    slapd.remove("bob");
    cloud.until("he who left is out", |_| who(&cloud, &bob).code == 4);
    assert_eq!(who(&cloud, &alice).code, 0);
    slapd.stop();
    let ended = log_in(&cloud, "alice", "secret of alice", &cloud.folder().join("none.toml"));
    assert!(ended.code == 5 && ended.errors.contains("`staff` cannot be reached"), "{}", ended.errors);
    assert_eq!(who(&cloud, &alice).code, 0, "who is in stays in");
}

#[test]
fn a_person_logs_in_with_a_browser_and_out_again() {
    let op = Op::start();
    let tables = format!(
        "[providers.campus]\nkind = \"oidc\"\nissuer = {:?}\nclient_id = \"es256\"\nauthority = {:?}\n\
         suffix = \".campus\"\n[providers.campus.groups]\n\"astronomers\" = \"astro\"\n",
        op.issuer(),
        op.folder.path().join("authority.pem"),
    );
    let cloud = cloud_with("", &tables);
    let (master, authority) = cloud_of(&cloud);
    let profile = cloud.folder().join("alice.toml");
    let arguments = [
        "login",
        "--oidc",
        "--master",
        &master,
        "--authority",
        authority.to_str().unwrap(),
        "--profile",
        profile.to_str().unwrap(),
    ];
    let begin = || {
        let mut child = cloud.command(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut lines = String::new();
        (0..2).for_each(|_| assert_ne!(errors.read_line(&mut lines).unwrap(), 0, "{lines}"));
        let url = lines.lines().find_map(|line| line.strip_prefix("or open ")).expect("an address").to_owned();
        (child, errors, url)
    };
    let end = |mut child: std::process::Child, mut errors: BufReader<_>| {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        (child.wait().unwrap().code(), text)
    };
    let (child, errors, url) = begin();
    op.person(&url, &["alice", "deny"]);
    let (code, text) = end(child, errors);
    assert!(code == Some(4) && text.contains("denied") && !profile.exists(), "{text}");
    let (child, errors, url) = begin();
    op.person(&url, &["alice"]);
    let (code, text) = end(child, errors);
    assert_eq!(code, Some(0), "{text}");
    let you: serde_json::Value = serde_json::from_slice(&who(&cloud, &profile).out).unwrap();
    assert_eq!((&you["user"], &you["groups"][0]), (&"alice.campus".into(), &"astro".into()));
    cloud.ok(&["--profile", profile.to_str().unwrap(), "logout"]);
    assert_eq!(who(&cloud, &profile).code, 4);
}
