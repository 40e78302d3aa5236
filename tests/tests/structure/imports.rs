//! Reads from their text which files of a crate use which, and which of them go round in circles.
//! Tests are left out. A re-export (`pub use`) counts as the module's own.

mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tokens::{is_word, tokens};

/// The path of a module from the root of its crate, which is empty.
pub(crate) type Module = Vec<String>;

/// Modules that have a file, with those that they use and the names that they take from them.
pub(crate) type Graph = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

/// A path in code, behind the modules around it that its file writes out (`mod name { … }`).
type Named = (Module, Vec<String>);

/// Reads which modules of a crate use which, apart from tests and the programs in `bin`.
pub(crate) fn graph(src: &Path) -> Graph {
    let roots = ["lib.rs", "main.rs"].map(|name| src.join(name));
    let roots: Vec<_> = roots.into_iter().filter(|root| root.exists()).collect();
    assert!(!roots.is_empty(), "no crate in {}", src.display());
    graph_of(roots, &|file| fs::read_to_string(file).ok())
}

/// Returns the groups of modules that all lead to each other.
pub(crate) fn circles(graph: &Graph) -> Vec<Vec<&Module>> {
    let reached = graph.keys().map(|from| {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            open.extend(steps(graph, next).filter(|to| found.insert(*to)));
        }
        (from, found)
    });
    let reached: BTreeMap<_, _> = reached.collect();
    let circles = reached.iter().map(|(from, found)| {
        found.iter().copied().filter(|to| reached[to].contains(from)).collect::<Vec<_>>()
    });
    circles.filter(|one| !one.is_empty()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the steps inside a circle as lines: two files, and what the first takes from the second.
pub(crate) fn lines(graph: &Graph, circle: &[&Module]) -> Vec<String> {
    let mut lines = Vec::new();
    for from in circle {
        for to in steps(graph, from).filter(|to| circle.contains(to)) {
            let names: Vec<_> = graph[*from][to].iter().map(String::as_str).collect();
            let (from, to, names) = (from.join("/"), to.join("/"), names.join(", "));
            lines.push(format!("{from}.rs -> {to}.rs: {names}"));
        }
    }
    lines
}

/// Returns the modules that one uses. Those around it may use it as well, so they count as no step.
fn steps<'a>(graph: &'a Graph, from: &'a Module) -> impl Iterator<Item = &'a Module> {
    graph[from].keys().filter(|to| !from.starts_with(to))
}

/// Follows `mod name;` from the roots through all files.
fn graph_of(roots: Vec<PathBuf>, read: &dyn Fn(&Path) -> Option<String>) -> Graph {
    let folder_of = |file: &Path| file.parent().expect("a folder").to_owned();
    let mut files = Vec::new();
    let roots = roots.into_iter().map(|file| (Module::new(), folder_of(&file), vec![file]));
    // Modules, the folders of those inside them, and where their files may lie.
    let mut open: Vec<_> = roots.collect();
    while let Some((module, folder, candidates)) = open.pop() {
        let found = candidates.iter().find_map(|file| Some((file, read(file)?)));
        let (file, text) = found.unwrap_or_else(|| panic!("none of {candidates:?}"));
        let code = Code::read(&text);
        for (inside, path) in &code.modules {
            let child = [&module[..], inside].concat();
            let below = inside.iter().fold(folder.clone(), |folder, name| folder.join(name));
            if child.iter().any(|name| name == "tests" || name.ends_with("_tests")) {
                continue;
            }
            if let Some(path) = path {
                let file = folder_of(file).join(path);
                open.push((child, folder_of(&file), vec![file]));
            } else {
                let candidates = vec![below.with_extension("rs"), below.join("mod.rs")];
                open.push((child, below, candidates));
            }
        }
        files.push((module, code));
    }
    let known = files.iter().map(|(module, _)| module.clone()).collect();
    let mut graph = Graph::new();
    for (module, code) in &files {
        graph.entry(module.clone()).or_default().extend(code.used(module, &known));
    }
    graph
}

/// The declarations and names of a file.
#[derive(Default)]
struct Code {
    /// Modules in other files, and where `#[path]` says that they lie.
    modules: Vec<(Module, Option<String>)>,
    /// Names that `use` brings in, each with the name it has there.
    imports: Vec<(Named, String)>,
    /// Paths elsewhere.
    paths: Vec<Named>,
}

impl Code {
    /// Reads a file, and passes over what is compiled for tests alone.
    fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        let mut code = Self::default();
        let mut around: Vec<(String, usize)> = Vec::new();
        let (mut at, mut depth, mut path) = (0, 0, None);
        while at < tokens.len() {
            let here: Module = around.iter().map(|(name, _)| name.clone()).collect();
            match token(at) {
                "#" if is_for_tests(&tokens[at + 1..]) => {
                    (at, path) = (end_of_item(&tokens, at + 1), None);
                    continue;
                }
                "#" if token(at + 2) == "path" => {
                    path = token(at + 4).strip_prefix('"').map(str::to_owned);
                }
                "mod" if token(at + 2) == "{" => around.push((token(at + 1).to_owned(), depth)),
                "mod" if token(at + 2) == ";" => {
                    let name = token(at + 1).to_owned();
                    code.modules.push(([here, vec![name]].concat(), path.take()));
                }
                "use" => {
                    let mut found = Vec::new();
                    at = leaves(&tokens, at + 1, &[], &mut found);
                    let found = found.into_iter().map(|(it, name)| ((here.clone(), it), name));
                    code.imports.extend(found);
                    continue;
                }
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    around.pop_if(|(_, outside)| *outside == depth);
                }
                // `::name` is another crate, or goes on behind `<…>`.
                "::" => at += usize::from(is_word(token(at + 1))),
                word if is_word(word) && token(at + 1) == "::" => {
                    let mut path = vec![word.to_owned()];
                    while token(at + 1) == "::" && is_word(token(at + 2)) {
                        at += 2;
                        path.push(token(at).to_owned());
                    }
                    code.paths.push((here, path));
                }
                _ => {}
            }
            at += 1;
        }
        code
    }

    /// Returns the modules that this code of `own` names, and what it takes from them.
    fn used(&self, own: &Module, known: &BTreeSet<Module>) -> BTreeMap<Module, BTreeSet<String>> {
        let mut names = BTreeMap::new();
        // Twice, as `use a::B` may build on `use crate::a`.
        for (named, name) in self.imports.iter().chain(&self.imports) {
            if let Some(path) = absolute(named, own, known, &names) {
                names.insert((&named.0, name.as_str()), path);
            }
        }
        let mut used: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let all = self.imports.iter().map(|(named, _)| named).chain(&self.paths);
        for path in all.filter_map(|named| absolute(named, own, known, &names)) {
            let is_file = |length: &usize| known.contains(&path[..*length]);
            let length = (0..=path.len()).rev().find(is_file).expect("the root is a file");
            let (module, inside) = path.split_at(length);
            let name = inside.first().or(module.last());
            if module != own {
                used.entry(module.to_vec()).or_default().extend(name.cloned());
            }
        }
        used
    }
}

/// Returns a path from the root of the crate, or nothing if it leads elsewhere. `names` are those that
/// `use` has brought in.
fn absolute(
    (around, path): &Named,
    own: &Module,
    known: &BTreeSet<Module>,
    names: &BTreeMap<(&Module, &str), Vec<String>>,
) -> Option<Vec<String>> {
    let here = [&own[..], around].concat();
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" | "super" => {
            let up = path.iter().take_while(|word| ["self", "super"].contains(&word.as_str()));
            let levels = up.clone().filter(|word| *word == "super").count();
            let base = &here[..here.len().checked_sub(levels)?];
            Some([base, &path[up.count()..]].concat())
        }
        _ => {
            let child = [&here[..], &path[..1]].concat();
            let imported = names.get(&(around, first.as_str()));
            let base = if known.contains(&child) { &child } else { imported? };
            Some([base, rest].concat())
        }
    }
}

/// Reads a tree of `use` from `at` into its leaves with their names, and returns where it ends.
fn leaves(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(Vec<String>, String)>,
) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = before.to_vec();
    if before.is_empty() && token(at) == "::" {
        path.push("another crate".to_owned());
    }
    // `$crate::name` in a macro.
    while is_word(token(at)) || ["::", "$"].contains(&token(at)) {
        path.extend(Some(token(at)).filter(|it| is_word(it)).map(str::to_owned));
        at += 1;
    }
    if token(at) == "{" {
        while !["}", ""].contains(&token(at)) {
            at = leaves(tokens, at + 1, &path, found);
        }
        return at + 1;
    }
    let is_glob = token(at) == "*";
    if is_glob || path.len() > before.len() {
        let alias = path.iter().position(|word| word == "as").map(|as_| path.split_off(as_));
        path.pop_if(|last| last == "self" && !before.is_empty());
        let name = alias.as_ref().unwrap_or(&path).last().cloned().unwrap_or_default();
        found.push((path, name));
    }
    at + usize::from(is_glob)
}

/// Tells whether an attribute, from its `[`, keeps what follows for tests.
fn is_for_tests(tokens: &[String]) -> bool {
    let text: String = tokens.iter().take_while(|it| *it != "]").map(String::as_str).collect();
    let all = text.strip_prefix("[cfg(all(").unwrap_or_default();
    text == "[cfg(test)" || all.split([',', ')']).any(|one| one == "test")
}

/// Returns where an item ends: behind its `;` or braces, behind the `,` of a field, or before what
/// closes around it.
fn end_of_item(tokens: &[String], mut at: usize) -> usize {
    const ITEMS: [&str; 8] = ["const", "enum", "fn", "impl", "static", "struct", "trait", "type"];
    let (mut depth, mut is_field) = (0, true);
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return at,
            "}" if depth == 1 => return at + 1,
            ")" | "]" | "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            "," if depth == 0 && is_field => return at + 1,
            word => is_field &= !ITEMS.contains(&word),
        }
        at += 1;
    }
    at
}

/// Reads a crate from its files and their text.
fn made_of(files: &[(&str, &str)]) -> Graph {
    let file = |path: &Path| files.iter().find(|(name, _)| path == Path::new(name));
    graph_of(vec!["lib.rs".into()], &|path| file(path).map(|(_, text)| (*text).to_owned()))
}

#[test]
fn files_are_found_in_every_form_of_path() {
    for (code, expected) in [
        ("use crate::b::X;", "b:X"),
        ("pub(crate) use crate::{\n    b::{self, X, c::{Y as Z, *}},\n};", "b:X,b b/c:Y,c"),
        ("use super::{super::b as e, q::{f, g}}; fn h() { e::c::i() }", "a/q:f,g b:b b/c:i"),
        ("use crate::b; use b::c::X; use std::{b::c, fmt};", "b:b b/c:X"),
        ("use ::b::c; fn f() { ::b::c(); <b::c as T>::a::g() }", ""),
        ("fn f(x: &super::q::X) -> crate::b::c::Y<'_> { x.b::<crate::b::Z>() }", "a/q:X b:Z b/c:Y"),
        ("fn f() { crate::f(); self::g(); super::h::<i32>(); Self::b::c() }", ":f a:h"),
        ("mod m { use super::super::q::X; fn f() { super::g() } } use self::m::X;", "a/q:X"),
        ("mod d; use d::X; fn f() { d::Y::g() }", "a/p/d:X,Y"),
        ("#[arg(value_parser = crate::b::parse)] x: X, // crate::b::c", "b:parse"),
        ("/// [`crate::b`]\nconst X: &str = \"crate::b\"; /* crate::b::c */", ""),
        ("macro_rules! m { () => { use $crate::b::{X}; $crate::b::c::f() } }", "b:X b/c:f"),
        ("#[cfg(test)]\nmod tests { use crate::b; mod m {} }\nuse crate::b::c;", "b/c:c"),
        ("#[cfg(test)] use crate::b::{X}; #[cfg(all(test, unix))] mod e; mod tests;", ""),
        ("#[cfg(test)] #[x] fn f<A, B>(a: A) { crate::b::c() } use crate::b::X;", "b:X"),
        ("struct S { #[cfg(test)] b: crate::b::B, c: crate::b::c::C }", "b/c:C"),
        ("#[cfg(any(test, unix))] use crate::b; #[cfg(not(test))] use crate::b::X;", "b:X,b"),
    ] {
        let graph = made_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub mod p; mod q;"),
            ("a/p.rs", code),
            ("a/p/d.rs", ""),
            ("a/q.rs", ""),
            ("b/mod.rs", "#[path = \"other.rs\"]\npub mod c;"),
            ("b/other.rs", ""),
        ]);
        let used = graph[&["a".to_owned(), "p".to_owned()][..]].iter().map(|(to, names)| {
            format!("{}:{}", to.join("/"), Vec::from_iter(names.clone()).join(","))
        });
        assert_eq!(used.collect::<Vec<_>>().join(" "), expected, "{code}");
    }
}

#[test]
fn children_may_use_their_parents_and_nothing_else_goes_round() {
    for (a, p, q, b, expected) in [
        ("use p::X;", "use crate::{Z, a::Y};", "use super::p::X;", "use crate::a::q::X;", ""),
        ("", "use super::q::X;", "use super::p::Y;", "", "a/p -> a/q: X, a/q -> a/p: Y"),
        ("use p::P;", "use crate::b;", "", "use super::a;", "a -> a/p: P, a/p -> b: b, b -> a: a"),
    ] {
        let root = ("lib.rs", "mod a; mod b; use a::A; use b::B;");
        let a = format!("mod p; mod q; {a}");
        let graph = made_of(&[root, ("a.rs", &a), ("a/p.rs", p), ("a/q.rs", q), ("b.rs", b)]);
        let found: Vec<_> = circles(&graph).iter().flat_map(|one| lines(&graph, one)).collect();
        assert_eq!(found.join(", ").replace(".rs", ""), expected);
    }
}
