//! Every promise of `SEMANTICS.md` has tests, and each of them is run: a name in a comment, a helper, a
//! test that is ignored or whose module nothing declares, and a case of `e2e` that is in no list do
//! not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{SOURCES, files, none, read, root};

/// The test functions of a source that are run: those with a `test` attribute and none that leaves
/// them out.
fn tests_of(source: &str) -> BTreeSet<String> {
    let (mut found, mut is_test, mut is_left_out) = (BTreeSet::new(), false, false);
    for line in source.lines().map(str::trim) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let name = attribute.split([']', '(', ' ']).next().unwrap_or_default();
            is_test |= name == "test" || name.ends_with("::test");
            is_left_out |= name == "ignore" || name == "cfg" || name == "cfg_attr";
        } else if let Some(name) = function(line) {
            if is_test && !is_left_out {
                found.insert(name.to_owned());
            }
            (is_test, is_left_out) = (false, false);
        } else if !line.is_empty() && !line.starts_with("//") {
            (is_test, is_left_out) = (false, false);
        }
    }
    found
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Returns the names that a promise cites: in backquotes in its emphasised paragraphs, each with
/// whether it is a case of `e2e`. A name with a file's extension is no test of Rust.
fn cited(promise: &str) -> Vec<&str> {
    let emphasised = promise.split("\n*").skip(1).filter_map(|rest| rest.split('*').next());
    let names = emphasised.flat_map(|text| text.split('`').skip(1).step_by(2));
    names.filter(|name| !name.contains('/')).collect()
}

/// Returns the problems with a promise's tests, where these are the tests and cases that are run.
fn problems(promise: &str, tests: &BTreeSet<String>, cases: &BTreeSet<&str>) -> Vec<String> {
    let (number, rest) = promise.split_once(".**").expect("a promise has a number");
    let cited = cited(rest);
    // That order is not promised needs no test.
    if cited.is_empty() && number != "D4" {
        return vec![format!("{number} names no test")];
    }
    let is_run = |name: &&str| match name.contains("::") {
        true => cases.contains(name),
        false => tests.contains(*name),
    };
    let missing = cited.into_iter().filter(|name| !is_run(name));
    missing.map(|name| format!("{number} names {name}, which is not run")).collect()
}

/// The runs of Terraform's tests, as long as something makes them.
fn runs_of_terraform() -> BTreeSet<String> {
    let step = "terraform -chdir=infra test";
    let complete = read(&root().join("tests/complete"));
    assert!(complete.contains(step), "tests/complete does not run `{step}`");
    let all = files("infra/tests", &[".tftest.hcl"]);
    let names = |path: &PathBuf| {
        let text = read(path);
        let runs = text.lines().filter_map(|line| line.strip_prefix("run \"")?.split('"').next());
        runs.map(str::to_owned).collect::<Vec<_>>()
    };
    all.iter().flat_map(names).collect()
}

#[test]
fn every_promise_has_its_tests() {
    let text = read(&root().join("SEMANTICS.md"));
    let mut tests = BTreeSet::new();
    for folder in SOURCES {
        files(folder, &[".rs"]).iter().for_each(|path| tests.extend(tests_of(&read(path))));
    }
    tests.extend(runs_of_terraform());
    let all = gridpost_tests::e2e::cases::all();
    let cases: BTreeSet<_> = all.iter().map(|case| case.name).collect();
    let promises: Vec<&str> = text.split("\n**").skip(1).collect();
    assert!(promises.len() > 60, "the promises are not where this test looks");
    none(promises.iter().flat_map(|promise| problems(promise, &tests, &cases)).collect());
}

#[test]
fn what_is_not_run_is_no_test_of_a_promise() {
    let source = "
        /// fn a_name_in_a_comment() {
        #[test]
        fn one() {}
        fn a_helper() {}
        #[test]
        #[ignore = \"slow\"]
        fn ignored() {}
        #[tokio::test(start_paused = true)]
        /// What it shows.
        async fn two() {}
        #[test]
        #[cfg(feature = \"never\")]
        fn left_out() {}
        #[test]
        mod between {}
        fn another_helper() {}
        #[should_panic]
        #[test]
        pub async fn three() {}";
    let tests = tests_of(source);
    assert_eq!(tests.iter().map(String::as_str).collect::<Vec<_>>(), ["one", "three", "two"]);
    let cases = BTreeSet::from(["retrying::listed"]);
    let table = [
        ("X1.** text `one`\n*`one`, simulation `two`, e2e `retrying::listed`*", 0),
        ("X2.** text\n*`one`*\n\nMore\n*`ignored`, `a_helper`*", 2),
        ("X3.** text\n*e2e `retrying::removed`*", 1),
        ("X4.** text `one`", 1),
        ("D4.** text", 0),
        ("X5.** text\n*`one`, (`infra/tests/a.tftest.hcl`)*", 0),
    ];
    for (promise, want) in table {
        let found = problems(promise, &tests, &cases);
        assert_eq!(found.len(), want, "{found:?}");
    }
}

/// Whether cargo compiles a file by itself: it is the root of a crate.
fn is_root(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let in_source = path.iter().any(|part| part == "src");
    ["lib.rs", "main.rs", "build.rs"].iter().any(|name| path.ends_with(name))
        || !in_source
            && ["tests", "benches", "examples", "fuzz_targets"].iter().any(|it| folder == *it)
        || folder == "bin"
}

/// Returns the files in which the module of a file may be declared: beside its folder, or in it, by
/// `lib.rs`, `main.rs` or a file that has its own place by `#[path]`.
fn declaring(path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().expect("a folder");
    let siblings = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let siblings = siblings.filter(|file| file.extension().is_some_and(|it| it == "rs"));
    siblings.chain([folder.with_extension("rs")].into_iter().filter(|it| it.exists())).collect()
}

/// A file of tests that no module declares is not compiled, and says nothing.
#[test]
fn every_file_is_part_of_its_crate() {
    let mut problems = Vec::new();
    let sources = SOURCES.iter().flat_map(|f| files(f, &[".rs"]));
    for path in sources.filter(|path| !is_root(path)) {
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let declares = |line: &str| {
            let name = line.trim().strip_suffix(';').and_then(|line| line.strip_suffix(&*stem));
            name.is_some_and(|before| before == "mod " || before.ends_with(" mod "))
        };
        let declared = declaring(&path).iter().any(|file| read(file).lines().any(declares));
        if !declared {
            problems.push(format!("{} is in no module", path.display()));
        }
    }
    none(problems);
}

/// These tests are no target unless their manifest says so.
#[test]
fn every_file_of_these_tests_is_a_target() {
    let manifest = read(&root().join("tests/Cargo.toml"));
    let folder = root().join("tests/tests");
    let all = files("tests/tests", &[".rs"]);
    let roots = all.iter().filter(|path| path.parent() == Some(folder.as_path()));
    let listed = |path: &&PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        !manifest.contains(&format!("path = \"tests/{name}\""))
    };
    none(roots.filter(listed).map(|path| format!("{} is no target", path.display())).collect());
}
