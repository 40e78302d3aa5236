//! A Terraform configuration of a case's own, for what users configure with modules of `infra/`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use gridpost_ops::aws_api::REGION;
use gridpost_stack::terraform::Terraform;
use serde_json::Value;
use tempfile::TempDir;

/// The provider, turned to the emulator as `infra/deploy` turns it.
const PROVIDER: &str = r#"
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

provider "aws" {
  region                      = "{region}"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  s3_use_path_style           = true

  endpoints {
    {endpoints}
  }
}
"#;

/// The services that configurations call.
const SERVICES: [&str; 14] = [
    "apigatewayv2",
    "cloudformation",
    "cloudwatch",
    "dynamodb",
    "events",
    "iam",
    "lambda",
    "logs",
    "s3",
    "s3control",
    "scheduler",
    "sns",
    "sqs",
    "sts",
];

/// Most of an apply is the wait of 25 s that the provider makes for each queue; all of them wait at once.
const AT_ONCE: &str = "-parallelism=40";

/// A configuration in a folder of its own, which goes with it.
#[derive(Debug)]
pub struct Configuration {
    folder: TempDir,
    terraform: Terraform,
}

impl Configuration {
    /// Writes and initialises it. `{infra}` in `text` is the folder of the module.
    pub async fn new(terraform: &Terraform, text: &str) -> anyhow::Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
        let infra = workspace.join("infra").display().to_string();
        let url = terraform.emulator_url();
        let endpoints = SERVICES.map(|service| format!("{service} = \"{url}\""));
        let provider = PROVIDER.replace("{region}", REGION);
        let provider = provider.replace("{endpoints}", &endpoints.join("\n    "));
        let folder = tempfile::tempdir()?;
        let text = format!("{provider}\n{}", text.replace("{infra}", &infra));
        fs::write(folder.path().join("main.tf"), text)?;
        let configuration = Self { folder, terraform: terraform.clone() };
        configuration.run("init", &["-input=false"]).await?;
        Ok(configuration)
    }

    /// Sets the variables and plans; returns what Terraform said.
    pub async fn plan(&self, variables: &Value) -> anyhow::Result<String> {
        self.set(variables)?;
        self.run("plan", &["-input=false"]).await
    }

    /// Sets the variables and applies them; returns what Terraform said.
    pub async fn apply(&self, variables: &Value) -> anyhow::Result<String> {
        self.set(variables)?;
        self.run("apply", &["-input=false", "-auto-approve", AT_ONCE]).await
    }

    /// Destroys what was applied.
    pub async fn destroy(&self) -> anyhow::Result<()> {
        self.run("destroy", &["-input=false", "-auto-approve", AT_ONCE]).await.map(drop)
    }

    /// Reads the outputs of the applied configuration, by name.
    pub async fn outputs(&self) -> anyhow::Result<Value> {
        let told: Value = serde_json::from_str(&self.run("output", &["-json"]).await?)?;
        let outputs = told.as_object().into_iter().flatten();
        Ok(outputs.map(|(name, output)| (name.clone(), output["value"].clone())).collect())
    }

    /// Reads the resources of its state.
    pub fn resources(&self) -> anyhow::Result<Vec<Value>> {
        resources(&self.folder.path().join("terraform.tfstate"))
    }

    fn set(&self, variables: &Value) -> anyhow::Result<()> {
        let path = self.folder.path().join("case.auto.tfvars.json");
        fs::write(path, variables.to_string()).context("variables cannot be written")
    }

    async fn run(&self, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.terraform.command_in(self.folder.path(), name);
        command.arg("-no-color").args(arguments);
        let output = command.output().await.context("terraform cannot be started")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("terraform {name} failed:\n{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(said)
    }
}

/// Reads the resources of a Terraform state.
pub fn resources(state: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(state).with_context(|| state.display().to_string())?;
    let state: Value = serde_json::from_str(&text)?;
    Ok(state["resources"].as_array().cloned().unwrap_or_default())
}
