//! The index of the tests that prove each promise (`docs/semantics.md`), made from the marks before the tests:
//! `// Promise 17.`, or several numbers with commas. A mark below a file's head means the whole file. It never judges
//! whether a test proves what it is marked with.

use std::{collections::BTreeMap, fs};

use crate::{shell::root, tidy, vocabulary::Page};

/// A promise's number, in the order of numbers: `26`, `26a`, `27`.
type Number = (u32, String);

/// Writes the index anew.
pub(crate) fn write() -> Result<(), String> {
    let pages = tidy::pages()?;
    let text = page_of_promises(&pages)?;
    let head = text.split(HEADING).next().unwrap_or_default();
    fs::write(root().join(PAGE), format!("{head}{}", index(&pages))).map_err(|error| format!("{PAGE}: {error}"))
}

/// Marks without a promise, promises without a mark, and an index that is not that of the marks.
pub(crate) fn violations(pages: &[Page]) -> Vec<String> {
    let text = match page_of_promises(pages) {
        Ok(text) => text,
        Err(message) => return vec![message],
    };
    let (promises, marks) = (promises(text), marks(pages));
    let mut found: Vec<String> = Vec::new();
    for number in marks.keys().filter(|number| !promises.contains(number)) {
        found.push(format!("{PAGE}:1: tests are marked with promise {}{}, which is not there", number.0, number.1));
    }
    for number in promises.iter().filter(|number| !marks.contains_key(number)) {
        found.push(format!("{PAGE}:1: no test is marked with promise {}{}", number.0, number.1));
    }
    if !text.ends_with(&index(pages)) {
        found.push(format!("{PAGE}:1: the index of tests is not that of the marks: `cargo xtask reference` writes it"));
    }
    found
}

fn page_of_promises(pages: &[Page]) -> Result<&str, String> {
    pages.iter().find(|page| page.path == PAGE).map(|page| page.text.as_str()).ok_or(format!("{PAGE} is missing"))
}

/// The numbers of the promises, as their page has them.
fn promises(text: &str) -> Vec<Number> {
    text.lines().filter_map(|line| line.split_once(". **")).filter_map(|(number, _)| parse(number)).collect()
}

fn parse(text: &str) -> Option<Number> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    Some((digits.parse().ok()?, text[digits.len()..].to_owned()))
}

/// Of each promise the rooms that prove it, with the names of their tests in the order of the files.
fn marks(pages: &[Page]) -> BTreeMap<Number, BTreeMap<String, Vec<String>>> {
    let mut found: BTreeMap<Number, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for page in pages.iter().filter(|page| !page.path.ends_with(".md")) {
        let lines: Vec<&str> = page.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(numbers) = marked(line) else { continue };
            let name = marked_test(&lines, at).unwrap_or_else(|| page.path.clone());
            for number in numbers {
                found.entry(number).or_default().entry(room(&page.path)).or_default().push(name.clone());
            }
        }
    }
    found
}

/// The numbers of a mark.
fn marked(line: &str) -> Option<Vec<Number>> {
    let comment = line.trim().strip_prefix("//").or_else(|| line.trim().strip_prefix('#'))?;
    let numbers = comment.trim().strip_prefix(MARK)?.strip_suffix('.')?;
    numbers.split(", ").map(parse).collect()
}

/// The test behind the mark at this line; none where the mark is that of the file.
fn marked_test(lines: &[&str], at: usize) -> Option<String> {
    let above = lines[..at].iter().rev().find(|line| !line.trim().is_empty());
    if above.is_some_and(|line| line.starts_with("//!")) {
        return None;
    }
    let is_attribute = |line: &str| line.trim().starts_with("#[") || line.trim().starts_with('@');
    let code = lines[at + 1..].iter().find(|line| !is_attribute(line))?;
    let mut words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.find(|word| !["pub", "async", "fn", "def"].contains(word)).map(str::to_owned)
}

/// The crate, or the folder of tests.
fn room(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        ("crates", Some(name)) => name.to_owned(),
        ("tests", Some(name)) => format!("tests/{name}"),
        (first, _) => first.to_owned(),
    }
}

/// The end of the page: the heading, and the tests by promise and room.
fn index(pages: &[Page]) -> String {
    let mut text =
        format!("{HEADING}\n\nThis index is generated. Each line names a promise, a room and a test.\n\n```text\n");
    for (number, rooms) in marks(pages) {
        for (room, tests) in rooms {
            for test in tests {
                text.push_str(&format!("{:<4} {room:<14} {test}\n", format!("{}{}", number.0, number.1)));
            }
        }
    }
    text + "```\n"
}

/// Where the promises are.
const PAGE: &str = "docs/semantics.md";
/// Where the index begins.
const HEADING: &str = "## Tests that prove each promise";
/// How a mark begins.
const MARK: &str = "Promise ";

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.into() }
    }

    fn tree(promises: &str, source: &str) -> Vec<Page> {
        let mut pages =
            vec![page("crates/net/src/x.rs", source), page("tests/python/test_x.py", "# Promise 2.\ndef test_b():\n")];
        let text = format!("# Page\n\n{promises}\n\n{}", index(&pages));
        pages.push(page(PAGE, &text));
        pages
    }

    #[test]
    fn marks_become_the_index_and_what_is_missing_on_either_side_is_said() {
        let mark = format!("// {MARK}2, 2a.\n#[test]\n#[ignore]\nfn a_b_c() {{}}\n");
        let good = tree("2. **One.** x\n2a. **Two.** x", &mark);
        assert_eq!(violations(&good), Vec::<String>::new());
        let text = &good[2].text;
        assert!(
            text.contains("2    net            a_b_c\n2    tests/python   test_b\n2a   net            a_b_c\n"),
            "{text}"
        );
        let unmarked = violations(&tree("2. **One.** x\n3. **Two.** x", "fn a() {}\n"));
        assert!(unmarked.len() == 1 && unmarked[0].contains("no test is marked with promise 3"), "{unmarked:?}");
        let unknown = violations(&tree("3. **Two.** x", "fn a() {}\n"));
        assert!(unknown.len() == 2 && unknown[0].contains("promise 2, which is not there"), "{unknown:?}");
        let mut stale = tree("2. **One.** x", "fn a() {}\n");
        stale[0].text = format!("//! x\n\n// {MARK}2.\nfn a() {{}}\n");
        assert!(violations(&stale)[0].contains("`cargo xtask reference` writes it"), "a mark of a file");
        assert!(index(&stale).contains("net            crates/net/src/x.rs"));
    }
}
