//! The modules of one crate, and which of them uses which. A path counts for the file that defines its name, however
//! many re-exports lie between. A parent that declares or re-exports a child never uses it by that.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Path, Source, Start};

/// The modules of a crate: its root first.
#[derive(Default)]
pub(super) struct Modules {
    modules: Vec<Module>,
}

/// One file of a crate.
struct Module {
    /// `crate`, or the names below it.
    name: String,
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    source: Source,
}

/// One module's use of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) from: usize,
    pub(super) to: usize,
    /// `crates/x/src/y.rs:17 uses crate::z::A`
    pub(super) place: String,
}

impl Modules {
    /// Reads a crate from its root file on, from texts by path.
    pub(super) fn read(root: &str, texts: &BTreeMap<&str, &str>) -> Result<Self, String> {
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut modules = Self::default();
        modules.add("crate".to_owned(), root.to_owned(), folder, None, texts)?;
        Ok(modules)
    }

    /// How many modules there are.
    pub(super) fn len(&self) -> usize {
        self.modules.len()
    }

    /// A module's path in its crate.
    pub(super) fn name(&self, module: usize) -> &str {
        &self.modules[module].name
    }

    /// One use for each pair of modules, the first that stands there.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut found: BTreeMap<(usize, usize), Use> = BTreeMap::new();
        for (from, module) in self.modules.iter().enumerate() {
            for mention in &module.source.mentions {
                let Some(to) = self.used_by(from, &mention.path, mention.is_import) else { continue };
                let start = match mention.path.start {
                    Start::Root => "crate::".to_owned(),
                    Start::Above(levels) => "super::".repeat(levels),
                    Start::Scope => String::new(),
                };
                let place = format!("{}:{} uses {start}{}", module.file, mention.line, mention.path.names.join("::"));
                if to != from {
                    found.entry((from, to)).or_insert(Use { from, to, place });
                }
            }
        }
        found.into_values().collect()
    }

    fn add(
        &mut self,
        name: String,
        file: String,
        folder: &str,
        parent: Option<usize>,
        texts: &BTreeMap<&str, &str>,
    ) -> Result<usize, String> {
        let text = texts.get(file.as_str()).ok_or(format!("{file}:1: the file of a module is missing"))?;
        let source = source::read(text).map_err(|error| format!("{file}:1: {error}"))?;
        let declared = source.children.clone();
        let own = self.modules.len();
        self.modules.push(Module { name: name.clone(), file, parent, children: BTreeMap::new(), source });
        for child in declared {
            let below = format!("{folder}/{child}");
            let file = match texts.contains_key(format!("{below}.rs").as_str()) {
                true => format!("{below}.rs"),
                false => format!("{below}/mod.rs"),
            };
            let path = if parent.is_none() { child.clone() } else { format!("{name}::{child}") };
            let module = self.add(path, file, &below, Some(own), texts)?;
            self.modules[own].children.insert(child, module);
        }
        Ok(own)
    }

    /// The module that a path in the code of `from` makes it depend on.
    fn used_by(&self, from: usize, path: &Path, is_import: bool) -> Option<usize> {
        // A single name in the code counts where the module itself re-exports it; else its import has counted.
        let is_single = path.start == Start::Scope && path.names.len() == 1;
        let is_own =
            |name: &str| self.modules[from].source.bindings.iter().any(|own| own.is_public && own.name == name);
        if is_single && !is_import && !is_own(&path.names[0]) {
            return None;
        }
        match self.resolve(from, path, &mut BTreeSet::new())? {
            Found::Item(module) => Some(module),
            // What is taken from an imported module counts where it is taken.
            Found::Module(_) => None,
        }
    }

    fn resolve(&self, from: usize, path: &Path, seen: &mut BTreeSet<(usize, String)>) -> Option<Found> {
        match path.start {
            Start::Root => self.walk(0, &path.names, seen),
            Start::Above(levels) => {
                let above = (0..levels).try_fold(from, |module, _| self.modules[module].parent)?;
                self.walk(above, &path.names, seen)
            }
            Start::Scope => {
                let (first, _) = path.names.split_first()?;
                let is_known = self.modules[from].children.contains_key(first) || self.binding(from, first).is_some();
                if is_known { self.walk(from, &path.names, seen) } else { self.in_globs(from, &path.names, seen) }
            }
        }
    }

    /// Follows names down from a module.
    fn walk(&self, module: usize, names: &[String], seen: &mut BTreeSet<(usize, String)>) -> Option<Found> {
        let Some((first, rest)) = names.split_first() else { return Some(Found::Module(module)) };
        let child = self.modules[module].children.get(first);
        let binding = self.binding(module, first).filter(|_| child.is_none() || rest.is_empty());
        if let Some(path) = binding
            && seen.insert((module, first.clone()))
        {
            let names = path.names.iter().chain(rest).cloned().collect();
            // What comes from another crate is no use of the module that passes it on.
            return self.resolve(module, &Path { start: path.start, names }, seen);
        }
        match child {
            Some(child) => self.walk(*child, rest, seen),
            None => self.in_globs(module, names, seen).or(Some(Found::Item(module))),
        }
    }

    /// Follows names that a module has by `use x::*`.
    fn in_globs(&self, module: usize, names: &[String], seen: &mut BTreeSet<(usize, String)>) -> Option<Found> {
        let globs: Vec<_> = self.modules[module].source.bindings.iter().filter(|own| own.name == "*").collect();
        for glob in globs {
            let Some(Found::Module(there)) = self.resolve(module, &glob.path, seen) else { continue };
            let has_name =
                self.modules[there].children.contains_key(&names[0]) || self.binding(there, &names[0]).is_some();
            if has_name && there != module {
                return self.walk(there, names, seen);
            }
        }
        None
    }

    fn binding(&self, module: usize, name: &str) -> Option<&Path> {
        self.modules[module].source.bindings.iter().find(|own| own.name == name).map(|own| &own.path)
    }
}

/// What a path leads to.
enum Found {
    /// Something that this module defines.
    Item(usize),
    /// A module itself.
    Module(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who uses whom in a crate of these files, as `a > b`.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let modules = Modules::read("src/lib.rs", &files.iter().copied().collect()).expect("the files are there");
        modules.uses().iter().map(|used| format!("{} > {}", modules.name(used.from), modules.name(used.to))).collect()
    }

    #[test]
    fn a_path_counts_for_the_file_that_defines_its_name() {
        let lib = ("src/lib.rs", "mod a; mod b; pub use a::deep::Deep;");
        let a = ("src/a.rs", "pub(crate) mod deep; pub(crate) use deep::Deep;");
        let deep = ("src/a/deep.rs", "pub struct Deep;");
        for import in
            ["use crate::Deep;", "use crate::a::Deep;", "use super::a::deep::Deep;", "fn f(x: crate::Deep) {}"]
        {
            assert_eq!(uses(&[lib, a, deep, ("src/b.rs", import)]), ["b > a::deep"], "{import}");
        }
        assert_eq!(uses(&[lib, a, deep, ("src/b.rs", "use crate::a; fn f() { a::Deep::new() }")]), ["b > a::deep"]);
        assert_eq!(uses(&[lib, a, deep, ("src/b.rs", "use crate::a; fn f() { a::other() }")]), ["b > a"]);
    }

    #[test]
    fn a_parent_uses_a_child_by_what_it_takes_and_not_by_declaring_it() {
        let child = ("src/a.rs", "pub struct A;");
        assert_eq!(uses(&[("src/lib.rs", "mod a; pub use a::A;"), child]), Vec::<String>::new());
        assert_eq!(uses(&[("src/lib.rs", "mod a; use a::A;"), child]), ["crate > a"]);
        assert_eq!(uses(&[("src/lib.rs", "mod a; fn f() { a::g() }"), child]), ["crate > a"]);
        assert_eq!(uses(&[("src/lib.rs", "mod a; pub use a::A; fn f(a: A) {}"), child]), ["crate > a"]);
    }

    #[test]
    fn a_name_of_another_crate_is_no_use_of_the_module_that_passes_it_on() {
        let lib = ("src/lib.rs", "mod a; use other::names;");
        assert_eq!(uses(&[lib, ("src/a.rs", "use crate::names::Name;")]), Vec::<String>::new());
        assert_eq!(uses(&[lib, ("src/a.rs", "use crate::own;")]), ["a > crate"]);
    }

    #[test]
    fn modules_in_folders_of_either_kind_are_read_and_a_missing_one_is_said() {
        let files = [("src/lib.rs", "mod a;"), ("src/a/mod.rs", "mod b;"), ("src/a/b.rs", "use super::A;")];
        assert_eq!(uses(&files), ["a::b > a"]);
        let missing = Modules::read("src/lib.rs", &BTreeMap::from([("src/lib.rs", "mod a;")])).err();
        assert!(missing.is_some_and(|message| message.contains("src/a/mod.rs")));
    }

    #[test]
    fn names_that_lead_in_a_circle_end() {
        let files = [("src/lib.rs", "mod a; mod b;"), ("src/a.rs", "pub use crate::b::X;")];
        assert_eq!(
            uses(&[files[0], files[1], ("src/b.rs", "pub use crate::a::X; fn f(x: X) {}")]),
            Vec::<String>::new()
        );
    }
}
