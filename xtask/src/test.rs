//! Every test, in the order in which a failure is cheapest to find. A step installs what it needs and the machine
//! lacks. The tests themselves never install anything.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{crate_dependencies, package, promises, python, shell, simulate, tidy, web};

/// A step's name and what it runs.
type Step = (&'static str, fn() -> Result<(), String>);

/// All steps, in order.
const STEPS: &[Step] = &[
    ("fmt", || shell::cargo(&["fmt", "--all", "--check"])),
    ("arrows", crate_dependencies::run),
    ("tidy", tidy::run),
    ("clippy", clippy),
    ("install", install),
    ("unit", unit),
    ("docs", docs),
    ("release", build_release),
    ("sim", simulation),
    ("cluster", cluster),
    ("web", web::run),
    ("python", python::run),
    ("package", package::check),
    ("deny", deny),
    ("demo", demo),
];

/// `cargo xtask test [STEP…]`.
pub(crate) fn run(wanted: &[String]) -> Result<(), String> {
    if let Some(unknown) = wanted.iter().find(|name| !STEPS.iter().any(|(step, _)| step == name)) {
        let names: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no step `{unknown}`; the steps are {}", names.join(", ")));
    }
    let begun = Instant::now();
    let mut times = Vec::new();
    for (name, step) in STEPS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|step| step == name)) {
        println!("\n=== {name}");
        let begun = Instant::now();
        step().map_err(|message| format!("step `{name}`: {message}"))?;
        times.push(format!("{name} {:.0} s", begun.elapsed().as_secs_f64()));
    }
    println!("\nall steps passed in {:.0} s: {}", begun.elapsed().as_secs_f64(), times.join(", "));
    println!("{} passed, 0 failed", times.len());
    Ok(())
}

/// Lints, warnings denied.
pub(crate) fn clippy() -> Result<(), String> {
    shell::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"])
}

/// Writes the pages that are generated from the code.
pub(crate) fn write_references() -> Result<(), String> {
    let mut command = cargo();
    let packages = ["sector-daemon", "sector-gateway", "sector", "sector-oct", "sector-astroportal", "sector-graywulf"]
        .into_iter()
        .flat_map(|package| ["--package", package]);
    command.args(["test", "--quiet"]).args(packages).arg("reference").env("UPDATE_REFERENCE", "1");
    shell::run(command)?;
    promises::write()
}

/// Side-by-side measurements.
pub(crate) fn bench(arguments: &[String]) -> Result<(), String> {
    if let Some(("memory", rest)) = arguments.split_first().map(|(what, rest)| (what.as_str(), rest)) {
        // The memory that names take in the master: this needs no cloud, and `sector-bench` uses none of our roles.
        let mut command = vec!["run", "--release", "--package", "sector-master", "--example", "names", "--"];
        command.extend(rest.iter().map(String::as_str));
        return shell::cargo(&command);
    }
    // Messages alone are measured without a cloud; beside others, by the release build.
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has("compare") || !has("messages") {
        build_release()?;
    }
    let mut command = cargo();
    command
        .args(["run", "--release", "--quiet", "--package", "sector-bench", "--"])
        .args(arguments)
        .env("SECTOR", binary());
    shell::run(command)
}

/// The identity providers that logins are tested against: a directory (`slapd`), and an OpenID Connect provider for
/// Node.js. And systemd's tools, which read the units of the Debian package, and a browser. Tests fail where they are missing, and
/// never install anything themselves.
fn install() -> Result<(), String> {
    let missing = [
        (SLAPD, &["slapd"][..]),
        (LDAP_TOOLS, &["ldap-utils"]),
        (NPM, &["nodejs", "npm"]),
        (SYSTEMD, &["systemd"]),
        (CHROMIUM, &["chromium"]),
        (PROMTOOL, &["prometheus"]),
        (RCLONE, &["rclone"]),
        (S3CMD, &["s3cmd"]),
        (STILTS, &["stilts"]),
        (OPENSSL, &["openssl"]),
        (CURL, &["curl"]),
        (LITMUS, &["litmus"]),
        (CADAVER, &["cadaver"]),
        (DAVIX, &["davix"]),
        (XROOTD, &["xrootd-server", "xrootd-server-plugins"]),
    ];
    let missing: Vec<_> = missing.iter().filter(|(file, _)| !Path::new(file).exists()).collect();
    if !missing.is_empty() {
        let apt = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            // Debian would start a server of its own; the tests start theirs.
            command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
            shell::run(command)
        };
        apt(&["update", "--quiet"])?;
        let packages = missing.iter().flat_map(|(_, packages)| packages.iter().copied());
        let install = ["install", "--quiet", "--yes", "--no-install-recommends"];
        apt(&install.into_iter().chain(packages).collect::<Vec<_>>())?;
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "tests/oidc"]);
    shell::run(command)
}

/// Unit and documentation tests of every crate but those that need the binary, and the simulation. What is built once, the
/// SQL engine, is tested as it is released.
fn unit() -> Result<(), String> {
    let others = ["sector-tests", "sector-sim", "sector-graywulf"].into_iter().flat_map(|name| ["--exclude", name]);
    let words: Vec<_> = ["test", "--workspace", "--locked"].into_iter().chain(others).collect();
    shell::cargo(&words)
}

/// The simulation, and what is tested as it is released: its own tests, which plant faults for it to find, and many seeds.
/// Unoptimised, they take three times as long as all other tests.
fn simulation() -> Result<(), String> {
    shell::cargo(&[&["test", "--release", "--locked", "--lib"][..], &RELEASED].concat())?;
    simulate::run_built(&["--seeds", SEEDS])
}

/// The documentation, warnings denied. Heads of files may link to private items, since they are read with the code.
fn docs() -> Result<(), String> {
    let mut command = cargo();
    let flags = "--deny warnings --allow rustdoc::private_intra_doc_links";
    command.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", flags);
    shell::run(command)
}

/// Builds `sector`, the programs that its commands find beside it, and the simulation.
pub(crate) fn build_release() -> Result<(), String> {
    shell::cargo(&[&["build", "--release", "--locked"][..], &RELEASED].concat())?;
    let bytes = fs::metadata(binary()).map_err(|error| format!("{}: {error}", binary().display()))?.len();
    println!("  sector has {:.1} MB", bytes as f64 / 1e6);
    if bytes > BINARY_BYTES_MAX {
        return Err(format!("`sector` has {bytes} bytes, more than {BINARY_BYTES_MAX}: what has come into it?"));
    }
    Ok(())
}

/// Real processes with real faults, and the papers' claims.
fn cluster() -> Result<(), String> {
    let mut command = cargo();
    command.args(["test", "--locked", "--package", "sector-tests", "--", "--test-threads", CLOUDS_AT_ONCE]);
    command.env("SECTOR", binary());
    shell::run(command)
}

/// Licences and duplicate or yanked crates.
fn deny() -> Result<(), String> {
    if !shell::has("cargo", &["deny", "--version"]) {
        // Unoptimised it takes a second longer, and a third of the time to build.
        shell::cargo(&["install", "cargo-deny", "--locked", "--quiet", "--debug"])?;
    }
    shell::cargo(&["deny", "check", "licenses", "bans"])
}

/// The tour at a small size.
fn demo() -> Result<(), String> {
    let mut command = Command::new(binary());
    command.args(["demo", "--records", "200000", "--input"]).arg(shell::root().join("crates"));
    shell::run(command)
}

/// The release binary.
pub(crate) fn binary() -> PathBuf {
    program("sector")
}

/// A program that was built for a release.
pub(crate) fn program(name: &str) -> PathBuf {
    target().join("release").join(name)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from)
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What is built for a release. The same each time: by itself, each would be built with fewer features of its dependencies.
const RELEASED: [&str; 10] = [
    "--package",
    "sector",
    "--package",
    "sector-oct",
    "--package",
    "sector-astroportal",
    "--package",
    "sector-graywulf",
    "--package",
    "sector-sim",
];
/// Most bytes of the binary that a user installs, with the web door and `sector top`. Two million are for WebDAV and the
/// client for HTTP that third-party copies have.
const BINARY_BYTES_MAX: u64 = 42_000_000;
/// The directory server of Debian's package.
const SLAPD: &str = "/usr/sbin/slapd";
/// One of the tools that come with it.
const LDAP_TOOLS: &str = "/usr/bin/ldapdelete";
/// The package manager of Node.js.
const NPM: &str = "/usr/bin/npm";
/// The tool that reads alert rules.
const PROMTOOL: &str = "/usr/bin/promtool";
/// Clients of S3.
const RCLONE: &str = "/usr/bin/rclone";
const S3CMD: &str = "/usr/bin/s3cmd";
/// A client of tables of the Virtual Observatory, and a judge of services.
const STILTS: &str = "/usr/bin/stilts";
/// What makes certificates for tests of workers, and what sends them requests of its own making.
const OPENSSL: &str = "/usr/bin/openssl";
const CURL: &str = "/usr/bin/curl";
/// What speaks WebDAV, and another storage element.
const LITMUS: &str = "/usr/bin/litmus";
const CADAVER: &str = "/usr/bin/cadaver";
const DAVIX: &str = "/usr/bin/davix-get";
const XROOTD: &str = "/usr/bin/xrootd";
/// The browser for the web page.
const CHROMIUM: &str = "/usr/bin/chromium";
/// The tool that reads units.
const SYSTEMD: &str = "/usr/bin/systemd-analyze";
/// Tests with real processes that run at once. They mostly wait: for leases, retries and lost nodes.
const CLOUDS_AT_ONCE: &str = "6";
/// Seeds of the simulation in this run; a night's run takes more.
const SEEDS: &str = "200";
