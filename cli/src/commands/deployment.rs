//! `gridpost deployment`: names for deployments, which `--deployment` takes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    output,
    target::{Common, TargetArguments},
};
use gridpost_ops::{
    deployments::{self, Deployment, Deployments},
    failure::Misuse,
    target::check_url,
};

/// What to do with names.
#[derive(Subcommand, Debug)]
pub enum DeploymentCommand {
    /// Remember a deployment by a name: its URLs as flags, or the outputs of its Terraform
    Add(AddArguments),
    /// List the deployments that have a name
    List,
    /// Forget a name; the deployment itself stays as it is
    Remove {
        /// The name
        name: String,
    },
}

/// A deployment and its name.
#[derive(Args, Debug)]
pub struct AddArguments {
    /// The name
    name: String,

    /// Folder in which `terraform output` tells the deployment's URLs and name prefix
    #[arg(long, value_name = "DIR")]
    terraform: Option<PathBuf>,

    /// Profile of the AWS configuration that signs requests to it [default: AWS_PROFILE]
    #[arg(long, value_name = "PROFILE")]
    aws_profile: Option<String>,
}

/// Runs `gridpost deployment`.
pub fn run(command: DeploymentCommand, common: &Common) -> anyhow::Result<()> {
    let file = deployments::file()?;
    let mut all = Deployments::read(&file)?;
    match command {
        DeploymentCommand::Add(arguments) => {
            let name = arguments.name.clone();
            let added = arguments.deployment(&common.target)?;
            all.deployment.insert(name.clone(), added.clone());
            all.write(&file)?;
            common.output.print(&document(&name, &added), |_| {
                format!("{name} is remembered in {}; use it as --deployment {name}", file.display())
            });
        }
        DeploymentCommand::List => {
            let found = all.deployment.iter();
            let documents: Vec<_> =
                found.map(|(name, deployment)| document(name, deployment)).collect();
            common.output.print(&json!({ "value": documents }), |_| list(&all));
        }
        DeploymentCommand::Remove { name } => {
            all.named(&name)?;
            all.deployment.remove(&name);
            all.write(&file)?;
            common.output.print(&json!({"name": name}), |_| format!("{name} is forgotten"));
        }
    }
    Ok(())
}

impl AddArguments {
    fn deployment(self, target: &TargetArguments) -> anyhow::Result<Deployment> {
        let outputs = self.terraform.as_deref().map(outputs).transpose()?.unwrap_or_default();
        let told = |name: &str| outputs[name]["value"].as_str().map(str::to_owned);
        let deployment = Deployment {
            manage_url: target.manage_url.clone().or_else(|| told("manage_url")),
            publish_url: target.publish_url.clone().or_else(|| told("publish_url")),
            name_prefix: target.name_prefix.clone().or_else(|| told("name_prefix")),
            aws_profile: self.aws_profile,
            token_file: target.token_file.as_deref().map(std::path::absolute).transpose()?,
        };
        if deployment.manage_url.is_none() && deployment.publish_url.is_none() {
            let advice = "where is it? Give --manage-url and --publish-url, or --terraform with the folder of a \
                          configuration that has outputs of these names (manage_url, publish_url)";
            return Err(Misuse(advice.to_owned()).into());
        }
        check_url("--manage-url", "manage_url", deployment.manage_url.as_deref())?;
        check_url("--publish-url", "publish_url", deployment.publish_url.as_deref())?;
        Ok(deployment)
    }
}

fn outputs(folder: &Path) -> anyhow::Result<Value> {
    let ran = Command::new("terraform")
        .arg(format!("-chdir={}", folder.display()))
        .args(["output", "-json", "-no-color"])
        .output();
    let ran = ran.context("terraform cannot be run: install it, or give --manage-url")?;
    if !ran.status.success() {
        let problem = String::from_utf8_lossy(&ran.stderr);
        bail!("terraform output in {} failed: {}", folder.display(), problem.trim());
    }
    serde_json::from_slice(&ran.stdout).context("terraform output gave no JSON")
}

fn document(name: &str, deployment: &Deployment) -> Value {
    let Deployment { manage_url, publish_url, name_prefix, aws_profile, token_file } = deployment;
    json!({
        "name": name,
        "manageUrl": manage_url,
        "publishUrl": publish_url,
        "namePrefix": name_prefix,
        "awsProfile": aws_profile,
        "tokenFile": token_file,
    })
}

fn list(all: &Deployments) -> String {
    if all.deployment.is_empty() {
        return "no deployment has a name; `gridpost deployment add` gives one".to_owned();
    }
    let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let head = ["NAME", "MANAGE URL", "PUBLISH URL", "NAME PREFIX", "AWS PROFILE"];
    let rows = all.deployment.iter().map(|(name, deployment)| {
        [
            name.clone(),
            cell(&deployment.manage_url),
            cell(&deployment.publish_url),
            cell(&deployment.name_prefix),
            cell(&deployment.aws_profile),
        ]
    });
    output::table(head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_without_a_url_is_none() {
        let add = || AddArguments { name: "prod".into(), terraform: None, aws_profile: None };
        let error = add().deployment(&TargetArguments::default()).expect_err("nowhere");
        assert!(error.to_string().contains("--manage-url"), "{error}");
        let target = TargetArguments {
            manage_url: Some("https://a.example".into()),
            name_prefix: Some("events".into()),
            ..TargetArguments::default()
        };
        let deployment = add().deployment(&target).expect("somewhere");
        assert_eq!(deployment.manage_url.as_deref(), Some("https://a.example"));
        assert_eq!(deployment.name_prefix.as_deref(), Some("events"));
    }
}
