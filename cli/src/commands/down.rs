//! `gridpost down`: stops the local stack and removes it.

use clap::Args;
use serde::Serialize;

use crate::{commands::status::in_process, target::Common};
use gridpost_ops::{failure::Misuse, home::Home};
use gridpost_stack::stack;

/// How much to remove.
#[derive(Args, Debug)]
pub struct DownArguments {
    /// Remove the caches too: the Python environment and Terraform's providers. What `gridpost dev` keeps
    /// (events, dead letters, keys) stays
    #[arg(long)]
    purge: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    removed: bool,
    /// Paths. They need not be texts that JSON can hold.
    kept_by_dev: Vec<String>,
}

/// Runs `gridpost down`. No stack is as good. Fails with [`Misuse`] when `gridpost dev` runs, or the
/// folder is not a local stack's.
pub async fn run(arguments: &DownArguments, common: &Common) -> anyhow::Result<()> {
    let home = common.target.existing_home()?;
    let was_there = match &home {
        Some(home) => {
            refuse_in_process(home).await?;
            stack::down(home, arguments.purge).await?
        }
        None => false,
    };
    let kept = home.iter().flat_map(Home::kept_by_dev);
    let kept_by_dev = kept.map(|path| path.display().to_string()).collect();
    let document = Removed { removed: was_there, kept_by_dev };
    common.output.print(&document, |done| told(done.removed, arguments.purge, &done.kept_by_dev));
    Ok(())
}

/// Says what was done. Names the data of `gridpost dev` where all might be thought to be gone.
fn told(was_there: bool, purge: bool, kept_by_dev: &[String]) -> String {
    match (was_there, purge) {
        (false, _) => "no local stack is up".to_owned(),
        (true, false) => {
            "the local stack is gone; caches are kept (--purge removes them)".to_owned()
        }
        (true, true) if kept_by_dev.is_empty() => {
            "the local stack is gone, caches included".to_owned()
        }
        (true, true) => format!(
            "the local stack is gone, caches included; what `gridpost dev` keeps is still there, its events \
             among it: remove {} by hand to start it afresh",
            kept_by_dev.join(" and ")
        ),
    }
}

/// Leaves `gridpost dev` alone: other commands would find it no more.
async fn refuse_in_process(home: &Home) -> anyhow::Result<()> {
    // A damaged file is removed with the rest.
    let Some(found) = in_process(home).await.ok().flatten() else { return Ok(()) };
    let url = found.manage_url;
    Err(Misuse(format!("`gridpost dev` runs here, on {url}: end it first, by Ctrl-C")).into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::{output::Output, target::TargetArguments};

    async fn down(home: &Path, purge: bool) -> anyhow::Result<()> {
        let target = TargetArguments { home: Some(home.to_owned()), ..TargetArguments::default() };
        run(&DownArguments { purge }, &Common { target, output: Output::new(true) }).await
    }

    #[tokio::test]
    async fn a_folder_that_is_no_stacks_is_refused_and_untouched() {
        let folder = tempfile::tempdir().expect("folder");
        let project = folder.path().join("project");
        let file = project.join("terraform/main.tf");
        fs::create_dir_all(project.join("terraform")).expect("folders");
        fs::write(&file, "own").expect("written");
        for purge in [false, true] {
            let refused = down(&project, purge).await.expect_err("not a stack's");
            assert!(refused.is::<Misuse>(), "{refused:#}");
            assert_eq!(fs::read_to_string(&file).expect("it is there"), "own", "{purge}");
            assert_eq!(fs::read_dir(&project).expect("a folder").count(), 1, "{purge}");
        }
        let missing = folder.path().join("missing");
        down(&missing, false).await.expect("no stack is up");
        assert!(!missing.exists());
    }

    #[tokio::test]
    async fn a_purge_says_what_it_keeps() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        home.create().expect("made");
        let events = home.dev().join("gridpost.sqlite");
        fs::create_dir(home.dev()).expect("folder");
        fs::write(&events, "events").expect("written");
        down(home.root(), true).await.expect("purged");
        assert!(events.exists() && !home.cache().exists());
        assert_eq!(home.kept_by_dev(), [home.dev()]);

        let kept = ["h/dev".to_owned(), "h/tls".to_owned()];
        assert!(told(true, true, &kept).contains("remove h/dev and h/tls by hand"));
        assert!(!told(true, true, &[]).contains("dev"));
        assert!(!told(true, false, &kept).contains("dev"));
        assert_eq!(told(false, false, &kept), "no local stack is up");
    }
}
