//! Vocabulary checks (`docs/glossary.md`). Names for which the field has a better word are refused. Outside tests,
//! the name of a public type occurs once in the workspace. What documents name must exist. It never changes a file.

use std::collections::{BTreeMap, BTreeSet};

/// A source file or a document: its path from the root, and its text.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All vocabulary violations of these files.
pub(crate) fn violations(pages: &[Page]) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages.iter().filter(|page| page.path.ends_with(".rs")) {
        found.extend(refused_names(page));
    }
    found.extend(repeated_types(pages));
    found.extend(dead_references(pages));
    found
}

/// Definitions whose name the field does not use.
fn refused_names(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        for (_, name) in definitions(line) {
            if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                found.push(format!("{}:{number}: `{name}` is a word of our own: say `{instead}`", page.path));
            }
        }
    }
    found
}

/// Public types that have the same name as another one.
fn repeated_types(pages: &[Page]) -> Vec<String> {
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.path.ends_with(".rs") && !is_test(&page.path)) {
        let public = page.text.lines().filter(|line| line.trim_start().starts_with("pub ")).flat_map(definitions);
        let is_type = |(keyword, name): &(&str, &str)| TYPES.contains(keyword) && name.starts_with(char::is_uppercase);
        for (_, name) in public.filter(is_type) {
            places.entry(name).or_default().insert(&page.path);
        }
    }
    let repeated = places.into_iter().filter(|(_, paths)| paths.len() > 1);
    repeated
        .map(|(name, paths)| {
            let paths: Vec<_> = paths.into_iter().collect();
            format!("{}:1: the type `{name}` stands in {} too: one name, one thing", paths[0], paths[1..].join(", "))
        })
        .collect()
}

/// Paths and tests that documents name but that do not exist.
fn dead_references(pages: &[Page]) -> Vec<String> {
    let paths: BTreeSet<&str> = pages.iter().map(|page| page.path.as_str()).collect();
    let sources = pages.iter().filter(|page| !page.path.ends_with(".md"));
    let file_name = |path: &'_ str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let file_names: BTreeSet<String> = paths.iter().map(|path| file_name(path)).collect();
    let words: BTreeSet<&str> = sources.flat_map(|page| page.text.split(|c: char| !is_word(c))).collect();
    let mut found = Vec::new();
    for page in pages.iter().filter(|page| page.path.ends_with(".md")) {
        for (number, line) in (1..).zip(page.text.lines()) {
            // Every second piece lies between two backticks.
            for quoted in line.split('`').skip(1).step_by(2) {
                let is_path = ROOTS.iter().any(|root| quoted.starts_with(root)) && quoted.ends_with(".rs");
                let is_name = quoted.chars().all(is_word) && quoted.matches('_').count() >= 4;
                // A file in the folder that the previous line names.
                let is_file = quoted.ends_with(".rs") && quoted.chars().all(|c| is_word(c) || c == '.' || c == '/');
                let is_dead = (is_path && !paths.contains(quoted))
                    || (is_file && !file_names.contains(&file_name(quoted)))
                    || (is_name && !words.contains(quoted));
                if is_dead {
                    found.push(format!("{}:{number}: `{quoted}` is not there", page.path));
                }
            }
        }
    }
    found
}

/// What a line of code defines: the keyword, and the name.
fn definitions(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = line.split("//").next().unwrap_or_default();
    let words: Vec<_> = code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let pairs: Vec<_> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.into_iter().filter(|(keyword, _)| TYPES.contains(keyword) || VALUES.contains(keyword))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs") || path.starts_with("bench/") || path.starts_with("fuzz/")
}

const TYPES: &[&str] = &["struct", "enum", "trait", "type", "union"];
const VALUES: &[&str] = &["fn", "mod", "const", "static"];
/// Prefixes of our own paths.
const ROOTS: &[&str] = &["crates/", "sim/", "tests/", "xtask/", "bench/", "fuzz/", "examples/"];
/// Names that only we used, and the field's word for each.
const REFUSED: &[(&str, &str)] = &[
    ("Gate", "RateLimiter"),
    ("Toll", "LimiterChain"),
    ("Turnstile", "TokenBucket"),
    ("Crew", "ReaderPool"),
    ("Seat", "ReaderSlot"),
    ("Flight", "InFlightWindow"),
    ("Desk", "ServerLoop"),
    ("Switchboard", "SessionTable"),
    ("Haste", "SendCoalescing"),
    ("Hands", "NodeContext"),
    ("TicketDoor", "TicketAuthorizer"),
    ("KeptRows", "MetadataMirror"),
    ("Tally", "StorageUsage"),
    ("knock", "connect"),
    ("keeping", "metadata_mirror"),
    ("upkeep", "usage_accounting"),
    ("kin", "ancestors"),
    ("dense", "compact_storage"),
    ("haste", "send_coalescing"),
    ("hands", "node_context"),
    ("site_gates", "site_limiters"),
    ("rival", "speculative"),
    ("giving", "assignment"),
    ("shunned", "avoided"),
    ("unpark", "retry"),
    ("put_short", "enqueue_under_replicated"),
    ("lateness", "pacing_deficit"),
    ("prints", "captured_output"),
    ("warden", "supervisor"),
    ("placing", "slice_moves"),
    ("sentence", "message"),
    ("together", "colocation"),
    ("wish", "desired_replication"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let found =
            violations(&[page("crates/net/src/x.rs", "stru\x63t Gate;\nf\x6e knock() {}\n// stru\x63t Toll\n")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("RateLimiter") && found[1].contains(":2:"), "{found:?}");

        let one = page("crates/net/src/x.rs", "pub struct Frame;\npub(crate) struct Own;\n");
        let two = page("crates/node/src/y.rs", "    pub enum Frame {}\nstruct Own;\n");
        let found = violations(&[one, two, page("crates/node/tests/z.rs", "pub struct Frame;\n")]);
        assert!(found.len() == 1 && found[0].contains("`Frame` stands in crates/node/src/y.rs"), "{found:?}");

        let text = "`crates/net/src/gone.rs`, `crates/net/src/x.rs`, `x.rs`, `y.rs`, `a_b_c_d_e`, `f_g_h_i_j`, `a_b`\n";
        let found = violations(&[page("docs/x.md", text), page("crates/net/src/x.rs", "fn a_b_c_d_e() {}\n")]);
        let is_found = |what| found.iter().any(|found: &String| found.contains(what));
        assert!(found.len() == 3 && ["gone.rs", "y.rs", "f_g_h_i_j"].into_iter().all(is_found), "{found:?}");
    }
}
