//! The limits of prose: of sentences, of cells in tables, and of file heads. A head says in five lines what the file
//! is for, and ends with what it never does. This file never judges code, or what stands in fences and ticks.

use crate::vocabulary::Page;

/// All that is too long, or not said, in these files.
pub(crate) fn violations(pages: &[Page]) -> Vec<String> {
    pages.iter().flat_map(of_page).collect()
}

fn of_page(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |line: usize, what: String| found.push(format!("{}:{line}: {what}", page.path));
    if page.path.ends_with(".rs") {
        check_head(page, &mut say);
    }
    let mut paragraph = Paragraph::default();
    let mut is_fenced = false;
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some((kind, text)) = prose(&page.path, line) else {
            is_fenced = false;
            paragraph.end(&mut say);
            continue;
        };
        let is_fence = text.starts_with("```");
        is_fenced ^= is_fence;
        if is_fence || is_fenced || text.is_empty() || text.starts_with('#') {
            paragraph.end(&mut say);
        } else if text.starts_with('|') {
            paragraph.end(&mut say);
            text.trim_matches('|').split('|').for_each(|cell| check_cell(number, cell.trim(), &mut say));
        } else {
            if paragraph.kind != kind || is_item(text) {
                paragraph.end(&mut say);
            }
            paragraph.add(number, kind, text);
        }
    }
    paragraph.end(&mut say);
    found
}

/// Which prose a line is, and its text: all of a document, and the comments of a source.
fn prose<'a>(path: &str, line: &'a str) -> Option<(&'static str, &'a str)> {
    let text = line.trim();
    match path.rsplit('.').next() {
        Some("md") => Some(("", text)),
        Some("rs") => {
            ["//!", "///", "//"].into_iter().find_map(|kind| text.strip_prefix(kind).map(|text| (kind, text.trim())))
        }
        _ => None,
    }
}

/// Lines that belong together.
#[derive(Default)]
struct Paragraph {
    from: usize,
    kind: &'static str,
    text: String,
}

impl Paragraph {
    fn add(&mut self, number: usize, kind: &'static str, text: &str) {
        if self.text.is_empty() {
            (self.from, self.kind) = (number, kind);
        }
        self.text.push_str(text);
        self.text.push(' ');
    }

    /// Checks what was gathered, and begins anew.
    fn end(&mut self, say: &mut impl FnMut(usize, String)) {
        check_sentences(self.from, &self.text, say);
        self.text.clear();
    }
}

fn is_item(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ") || text.starts_with("* ") || (digits.len() < text.len() && digits.starts_with(". "))
}

fn check_sentences(line: usize, text: &str, say: &mut impl FnMut(usize, String)) {
    for sentence in sentences(text) {
        let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
        if words > SENTENCE_WORDS_MAX {
            let begin: String = sentence.chars().take(60).collect();
            say(line, format!("a sentence of {words} words: make two of it (\"{begin}…\")"));
        }
    }
}

fn check_cell(line: usize, cell: &str, say: &mut impl FnMut(usize, String)) {
    let length = cell.chars().count();
    if length > CELL_CHARS_MAX {
        say(line, format!("a cell of {length} characters: make two rows of it, or say it below the table"));
    }
    check_sentences(line, cell, say);
}

/// The sentences of a text; what is quoted as code counts as one word.
fn sentences(text: &str) -> Vec<String> {
    // Every second piece lies between two ticks.
    let plain: Vec<&str> =
        text.split('`').enumerate().map(|(at, piece)| if at % 2 == 1 { "code" } else { piece }).collect();
    let (mut found, mut sentence) = (Vec::new(), String::new());
    for word in plain.concat().split_whitespace() {
        sentence.push_str(word);
        sentence.push(' ');
        let is_end = word.trim_end_matches(['"', '\'', ')', '*', '_']).ends_with(['.', '!', '?']);
        if is_end && !ABBREVIATIONS.contains(&word) {
            found.push(std::mem::take(&mut sentence));
        }
    }
    found.push(sentence);
    found
}

fn check_head(page: &Page, say: &mut impl FnMut(usize, String)) {
    let lines: Vec<&str> = page.text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    if lines.len() > HEAD_LINES_MAX {
        say(1, format!("a head of {} lines: say in {HEAD_LINES_MAX} what the file is for", lines.len()));
    }
    let text = lines.join(" ");
    let last = sentences(&text).into_iter().rfind(|sentence| !sentence.trim().is_empty()).unwrap_or_default();
    let is_bound = NOT_BOUND.iter().all(|part| !page.path.contains(part));
    if is_bound && !lines.is_empty() && !last.to_lowercase().contains("never") {
        say(1, "the head does not end with what the file never does".into());
    }
}

/// Longest sentence.
const SENTENCE_WORDS_MAX: usize = 25;
/// Longest cell of a table.
const CELL_CHARS_MAX: usize = 200;
/// Longest head of a file.
const HEAD_LINES_MAX: usize = 5;
/// Words that end with a full stop and no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "etc.", "vs.", "cf.", "Dr.", "No.", "approx."];
/// Files whose heads need not say what they never do: tests, measurements, examples.
const NOT_BOUND: &[&str] = &["tests/", "tests.rs", "fuzz/", "examples/", "bench/", "build.rs", "vectors.rs"];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        violations(&[Page { path: path.into(), text: text.into() }])
    }

    #[test]
    fn each_limit_is_kept_where_it_counts_and_nowhere_else() {
        let long = ["word"; 26].join(" ");
        let cases = [
            ("docs/x.md", format!("{long}.\n"), "a sentence of 26"),
            ("docs/x.md", format!("One.\n\n- {long}\n  more.\n"), "a sentence of 27"),
            ("docs/x.md", format!("| a | {} |\n", "x".repeat(201)), "a cell of 201"),
            ("crates/net/src/x.rs", format!("//! It never does.\n\n/// {long}\nfn a() {{}}\n"), "a sentence of 26"),
            ("crates/net/src/x.rs", "//! a\n//!\n//!\n//!\n//!\n//! It never does.\n".into(), "a head of 6"),
            (
                "crates/net/src/x.rs",
                "//! It never does. But now it ends otherwise.\n".into(),
                "what the file never does",
            ),
        ];
        for (path, text, what) in cases {
            let found = found(path, &text);
            assert!(found.len() == 1 && found[0].contains(what), "{path} {text:?}: {found:?}");
        }
        let fine = [
            ("docs/x.md", format!("```text\n{long} {long}\n```\nShort. `{long}` too.\n")),
            ("docs/x.md", format!("Thirteen {}.\nThe other half.\n", ["word"; 12].join(" "))),
            ("crates/net/src/x.rs", format!("//! It never does.\nlet a = \"{long}\";\n")),
            ("crates/net/tests/x.rs", "//! Tests.\n".into()),
        ];
        for (path, text) in fine {
            assert_eq!(found(path, &text), Vec::<String>::new(), "{text:?}");
        }
    }
}
