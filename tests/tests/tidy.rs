//! House rules, as tests.

#[path = "tidy/commands.rs"]
mod commands;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/promises.rs"]
mod promises;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gridpost_core::retry::{
    health::Durations,
    outcome::Outcome,
    profile::{EndpointKind, ProfileName, Rule},
};

/// Folders of code.
const SOURCES: [&str; 5] = ["cli", "functions", "server", "shared", "tests"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// All files below `folder` with one of these extensions, apart from what is generated or cached.
fn files(folder: &str, extensions: &[&str]) -> Vec<PathBuf> {
    const LEFT_OUT: [&str; 5] = ["target", ".git", ".terraform", ".gridpost", "__pycache__"];
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
                open.push(path);
            } else if extensions.iter().any(|extension| name.ends_with(extension)) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no file in {folder}");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

/// The code of a file, without its tests and comments.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Fails with every line of `problems`.
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn every_module_says_what_it_is() {
    // A module's tests in a file of their own are no module of their own.
    let undocumented = |path: &&PathBuf| {
        !path.ends_with("tests.rs") && !read(path).trim_start().starts_with("//!")
    };
    let sources = SOURCES.iter().flat_map(|folder| files(folder, &[".rs"])).collect::<Vec<_>>();
    let undocumented = sources.iter().filter(undocumented);
    none(undocumented.map(|path| format!("{} has no doc comment", path.display())).collect());
}

#[test]
fn modules_lie_beside_their_folders() {
    let sources = SOURCES.iter().flat_map(|f| files(f, &[".rs"]));
    none(
        sources.filter(|path| path.ends_with("mod.rs")).map(|p| p.display().to_string()).collect(),
    );
}

/// The rule of CONTRIBUTING, "One word for one thing".
#[test]
fn types_are_named_for_what_they_are() {
    let names = ["Asked", "Found", "Hand", "Met", "Strand", "Told", "Way", "Whose", "World"];
    let mut problems = Vec::new();
    for path in SOURCES.iter().flat_map(|folder| files(folder, &[".rs"])) {
        let text = read(&path);
        let words = text.split_whitespace().collect::<Vec<_>>();
        for pair in words.windows(2) {
            let end = pair[1].find(|c: char| !c.is_alphanumeric()).unwrap_or(pair[1].len());
            let is_type = ["struct", "enum", "trait", "type"].contains(&pair[0]);
            if is_type && names.contains(&&pair[1][..end]) {
                problems.push(format!("{} has a type {}", path.display(), &pair[1][..end]));
            }
        }
    }
    none(problems);
}

#[test]
fn nothing_is_left_to_be_done() {
    // In two parts, or this file would find itself.
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["dbg", "!("], ["todo", "!("]];
    let words = words.map(|parts| parts.concat());
    let texts = files(".", &[".rs", ".tf", ".md", ".py", ".hcl"]);
    none(
        texts
            .iter()
            .flat_map(|path| {
                let text = read(path);
                let found = words.iter().filter(|word| text.contains(word.as_str()));
                found.map(|word| format!("{} says {word}", path.display())).collect::<Vec<_>>()
            })
            .collect(),
    );
}

#[test]
fn no_path_of_somebodys_machine() {
    let homes = [["/ho", "me/"], ["/Us", "ers/"], ["/ro", "ot/"], ["/wo", "rk/"]];
    let homes = homes.map(|parts| parts.concat());
    let texts = files(".", &[".rs", ".tf", ".md", ".py", ".hcl", ".toml", ".json", ".yml", "run"]);
    none(
        texts
            .iter()
            .flat_map(|path| {
                let text = read(path);
                let found = homes.iter().filter(|home| {
                    text.match_indices(home.as_str()).any(|(at, _)| {
                        // A path of a URL or of an example is none of a machine.
                        at == 0
                            || text.as_bytes()[at - 1].is_ascii_whitespace()
                            || b"\"'(=`".contains(&text.as_bytes()[at - 1])
                    })
                });
                found.map(|home| format!("{} names {home}", path.display())).collect::<Vec<_>>()
            })
            .collect(),
    );
}

#[test]
fn documents_link_to_what_is_there() {
    let mut problems = Vec::new();
    // The template of docs/cost.md has the links of that page.
    for path in files(".", &[".md"]).into_iter().filter(|path| !path.ends_with("cost/page.md")) {
        let text = read(&path);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_outside = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
            let folder = path.parent().expect("a file has a folder");
            if !is_outside && !folder.join(file).exists() {
                problems.push(format!("{} links to {link}, which is not there", path.display()));
            }
        }
    }
    none(problems);
}

/// `tests/bugs/run` applies each patch. If one no longer applies, make it again for the new code.
#[test]
fn every_bug_can_be_put_into_the_tree() {
    let problems = files("tests/bugs", &[".patch"]).into_iter().filter_map(|patch| {
        let check =
            Command::new("git").args(["apply", "--check"]).arg(patch).current_dir(root()).output();
        let check = check.expect("git");
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        (!check.status.success()).then_some(said)
    });
    none(problems.collect());
}

/// `cargo lambda watch` gives the functions this file and nothing else.
#[test]
fn functions_start_with_the_settings_of_local_env() {
    const ASKS: &str = r#"text("GRIDPOST_"#;
    let given = read(&root().join("functions/local.env"));
    let mut asked = 0;
    let mut problems = Vec::new();
    let here = ["functions", "shared/runtime/src"];
    for path in here.into_iter().flat_map(|folder| files(folder, &[".rs"])) {
        for name in code(&read(&path)).split(ASKS).skip(1) {
            let name = name.split('"').next().unwrap_or_default();
            let name = format!("GRIDPOST_{name}");
            asked += 1;
            if !given.lines().any(|line| line.starts_with(&format!("{name}="))) {
                problems.push(format!("{}: {name} is not in functions/local.env", path.display()));
            }
        }
    }
    assert!(asked > 5, "nobody asks for a setting any more by {ASKS}");
    none(problems);
}

/// The settings page has every variable that the command line and the functions read from their
/// environment.
#[test]
fn the_settings_page_has_every_variable() {
    let page = read(&root().join("docs/settings.md"));
    let mut found = 0;
    let mut problems = Vec::new();
    let here = ["cli", "shared/runtime/src"];
    for path in here.into_iter().flat_map(|folder| files(folder, &[".rs"])) {
        for name in code(&read(&path)).split("\"GRIDPOST_").skip(1) {
            let name = name.split('"').next().unwrap_or_default();
            let is_whole = name.ends_with(|last: char| last.is_ascii_uppercase());
            if !is_whole || !name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_') {
                continue;
            }
            found += 1;
            if !page.contains(&format!("`GRIDPOST_{name}`")) {
                problems.push(format!("{}: GRIDPOST_{name}", path.display()));
            }
        }
    }
    assert!(found > 20, "{found} variables are read");
    none(problems);
}

#[test]
fn the_guide_has_the_rules_of_every_profile() {
    const ALL: [ProfileName; 3] =
        [ProfileName::Basic, ProfileName::Basic2021, ProfileName::Namespace];
    const NAMED: [u16; 11] = [400, 401, 403, 404, 408, 410, 413, 414, 429, 503, 504];
    let page = read(&root().join("docs/event-subscriptions.md"));
    let rule = |name: ProfileName, status, outcome| {
        name.profile().rule(EndpointKind::Webhook, status, outcome)
    };
    let row = |label: &str, status: Option<u16>, outcome| {
        let cells = ALL.map(|name| match rule(name, status, outcome) {
            Rule::End => "ends".to_owned(),
            Rule::Retry { min_s } if min_s % 60 == 0 => format!("after {} min", min_s / 60),
            Rule::Retry { min_s } => format!("after {min_s} s"),
        });
        let probation = match Durations::default().of(outcome).map(|wait| wait.as_secs()) {
            None => "none".to_owned(),
            Some(seconds) if seconds % 60 == 0 => format!("{} min", seconds / 60),
            Some(seconds) => format!("{seconds} s"),
        };
        format!("| {label} | `{outcome}` | {} | {probation} |", cells.join(" | "))
    };
    let other = Outcome::ServerError;
    let of_status =
        |status: &u16| row(&format!("`{status}`"), Some(*status), Outcome::of_status(*status));
    let mut rows: Vec<_> = NAMED.iter().map(of_status).collect();
    rows.push(row("no answer in 30 s", None, Outcome::TimedOut));
    rows.push(row("no connection", None, Outcome::SocketError));
    rows.push(row("no such host", None, Outcome::ResolutionError));
    rows.push(row("any other, `205` and redirects too", Some(500), other));
    let delivered = |status: &u16| Outcome::of_status(*status) == Outcome::Delivered;
    assert_eq!((200..600).filter(delivered).collect::<Vec<_>>(), [200, 201, 202, 203, 204]);
    let delivered = "| `200` to `204` | `Delivered` | delivered | delivered | delivered | none |";
    rows.push(delivered.to_owned());
    none(rows.into_iter().filter(|row| !page.contains(row)).collect());
    for status in (205..600).filter(|status| !NAMED.contains(status)) {
        assert_eq!(Outcome::of_status(status), other, "{status}");
        for name in ALL {
            assert_eq!(rule(name, Some(status), other), rule(name, Some(500), other), "{status}");
        }
    }
}
