//! `gridpost export`: a deployment's topics and event subscriptions, to be made elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use crate::{output, target::Common};
use gridpost_ops::{
    declared::{
        Root,
        export::{Export, File},
    },
    failure::Misuse,
    home::write_private,
    http_client::is_loopback,
    output::word,
};
use gridpost_stack::{demonstration::own, stack::TOPICS};

/// The module of a deployment, of this program's own release: see `infra/`.
const MODULE: &str =
    concat!("github.com/gridpost/gridpost//infra?ref=v", env!("CARGO_PKG_VERSION"));

const FILE: &str = "topics.json";

/// How to come by the functions, and by the program that the apply runs.
const FUNCTIONS: [&str; 4] = [
    "  # put `gridpost` on the PATH: the apply runs it",
    "  # the functions: unpack those of a release, or build them in a clone of Gridpost (README, \"Deploy to AWS\"):",
    "  rustup target add aarch64-unknown-linux-gnu",
    "  cargo lambda build --release --arm64 --output-format zip -p gridpost-programs",
];

/// What to export, and how. Keys of topics are never exported: a deployment makes its own.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Export only this topic; may be given several times
    #[arg(long = "topic", value_name = "NAME")]
    topics: Vec<String>,

    /// Include the demonstration's topics of a local stack. Without this flag, they are exported if they have
    /// event subscriptions of yours, or are named by --topic
    #[arg(long, conflicts_with = "topics")]
    with_demo: bool,

    /// Include secrets: the query strings of URLs and the values of secret headers. Without this flag,
    /// the file refers to environment variables instead
    #[arg(long, conflicts_with = "terraform")]
    with_secrets: bool,

    /// Write a Terraform root module to this folder, for a deployment on AWS with all of this
    #[arg(long, value_name = "DIR")]
    terraform: Option<PathBuf>,

    /// Source of Gridpost's Terraform module: `infra` in a clone, where the release's tag is not published
    #[arg(long, value_name = "SOURCE", default_value = MODULE, requires = "terraform")]
    module: String,
}

/// Also fails when the folder has such files already.
pub async fn run(arguments: &ExportArguments, common: &Common) -> anyhow::Result<()> {
    let api = common.target.resolve()?.manage_api().await?.strict();
    let mut export = Export::read(&api, &arguments.topics, arguments.with_secrets).await?;
    if arguments.topics.is_empty() && !arguments.with_demo && is_loopback(api.base_url()) {
        leave_out_demo(&mut export);
    }
    match &arguments.terraform {
        None => {
            common.output.print(&export.document, output::pretty);
            tell(&export.notes, common.output.is_json());
        }
        Some(folder) => {
            let root = Root::of(&export, &arguments.module);
            export.notes.extend(root.notes.iter().cloned());
            let files = write(folder, &export.document, &root)?;
            let document = json!({"files": files, "variables": export.variables});
            // Before how to go on, which begins with them.
            tell(&export.notes, common.output.is_json());
            common.output.print(&document, |_| next(folder, &files, &export));
        }
    }
    Ok(())
}

/// Leaves out the topics that a local stack makes by itself, and that nobody uses.
fn leave_out_demo(export: &mut Export) {
    let mut left_out = Vec::new();
    export.document.topics.retain(|topic, exported| {
        let mut names = exported.event_subscriptions.keys();
        let is_demo = TOPICS.iter().any(|(demo, _)| *demo == topic)
            && names.all(|name| own::is_own(topic, name));
        if is_demo {
            left_out.push(topic.clone());
        }
        !is_demo
    });
    if !left_out.is_empty() {
        export.notes.push(format!(
            "the demonstration's topics are left out (--with-demo exports them): {}",
            left_out.join(", ")
        ));
    }
}

/// Notes go to standard error: the file is on standard output.
fn tell(notes: &[String], is_json: bool) {
    if is_json && !notes.is_empty() {
        output::note(&json!({ "notes": notes }).to_string());
    } else {
        notes.iter().for_each(|note| output::note(&format!("! {note}")));
    }
}

fn write(folder: &Path, document: &File, root: &Root) -> anyhow::Result<Vec<PathBuf>> {
    let files = [folder.join(FILE), folder.join("main.tf")];
    if let Some(there) = files.iter().find(|file| file.exists()) {
        return Err(Misuse(format!(
            "{} is there already: name another folder, or remove it",
            there.display()
        ))
        .into());
    }
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    write_private(&files[0], &format!("{}\n", output::pretty(document)))?;
    write_private(&files[1], &root.text)?;
    Ok(files.to_vec())
}

fn next(folder: &Path, files: &[PathBuf], export: &Export) -> String {
    let mut lines: Vec<_> = files.iter().map(|file| format!("wrote {}", file.display())).collect();
    lines.extend([String::new(), "Next:".to_owned()]);
    if !export.notes.is_empty() {
        lines.push(format!("  # what the lines with ! ask for, in {FILE} and main.tf"));
    }
    lines.extend(FUNCTIONS.map(str::to_owned));
    lines.extend(export.variables.iter().map(|variable| format!("  export {variable}=…")));
    // The functions may have been built in another folder than this.
    let root = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let terraform = format!("  terraform -chdir={}", word(&root.to_string_lossy()));
    lines.extend([
        "  # is the tag in main.tf's `source` not published: name a clone's `infra` there, or export with --module PATH".to_owned(),
        format!("{terraform} init"),
        "  # with the folder of the functions, from its root on; a clone has them in target/lambda:"
            .to_owned(),
        format!("{terraform} apply -var functions_dir=…"),
        "  # signing secrets, keys of topics and URLs are new: tell endpoints and publishers"
            .to_owned(),
    ]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_that_of_the_same_release() {
        let export = Export::default();
        let source = format!("//infra?ref=v{}\"", env!("CARGO_PKG_VERSION"));
        let text = Root::of(&export, MODULE).text;
        assert!(text.contains(&source), "{text}");
    }

    #[test]
    fn topics_of_the_demonstration_are_left_out_where_nobody_uses_them() {
        let topic = |names: &[&str]| {
            let own = names.iter().map(|name| ((*name).to_owned(), json!({"properties": {}})));
            let own = own.collect::<serde_json::Map<_, _>>();
            json!({"kind": "custom", "properties": {}, "eventSubscriptions": own})
        };
        let own = topic(&["demonstration-retried"]);
        for (demo, is_kept) in [(topic(&[]), false), (own, false), (topic(&["first"]), true)] {
            let topics = json!({"demo": demo, "demo-cloud": topic(&[]), "orders": topic(&[])});
            let document = serde_json::from_value(json!({ "topics": topics })).expect("a file");
            let mut export = Export { document, ..Export::default() };
            leave_out_demo(&mut export);
            let topics = &export.document.topics;
            assert_eq!(
                (topics.contains_key("demo"), topics.contains_key("orders")),
                (is_kept, true)
            );
            let left_out = if is_kept { ": demo-cloud" } else { ": demo, demo-cloud" };
            assert!(export.notes[0].ends_with(left_out), "{:?}", export.notes);
        }
    }

    #[test]
    fn files_that_are_there_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("a/b");
        let root = Root { text: "# root\n".to_owned(), notes: Vec::new() };
        let files = write(&place, &File::default(), &root).expect("written");
        assert_eq!(fs::read_to_string(&files[0]).expect("a file"), "{\n  \"topics\": {}\n}\n");
        assert!(write(&place, &File::default(), &root).expect_err("there").is::<Misuse>());
        fs::remove_file(&files[0]).expect("removed");
        assert!(write(&place, &File::default(), &root).expect_err("there").is::<Misuse>());
        assert_eq!(fs::read_to_string(&files[1]).expect("a file"), "# root\n");
    }

    #[test]
    fn the_steps_are_told_in_their_order() {
        let notes = vec!["orders/local: AWS can't reach it".to_owned()];
        let variables = vec!["SECRET_A".to_owned()];
        let export = Export { document: File::default(), variables, notes };
        let told = next(Path::new("/a b"), &["/a b/main.tf".into()], &export);
        let mut rest = told.as_str();
        for part in [
            "wrote /a b/main.tf\n\nNext:\n",
            "# what the lines with ! ask for",
            "put `gridpost` on the PATH",
            "\n  cargo lambda build ",
            "\n  export SECRET_A=…\n",
            "  # is the tag in main.tf's `source` not published: name a clone's `infra` there, or export with --module PATH\n",
            "  terraform -chdir='/a b' init\n",
            "  terraform -chdir='/a b' apply -var functions_dir=…\n",
            "signing secrets, keys of topics and URLs are new",
        ] {
            let found = rest.find(part);
            assert!(found.is_some(), "{part} in\n{told}");
            rest = &rest[found.unwrap_or_default() + part.len()..];
        }
        let without = next(Path::new("/a"), &[], &Export { notes: Vec::new(), ..export });
        assert!(!without.contains("lines with !"), "{without}");
    }
}
