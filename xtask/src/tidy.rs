//! House rules that no compiler checks (`CONTRIBUTING.md`). Each rule is one function from a file's text to its
//! violations, and each is tested on a text that breaks it. It never changes a file.

use std::fs;

use walkdir::WalkDir;

use crate::{
    circles, crate_dependencies, links, promises, prose,
    shell::root,
    vocabulary::{self, Page},
};

/// Files that may hold `unsafe`, each with the reason why nothing safe would do.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/udf/src/abi.rs", "the C interface of user functions"),
    ("crates/spe/src/child/function.rs", "calls user functions through the C interface"),
    ("crates/spe/src/child/mapped_part.rs", "maps a slice into the SPE"),
    ("crates/spe/src/sandbox/system.rs", "fork, namespaces and mounts have no safe form"),
    ("crates/net/src/datagram/batch.rs", "many datagrams in one call of the system, which no safe library has"),
    ("crates/net/src/transfer/tcp_info.rs", "what the system knows of a connection, which no safe library reads"),
    ("crates/measure/src/messages/zeromq.rs", "calls ZeroMQ's C library where it is installed"),
    ("crates/net/tests/session_memory.rs", "an allocator that counts"),
    ("crates/master/tests/watching.rs", "an allocator that counts"),
    ("crates/testbed/src/system.rs", "namespaces, TUN devices and interfaces have no safe form"),
    ("bench/src/sort.rs", "the reference sort maps its input"),
    ("bench/src/ratios.rs", "the reference pass of MalStone maps its input"),
];

/// Test modules in files of their own outside `tests/`, each with what it does there that rules may not.
const TEST_FILES: &[(&str, &str)] =
    &[("crates/protocol/src/message/vectors.rs", "writes the vectors anew when it is asked to")];
/// Files that may sleep, each with the reason why there is nothing to wait for.
const SLEEPING_FILES: &[(&str, &str)] = &[
    ("bench/src/healing.rs", "watches another process from outside"),
    ("bench/src/compare/service.rs", "watches another process from outside"),
    ("bench/src/strangers.rs", "measures once the first ten seconds of strangers are over"),
];

/// Checks every source file and the dependencies between crates.
pub(crate) fn run() -> Result<(), String> {
    crate_dependencies::run()?;
    let pages = pages()?;
    let sources = pages.iter().filter(|page| page.path.ends_with(".rs"));
    let mut wrong: Vec<String> = sources.flat_map(|page| violations(&page.path, &page.text)).collect();
    wrong.extend(vocabulary::violations(&pages));
    wrong.extend(prose::violations(&pages));
    wrong.extend(links::violations(&pages));
    wrong.extend(promises::violations(&pages));
    wrong.extend(circles::violations(&pages));
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} things are untidy\n{}", wrong.len(), wrong.join("\n"))) }
}

/// All files whose words count.
pub(crate) fn pages() -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    for item in WalkDir::new(root()).into_iter().filter_entry(|item| !is_skipped(item.file_name().to_str())) {
        let item = item.map_err(|error| error.to_string())?;
        let path = item.path().strip_prefix(root()).unwrap_or(item.path()).to_string_lossy().into_owned();
        if !WORDED.iter().any(|ending| path.ends_with(ending)) {
            continue;
        }
        let text = fs::read_to_string(item.path()).map_err(|error| format!("{path}: {error}"))?;
        pages.push(Page { path, text });
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

/// All that is wrong with one file.
fn violations(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut say = |line: usize, what: &str| faults.push(format!("{path}:{line}: {what}"));
    if !text.trim_start().starts_with("//!") {
        say(1, "the file has no head: say what it is for and what it must never do");
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        say(lines, "the file is a drawer: more than 800 lines");
    }
    let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    if FORBIDDEN_NAMES.contains(&name) {
        say(1, "this name says nothing: call the file by the noun of its main type");
    }
    let is_rule = path.starts_with("crates/protocol/") || path.starts_with("crates/sphere/");
    let is_named_in = |files: &[(&str, &str)]| files.iter().any(|(file, _)| *file == path);
    let allowed_unsafe = is_named_in(UNSAFE_FILES);
    let may_sleep = is_named_in(SLEEPING_FILES);
    let mut in_tests = path.contains("tests/") || is_named_in(TEST_FILES);
    // With a simulated clock, a sleep only advances that clock.
    let paused = text.contains("start_paused = true");
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let code = line.split("//").next().unwrap_or_default();
        // A test module in the same file reaches to the file's end; one in another file does not.
        let next = lines.peek().map_or("", |(_, line)| line);
        in_tests |= line.starts_with("#[cfg(test)]") && next.ends_with('{');
        if code.contains(concat!("un", "safe_code)")) && !code.contains("deny") && !allowed_unsafe {
            say(number, "this file is not among those that may hold unsafe code (xtask/src/tidy.rs)");
        }
        if MARKS.iter().any(|mark| line.contains(mark)) {
            say(number, "unfinished: finish it, or write an issue");
        }
        // A module that several test programs include is not used completely by each.
        if code.contains(concat!("allow(dead", "_code")) && !path.contains("tests/") {
            say(number, "dead code is deleted, not silenced");
        }
        let is_asleep = code.contains(concat!("thread::", "sleep"))
            || (in_tests && !paused && code.contains(concat!("time::", "sleep(")));
        if is_asleep && !may_sleep {
            say(number, "a sleep: wait for what you wait for");
        }
        if is_rule && !in_tests && IMPURE.iter().any(|call| code.contains(call)) {
            say(number, "rules are pure: no sockets, files, clock or runtime here");
        }
    }
    faults
}

fn is_skipped(name: Option<&str>) -> bool {
    matches!(name, Some("target" | ".git" | "corpus" | "artifacts" | "node_modules"))
}

/// Files that the vocabulary check reads: sources, and the documents that name them.
const WORDED: &[&str] = &[".rs", ".md", ".py", ".c"];
/// Longest file in lines.
const FILE_LINES_MAX: usize = 800;
/// Names of files that say nothing.
const FORBIDDEN_NAMES: &[&str] =
    &["util", "utils", "common", "misc", "helper", "helpers", "manager", "data", "info", "types", "functions_impl"];
/// Marks of unfinished work (written apart, so that this file is tidy itself).
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];
/// What a pure crate does not call.
const IMPURE: &[&str] =
    &["std::fs", "std::net::Tcp", "std::net::Udp", "Instant::now", "SystemTime::now", "tokio::", "std::thread"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        assert_eq!(run(), Ok(()));
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let cases = [
            ("crates/net/src/x.rs", "fn a() {}\n".to_owned(), "no head"),
            ("crates/net/src/util.rs", "//! x\n".to_owned(), "says nothing"),
            ("crates/net/src/x.rs", format!("//! x\n{}", "\n".repeat(801)), "drawer"),
            ("crates/net/src/x.rs", format!("//! x\n#![allow({}safe_code)]\n", "un"), "among those"),
            ("crates/net/src/x.rs", format!("//! x\n// TO{}: later\n", "DO"), "unfinished"),
            ("crates/net/src/x.rs", format!("//! x\n#[allow(dead{})]\n", "_code"), "deleted"),
            ("crates/net/src/x.rs", format!("//! x\nstd::thread::{}(d);\n", "sleep"), "a sleep"),
            ("crates/sphere/src/x.rs", "//! x\nlet now = Instant::now();\n".to_owned(), "pure"),
        ];
        for (path, text, what) in cases {
            let found = violations(path, &text);
            assert!(found.len() == 1 && found[0].contains(what), "{path} {text:?}: {found:?}");
        }
        assert_eq!(violations("crates/net/src/x.rs", "//! x\nfn a() {}\n"), Vec::<String>::new());
    }
}
