//! Tests the groups in a real tree of the kernel. It is the tree that [`TREE`] names, as in the machine of `cargo xtask
//! cgroups`, or this process's own if that is delegated. Without either, a test never passes silently: it says `NOT
//! TESTED`.
#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    slice,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{Cgroups, Confinement, NODE, OomFault};

/// A group for one test, with the groups in it; gone when dropped.
struct Tree(PathBuf);

impl Tree {
    /// `None` if there is nothing to test, which is then said.
    fn grow() -> Option<Self> {
        static PARENT: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| match env::var_os(TREE) {
            Some(named) => Ok(named.into()),
            None => Cgroups::find(None).map(|found| found.folder),
        });
        static GROWN: AtomicU32 = AtomicU32::new(0);
        let parent = PARENT.as_ref().inspect_err(|why| {
            // Not with `eprintln!`: the runner would hide the output of a test that passes.
            let _ = writeln!(io::stderr(), "\n*** NOT TESTED: {why} ***\n");
        });
        let number = GROWN.fetch_add(1, Ordering::Relaxed);
        let folder = parent.ok()?.join(format!("real-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Some(Self(folder))
    }

    fn groups(&self) -> Vec<PathBuf> {
        folders(&self.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        remove(&self.0);
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Removes a group and everything in it, once its killed processes are gone.
fn remove(folder: &Path) {
    folders(folder).iter().for_each(|group| remove(group));
    while fs::remove_dir(folder).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
        std::thread::yield_now();
    }
}

fn content(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap().trim().to_owned()
}

fn limits(memory_bytes: u64) -> Confinement {
    Confinement {
        user: None,
        read_paths: vec![],
        memory_bytes,
        scratch_bytes: 1 << 20,
        file_bytes: 0,
        threads: 10,
        open_files: 64,
        fork: false,
        starts_programs: false,
    }
}

/// Starts this program once more, in the role that [`ROLE`] names, connected by pipes. It begins when it is told.
fn helper(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "host::cgroup_limits::real::plays_a_role", "--nocapture"]).env(ROLE, role);
    command.env_remove(TREE).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn tell(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

/// What a helper said, once it has ended.
fn answer(child: Child) -> String {
    let output = BufReader::new(child.stdout.unwrap());
    // All of it, since a runner complains if its output is not read to the end.
    let lines: Vec<_> = output.lines().map_while(Result::ok).collect();
    lines.iter().find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned())).unwrap_or_default()
}

/// Not a test of its own: this is what [`helper`] starts.
#[test]
fn plays_a_role() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut word = [0];
    io::stdin().read_exact(&mut word).unwrap();
    let (role, argument) = role.split_once(' ').unwrap_or((&role, ""));
    match role {
        "waits" => drop(io::stdin().read_to_end(&mut vec![])),
        "takes" => {
            let taken = vec![1_u8; argument.parse().unwrap()];
            println!("{ANSWER}{}", std::hint::black_box(&taken)[0]);
        }
        "finds" => {
            let named = (!argument.is_empty()).then(|| Path::new(argument));
            let answer = match Cgroups::find(named).map(Arc::new) {
                Ok(groups) => match groups.make(&limits(64 << 20)).map(|group| content(&group.folder, "memory.max")) {
                    Ok(most) => format!("{} {most}", groups.folder.display()),
                    Err(error) => format!("no group was made: {error}"),
                },
                Err(why) => why,
            };
            println!("{ANSWER}{answer}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_kernel_takes_the_limits_and_a_process_and_its_end_ends_the_group() {
    let Some(tree) = Tree::grow() else { return };
    let groups = Arc::new(Cgroups::find(Some(&tree.0)).unwrap());
    let group = groups.make(&limits(64 << 20)).unwrap();
    let made = group.folder.clone();
    assert_eq!(content(&made, "memory.max"), ((64 + 1 + 32) << 20).to_string());
    assert_eq!((content(&made, "memory.oom.group"), content(&made, "pids.max")), ("1".into(), "12".into()));
    assert_eq!(content(&made, "memory.swap.max"), "0");
    let mut child = helper("waits").spawn().unwrap();
    group.add_process(child.id()).unwrap();
    assert_eq!(content(&made, "cgroup.procs"), child.id().to_string());
    assert_eq!(group.fault(), None);
    drop(group);
    // Nobody told it to end.
    assert!(!child.wait().unwrap().success());
    // The old group is gone at the latest when the node makes its next one.
    let next = groups.make(&limits(64 << 20)).unwrap();
    assert_eq!(tree.groups(), slice::from_ref(&next.folder));
}

#[test]
fn who_takes_more_than_the_group_has_is_ended_and_the_group_tells() {
    let Some(tree) = Tree::grow() else { return };
    let groups = Arc::new(Cgroups::find(Some(&tree.0)).unwrap());
    let group = groups.make(&limits(64 << 20)).unwrap();
    let (mut hog, mut other) =
        (helper(&format!("takes {}", 1_u64 << 30)).spawn().unwrap(), helper("waits").spawn().unwrap());
    group.add_process(hog.id()).unwrap();
    group.add_process(other.id()).unwrap();
    tell(&mut hog);
    assert_eq!(hog.wait().unwrap().to_string(), "signal: 9 (SIGKILL)");
    assert_eq!(other.wait().unwrap().to_string(), "signal: 9 (SIGKILL)", "all of it is one function's");
    assert_eq!(group.fault(), Some(OomFault::Own));
    let (peak, most) = (content(&group.folder, "memory.peak"), content(&group.folder, "memory.max"));
    assert!(peak.parse::<u64>().unwrap() <= most.parse().unwrap(), "{peak} of {most} bytes");
    let mut fits = helper(&format!("takes {}", 32 << 20)).spawn().unwrap();
    let group = groups.make(&limits(64 << 20)).unwrap();
    group.add_process(fits.id()).unwrap();
    tell(&mut fits);
    assert!(fits.wait().unwrap().success());
    assert_eq!(group.fault(), None);
}

#[test]
fn a_process_killed_for_memory_above_its_group_is_not_blamed_for_it() {
    let Some(tree) = Tree::grow() else { return };
    let groups = Arc::new(Cgroups::find(Some(&tree.0)).unwrap());
    // As `MemoryMax=` of a unit.
    fs::write(tree.0.join("memory.max"), (96 << 20).to_string()).unwrap();
    let group = groups.make(&limits(1 << 30)).unwrap();
    let mut hog = helper(&format!("takes {}", 512 << 20)).spawn().unwrap();
    group.add_process(hog.id()).unwrap();
    tell(&mut hog);
    assert_eq!(hog.wait().unwrap().to_string(), "signal: 9 (SIGKILL)");
    assert_eq!(group.fault(), Some(OomFault::OfOthers), "{}", content(&group.folder, "memory.events"));
}

#[test]
fn what_a_killed_node_left_goes_with_all_that_lives_in_it() {
    let Some(tree) = Tree::grow() else { return };
    let groups = Arc::new(Cgroups::find(Some(&tree.0)).unwrap());
    let (full, empty) = (tree.0.join("spe-1-1"), tree.0.join("spe-1-2"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&full).unwrap();
    let mut children: Vec<_> = (0..20).map(|_| helper("waits").spawn().unwrap()).collect();
    for child in &children {
        fs::write(full.join("cgroup.procs"), child.id().to_string()).unwrap();
    }
    drop(groups);
    let groups = Arc::new(Cgroups::find(Some(&tree.0)).unwrap());
    assert!(!empty.exists());
    for child in &mut children {
        assert!(!child.wait().unwrap().success());
    }
    // What was not gone at the start goes with the next group at the latest.
    let made = groups.make(&limits(64 << 20)).unwrap();
    assert_eq!(tree.groups(), slice::from_ref(&made.folder));
}

#[test]
fn a_node_that_is_alone_in_its_group_goes_into_one_of_its_own_there() {
    let Some(tree) = Tree::grow() else { return };
    let mut node = helper("finds").spawn().unwrap();
    fs::write(tree.0.join("cgroup.procs"), node.id().to_string()).unwrap();
    tell(&mut node);
    assert_eq!(answer(node), format!("{} {}", tree.0.display(), (64 + 1 + 32) << 20));
    assert_eq!(content(&tree.0, "cgroup.subtree_control"), "memory pids");
    assert!(tree.0.join(NODE).is_dir());
}

#[test]
fn a_tree_with_others_in_it_or_without_memory_is_refused() {
    let Some(tree) = Tree::grow() else { return };
    let mut other = helper("waits").spawn().unwrap();
    fs::write(tree.0.join("cgroup.procs"), other.id().to_string()).unwrap();
    let why = Cgroups::find(Some(&tree.0)).unwrap_err();
    assert_eq!(why, format!("the control group {} has other processes in it", tree.0.display()));
    other.kill().unwrap();
    other.wait().unwrap();
    fs::write(tree.0.join("cgroup.subtree_control"), "+pids").unwrap();
    let bare = tree.0.join("bare");
    fs::create_dir(&bare).unwrap();
    let why = Cgroups::find(Some(&bare)).unwrap_err();
    let message = format!("the control group {} does not have the controllers `memory` and `pids`", bare.display());
    assert_eq!(why, message);
    // Nothing was changed in either.
    assert_eq!(tree.groups(), slice::from_ref(&bare));
    assert_eq!(folders(&bare), Vec::<PathBuf>::new());
}

#[test]
fn the_group_in_which_the_machine_begins_is_refused() {
    let Some(_tree) = Tree::grow() else { return };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let root = super::group_of("0::/", &mounts).unwrap();
    let Err(why) = Cgroups::probe(Some(&root)) else { return };
    assert!(why.contains("has other processes in it") || why.contains("does not have the controllers"), "{why}");
}

#[test]
fn an_ordinary_user_is_told_of_a_tree_into_which_it_can_take_nothing() {
    let Some(tree) = Tree::grow() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Acts as an administrator who hands over a folder and starts the node elsewhere. The kernel moves a process only
    // for a user that may write in the common ancestor of both groups.
    for path in [tree.0.clone(), tree.0.join("cgroup.procs"), tree.0.join("cgroup.subtree_control")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut outside = helper(&format!("finds {}", tree.0.display()));
    let mut outside = outside.uid(NOBODY).gid(NOBODY).spawn().unwrap();
    tell(&mut outside);
    let why = answer(outside);
    assert!(why.contains("cannot be moved into it"), "{why}");
    // A helper started in it can use it.
    let mut inside = helper("finds");
    let mut inside = inside.uid(NOBODY).gid(NOBODY).spawn().unwrap();
    fs::write(tree.0.join("cgroup.procs"), inside.id().to_string()).unwrap();
    tell(&mut inside);
    assert_eq!(answer(inside), format!("{} {}", tree.0.display(), (64 + 1 + 32) << 20));
}

/// A control group of version 2 that is these tests' alone and gives its groups the controllers `memory` and `pids`.
const TREE: &str = "SECTOR_TEST_CGROUP";
/// The role of a helper.
const ROLE: &str = "SECTOR_TEST_CGROUP_ROLE";
/// The prefix of its answer.
const ANSWER: &str = "answer: ";
/// A user that owns nothing.
const NOBODY: u32 = 65534;
