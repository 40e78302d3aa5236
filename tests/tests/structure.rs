//! Tests which crate may use which, and which file which: the picture in ARCHITECTURE is the real
//! one, no arrow points up, the core does no I/O, and crates that need no AWS SDK have none.

#[path = "structure/imports.rs"]
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace with those of it that they use, tests aside. Names without `gridpost-`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Crates that handlers are made of.
const BASE: &[&str] = &["core", "ports"];

/// The handlers.
const HANDLERS: &[&str] =
    &["ingest", "intake", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"];

/// Most that a crate may use of the workspace, in the order of the layers: each uses only those before
/// it.
const MAY_USE: [(&str, &[&[&str]]); 26] = [
    ("core", &[]),
    ("ports", &[&["core"]]),
    // What manage, the command line and the console say to each other.
    ("api", &[&["core"]]),
    ("runtime", &[BASE]),
    ("embedded", &[BASE]),
    ("webhook", &[BASE]),
    ("signing", &[BASE]),
    ("testkit", &[BASE]),
    ("aws", &[BASE, &["runtime", "signing"]]),
    ("ingest", &[BASE]),
    // What large publishes are made of, and events of sources, are sent as ingest sends.
    ("expand", &[BASE, &["ingest"]]),
    ("intake", &[BASE, &["ingest"]]),
    ("dispatch", &[BASE]),
    ("dead-letter", &[BASE, &["ingest"]]),
    ("redrive", &[BASE]),
    ("manage", &[BASE, &["api"]]),
    ("wake", &[BASE]),
    ("programs", &[BASE, HANDLERS, &["runtime", "aws", "webhook"]]),
    ("server", &[BASE, HANDLERS, &["api", "runtime", "embedded", "webhook", "signing"]]),
    // The command line knows the resource API, and no handler.
    ("ops", &[&["core", "api"]]),
    ("console", &[&["core", "api", "ops"]]),
    ("stack", &[&["core", "api", "ops"]]),
    ("cli", &[BASE, &["api", "runtime", "server", "ops", "console", "stack"]]),
    // The simulation compares filters with this crate's naive ones.
    ("fuzz", &[&["core", "api"]]),
    ("simulation", &[BASE, HANDLERS, &["api", "runtime", "testkit", "embedded", "aws", "fuzz"]]),
    (
        "tests",
        &[
            BASE,
            HANDLERS,
            &["api", "runtime", "aws", "webhook", "signing", "testkit", "programs"],
            &["ops", "stack", "simulation", "fuzz"],
        ],
    ),
];

/// All that the core may depend on: nothing of it reaches AWS, a network, a runtime, a clock or dice.
const OF_THE_CORE: [&str; 19] = [
    "base64",
    "bytes",
    "hmac",
    "http",
    "httpdate",
    "ipnet",
    "memchr",
    "pem",
    "percent-encoding",
    "serde",
    "serde_json",
    "serde_with",
    "sha2",
    "strum",
    "subtle",
    "thiserror",
    "time",
    "url",
    "uuid",
];

/// Crates that tests use besides the testkit.
const BESIDES: [(&str, &str); 8] = [
    ("gridpost-api", "gridpost-core"),
    ("gridpost-console", "gridpost-ops"),
    ("gridpost-stack", "gridpost-ops"),
    ("gridpost-cli", "gridpost-ops"),
    ("gridpost-webhook", "gridpost-runtime"),
    ("gridpost-ingest", "gridpost-runtime"),
    ("gridpost-manage", "gridpost-runtime"),
    // A large publish is followed to its deliveries.
    ("gridpost-ingest", "gridpost-expand"),
];

/// Crates that reach a network, a runtime, a clock or dice, by the beginning of their names.
const IO_CRATES: [&str; 14] = [
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

/// Tests and builds use the testkit and little besides.
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
fn no_arrow_points_up() {
    let graph = graph();
    let layer = |name: &str| MAY_USE.iter().position(|(known, _)| *known == name);
    for (name, may) in MAY_USE {
        for used in &graph[name] {
            let is_allowed = may.iter().any(|some| some.contains(&used.as_str()));
            assert!(is_allowed, "{name} uses {used}");
            assert!(layer(used) < layer(name), "{name} uses {used}, which lies above it");
        }
    }
    assert_eq!(graph.len(), MAY_USE.len(), "a crate without a rule: {:?}", graph.keys());
}

/// A module and those inside it may use each other; any other two files are about one thing, or one has
/// an item of the other.
#[test]
fn no_two_files_import_each_other() {
    let mut read = 0;
    let mut problems = Vec::new();
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let folder = manifest.parent().expect("a package's folder").join("src");
        if !folder.exists() {
            continue;
        }
        let graph = imports::graph(&folder);
        read += graph.len();
        for circle in imports::circles(&graph) {
            let lines = imports::lines(&graph, &circle);
            problems.extend(lines.into_iter().map(|line| format!("{}: {line}", package["name"])));
        }
    }
    assert!(read > 500, "{read} files are not all");
    assert!(problems.is_empty(), "files that import each other:\n{}", problems.join("\n"));
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

/// Features for tests of others reach no program: only tests turn them on.
#[test]
fn fixtures_are_for_tests() {
    for package in packages() {
        for used in package["dependencies"].as_array().expect("dependencies") {
            let features = used["features"].as_array().expect("features");
            let has_fixtures = features.iter().any(|feature| feature == "fixtures");
            let name = package["name"].as_str().expect("a name");
            let is_for_tests = ["gridpost-testkit", "gridpost-tests"].contains(&name);
            assert!(!has_fixtures || is_for_tests || used["kind"] == "dev", "{name}: {used}");
        }
    }
}

#[test]
fn the_core_does_no_io() {
    none_of("gridpost-core", &IO_CRATES);
}

#[test]
fn handlers_have_no_aws_sdk_and_the_command_line_four_clients() {
    for handler in HANDLERS {
        let package = format!("gridpost-{handler}");
        none_of(&package, &["aws-sdk", "aws-config", "lambda_runtime"]);
    }
    none_of("gridpost-embedded", &["aws-", "lambda_runtime"]);
    none_of("gridpost-server", &["aws-sdk", "aws-config", "lambda_runtime"]);
    none_of("gridpost-cli", &["lambda_runtime"]);
    // Arguments are the command line's.
    none_of("gridpost-ops", &["clap", "lambda_runtime"]);
    // It needs them to find credentials; more take longer to compile than all else.
    let mut sdks = built("gridpost-cli");
    sdks.retain(|name| name.starts_with("aws-sdk-"));
    assert_eq!(sdks, ["signin", "sso", "ssooidc", "sts"].map(|it| format!("aws-sdk-{it}")).into());
}

/// The modules of the core, in the order of its `lib.rs`: each uses those before it.
#[test]
fn modules_of_the_core_go_round_in_no_circle() {
    let folder = root().join("shared/core/src");
    let list = fs::read_to_string(folder.join("lib.rs")).expect("lib.rs");
    let modules = list.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let modules: Vec<&str> = modules.collect();
    assert!(modules.len() > 10, "the modules are not where this test looks");
    let place = |module: &imports::Module| {
        modules.iter().position(|name| module.first().is_some_and(|first| first == name))
    };
    let graph = imports::graph(&folder);
    for (own, used) in &graph {
        for other in used.keys() {
            let (builds, on) = (own.join("/"), other.join("/"));
            assert!(place(own).is_none() || place(other) <= place(own), "{builds} uses {on}");
        }
    }
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

/// Each doc test is linked as a separate program, which takes longer than running it.
#[test]
fn no_package_has_doc_tests() {
    for package in &packages() {
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
