//! Puts deliberate bugs into a copy of the tree, one at a time, and shows which seed of the simulation
//! catches each. Words after `--` pick mutations by parts of their names.
//!
//! `GRIDPOST_SIM_SEEDS` says how many seeds each gets, `GRIDPOST_MUTATIONS_TARGET` where their builds
//! lie. The first build takes minutes, every further one less than one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use gridpost_tests::mutations::{ALL, Mutation};
use serde_json::Value;

/// Seeds that each mutation gets.
const SEEDS: &str = "3000";

/// How long one run of the simulation may take: most bugs are caught in seconds.
const RUN_MAX: Duration = Duration::from_secs(300);

/// How often a running simulation is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The optimizer takes longer than it saves in so few seeds.
const FASTER_BUILD: [&str; 2] = [
    "profile.dev.package.gridpost-testkit.opt-level=1",
    "profile.dev.package.gridpost-simulation.opt-level=1",
];

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let words: Vec<_> = env::args().skip(1).collect();
    let wanted = |mutation: &&Mutation| {
        words.is_empty() || words.iter().any(|word| mutation.name.contains(word.as_str()))
    };
    let wanted: Vec<_> = ALL.iter().filter(wanted).collect();
    ensure!(!wanted.is_empty(), "no mutation has a name like that");
    let target = env::var_os("GRIDPOST_MUTATIONS_TARGET")
        .map_or_else(|| root.join("target/mutations/target"), PathBuf::from);
    let tree = root.join("target/mutations/tree");
    copy_tree(root, &tree)?;
    let mut survived = 0;
    println!("| mutation | caught by |\n|---|---|");
    for mutation in &wanted {
        let path = tree.join(mutation.file);
        let good = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let bad = mutation.apply(&good).map_err(anyhow::Error::msg)?;
        fs::write(&path, bad)?;
        let caught = prove(&tree, &target);
        fs::write(&path, good)?;
        let caught = caught.with_context(|| mutation.name)?;
        survived += usize::from(caught.is_none());
        println!("| {} | {} |", mutation.name, caught.as_deref().unwrap_or("**nothing**"));
    }
    println!("\n{} of {} mutations were caught.", wanted.len() - survived, wanted.len());
    Ok(if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Brings the copy up to date. What has not changed is left alone, so that it is not built again.
fn copy_tree(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(list).current_dir(root).output()?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        // What was deleted but not committed is still listed.
        let Ok(content) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|before| before == content) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::write(&to, content).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// What catches the bug that is in the tree now; `None` if nothing does.
fn prove(tree: &Path, target: &Path) -> anyhow::Result<Option<String>> {
    let simulation = build(tree, target)?;
    let said = run(&simulation, tree, "every_seed_keeps_the_promise")?;
    let seed = said.lines().find_map(|line| {
        let (_, rest) = line.split_once("GRIDPOST_SIM_SEED=")?;
        let (seed, _) = rest.split_once(' ')?;
        let (_, finding) = rest.split_once("# ")?;
        Some(format!("seed {seed}: {finding}"))
    });
    if seed.is_some() {
        return Ok(seed);
    }
    let mut said = run(&simulation, tree, "examples")?;
    said.push_str(&run(&simulation, tree, "changes")?);
    let failed = said.lines().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(format!("`{name}`"))
    });
    let failed: Vec<_> = failed.collect();
    Ok((!failed.is_empty()).then(|| failed.join(", ")))
}

/// Builds the simulation of that tree; answers its path.
fn build(tree: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let built = Command::new(env!("CARGO"))
        .args(["test", "-p", "gridpost-simulation", "--test", "simulation", "--no-run"])
        .args(["--message-format", "json"])
        .args(FASTER_BUILD.iter().flat_map(|setting| ["--config", setting]))
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .output()?;
    if !built.status.success() {
        bail!("it does not compile:\n{}", String::from_utf8_lossy(&built.stderr));
    }
    let messages = String::from_utf8_lossy(&built.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut simulations = messages.filter(|message| message["target"]["name"] == "simulation");
    let path = simulations.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    path.context("cargo named no executable")
}

/// Runs some of the simulation's tests; answers what they said.
fn run(simulation: &Path, tree: &Path, tests: &str) -> anyhow::Result<String> {
    let said = simulation.with_extension("said");
    let mut running = Command::new(simulation)
        .arg(tests)
        .current_dir(tree.join("tests/simulation"))
        .env("GRIDPOST_SIM_SEEDS", env::var("GRIDPOST_SIM_SEEDS").unwrap_or_else(|_| SEEDS.into()))
        .stdout(fs::File::create(&said)?)
        .stderr(Stdio::null())
        .spawn()?;
    let mut waited = Duration::ZERO;
    while running.try_wait()?.is_none() {
        thread::sleep(LOOK_AGAIN);
        waited += LOOK_AGAIN;
        if waited > RUN_MAX {
            running.kill()?;
            running.wait()?;
            eprintln!("no end of `{tests}` after {RUN_MAX:?}: that should have been a finding");
            break;
        }
    }
    Ok(fs::read_to_string(said)?)
}
