//! What one source file says about modules: which it declares, which names it imports or re-exports, and which paths
//! its code mentions. Code of tests is left out. It never looks at another file.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The modules, names and paths of one file.
#[derive(Default)]
pub(super) struct Source {
    /// Names of the modules in files of their own.
    pub(super) children: Vec<String>,
    /// Names that `use` brings in.
    pub(super) bindings: Vec<Binding>,
    /// What the code mentions.
    pub(super) mentions: Vec<Mention>,
}

/// A name that a `use` brings into a module; `*` for all names there.
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) path: Path,
    /// Whether the `use` has a visibility of its own, so that it is a re-export.
    pub(super) is_public: bool,
}

/// A path in the code, and whether it stands in a `use`.
pub(super) struct Mention {
    pub(super) path: Path,
    pub(super) line: usize,
    pub(super) is_import: bool,
}

/// A path as seen from its file's module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) start: Start,
    pub(super) names: Vec<String>,
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the root of the crate.
    Root,
    /// So many modules above that of the file.
    Above(usize),
    /// At a name that is in scope.
    Scope,
}

/// Reads a file's text.
pub(super) fn read(text: &str) -> Result<Source, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("not Rust: {error}"))?;
    let mut source = Source::default();
    source.scan(&list(tokens), 0);
    Ok(source)
}

impl Source {
    /// Reads tokens that stand in `depth` modules written within the file.
    fn scan(&mut self, tokens: &[TokenTree], depth: usize) {
        let mut at = 0;
        let mut is_public = false;
        while let Some(token) = tokens.get(at) {
            let was_public = std::mem::take(&mut is_public);
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let is_inner = is_punct(tokens.get(at + 1), '!');
                    let Some(attribute) = group(tokens.get(at + 1 + usize::from(is_inner))) else {
                        at += 1;
                        continue;
                    };
                    at += 2 + usize::from(is_inner);
                    match is_of_tests(attribute) {
                        true if is_inner => return,
                        true => at = end_of_item(tokens, at),
                        false => self.scan_attribute(attribute, depth),
                    }
                }
                TokenTree::Group(group) => {
                    self.scan(&list(group.stream()), depth);
                    at += 1;
                }
                TokenTree::Ident(word) if word == "pub" => {
                    at += 1;
                    if group(tokens.get(at)).is_some_and(is_visibility) {
                        at += 1;
                    }
                    is_public = true;
                }
                TokenTree::Ident(word) if word == "use" && !is_punct(tokens.get(at + 1), '<') => {
                    let end = (at..tokens.len()).find(|at| is_punct(tokens.get(*at), ';')).unwrap_or(tokens.len());
                    self.scan_use(&tokens[at + 1..end], &[], was_public, depth);
                    at = end;
                }
                TokenTree::Ident(word) if word == "mod" => at = self.scan_module(tokens, at, depth),
                TokenTree::Ident(_) => at = self.scan_path(tokens, at, depth),
                _ => at += 1,
            }
        }
    }

    /// An attribute may name paths, also in strings: `#[serde(with = "crate::x")]`.
    fn scan_attribute(&mut self, attribute: &Group, depth: usize) {
        let tokens = list(attribute.stream());
        if !is_ident(tokens.first(), "doc") {
            self.scan(&tokens, depth);
            self.scan_strings(tokens, depth);
        }
    }

    fn scan_strings(&mut self, tokens: Vec<TokenTree>, depth: usize) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.scan_strings(list(group.stream()), depth),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let text = text.trim_matches('"');
                    let is_path = ["crate::", "super::", "self::"].iter().any(|start| text.starts_with(start));
                    if let Some(Ok(tokens)) = is_path.then(|| text.parse()) {
                        self.scan(&list(tokens), depth);
                    }
                }
                _ => {}
            }
        }
    }

    /// `mod x;` is a module in another file, `mod x { … }` belongs to this one. Returns where to go on.
    fn scan_module(&mut self, tokens: &[TokenTree], at: usize, depth: usize) -> usize {
        match (tokens.get(at + 1), tokens.get(at + 2)) {
            (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) => {
                if name != "tests" {
                    self.scan(&list(body.stream()), depth + 1);
                }
                at + 3
            }
            (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(end))) if end.as_char() == ';' => {
                if name != "tests" {
                    self.children.push(name.to_string());
                }
                at + 3
            }
            _ => at + 1,
        }
    }

    /// One tree of a `use`, below the names of the trees around it.
    fn scan_use(&mut self, tokens: &[TokenTree], above: &[String], is_public: bool, depth: usize) {
        let mut names = above.to_vec();
        let mut bound = None;
        // From `::std::x` on, nothing is ours.
        if above.is_empty() && is_punct(tokens.first(), ':') {
            return;
        }
        let mut line = 0;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    bound = tokens.get(at + 1).map(ToString::to_string);
                    at += 1;
                }
                TokenTree::Ident(word) => {
                    line = word.span().start().line;
                    names.push(word.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => bound = Some("*".to_owned()),
                TokenTree::Group(group) => {
                    let tokens = list(group.stream());
                    for tree in tokens.split(|token| is_punct(Some(token), ',')).filter(|tree| !tree.is_empty()) {
                        self.scan_use(tree, &names, is_public, depth);
                    }
                    return;
                }
                _ => {}
            }
            at += 1;
        }
        // `use x::{self}` is `use x`.
        if names.len() > 1 && names.last().is_some_and(|name| name == "self") {
            names.pop();
        }
        let Some(name) = bound.or_else(|| names.last().cloned()) else { return };
        let path = path(names, depth);
        self.bindings.push(Binding { name, path: path.clone(), is_public });
        if !is_public {
            self.mentions.push(Mention { path, line, is_import: true });
        }
    }

    /// A path or a single name in code. Returns where to go on.
    fn scan_path(&mut self, tokens: &[TokenTree], first: usize, depth: usize) -> usize {
        let mut names = Vec::new();
        let mut at = first;
        while let Some(TokenTree::Ident(name)) = tokens.get(at) {
            names.push(name.to_string());
            at += 1;
            let goes_on = is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':');
            if !goes_on || !matches!(tokens.get(at + 2), Some(TokenTree::Ident(_))) {
                break;
            }
            at += 2;
        }
        let before = first.checked_sub(1).and_then(|before| tokens.get(before));
        // A field, a method, or what follows a path such as `<T as Trait>::`.
        let belongs =
            is_punct(before, '.') || is_punct(before, ':') && is_punct(tokens.get(first.wrapping_sub(2)), ':');
        let is_defined = ["fn", "struct", "enum", "trait", "type", "const", "static", "let", "in"]
            .iter()
            .any(|keyword| is_ident(before, keyword));
        let is_call = names[0].starts_with(char::is_uppercase)
            || matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
        if !belongs && (names.len() > 1 || (!is_defined && is_call)) {
            let line = tokens[first].span().start().line;
            self.mentions.push(Mention { path: path(names, depth), line, is_import: false });
        }
        at
    }
}

/// A path's beginning, as seen from the file's module, for code in `depth` modules written within the file.
fn path(names: Vec<String>, depth: usize) -> Path {
    let ups = names.iter().take_while(|name| *name == "super" || *name == "self").count();
    let supers = names[..ups].iter().filter(|name| *name == "super").count();
    match names.first().map(String::as_str) {
        Some("crate") => Path { start: Start::Root, names: names[1..].to_vec() },
        Some("super" | "self") => {
            Path { start: Start::Above(supers.saturating_sub(depth)), names: names[ups..].to_vec() }
        }
        _ => Path { start: Start::Scope, names },
    }
}

/// Whether an attribute is `cfg(test)`, or `cfg(all(test, …))`.
fn is_of_tests(attribute: &Group) -> bool {
    let tokens = list(attribute.stream());
    let Some(condition) = group(tokens.get(1)).filter(|_| is_ident(tokens.first(), "cfg")) else { return false };
    let condition = list(condition.stream());
    match group(condition.get(1)) {
        Some(all) if is_ident(condition.first(), "all") => list(all.stream())
            .split(|token| is_punct(Some(token), ','))
            .any(|part| part.len() == 1 && is_ident(part.first(), "test")),
        _ => condition.len() == 1 && is_ident(condition.first(), "test"),
    }
}

/// Where the item, field or arm that begins here ends.
fn end_of_item(tokens: &[TokenTree], mut at: usize) -> usize {
    let ends_with_semicolon = |word: &str| matches!(word, "use" | "static" | "type" | "let");
    let mut to_semicolon = false;
    let mut is_first = true;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) if word == "pub" => {}
            TokenTree::Ident(word) if is_first => {
                let word = word.to_string();
                to_semicolon = ends_with_semicolon(&word) || (word == "const" && !is_ident(tokens.get(at + 1), "fn"));
                is_first = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => return at + 1,
            TokenTree::Punct(punct) if punct.as_char() == ',' && !to_semicolon => return at + 1,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !to_semicolon => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Whether these brackets belong to a `pub`: `pub(crate)`, `pub(in crate::x)`.
fn is_visibility(group: &Group) -> bool {
    let tokens = list(group.stream());
    group.delimiter() == Delimiter::Parenthesis
        && (is_ident(tokens.first(), "in")
            || tokens.len() == 1 && ["crate", "super", "self"].iter().any(|word| is_ident(tokens.first(), word)))
}

fn list(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

fn group(token: Option<&TokenTree>) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) => Some(group),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentioned(text: &str) -> Vec<String> {
        let mentions = read(text).expect("it is Rust").mentions;
        mentions.iter().map(|mention| format!("{:?} {}", mention.path.start, mention.path.names.join("::"))).collect()
    }

    #[test]
    fn paths_are_found_in_imports_expressions_macros_and_attributes() {
        assert_eq!(mentioned("use crate::{a::{B, C as D}, e};"), ["Root a::B", "Root a::C", "Root e"]);
        assert_eq!(mentioned("use super::{self, x};"), ["Above(1) ", "Above(1) x"]);
        assert_eq!(
            mentioned("fn f() -> u8 { super::super::g::<T>(self::h) }"),
            ["Above(2) g", "Scope T", "Above(0) h"]
        );
        assert_eq!(mentioned("fn f() { println!(\"{}\", crate::x::y()); }"), ["Root x::y"]);
        assert_eq!(mentioned("#[serde(with = \"crate::x\")] struct A;"), ["Scope serde", "Root x"]);
        assert_eq!(mentioned("fn f(a: child::A) { let b = a.c::<u8>(); a.d(); }"), ["Scope child::A"]);
        assert_eq!(mentioned("impl X for Y {}"), ["Scope X", "Scope Y"]);
    }

    #[test]
    fn tests_comments_strings_visibilities_and_re_exports_are_no_mentions() {
        for text in [
            "// crate::x\n/// [`crate::x`]\nconst A: &str = \"crate::x\";",
            "#[cfg(test)] mod tests { use crate::x; }",
            "#[cfg(test)] use crate::x::{A, B};",
            "#[cfg(all(test, unix))] fn f() -> u8 { crate::x() }",
            "pub(in crate::x) fn f() {}\npub(super) struct a { pub(crate) b: u8 }",
            "pub(crate) use crate::x::{y, z};",
            "use ::std::fs;",
        ] {
            assert_eq!(mentioned(text), Vec::<String>::new(), "{text}");
        }
        let after = "#[cfg(test)] use crate::x::A;\n#[cfg(test)] const B: [u8; 1] = { [0] };\nfn f() { crate::y() }";
        assert_eq!(mentioned(after), ["Root y"]);
        assert_eq!(mentioned("struct S { #[cfg(test)] a: u8, b: crate::y::B }"), ["Root y::B"]);
    }

    #[test]
    fn a_module_within_the_file_belongs_to_it() {
        assert_eq!(mentioned("mod x { use super::super::A; fn f() { super::b() } }"), ["Above(1) A", "Above(0) b"]);
        let source = read("mod a; pub(crate) mod b; #[cfg(test)] mod c; mod tests;").expect("it is Rust");
        assert_eq!(source.children, ["a", "b"]);
    }
}
