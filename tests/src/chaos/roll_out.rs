//! The functions of an earlier commit and those of this tree take turns under traffic, as in a roll-out
//! and its way back: what one has stored or sent, the other reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context, ensure};
use gridpost_ops::progress::Progress;
use gridpost_stack::build::Profile;
use gridpost_stack::{build, prerequisites};

use super::deployment::{Deployment, FUNCTIONS};
use crate::e2e::ground::Ground;

/// The zip file of each function that exists at a commit.
type Programs = BTreeMap<&'static str, Vec<u8>>;

/// The programs of both commits.
#[derive(Debug)]
pub struct RollOut {
    earlier: Programs,
    present: Programs,
}

impl RollOut {
    /// Builds the functions of `commit` in a clone of its own in `folder`, and those of this tree.
    pub async fn of(commit: &str, folder: &Path, ground: &Ground) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
        check_out(root, commit, folder)?;
        // One after the other: with `CARGO_TARGET_DIR` set, both are built into the same place.
        let earlier = programs(folder, ground).await?;
        let present = programs(root, ground).await?;
        let same: Vec<_> =
            FUNCTIONS.iter().filter(|name| earlier.get(*name) == present.get(*name)).collect();
        ensure!(same.len() < FUNCTIONS.len(), "the functions of {commit} are those of this tree");
        Ok(Self { earlier, present })
    }

    /// Switches every function to the earlier commit.
    pub async fn begin(&self, deployment: &Deployment<'_>) -> anyhow::Result<Turns> {
        self.give(&self.earlier, deployment).await?;
        Ok(Turns::default())
    }

    /// Switches a function to the other commit; a function that the earlier commit does not have
    /// stays as it is.
    pub async fn turn(
        &self,
        function: &'static str,
        turns: &mut Turns,
        deployment: &Deployment<'_>,
    ) -> anyhow::Result<()> {
        let programs = if turns.flip(function) { &self.present } else { &self.earlier };
        match programs.get(function) {
            Some(program) => deployment.run(function, program).await,
            None => Ok(()),
        }
    }

    /// Switches every function back to this tree, as it was deployed.
    pub async fn end(&self, deployment: &Deployment<'_>) -> anyhow::Result<()> {
        self.give(&self.present, deployment).await
    }

    async fn give(&self, programs: &Programs, deployment: &Deployment<'_>) -> anyhow::Result<()> {
        for (function, program) in programs {
            deployment.run(function, program).await?;
        }
        Ok(())
    }
}

/// The functions that run this tree's programs; the others run the earlier commit's.
#[derive(Clone, Debug, Default)]
pub struct Turns(BTreeSet<&'static str>);

impl Turns {
    /// Returns whether the function now runs this tree's program.
    fn flip(&mut self, function: &'static str) -> bool {
        if self.0.remove(function) { false } else { self.0.insert(function) }
    }
}

/// A clone in `folder`, at that commit. Its build products stay there.
fn check_out(root: &Path, commit: &str, folder: &Path) -> anyhow::Result<()> {
    let commit = git(root, &["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?;
    if !folder.join(".git").exists() {
        let (from, to) = (root.display().to_string(), folder.display().to_string());
        git(root, &["clone", "--quiet", "--no-checkout", &from, &to])?;
    }
    git(folder, &["fetch", "--quiet", "origin"])?;
    git(folder, &["checkout", "--quiet", "--detach", &commit])?;
    Ok(())
}

fn git(folder: &Path, words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").current_dir(folder).args(words).output();
    let output = output.context("git can't be started")?;
    let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "git {} failed: {told}", words.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

async fn programs(root: &Path, ground: &Ground) -> anyhow::Result<Programs> {
    let (tools, progress) = (prerequisites::find(true).await?, Progress::on_stderr());
    let (source, environment) = ((root, Profile::Dev), ground.environment()?);
    let built = build::build(source, ground.home(), &tools, environment, &progress).await?;
    let path = |function: &str| built.folder.join(function).join("bootstrap.zip");
    let read = |function: &'static str| {
        let path = path(function);
        let zip = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok((function, zip))
    };
    FUNCTIONS.into_iter().filter(|function| path(function).exists()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_runs_as_of_one_commit_and_the_other_by_turns() {
        let mut turns = Turns::default();
        let flips = ["wake", "ingest", "wake", "wake"].map(|function| turns.flip(function));
        assert_eq!(flips, [true, true, false, true]);
    }
}
