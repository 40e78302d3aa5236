//! A Terraform configuration of a case's own, for what users configure with modules of `infra/`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use gridpost_cli::local::terraform::{REGION, Terraform};
use serde_json::Value;
use tempfile::TempDir;

/// The provider, turned to the emulator.
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
  skip_requesting_account_id  = true

  endpoints {
    lambda = "{emulator}"
  }
}
"#;

/// A configuration in a folder of its own, which goes with it.
#[derive(Debug)]
pub struct Configuration {
    folder: TempDir,
    terraform: Terraform,
}

impl Configuration {
    /// Writes and initialises it. `{modules}` in `text` stands for the folder of `infra/`'s modules.
    ///
    /// # Errors
    ///
    /// When Terraform fails; what it said is in the message.
    pub async fn new(terraform: &Terraform, text: &str) -> anyhow::Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
        let modules = workspace.join("infra/modules").display().to_string();
        let provider = PROVIDER.replace("{region}", REGION);
        let provider = provider.replace("{emulator}", terraform.emulator_url());
        let folder = tempfile::tempdir()?;
        let text = format!("{provider}\n{}", text.replace("{modules}", &modules));
        fs::write(folder.path().join("main.tf"), text)?;
        let configuration = Self { folder, terraform: terraform.clone() };
        configuration.run("init", &["-input=false"]).await?;
        Ok(configuration)
    }

    /// Sets the variables and plans; gives what Terraform said.
    ///
    /// # Errors
    ///
    /// When Terraform fails; what it said is in the message.
    pub async fn plan(&self, variables: &Value) -> anyhow::Result<String> {
        self.set(variables)?;
        self.run("plan", &["-input=false"]).await
    }

    /// Sets the variables and applies them; gives what Terraform said.
    ///
    /// # Errors
    ///
    /// When Terraform fails; what it said is in the message.
    pub async fn apply(&self, variables: &Value) -> anyhow::Result<String> {
        self.set(variables)?;
        self.run("apply", &["-input=false", "-auto-approve"]).await
    }

    /// Destroys what was applied.
    ///
    /// # Errors
    ///
    /// When Terraform fails; what it said is in the message.
    pub async fn destroy(&self) -> anyhow::Result<()> {
        self.run("destroy", &["-input=false", "-auto-approve"]).await.map(drop)
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
