//! Which crate may use which, as tests: the picture in ARCHITECTURE is the real one, the core reaches
//! nothing of the world, and what needs no AWS SDK has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace with those of it that they use, tests aside. Names without `gridpost-`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Most that a crate may use of the workspace, from the core outwards. `tests` may use all of it.
const MAY_USE: [(&str, &[&str]); 21] = [
    ("core", &[]),
    ("what-is-left", &[]),
    ("ports", &["core"]),
    ("runtime", &["core", "ports"]),
    ("embedded", &["core", "ports"]),
    ("webhook", &["core", "ports"]),
    ("signing", &["core", "ports"]),
    ("testkit", &["core", "ports"]),
    ("aws", &["core", "ports", "runtime", "signing"]),
    ("ingest", &["core", "ports"]),
    // What large publishes are made of, and events of sources, are sent as ingest sends.
    ("expand", &["core", "ports", "ingest"]),
    ("intake", &["core", "ports", "ingest"]),
    ("dispatch", &["core", "ports"]),
    ("dead-letter", &["core", "ports"]),
    ("redrive", &["core", "ports"]),
    ("manage", &["core", "ports"]),
    ("wake", &["core", "ports"]),
    (
        "programs",
        &[
            "core",
            "ports",
            "runtime",
            "aws",
            "webhook",
            "ingest",
            "intake",
            "expand",
            "dispatch",
            "dead-letter",
            "redrive",
            "manage",
            "wake",
        ],
    ),
    (
        "server",
        &[
            "core",
            "ports",
            "runtime",
            "embedded",
            "webhook",
            "signing",
            "ingest",
            "expand",
            "dispatch",
            "dead-letter",
            "redrive",
            "manage",
            "wake",
        ],
    ),
    ("cli", &["core", "ports", "runtime", "server"]),
    (
        "simulation",
        &[
            "core",
            "ports",
            "runtime",
            "testkit",
            "embedded",
            "ingest",
            "intake",
            "expand",
            "dispatch",
            "dead-letter",
            "redrive",
            "manage",
            "wake",
        ],
    ),
];

/// All that the core may depend on: nothing of it reaches AWS, a network, a runtime, a clock or dice.
const OF_THE_CORE: [&str; 17] = [
    "base64",
    "bytes",
    "hmac",
    "http",
    "ipnet",
    "memchr",
    "pem",
    "percent-encoding",
    "serde",
    "serde_json",
    "sha2",
    "strum",
    "subtle",
    "thiserror",
    "time",
    "url",
    "uuid",
];

/// What tests of a crate use besides the testkit.
const BESIDES: [(&str, &str); 4] = [
    ("gridpost-webhook", "gridpost-runtime"),
    ("gridpost-ingest", "gridpost-runtime"),
    ("gridpost-manage", "gridpost-runtime"),
    // A large publish is followed to its deliveries.
    ("gridpost-ingest", "gridpost-expand"),
];

/// What reaches a network, a runtime, a clock or dice, by the beginning of its name.
const WORLD: [&str; 14] = [
    "aws",
    "fastrand",
    "getrandom",
    "h2",
    "hyper",
    "lambda",
    "mio",
    "rand",
    "reqwest",
    "rustls",
    "rusqlite",
    "socket2",
    "tokio",
    "ureq",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    serde_json::from_value(document["packages"].take()).expect("packages")
}

fn graph() -> Graph {
    let short = |value: &Value| {
        value["name"].as_str().and_then(|name| name.strip_prefix("gridpost-")).map(str::to_owned)
    };
    let uses = |package: &Value| {
        let all = package["dependencies"].as_array().expect("dependencies");
        // What a feature adds (`dev --allow-aws`) is in no build that is made without it.
        let is_own = |one: &&Value| {
            one["path"].is_string() && one["kind"].is_null() && one["optional"] != true
        };
        let own = all.iter().filter(is_own);
        own.filter_map(short).collect()
    };
    packages().iter().filter_map(|package| Some((short(package)?, uses(package)))).collect()
}

/// The picture, as Mermaid draws it. An arrow that follows from two others is left out.
fn picture(graph: &Graph) -> String {
    fn reaches(graph: &Graph, from: &str, to: &str) -> bool {
        graph[from].iter().any(|next| next == to || reaches(graph, next, to))
    }
    let mut lines = vec!["```mermaid".to_owned(), "graph TD".to_owned()];
    for (name, uses) in graph {
        for used in uses {
            if !uses.iter().any(|other| reaches(graph, other, used)) {
                lines.push(format!("  {name} --> {used}"));
            }
        }
    }
    lines.push("```".to_owned());
    lines.join("\n")
}

/// Every crate that a build of `package` alone compiles, build scripts and macros aside.
fn built(package: &str) -> BTreeSet<String> {
    let text =
        cargo(&["tree", "-p", package, "-e", "no-dev,no-build,no-proc-macro", "--prefix", "none"]);
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn none_of(package: &str, beginnings: &[&str]) {
    let built = built(package);
    assert!(built.len() > 1, "{package}: {built:?}");
    let is_one = |name: &&String| beginnings.iter().any(|beginning| name.starts_with(beginning));
    let found: Vec<_> = built.iter().filter(is_one).collect();
    assert!(found.is_empty(), "{package} builds {found:?}");
}

#[test]
fn the_picture_in_architecture_is_the_real_one() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let picture = picture(&graph());
    assert!(page.contains(&picture), "ARCHITECTURE.md must have this picture:\n\n{picture}\n");
}

/// On every platform, with every feature, and for its build; `Cargo.toml` proves the purity.
#[test]
fn the_core_depends_on_a_short_list() {
    let packages = packages();
    let core = packages.iter().find(|one| one["name"] == "gridpost-core").expect("the core");
    for used in core["dependencies"].as_array().expect("dependencies") {
        let name = used["name"].as_str().expect("a name");
        let is_test = used["kind"] == "dev" && name == "proptest";
        assert!(is_test || OF_THE_CORE.contains(&name), "the core depends on {name}");
        let features = used["features"].as_array().expect("features");
        let makes_ids =
            features.iter().any(|one| one.as_str().is_some_and(|it| it.starts_with('v')));
        assert!(name != "uuid" || !makes_ids, "ids are made by dice, which the core has not");
    }
}

/// What tests and builds use besides.
#[test]
fn tests_use_the_testkit_and_little_besides() {
    for package in packages() {
        let own = package["name"].as_str().expect("a name");
        assert!(
            own.starts_with("gridpost-"),
            "{own}: crates of the workspace begin with gridpost-"
        );
        for used in package["dependencies"].as_array().expect("dependencies") {
            let name = used["name"].as_str().expect("a name");
            if used["path"].is_string() && !used["kind"].is_null() {
                let allowed = name == "gridpost-testkit" || BESIDES.contains(&(own, name));
                assert!(allowed && used["kind"] == "dev", "{own} uses {name} besides");
            }
        }
    }
}

#[test]
fn crates_use_what_lies_further_in() {
    let graph = graph();
    for (name, may) in MAY_USE {
        let extra: Vec<_> =
            graph[name].iter().filter(|used| !may.contains(&used.as_str())).collect();
        assert!(extra.is_empty(), "{name} uses {extra:?}");
    }
    let known = MAY_USE.len() + 1;
    assert_eq!(graph.len(), known, "a crate without a rule: {:?}", graph.keys());
}

/// The programs of the functions are wiring: `shared/runtime` reads their settings and runs them.
#[test]
fn every_function_has_the_same_edge() {
    let mut programs = 0;
    let mut problems = Vec::new();
    let folder = root().join("functions/programs/src");
    for path in [folder.clone(), folder.join("bin")] {
        let files = fs::read_dir(path).expect("the programs").flatten();
        for path in files.map(|file| file.path()).filter(|path| path.is_file()) {
            let text = fs::read_to_string(&path).expect("a file");
            programs += usize::from(text.contains("fn main()"));
            for word in ["\"GRIDPOST_", "service_fn", "LambdaEvent"] {
                if text.contains(word) {
                    problems.push(format!("{} has {word}", path.display()));
                }
            }
        }
    }
    assert_eq!(programs, 9, "the programs are not where this test looks");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// What the core has for tests must reach no function: testkit alone turns it on.
#[test]
fn fixtures_are_for_tests() {
    for package in packages() {
        for used in package["dependencies"].as_array().expect("dependencies") {
            let features = used["features"].as_array().expect("features");
            let has_fixtures = features.iter().any(|feature| feature == "fixtures");
            let name = package["name"].as_str().expect("a name");
            assert!(!has_fixtures || name == "gridpost-testkit", "{name}: {used}");
        }
    }
}

#[test]
fn the_core_reaches_nothing_of_the_world() {
    none_of("gridpost-core", &WORLD);
}

#[test]
fn handlers_and_command_line_have_no_aws_sdk() {
    for handler in
        ["ingest", "intake", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"]
    {
        none_of(&format!("gridpost-{handler}"), &["aws-sdk", "aws-config", "lambda_runtime"]);
    }
    none_of("gridpost-embedded", &["aws-", "lambda_runtime"]);
    none_of("gridpost-server", &["aws-sdk", "aws-config", "lambda_runtime"]);
    none_of("gridpost-cli", &["aws-sdk", "lambda_runtime"]);
}

/// The modules of the core, in the order of its `lib.rs`: each uses those before it.
#[test]
fn modules_of_the_core_go_round_in_no_circle() {
    let folder = root().join("shared/core/src");
    let list = fs::read_to_string(folder.join("lib.rs")).expect("lib.rs");
    let modules = list.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let modules: Vec<&str> = modules.collect();
    assert!(modules.len() > 10, "the modules are not where this test looks");
    let mut problems = Vec::new();
    let mut open = vec![folder.clone()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(&folder).expect("inside").with_extension("");
            let first = inside.iter().next().expect("a name").to_string_lossy().into_owned();
            let tests = inside.iter().any(|part| part == "tests");
            let Some(own) = modules.iter().position(|name| *name == first).filter(|_| !tests)
            else {
                continue;
            };
            let text = fs::read_to_string(&path).expect("a file");
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for used in modules_named(code) {
                if modules.iter().position(|name| *name == used).is_some_and(|at| at > own) {
                    problems.push(format!("{} uses {used}, which builds on it", inside.display()));
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// The modules of its crate that code names: in `crate::name` and `use crate::{name…, name…}`.
fn modules_named(code: &str) -> BTreeSet<&str> {
    let word =
        |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(&rest[..word(rest)]);
            continue;
        };
        let mut depth = 1;
        let mut begins = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                _ if begins && c.is_alphabetic() => {
                    found.insert(&list[at..at + word(&list[at..])]);
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

#[test]
fn modules_are_found_in_every_form() {
    let code = "use crate::{\n    a::{b, c},\n    d,\n};\nuse crate::e::f;\nlet x = crate::g::h();";
    assert_eq!(modules_named(code).into_iter().collect::<Vec<_>>(), ["a", "d", "e", "g"]);
}

/// Otherwise `cargo run`, and `cargo lambda watch` below it, would compile most of what `cargo test` has
/// compiled a second time.
#[test]
fn what_tests_have_compiled_is_what_cargo_run_compiles() {
    let features = |edges: &str| -> BTreeSet<String> {
        let text = cargo(&["tree", "-e", edges, "--prefix", "none", "-f", "{p} [{f}]"]);
        text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    };
    let (tested, run) = (features("normal,build,dev"), features("normal,build"));
    let only_run: Vec<_> = run.difference(&tested).collect();
    assert!(only_run.is_empty(), "with other features than in tests: {only_run:?}");
}

/// What `cargo test` leaves out is said at its end. Cargo runs the packages' tests by their names, and
/// doc tests after all others, so they are left out.
#[test]
fn what_is_left_is_said_last() {
    let packages = packages();
    let last = packages.iter().filter_map(|package| package["name"].as_str()).max();
    assert_eq!(last, Some("gridpost-what-is-left"));
    for package in &packages {
        for target in package["targets"].as_array().expect("targets") {
            let (name, has_doc_tests) = (&target["name"], target["doctest"] == true);
            assert!(!has_doc_tests, "{name}: [lib] needs doctest = false");
        }
    }
}

/// `cargo run --bin NAME`, which `cargo lambda watch` calls for a function, takes no name of two programs.
#[test]
fn no_two_programs_have_one_name() {
    let packages = packages();
    let targets = packages.iter().flat_map(|one| one["targets"].as_array().expect("targets"));
    let programs = targets.filter(|target| target["kind"] == serde_json::json!(["bin"]));
    let mut names: Vec<_> = programs.map(|target| target["name"].to_string()).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(names.len() > 6 && twice.is_empty(), "{twice:?} of {names:?}");
}
