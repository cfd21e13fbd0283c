//! Hostile functions through the command line: each tries to get out of its sandbox, and its job says what became of
//! that. On a node as this machine lets it be, and on one whose kernel allows no namespaces.

use std::{fs, path::Path, process::Command};

use cluster::{Cloud, Roles};

// Promise 22.
#[test]
fn a_hostile_function_gets_nothing_and_its_job_names_function_slice_and_reason() {
    let cloud = cloud(&[]);
    let missing = cloud.json(&["nodes"])[0]["sandbox_missing"].to_string();
    if missing != "[]" {
        eprintln!("\n*** THIS MACHINE LACKS LAYERS OF THE SANDBOX: {missing} ***\n");
    }
    attack(&cloud);
}

// Promise 22.
#[test]
fn a_node_without_namespaces_says_so_everywhere_and_holds_with_what_is_left() {
    let behind = without_namespaces();
    let mut cloud = cloud(&behind);
    let nodes = cloud.json(&["nodes"]);
    let missing: Vec<_> =
        nodes[0]["sandbox_missing"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for layer in ["files", "network", "processes", "ipc"] {
        assert!(missing.contains(&layer), "{missing:?}");
    }
    let sentence = format!("the sandbox of node node-1 lacks: {};", missing.join(", "));
    let health = cloud.run(&["health"]);
    assert!(health.code == 1 && health.text().contains(&sentence), "{}", health.text());
    let doctor = cloud.command(&["doctor"]);
    let mut words = behind.iter().map(AsRef::as_ref).chain([doctor.get_program()]).chain(doctor.get_args());
    let mut command = Command::new(words.next().unwrap());
    let found = command.args(words).env("SECTOR_HOME", &cloud.home).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(found.contains(&format!("user functions run without: {}", missing.join(", "))), "{found}");
    attack(&cloud);
    cloud.kill("node-1");
    cloud.change("node-1", "spe_sandbox", "\"required\"");
    cloud.run_role("node-1");
    cloud.until_up(1);
    let refused = cloud.run(&["run", "--udf", "count", "--input", "/text", "--output", "/none"]);
    assert!(refused.code != 0 && refused.errors.contains("spe_sandbox"), "{}", refused.errors);
}

#[test]
fn a_job_whose_function_never_ends_is_cancelled_at_once() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1", "--processes"]);
    let text = cloud.file("text", "some text\n");
    cloud.ok(&["put", text.to_str().unwrap(), "/text"]);
    let udf = format!("{}:is_silent", cloud.compile("hostile", HOSTILE).display());
    let node = cloud.node_pid("node-1");
    let mut job = cloud.command(&["run", "--udf", &udf, "--input", "/text", "--output", "/never"]).spawn().unwrap();
    cloud.until("the job is at work", |cloud| cloud.json(&["jobs"])[0]["state"] == "running");
    let id = cloud.json(&["jobs"])[0]["id"].to_string();
    cloud.ok(&["job", id.trim_matches('"'), "--cancel"]);
    assert!(!job.wait().unwrap().success());
    assert_eq!(cloud.node_pid("node-1"), node, "the node did not notice");
    cloud.ok(&["run", "--udf", "count", "--input", "/text", "--output", "/counted"]);
}

/// Each function tries one thing. What was refused is its error, and ends its job; who succeeds returns 0.
const HOSTILE: &str = r#"
    #define _GNU_SOURCE
    #include <errno.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/socket.h>
    #include <unistd.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    static int32_t say(sector_output *output, long got, int failed) {
        char message[64];
        if (!failed) return 0;
        snprintf(message, sizeof message, "%s after %ld", strerrorname_np(errno), got);
        output->fail(output, SECTOR_NO_RECORD, message);
        return 1;
    }
    SECTOR_UDF_EXPORT int32_t reads(const sector_input *input, sector_output *output) {
        return say(output, 0, open(input->parameter(input, "target"), O_RDONLY) < 0);
    }
    SECTOR_UDF_EXPORT int32_t writes(const sector_input *input, sector_output *output) {
        return say(output, 0, open(input->parameter(input, "target"), O_CREAT | O_WRONLY, 0600) < 0);
    }
    SECTOR_UDF_EXPORT int32_t ends(const sector_input *input, sector_output *output) {
        return say(output, 0, kill(atoi(input->parameter(input, "target")), SIGKILL) < 0);
    }
    SECTOR_UDF_EXPORT int32_t speaks(const sector_input *input, sector_output *output) {
        (void)input;
        return say(output, 0, socket(AF_INET, SOCK_STREAM, 0) < 0);
    }
    SECTOR_UDF_EXPORT int32_t forks(const sector_input *input, sector_output *output) {
        long got = 0, most = atol(input->parameter(input, "target"));
        for (pid_t child = 0; got < most && (child = fork()) >= 0; got++) if (child == 0) for (;;) pause();
        return say(output, got, got < most);
    }
    SECTOR_UDF_EXPORT int32_t eats(const sector_input *input, sector_output *output) {
        long got = 0, most = atol(input->parameter(input, "target"));
        static char *taken[4096];
        for (; got < most; got++) {
            taken[got] = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (taken[got] == MAP_FAILED) break;
            memset(taken[got], 1, 1 << 20);
        }
        /* Who holds it all cannot even say so. */
        for (long at = 0; at < got; at++) munmap(taken[at], 1 << 20);
        return say(output, got, got < most);
    }
    SECTOR_UDF_EXPORT int32_t shouts(const sector_input *input, sector_output *output) {
        (void)input;
        output->fail(output, SECTOR_NO_RECORD, "\x1b[2Jroot# \x07");
        return 1;
    }
    SECTOR_UDF_EXPORT int32_t is_silent(const sector_input *input, sector_output *output) {
        (void)input;
        (void)output;
        for (;;) { }
    }
    SECTOR_UDF_EXPORT int32_t goes_on(const sector_input *input, sector_output *output) {
        (void)input;
        for (;;) output->progress(output, 0);
    }
"#;

/// A cloud of one node whose functions may have little and not take long.
fn cloud(behind: &[&str]) -> Roles {
    let mut cloud = Roles::start(1, 1);
    cloud.kill("node-1");
    cloud.change("node-1", "spe_memory_bytes", "134217728");
    cloud.change("node-1", "spe_silence_seconds", "3");
    cloud.change("node-1", "spe_task_seconds", "6");
    cloud.set_command_prefix("node-1", behind);
    cloud.run_role("node-1");
    cloud.until("the node has tried its sandbox", |cloud| !cloud.json(&["nodes"])[0]["sandbox_missing"].is_null());
    cloud.until_up(1);
    cloud
}

/// Has every function try to get out, and looks at what its job says of it.
fn attack(cloud: &Roles) {
    let (text, secret) = (cloud.file("text", "some text\n"), cloud.file("secret", "another user's\n"));
    cloud.ok(&["put", text.to_str().unwrap(), "/text"]);
    cloud.ok(&["put", secret.to_str().unwrap(), "/secret"]);
    let library = cloud.compile("hostile", HOSTILE);
    let data = cloud.role_folder("node-1");
    let place = |name: &str| {
        let found = Command::new("find").arg(&data).args(["-name", name, "-type", "f"]).output().unwrap();
        let text = String::from_utf8(found.stdout).unwrap();
        text.lines().next().unwrap_or_else(|| panic!("no {name} in {}", data.display())).to_owned()
    };
    let (slice, key, new) = (place("secret*"), place("*key*.pem"), cloud.folder().join("new"));
    // The control: for the node's user both are there and may be written, and there is room for more.
    for file in [Path::new(&slice), Path::new(&key), &new] {
        fs::File::options().read(true).write(true).create(true).truncate(false).open(file).unwrap();
    }
    fs::remove_file(&new).unwrap();
    let node = cloud.pid("node-1");
    let (memory, node_number) = (format!("/proc/{node}/mem"), node.to_string());
    let no_file: &[&str] = &["ENOENT after 0", "EACCES after 0", "EROFS after 0"];
    let attacks = [
        ("reads", &*slice, no_file),
        ("reads", &*key, no_file),
        ("reads", "/etc/passwd", no_file),
        ("reads", &*memory, no_file),
        ("writes", &*slice, no_file),
        ("writes", new.to_str().unwrap(), no_file),
        ("ends", &*node_number, &["EPERM after 0", "ESRCH after 0"]),
        ("speaks", "", &["EPERM after 0", "ENOSYS after 0"]),
        ("forks", "1000", &["EPERM after 0"]),
    ];
    for (function, target, refusals) in attacks {
        let said = refused(cloud, &library, function, target);
        assert!(refusals.contains(&&*said), "{function} {target}: {said}");
    }
    assert!(!new.exists());
    let said = refused(cloud, &library, "shouts", "");
    assert_eq!(said, "\u{fffd}[2Jroot# \u{fffd}", "no terminal is commanded by what a function says");
    let memory = refused(cloud, &library, "eats", "1000");
    let taken = memory.strip_prefix("ENOMEM after ").expect(&memory).parse::<u32>().unwrap();
    assert!(taken < 128, "{taken} MiB");
    for (function, limit) in [("is_silent", "spe_silence_seconds"), ("goes_on", "spe_task_seconds")] {
        let said = refused(cloud, &library, function, "");
        assert!(said.contains(limit), "{function}: {said}");
    }
    assert_eq!(cloud.pid("node-1"), node, "the node did not notice");
    cloud.ok(&["run", "--udf", "count", "--input", "/text", "--output", "/out"]);
    assert_eq!(cloud.ok(&["cat", "/secret"]), "another user's\n");
}

/// Runs a job whose function is refused what it wants; why, in the words of the job, which also name function and
/// slice.
fn refused(cloud: &Cloud, library: &Path, function: &str, target: &str) -> String {
    let (udf, target) = (format!("{}:{function}", library.display()), format!("target={target}"));
    let said = cloud.fails(1, &["run", "--udf", &udf, "--param", &target, "--input", "/text", "--output", "/out"]);
    cloud.fails(3, &["stat", "/out/part-00000"]);
    let where_and_what = format!("the function `{function}` failed on `/text`, segment 0: ");
    said.split_once(&where_and_what).unwrap_or_else(|| panic!("{target}: {said}")).1.trim().to_owned()
}

/// What the node runs behind where the kernel is to allow no namespaces; nothing where it does not anyway.
fn without_namespaces() -> Vec<&'static str> {
    let script =
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let words = vec!["unshare", "--map-root-user", "sh", "-c", script, "sh"];
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").status();
    if tried.is_ok_and(|tried| tried.success()) { words } else { Vec::new() }
}
