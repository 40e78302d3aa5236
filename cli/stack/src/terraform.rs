//! Applies the repository's `infra/deploy` to the emulator. State, variables and providers are kept with the
//! stack, not in `infra/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    build::Functions, child, emulator::Emulator, fingerprint::Fingerprint, prerequisites::Tools,
};
use gridpost_ops::aws_api::REGION;
use gridpost_ops::{
    home::{Home, remove_file, remove_folder, state::Outputs},
    progress::{Progress, Step},
};

/// The folder of `infra/` that is applied; the module above it is for other configurations.
pub(super) const ROOT: &str = "deploy";

/// Terraform for one stack.
#[derive(Clone, Debug)]
pub struct Terraform {
    program: PathBuf,
    infra: PathBuf,
    home: Home,
    emulator_url: String,
    variables: Value,
}

/// A planned change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub address: String,
    /// `output` for an output.
    pub resource_type: String,
    /// `create`, `update`, `delete`.
    pub actions: Vec<String>,
    /// The top-level attributes that differ, sorted.
    pub attributes: Vec<String>,
}

impl Terraform {
    /// Uses the root module in `infra`, to deploy `functions` to the emulator on `port`.
    pub fn new(tools: &Tools, infra: &Path, home: &Home, functions: &Functions, port: u16) -> Self {
        let emulator_url = Emulator::url(port);
        Self {
            program: tools.terraform.clone(),
            infra: infra.to_owned(),
            home: home.clone(),
            variables: variables(&emulator_url, functions),
            emulator_url,
        }
    }

    /// Returns a value that changes when the deployment would.
    pub fn fingerprint(&self, functions: &Functions) -> anyhow::Result<String> {
        let start = Fingerprint::default().text(&self.variables.to_string());
        let mut fingerprint = start.terraform_files(&self.infra)?;
        for zip in &functions.zips {
            fingerprint = fingerprint.text(&zip.to_string_lossy()).file(zip)?;
        }
        Ok(fingerprint.value())
    }

    /// Plans what [`Self::apply`] will change. A faulty configuration fails here, before anything changes.
    pub async fn prepare(&self, step: &Step) -> anyhow::Result<()> {
        self.write_variables()?;
        let mut plan = self.command("plan");
        plan.args(["-input=false", "-json"]).arg(format!("-out={}", self.plan_file().display()));
        plan.arg(self.state_flag()).arg(self.variables_flag());
        self.run("terraform-plan", plan, step).await
    }

    /// Applies the plan and returns the outputs.
    pub async fn apply(&self, step: &Step) -> anyhow::Result<Outputs> {
        let mut apply = self.command("apply");
        apply.args(["-input=false", "-json"]).arg(self.state_flag()).arg(self.plan_file());
        self.run("terraform-apply", apply, step).await?;
        // It contains every variable, and is no longer needed.
        remove_file(&self.plan_file())?;
        self.outputs().await
    }

    /// Runs a command with JSON output, which `step` shows.
    async fn run(&self, name: &str, command: Command, step: &Step) -> anyhow::Result<()> {
        let log = self.log(name);
        let mut diagnostics = Vec::new();
        let name = name.replace('-', " ");
        let ran =
            child::run(&name, command, &log, |line| follow(line, step, &mut diagnostics)).await;
        match ran {
            Err(_) if !diagnostics.is_empty() => {
                bail!("{name} failed ({}):\n{}", log.display(), diagnostics.join("\n"))
            }
            ran => ran,
        }
    }

    /// Replaces the value of a variable.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: Value) -> Self {
        self.variables[name] = value;
        self
    }

    /// Forgets what was deployed.
    pub fn wipe(home: &Home) -> anyhow::Result<()> {
        remove_folder(&home.terraform())
    }

    /// Returns what a new plan would change.
    pub async fn plan_changes(&self) -> anyhow::Result<Vec<Change>> {
        self.prepare(&Progress::silent().step("terraform plan")).await?;
        let mut show = self.command("show");
        show.args(["-json", "-no-color"]).arg(self.plan_file());
        let plan = output_of("show", show).await?;
        let document = serde_json::from_slice(&plan).context("terraform show gave no JSON")?;
        Ok(read_changes(&document))
    }

    /// Destroys everything that was deployed.
    pub async fn destroy(&self) -> anyhow::Result<()> {
        let mut destroy = self.command("destroy");
        destroy.args(["-input=false", "-auto-approve", "-no-color"]);
        destroy.arg(self.state_flag()).arg(self.variables_flag());
        child::run("terraform destroy", destroy, &self.log("terraform-destroy"), |_| ()).await
    }

    async fn outputs(&self) -> anyhow::Result<Outputs> {
        let mut output = self.command("output");
        output.args(["-json", "-no-color"]).arg(self.state_flag());
        read_outputs(&output_of("output", output).await?)
    }

    fn command(&self, name: &str) -> Command {
        command(&self.program, &self.infra.join(ROOT), &self.home.terraform_data(), name)
    }

    /// Makes a Terraform command for another configuration, in `folder`, on this emulator. An `init` uses the
    /// existing providers.
    pub fn command_in(&self, folder: &Path, name: &str) -> Command {
        let mut command = command(&self.program, folder, &folder.join(".terraform"), name);
        if name == "init" {
            // The variable may name another folder of providers.
            command.env_remove("TF_CLI_ARGS_init");
            let providers = self.home.terraform_data().join("providers");
            command.arg(format!("-plugin-dir={}", providers.display()));
        }
        command
    }

    fn write_variables(&self) -> anyhow::Result<()> {
        fs::create_dir_all(self.home.terraform())?;
        // A backup of the state is not needed: the stack is deployed afresh instead.
        remove_file(&self.home.terraform().join("terraform.tfstate.backup"))?;
        let text = serde_json::to_string_pretty(&self.variables)?;
        fs::write(self.variables_file(), text).context("Terraform's variables cannot be written")
    }

    fn variables_file(&self) -> PathBuf {
        self.home.terraform().join("local.tfvars.json")
    }

    fn plan_file(&self) -> PathBuf {
        self.home.terraform().join("plan")
    }

    fn variables_flag(&self) -> String {
        format!("-var-file={}", self.variables_file().display())
    }

    fn state_flag(&self) -> String {
        format!("-state={}", self.home.terraform().join("terraform.tfstate").display())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.home.logs().join(format!("{name}.log"))
    }

    /// Returns the folder of its functions.
    pub fn functions(&self) -> &Value {
        &self.variables["functions_dir"]
    }

    /// Returns the URL of its emulator.
    pub fn emulator_url(&self) -> &str {
        &self.emulator_url
    }
}

/// Makes a Terraform command that only reaches the emulator.
pub(super) fn command(program: &Path, folder: &Path, data: &Path, name: &str) -> Command {
    let mut command = child::command(program);
    for variable in
        ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "TF_WORKSPACE", "TF_CLI_ARGS"]
    {
        command.env_remove(variable);
    }
    // Variables of deployments on AWS do not apply.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("TF_VAR_")) {
            command.env_remove(&name);
        }
    }
    let no_proxy = env::var("NO_PROXY").or_else(|_| env::var("no_proxy")).unwrap_or_default();
    let no_proxy = format!("127.0.0.1,localhost,{no_proxy}");
    command.env("NO_PROXY", &no_proxy).env("no_proxy", &no_proxy);
    // Real credentials must not be used by mistake, whatever the provider's settings are.
    command.envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]);
    command.env("AWS_REGION", REGION).env("AWS_EC2_METADATA_DISABLED", "true");
    command.env("TF_DATA_DIR", data).env("TF_IN_AUTOMATION", "1");
    command.env("CHECKPOINT_DISABLE", "1");
    command.arg(format!("-chdir={}", folder.display())).arg(name);
    command
}

async fn output_of(name: &str, mut command: Command) -> anyhow::Result<Vec<u8>> {
    let output = command.output().await.context("terraform cannot be started")?;
    if !output.status.success() {
        bail!("terraform {name} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The account of the emulator's credentials.
pub const ACCOUNT: &str = "000000000000";

/// AWS resources that a local stack may deliver to, if their names begin with `local-`.
const RESOURCES: [(&str, &str); 5] = [
    ("events", "event-bus/"),
    ("kinesis", "stream/"),
    ("lambda", "function:"),
    ("sns", ""),
    ("sqs", ""),
];

/// Returns the variables of `infra/deploy`: the emulator instead of AWS, endpoints on this machine, and
/// shorter waits where they exist for cost or protection.
fn variables(emulator_url: &str, functions: &Functions) -> Value {
    json!({
        "region": REGION,
        "architecture": if env::consts::ARCH == "aarch64" { "arm64" } else { "x86_64" },
        "functions_dir": functions.folder,
        "functions_sha256": functions.sha256,
        "aws_endpoint_url": emulator_url,
        "manage_authorization": "NONE",
        // Only a log group, unless a configuration adds sources.
        "aws_sources": true,
        "endpoint_allowed_networks": ["127.0.0.0/8", "::1/128"],
        "resource_destinations": RESOURCES.map(|resource| {
            let (service, resource) = resource;
            format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}local-*")
        }),
        // Enough for a late response; after a kill, messages are visible 30 s later.
        "dispatch_timeout_seconds": 60,
        // The emulator is much slower than SQS.
        "inline_fan_out": 100,
        "dead_letter_delay_seconds": 5,
        // Has no effect until the topic is created.
        "dead_letter_topic": "dead-letters",
        // The least for batches of over ten records.
        "dead_letter_window_seconds": 1,
        // Every long wait is parked, so that it can be seen.
        "retry_in_flight_limit": 0,
        "protect_data": false,
        "config_cache_ms": 500,
        "dispatch_config_cache_ms": 500,
        // Lines are free here, and `gridpost tail` shows them.
        "log_successful_attempts": true,
        "latency_metrics": true,
    })
}

fn follow(line: &str, step: &Step, diagnostics: &mut Vec<String>) {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    let resource =
        || message.pointer("/hook/resource/addr").and_then(Value::as_str).unwrap_or_default();
    match message["type"].as_str() {
        Some("change_summary") if message["changes"]["operation"] == "plan" => {
            let count = |kind: &str| message["changes"][kind].as_u64().unwrap_or(0);
            step.total(count("add") + count("change") + count("remove"));
        }
        // Reads of data sources are no changes.
        Some("apply_start" | "apply_complete") if message["hook"]["action"] == "read" => {}
        Some("apply_start") => step.detail(resource()),
        Some("apply_complete") => step.advance(resource()),
        Some("diagnostic") if message["@level"] == "error" => {
            diagnostics.push(diagnostic(&message))
        }
        _ => {}
    }
}

fn diagnostic(message: &Value) -> String {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let place = message.pointer("/diagnostic/range/start/line").map_or_else(String::new, |line| {
        format!(" ({}:{line})", text("/diagnostic/range/filename"))
    });
    let detail = text("/diagnostic/detail").replace('\n', "\n    ");
    let address = match text("/diagnostic/address") {
        "" => String::new(),
        address => format!("{address}: "),
    };
    format!("  {address}{}{place}\n    {detail}", text("/diagnostic/summary"))
}

fn read_changes(plan: &Value) -> Vec<Change> {
    let resources = plan["resource_changes"].as_array().into_iter().flatten();
    let resources = resources.map(|resource| {
        let text = |member: &str| resource[member].as_str().unwrap_or_default().to_owned();
        (text("address"), text("type"), &resource["change"])
    });
    let outputs = plan["output_changes"].as_object().into_iter().flatten();
    let outputs = outputs.map(|(name, change)| (name.clone(), "output".to_owned(), change));
    let changes = resources.chain(outputs).map(|(address, resource_type, change)| {
        let actions = change["actions"].as_array().into_iter().flatten();
        let actions = actions.filter_map(Value::as_str).map(str::to_owned).collect();
        Change { address, resource_type, actions, attributes: changed_attributes(change) }
    });
    changes.filter(|change| change.actions != ["no-op"] && change.actions != ["read"]).collect()
}

/// Returns the attributes that differ, or whose new value is not known yet.
fn changed_attributes(change: &Value) -> Vec<String> {
    let parts = ["before", "after", "after_unknown"].map(|part| change[part].as_object());
    let names: BTreeSet<&String> = parts.iter().flatten().flat_map(|part| part.keys()).collect();
    let is_changed = |name: &&String| {
        let at = |part: &str| change[part].get(name.as_str()).unwrap_or(&Value::Null);
        at("before") != at("after") || at("after_unknown") == &Value::Bool(true)
    };
    names.into_iter().filter(is_changed).cloned().collect()
}

fn read_outputs(json: &[u8]) -> anyhow::Result<Outputs> {
    let document: Value = serde_json::from_slice(json).context("terraform output gave no JSON")?;
    let output = |name: &str| {
        let value = document.get(name).and_then(|output| output.get("value")?.as_str());
        value.map(str::to_owned).with_context(|| format!("infra/deploy has no output `{name}`"))
    };
    Ok(Outputs {
        publish_url: output("publish_url")?.trim_end_matches('/').to_owned(),
        manage_url: output("manage_url")?.trim_end_matches('/').to_owned(),
        dead_letter_bucket: output("dead_letter_bucket")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read_or_named_when_missing() {
        let json = br#"{"publish_url":{"value":"http://p/"},"manage_url":{"value":"http://m"},
            "dead_letter_bucket":{"value":"b"},"queue_urls":{"value":{}}}"#;
        let want = Outputs {
            publish_url: "http://p".into(),
            manage_url: "http://m".into(),
            dead_letter_bucket: "b".into(),
        };
        assert_eq!(read_outputs(json).expect("complete"), want);
        let missing = read_outputs(b"{}").expect_err("incomplete").to_string();
        assert_eq!(missing, "infra/deploy has no output `publish_url`");
    }

    #[test]
    fn changes_are_read_with_their_attributes() {
        let plan = json!({
            "resource_changes": [
                {"address": "a.same", "type": "a", "change": {"actions": ["no-op"],
                    "before": {"x": 1}, "after": {"x": 1}, "after_unknown": {}}},
                {"address": "a.other", "type": "a", "change": {"actions": ["update"],
                    "before": {"x": 1, "y": null, "z": 1}, "after": {"x": 2, "y": null},
                    "after_unknown": {"z": true, "w": []}}},
            ],
            "output_changes": {"url": {"actions": ["create"], "before": null, "after": "u"}},
        });
        let change =
            |address: &str, resource_type: &str, action: &str, attributes: &[&str]| Change {
                address: address.to_owned(),
                resource_type: resource_type.to_owned(),
                actions: vec![action.to_owned()],
                attributes: attributes.iter().map(|name| (*name).to_owned()).collect(),
            };
        let want =
            [change("a.other", "a", "update", &["x", "z"]), change("url", "output", "create", &[])];
        assert_eq!(read_changes(&plan), want);
    }

    #[test]
    fn errors_of_the_stream_become_paragraphs() {
        let line = r#"{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error",
            "summary":"Invalid value","detail":"one\ntwo","address":"aws_sqs_queue.x",
            "range":{"filename":"queues.tf","start":{"line":7}}}}"#;
        let mut diagnostics = Vec::new();
        let step = Progress::silent().step("apply");
        follow(line, &step, &mut diagnostics);
        follow(
            r#"{"type":"apply_complete","hook":{"resource":{"addr":"a"}}}"#,
            &step,
            &mut diagnostics,
        );
        follow("no json", &step, &mut diagnostics);
        assert_eq!(
            diagnostics,
            ["  aws_sqs_queue.x: Invalid value (queues.tf:7)\n    one\n    two"]
        );
    }
}
