//! Walls within a crate: no circle of more than three modules, and at most 15 entries at the root of `src/`. Crates
//! that are not there yet may only come nearer. It never looks at the code of tests.

mod components;
mod modules;
mod source;

use std::{collections::BTreeMap, fs};

use self::{
    components::{components, shortest_circle},
    modules::{Modules, Use},
};
use crate::{shell::root, tidy, vocabulary::Page};

/// Modules that may depend on each other in a circle.
const CIRCLE_MODULES_MAX: usize = 3;
/// Files and folders at the root of a crate's `src/`.
const ROOT_ENTRIES_MAX: usize = 15;
/// Crates with larger circles, each with the number of modules in these. It may only fall.
const CIRCLES_LEFT: &[(&str, usize)] = &[];
/// Crates with more entries at their root. The number may only fall.
const ROOTS_LEFT: &[(&str, usize)] = &[];

/// All that is wrong with the modules of our crates.
pub(crate) fn violations(pages: &[Page]) -> Vec<String> {
    let texts = texts(pages);
    let mut found = Vec::new();
    for (name, folder) in crates(&texts) {
        match circles(&folder, &texts) {
            Ok(circles) => {
                let modules = circles.iter().map(|circle| circle.modules.len()).sum();
                let texts: Vec<_> = circles.iter().map(|circle| circle.text(&folder)).collect();
                found.extend(judge(&name, &folder, modules, CIRCLES_LEFT, "CIRCLES_LEFT", &texts.join("\n")));
            }
            Err(message) => found.push(message),
        }
        let entries = root_entries(&folder);
        let text = format!("{folder}:1: {entries} entries at the root, more than {ROOT_ENTRIES_MAX}: group them");
        let above = if entries > ROOT_ENTRIES_MAX { entries } else { 0 };
        found.extend(judge(&name, &folder, above, ROOTS_LEFT, "ROOTS_LEFT", &text));
    }
    found
}

/// Prints each crate's figures; of the crates named, also every use within a circle.
pub(crate) fn report(wanted: &[String]) -> Result<(), String> {
    let pages = tidy::pages()?;
    let texts = texts(&pages);
    for (name, folder) in crates(&texts) {
        let circles = circles(&folder, &texts)?;
        let sizes: Vec<_> = circles.iter().map(|circle| circle.modules.len()).collect();
        println!("{name}: {} entries, circles {sizes:?}", root_entries(&folder));
        if wanted.contains(&name) {
            for used in circles.iter().flat_map(|circle| &circle.uses) {
                println!("  {used}");
            }
        }
    }
    Ok(())
}

/// Too large a circle of modules.
struct Circle {
    modules: Vec<String>,
    /// Each use on the shortest way round.
    shortest: Vec<String>,
    /// Each use within the circle.
    uses: Vec<String>,
}

impl Circle {
    fn text(&self, folder: &str) -> String {
        let (count, modules, way) = (self.modules.len(), self.modules.join(", "), self.shortest.join("\n    "));
        format!("{folder}:1: {count} modules go round in a circle: {modules}; the shortest way round:\n    {way}")
    }
}

/// The circles of a crate that are too large, in its library and in each of its programs.
fn circles(folder: &str, texts: &BTreeMap<&str, &str>) -> Result<Vec<Circle>, String> {
    let is_root = |path: &str| {
        let program = path.strip_prefix("bin/").is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"));
        program || path == "lib.rs" || path == "main.rs"
    };
    let below = format!("{folder}/");
    let roots = texts.keys().filter(|path| path.strip_prefix(&below).is_some_and(is_root));
    let mut found = Vec::new();
    for root in roots {
        let modules = Modules::read(root, texts)?;
        found.extend(circles_of(&modules));
    }
    Ok(found)
}

fn circles_of(modules: &Modules) -> Vec<Circle> {
    let uses = modules.uses();
    let edges: Vec<_> = uses.iter().map(|used| (used.from, used.to)).collect();
    let large = components(modules.len(), &edges).into_iter().filter(|found| found.len() > CIRCLE_MODULES_MAX);
    let say = |used: &Use| format!("{} > {}: {}", modules.name(used.from), modules.name(used.to), used.place);
    let circle = |component: Vec<usize>| {
        let way = shortest_circle(&component, &edges);
        let steps = way.iter().zip(way.iter().cycle().skip(1));
        let step = |(from, to): (&usize, &usize)| uses.iter().find(|used| (used.from, used.to) == (*from, *to));
        let within = uses.iter().filter(|used| component.contains(&used.from) && component.contains(&used.to));
        Circle {
            modules: component.iter().map(|module| modules.name(*module).to_owned()).collect(),
            shortest: steps.filter_map(step).map(say).collect(),
            uses: within.map(say).collect(),
        }
    };
    large.map(circle).collect()
}

/// A figure beside what the list of those left allows: nothing for crates that are not in it.
fn judge(name: &str, folder: &str, figure: usize, left: &[(&str, usize)], list: &str, text: &str) -> Option<String> {
    let allowed = left.iter().find(|(left, _)| *left == name).map_or(0, |(_, figure)| *figure);
    if figure > allowed {
        return Some(text.to_owned());
    }
    let better = || format!("{folder}:1: down from {allowed} to {figure}: say so in {list} of xtask/src/circles.rs");
    (figure < allowed).then(better)
}

/// Our crates: name and folder of the sources.
fn crates(texts: &BTreeMap<&str, &str>) -> Vec<(String, String)> {
    let folder = |path: &&str| {
        let (before, after) = path.split_once("/src/")?;
        let is_root = after == "lib.rs" || after == "main.rs";
        let name = before.strip_prefix("crates/").or_else(|| (before == "sim").then_some(before))?;
        (is_root && !name.contains('/')).then(|| (name.to_owned(), format!("{before}/src")))
    };
    let mut found: Vec<_> = texts.keys().filter_map(folder).collect();
    found.dedup();
    found
}

fn root_entries(folder: &str) -> usize {
    fs::read_dir(root().join(folder)).map_or(0, Iterator::count)
}

fn texts(pages: &[Page]) -> BTreeMap<&str, &str> {
    let sources = pages.iter().filter(|page| page.path.ends_with(".rs"));
    sources.map(|page| (page.path.as_str(), page.text.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in which each of `count` modules uses the next, and the last the first.
    fn round(count: usize) -> Vec<(String, String)> {
        let names: Vec<_> = (0..count).map(|number| format!("m{number}")).collect();
        let declared: String = names.iter().map(|name| format!("mod {name};")).collect();
        let files = names.iter().zip(names.iter().cycle().skip(1));
        let module = |(name, next): (&String, &String)| {
            (format!("crates/x/src/{name}.rs"), format!("use crate::{next}::A;\n#[cfg(test)]\nuse crate::m0::B;"))
        };
        std::iter::once(("crates/x/src/lib.rs".to_owned(), declared)).chain(files.map(module)).collect()
    }

    fn found(files: &[(String, String)]) -> Vec<Circle> {
        let texts = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        circles("crates/x/src", &texts).expect("the files are there")
    }

    #[test]
    fn a_circle_of_four_modules_is_found_with_its_way_round_and_one_of_three_is_not() {
        assert_eq!(found(&round(3)).len(), 0);
        let circles = found(&round(4));
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].modules, ["m0", "m1", "m2", "m3"]);
        assert_eq!(circles[0].shortest[3], "m3 > m0: crates/x/src/m3.rs:1 uses crate::m0::A");
        let text = circles[0].text("crates/x/src");
        assert!(text.starts_with("crates/x/src:1: 4 modules") && text.contains("m0 > m1"), "{text}");
    }

    #[test]
    fn a_cut_circle_is_none() {
        let mut files = round(5);
        files[5].1 = "#[cfg(test)]\nmod tests {\n use crate::m0::A;\n}".to_owned();
        assert_eq!(found(&files).len(), 0);
    }

    #[test]
    fn what_is_left_may_neither_grow_nor_shrink_unsaid() {
        let left: &[(&str, usize)] = &[("x", 5)];
        let judge = |name, figure| judge(name, "crates/x/src", figure, left, "LEFT", "too many");
        assert_eq!(judge("x", 6).as_deref(), Some("too many"));
        assert_eq!(judge("x", 5), None);
        assert!(judge("x", 4).is_some_and(|text| text.contains("down from 5 to 4")));
        assert!(judge("x", 0).is_some_and(|text| text.contains("LEFT")));
        assert_eq!(judge("y", 1).as_deref(), Some("too many"));
        assert_eq!(judge("y", 0), None);
    }
}
