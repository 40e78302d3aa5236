//! schemathesis, which generates requests from `docs/openapi.json`, one by one and in chains that
//! follow from earlier answers, and checks the answers against the document.

use std::{fs, path::PathBuf};

use anyhow::{Context, ensure};
use gridpost_ops::home::Home;
use gridpost_stack::child;
use gridpost_stack::python::Environment;
use serde_json::Value;

use crate::packages;

const REQUIREMENTS: &str = include_str!("../../e2e/schemathesis.txt");
const HOOKS: &str = include_str!("../../e2e/schemathesis_hooks.py");
const SETTINGS: &str = include_str!("../../e2e/schemathesis.toml");
const DOCUMENT: &str = include_str!("../../../docs/openapi.json");

/// Operations of the document that are not the resource API's.
const OF_PUBLISHING: u64 = 2;

/// Runs it against the resource API at `url`. Endpoints that it makes up are replaced by
/// `endpoint`.
/// The same commit gets the same requests, as far as they do not follow from answers.
///
/// # Errors
///
/// It also fails when it left out an operation or a phase.
pub async fn run(
    home: &Home,
    python: &Environment,
    url: &str,
    endpoint: &str,
) -> anyhow::Result<()> {
    let folder = installed(home, python).await?;
    let work = tempfile::tempdir()?;
    for (name, text) in
        [("gridpost_hooks.py", HOOKS), ("schemathesis.toml", SETTINGS), ("openapi.json", DOCUMENT)]
    {
        fs::write(work.path().join(name), text)?;
    }
    let mut program = child::command(&folder.join("bin/schemathesis"));
    program.current_dir(work.path()).args(["run", "openapi.json", "--url", url]);
    program.args(["--exclude-tag", "publish"]);
    program.args(["--report", "json", "--report-json-path", "report.json", "--no-color"]);
    program.env("SCHEMATHESIS_HOOKS", "gridpost_hooks").env("PYTHONPATH", work.path());
    program.env("GRIDPOST_ENDPOINT", endpoint).env("NO_PROXY", "127.0.0.1,localhost");
    let log = home.logs().join("schemathesis.log");
    let ended = child::run("schemathesis", program, &log, |_| ()).await;
    let report = fs::read_to_string(work.path().join("report.json"));
    if ended.is_err() {
        // Its last lines are a summary: its findings come before.
        ended.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
    }
    whole(&serde_json::from_str(&report.context("it wrote no report")?)?)
}

/// Whether it did all that it was asked for.
fn whole(report: &Value) -> anyhow::Result<()> {
    let operations = &report["operations"];
    let number = |name: &str| operations[name].as_u64().unwrap_or_default();
    let own = number("total").checked_sub(OF_PUBLISHING).filter(|own| *own > 0);
    ensure!(own == Some(number("tested")), "not all operations were tested: {operations}");
    for phase in ["coverage", "fuzzing", "stateful"] {
        ensure!(report["phases"][phase]["status"] == "success", "{}", report["phases"]);
    }
    ensure!(report["complete"] == true, "it was cut short: {}", report["stop_reason"]);
    Ok(())
}

/// Installs it, unless it is there already.
async fn installed(home: &Home, python: &Environment) -> anyhow::Result<PathBuf> {
    let folder = home.cache().join("schemathesis");
    let log = home.logs().join("schemathesis-install.log");
    packages::install(&python.python(), &folder, &log, REQUIREMENTS).await?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_has_two_operations_of_publishing() {
        let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
        let paths = document["paths"].as_object().expect("paths").values();
        let operations = paths.filter_map(Value::as_object).flat_map(|path| path.values());
        let publish = operations.filter(|operation| operation["tags"][0] == "publish");
        assert_eq!(publish.count() as u64, OF_PUBLISHING);
    }

    #[test]
    fn a_run_that_left_something_out_is_not_whole() {
        let success = json!({"status": "success"});
        let good = json!({
            "operations": {"total": 43, "tested": 41}, "complete": true,
            "phases": {"coverage": success, "fuzzing": success, "stateful": success},
        });
        whole(&good).expect("whole");
        for (at, value) in [
            ("/operations/tested", json!(40)),
            ("/complete", json!(false)),
            ("/phases/stateful/status", json!("skip")),
            ("/phases/fuzzing", Value::Null),
        ] {
            let mut report = good.clone();
            *report.pointer_mut(at).expect("a member") = value;
            assert!(whole(&report).is_err(), "{at}");
        }
    }
}
