//! Puts deliberate bugs into a copy of the tree, one at a time, and shows what catches each: a seed
//! of the simulation, or tests of a package. Words after `--` pick mutations by parts of their
//! names.
//!
//! `GRIDPOST_SIM_SEEDS` sets how many seeds each gets. `GRIDPOST_MUTATIONS_TARGET` sets the folder
//! of the copy and its builds: runs side by side need one each. The first build takes minutes,
//! every further one less than one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use gridpost_tests::mutations::{Witness, all};
use serde_json::Value;

/// Seeds that each mutation gets.
const SEEDS: &str = "3000";

/// How long one run of tests may take: most bugs are caught in seconds.
const RUN_MAX: Duration = Duration::from_secs(300);

/// How often running tests are checked.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// With so few seeds, the optimizer takes longer than it saves.
const FASTER_BUILD: [&str; 2] = [
    "profile.dev.package.gridpost-testkit.opt-level=1",
    "profile.dev.package.gridpost-simulation.opt-level=1",
];

/// The simulation as a package and its tests.
const SIMULATION: (&str, &[&str]) = ("gridpost-simulation", &["--test", "simulation"]);

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let words: Vec<_> = env::args().skip(1).collect();
    let is_wanted =
        |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let wanted: Vec<_> = all().filter(|(mutation, _)| is_wanted(mutation.name)).collect();
    ensure!(!wanted.is_empty(), "no mutation has a name like that");
    let target = env::var_os("GRIDPOST_MUTATIONS_TARGET")
        .map_or_else(|| root.join("target/mutations/target"), PathBuf::from);
    let tree = Tree { root: target.join("tree"), target };
    copy_tree(root, &tree.root)?;
    let (mut survived, began) = (0, SystemClock.now());
    println!("| mutation | caught by |\n|---|---|");
    for (mutation, witness) in &wanted {
        let path = tree.root.join(mutation.file);
        let good = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let bad = mutation.apply(&good).map_err(anyhow::Error::msg)?;
        fs::write(&path, bad)?;
        let caught = tree.prove(*witness);
        fs::write(&path, good)?;
        survived += usize::from(!matches!(caught, Ok(Some(_))));
        let told = match caught {
            Ok(caught) => caught.unwrap_or_else(|| "**nothing**".into()),
            // The others are still worth running.
            Err(error) => format!("**not shown**: {error:#}"),
        };
        println!("| {} | {told} |", mutation.name);
    }
    let (caught, took) = (wanted.len() - survived, SystemClock.now().since(began).as_secs());
    println!("\n{caught} of {} mutations were caught, in {took} s.", wanted.len());
    Ok(if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Brings the copy up to date. Unchanged files are left alone, so that they are not built again.
fn copy_tree(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(list).current_dir(root).output()?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        // Files that were deleted but not committed are still listed.
        let Ok(content) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|before| before == content) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::write(&to, content).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// A copy of the workspace, and where its builds lie.
struct Tree {
    root: PathBuf,
    target: PathBuf,
}

/// A program of tests.
struct Program {
    path: PathBuf,
    /// The package's folder, where `cargo test` would run it.
    folder: PathBuf,
}

impl Tree {
    /// What catches the bug that is in the tree now; `None` if nothing does.
    fn prove(&self, witness: Witness) -> anyhow::Result<Option<String>> {
        match witness {
            Witness::Simulation => self.prove_by_simulation(),
            Witness::Tests { package, which } => self.prove_by_tests(package, which),
            Witness::Worlds { test, named } => {
                let worlds = self.build(SIMULATION.0, &["--test", test])?.pop();
                let said = worlds.context("cargo built no simulation")?.run(&[named])?;
                ensure!(!said.contains("running 0 tests"), "no test has a name like {named}");
                Ok(listed(failures(&said)))
            }
            Witness::Terraform { files } => self.prove_by_terraform(files),
        }
    }

    fn prove_by_tests(&self, package: &str, which: &[&str]) -> anyhow::Result<Option<String>> {
        let mut failed = Vec::new();
        for program in self.build(package, which)? {
            failed.extend(failures(&program.run(&[])?));
            if !failed.is_empty() {
                break;
            }
        }
        Ok(listed(failed))
    }

    fn prove_by_terraform(&self, files: &[&str]) -> anyhow::Result<Option<String>> {
        let terraform = |arguments: &[String]| {
            let mut command = Command::new("terraform");
            command.arg("-chdir=infra").args(arguments).current_dir(&self.root);
            command.output().context("terraform does not start")
        };
        let init = ["init", "-input=false", "-backend=false", "-no-color"].map(str::to_owned);
        let ready = terraform(&init)?;
        ensure!(ready.status.success(), "{}", String::from_utf8_lossy(&ready.stderr));
        let filters = files.iter().map(|file| format!("-filter=tests/{file}"));
        let test = ["test", "-no-color"].map(str::to_owned).into_iter().chain(filters);
        let tested = terraform(&test.collect::<Vec<_>>())?;
        let said = String::from_utf8_lossy(&tested.stdout);
        let failed = said.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("run \"")?.strip_suffix("\"... fail")?;
            Some(format!("`{name}`"))
        });
        let failed: Vec<_> = failed.collect();
        ensure!(tested.status.success() || !failed.is_empty(), "{said}");
        Ok(listed(failed))
    }

    fn prove_by_simulation(&self) -> anyhow::Result<Option<String>> {
        let (package, which) = SIMULATION;
        let simulation = self.build(package, which)?.pop().context("cargo built no simulation")?;
        let said = simulation.run(&["--exact", "seeds::every_seed_keeps_the_promise"])?;
        let seed = said.lines().find_map(|line| {
            let (_, rest) = line.split_once("GRIDPOST_SIM_SEED=")?;
            let (seed, _) = rest.split_once(' ')?;
            let (_, finding) = rest.split_once("# ")?;
            Some(format!("seed {seed}: {finding}"))
        });
        if seed.is_some() {
            return Ok(seed);
        }
        let mut failed = failures(&simulation.run(&["examples"])?);
        failed.extend(failures(&simulation.run(&["changes"])?));
        Ok(listed(failed))
    }

    /// Builds tests of that tree.
    fn build(&self, package: &str, which: &[&str]) -> anyhow::Result<Vec<Program>> {
        let built = Command::new(env!("CARGO"))
            .args(["test", "--package", package, "--no-run", "--message-format", "json"])
            .args(which)
            .args(FASTER_BUILD.iter().flat_map(|setting| ["--config", setting]))
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .output()?;
        if !built.status.success() {
            bail!("it does not compile:\n{}", String::from_utf8_lossy(&built.stderr));
        }
        let messages = String::from_utf8_lossy(&built.stdout);
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let programs = messages.filter(|message| message["profile"]["test"] == true);
        let program = |message: Value| {
            let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
            Some(Program { path: message["executable"].as_str()?.into(), folder })
        };
        let programs: Vec<_> = programs.filter_map(program).collect();
        ensure!(!programs.is_empty(), "cargo named no executable of {package}");
        Ok(programs)
    }
}

impl Program {
    /// Runs the tests that these arguments select; returns their output.
    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let said = self.path.with_extension("said");
        let seeds = env::var("GRIDPOST_SIM_SEEDS").unwrap_or_else(|_| SEEDS.into());
        let mut running = Command::new(&self.path)
            .args(arguments)
            .current_dir(&self.folder)
            .env("GRIDPOST_SIM_SEEDS", seeds)
            // One seed is enough.
            .env("GRIDPOST_SIM_FAILURES", "1")
            .stdout(fs::File::create(&said)?)
            .stderr(Stdio::null())
            .spawn()?;
        let began = SystemClock.now();
        while running.try_wait()?.is_none() && SystemClock.now().since(began) < RUN_MAX {
            thread::sleep(LOOK_AGAIN);
        }
        let ended = running.try_wait()?;
        if ended.is_none() {
            running.kill()?;
            running.wait()?;
            eprintln!("no end of {arguments:?} after {RUN_MAX:?}: that should have been a finding");
        }
        let mut text = fs::read_to_string(said)?;
        if ended.is_some_and(|ended| ended.code().is_none()) {
            text.push_str("\ntest whatever ended the program ... FAILED\n");
        }
        Ok(text)
    }
}

/// The tests that failed.
fn failures(said: &str) -> Vec<String> {
    let failed = said.lines().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(format!("`{}`", name.strip_suffix(" - should panic").unwrap_or(name)))
    });
    failed.collect()
}

fn listed(failed: Vec<String>) -> Option<String> {
    (!failed.is_empty()).then(|| failed.join(", "))
}
