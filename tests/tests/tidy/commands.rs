//! The two commands that run all tests: README has them, and CI runs them.

use std::collections::BTreeSet;

use super::{SOURCES, files, none, read, root};

/// The command for what needs Rust alone, and the one for what needs more.
const COMMANDS: [&str; 2] = ["cargo test", "tests/complete"];

/// The commands in a page's blocks of shell, without what is said behind them.
fn commands_of(page: &str) -> BTreeSet<&str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines);
    lines.map(|line| line.split(" # ").next().unwrap_or_default().trim()).collect()
}

#[test]
fn ci_runs_the_readmes_test_commands() {
    let page = read(&root().join("README.md"));
    let commands = commands_of(&page);
    let tests = commands.iter().filter(|it| it.contains("cargo test") || it.contains("complete"));
    assert_eq!(tests.copied().collect::<Vec<_>>(), COMMANDS, "the test commands of README.md");
    let steps = read(&root().join(".ci/run"));
    let steps: Vec<_> = steps.lines().filter(|line| line.starts_with("step '")).collect();
    for command in COMMANDS {
        // A function of CI may come before the command, for what it meets; nothing comes behind it.
        let runs = steps.iter().filter(|step| step.ends_with(&format!(" {command}"))).count();
        assert_eq!(runs, 1, "steps of .ci/run that end in `{command}`: {steps:?}");
    }
}

/// They would be tests that are not run: `tests/structure.rs` says why.
#[test]
fn no_comment_has_code_for_a_doc_test() {
    let sources = SOURCES.iter().flat_map(|f| files(f, &[".rs"]));
    let is_fence = |line: &str| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        comment.is_some_and(|text| text.trim_start().starts_with("```"))
    };
    let has_one = |path: &std::path::PathBuf| read(path).lines().any(is_fence);
    none(sources.filter(has_one).map(|path| path.display().to_string()).collect());
}
