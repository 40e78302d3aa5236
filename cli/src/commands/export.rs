//! `gridpost export`: a deployment's topics and event subscriptions, to be made elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use crate::declared::Root;
use crate::declared::export::Export;
use crate::failure::Misuse;
use crate::local::home::write_private;
use crate::output::{self, Output};
use crate::target::TargetArguments;

/// The module of a deployment, of this program's own release: see `infra/`.
const MODULE: &str =
    concat!("github.com/gridpost/gridpost//infra?ref=v", env!("CARGO_PKG_VERSION"));

/// What the file is called beside Terraform's.
const FILE: &str = "topics.json";

/// What to export, and how. Keys of topics are never exported: a deployment makes its own.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Export only this topic; may be given several times
    #[arg(long = "topic", value_name = "NAME")]
    topics: Vec<String>,

    /// Include secrets: the query strings of URLs and the values of secret headers. Without this flag,
    /// the file refers to environment variables instead
    #[arg(long, conflicts_with = "terraform")]
    with_secrets: bool,

    /// Write a Terraform root module to this folder, for a deployment on AWS with all of this
    #[arg(long, value_name = "DIR")]
    terraform: Option<PathBuf>,

    /// Source of Gridpost's Terraform module
    #[arg(long, value_name = "SOURCE", default_value = MODULE, requires = "terraform")]
    module: String,
}

/// Runs `gridpost export`.
///
/// # Errors
///
/// A refusal by the server, a transport failure, or a folder that has such files already.
pub async fn run(
    arguments: &ExportArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let api = target.resolve()?.manage_api().await?;
    let mut export = Export::read(&api, &arguments.topics, arguments.with_secrets).await?;
    match &arguments.terraform {
        None => output.print(&export.document, indented),
        Some(folder) => {
            let root = Root::of(&export, &arguments.module);
            export.notes.extend(root.notes.iter().cloned());
            let files = write(folder, &export.document, &root)?;
            let document = json!({"files": files, "variables": export.variables});
            output.print(&document, |_| next(folder, &files, &export.variables));
        }
    }
    tell(&export.notes, output.is_json());
    Ok(())
}

/// What is to be known goes to standard error: the file is on standard output.
fn tell(notes: &[String], is_json: bool) {
    if is_json && !notes.is_empty() {
        output::note(&json!({ "notes": notes }).to_string());
    } else {
        notes.iter().for_each(|note| output::note(&format!("! {note}")));
    }
}

fn indented(document: &Value) -> String {
    let text = document.to_string();
    output::indented(&text).unwrap_or(text)
}

/// Writes both files, where they are missing.
fn write(folder: &Path, document: &Value, root: &Root) -> anyhow::Result<Vec<PathBuf>> {
    let files = [folder.join(FILE), folder.join("main.tf")];
    if let Some(there) = files.iter().find(|file| file.exists()) {
        return Err(Misuse(format!(
            "{} is there already: name another folder, or remove it",
            there.display()
        ))
        .into());
    }
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    write_private(&files[0], &format!("{}\n", indented(document)))?;
    write_private(&files[1], &root.text)?;
    Ok(files.to_vec())
}

/// What was written, and how to go on.
fn next(folder: &Path, files: &[PathBuf], variables: &[String]) -> String {
    let mut lines: Vec<_> = files.iter().map(|file| format!("wrote {}", file.display())).collect();
    lines.extend([String::new(), "Next:".to_owned()]);
    lines.extend(variables.iter().map(|variable| format!("  export {variable}=…")));
    let terraform = format!("  terraform -chdir={}", folder.display());
    lines.extend([format!("{terraform} init"), format!("{terraform} apply")]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_that_of_the_same_release() {
        let export = Export { document: json!({"topics": {}}), ..Export::default() };
        let source = format!("//infra?ref=v{}\"", env!("CARGO_PKG_VERSION"));
        let text = Root::of(&export, MODULE).text;
        assert!(text.contains(&source), "{text}");
    }

    #[test]
    fn files_that_are_there_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("a/b");
        let root = Root { text: "# root\n".to_owned(), notes: Vec::new() };
        let files = write(&place, &json!({"topics": {}}), &root).expect("written");
        assert_eq!(fs::read_to_string(&files[0]).expect("a file"), "{\n  \"topics\": {}\n}\n");
        assert!(write(&place, &json!({}), &root).expect_err("there").is::<Misuse>());
        fs::remove_file(&files[0]).expect("removed");
        assert!(write(&place, &json!({}), &root).expect_err("there").is::<Misuse>());
        assert_eq!(fs::read_to_string(&files[1]).expect("a file"), "# root\n");
        let told = next(&place, &files, &["SECRET_A".to_owned()]);
        assert!(told.contains("export SECRET_A=…\n  terraform -chdir="), "{told}");
    }
}
