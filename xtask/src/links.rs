//! The links of the documents: the file that a link names is there, and so is the heading. Headings become anchors as
//! on GitHub. Addresses elsewhere are not looked at, and this file never opens a connection.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use crate::{shell::root, vocabulary::Page};

/// Links to files or headings that are not there.
pub(crate) fn violations(pages: &[Page]) -> Vec<String> {
    dead_links(pages, &|path| root().join(path).exists())
}

fn dead_links(pages: &[Page], is_there: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let documents = pages.iter().filter(|page| page.path.ends_with(".md"));
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        documents.clone().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut found = Vec::new();
    for page in documents {
        for (line, link) in links(&page.text) {
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = target(&page.path, file);
            let known = target.to_str().and_then(|path| anchors.get(path));
            if known.is_none() && !is_there(&target) {
                found.push(format!("{}:{line}: the link `{link}` leads to no file", page.path));
            } else if let (Some(anchor), Some(known)) = (anchor, known)
                && !known.contains(anchor)
            {
                found.push(format!("{}:{line}: the link `{link}` leads to no heading", page.path));
            }
        }
    }
    found
}

/// The targets of a document's links to files of the repository, each with its line.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for piece in line.split("](").skip(1) {
            let target = piece.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty() {
                found.push((number, target));
            }
        }
    }
    found
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading);
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines outside of fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced
    })
}

/// The path from the root that a link of a page means.
fn target(page: &str, file: &str) -> PathBuf {
    if file.is_empty() {
        return page.into();
    }
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let page = |path: &str, text: &str| Page { path: path.into(), text: text.into() };
        let other = "# Of `words` & more\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n";
        let pages = [page("docs/x.md", text), page("docs/paths/y.md", other)];
        dead_links(&pages, &|path| path == Path::new("crates/net"))
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading_or_is_named() {
        let dead = [
            ("[a](z.md)", "leads to no file"),
            ("[a](../docs/paths/z.md#b)", "leads to no file"),
            ("[a](#nothing)", "leads to no heading"),
            ("[`a`](paths/y.md#twice-2) and [b](paths/y.md)", "leads to no heading"),
            ("[a](paths/y.md#no-heading)", "leads to no heading"),
        ];
        for (text, what) in dead {
            let found = found(&format!("# Here\n\n{text}\n"));
            assert!(found.len() == 1 && found[0].starts_with("docs/x.md:3: ") && found[0].contains(what), "{found:?}");
        }
        let fine = [
            "[a](#here-it-is)",
            "[a](paths/y.md#of-words--more), [b](./paths/y.md#twice-1)",
            "[a](../crates/net) [b](https://example.org/z.md#z)",
            "```text\n[a](z.md)\n```",
        ];
        for text in fine {
            assert_eq!(found(&format!("# Here it is\n\n{text}\n")), Vec::<String>::new(), "{text:?}");
        }
    }
}
