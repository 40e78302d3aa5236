//! Which deployment a command is for: the local stack, or one on AWS.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::deployments::{self, Deployment, Deployments};
use crate::failure::Misuse;
use crate::local::connection::Connection;
use crate::local::home::{self, Home};
use crate::manage_api::ManageApi;

/// The default of the Terraform variable `name_prefix`.
const NAME_PREFIX: &str = "gridpost";

/// Flags that choose the deployment; one that is named by `--deployment` keeps what other flags do not
/// say. Without them: the local stack that `gridpost dev` or `gridpost up` started.
#[derive(Args, Clone, Debug, Default)]
pub struct TargetArguments {
    /// Base URL of the manage API (Terraform output `manage_url`); requests are signed with your AWS
    /// identity
    #[arg(long, global = true, env = "GRIDPOST_MANAGE_URL", value_name = "URL")]
    pub manage_url: Option<String>,

    /// Base URL of the publish API (Terraform output `publish_url`)
    #[arg(long, global = true, env = "GRIDPOST_PUBLISH_URL", value_name = "URL")]
    pub publish_url: Option<String>,

    /// A deployment by its name (`gridpost deployment add`)
    #[arg(long, global = true, env = "GRIDPOST_DEPLOYMENT", value_name = "NAME")]
    pub deployment: Option<String>,

    /// What the names of the deployment's functions and queues begin with (Terraform variable
    /// `name_prefix`) [default: gridpost]
    #[arg(long, global = true, env = "GRIDPOST_NAME_PREFIX", value_name = "TEXT")]
    pub name_prefix: Option<String>,

    /// Folder of the local stack [default: .gridpost, here or in a parent folder]
    #[arg(long, global = true, env = "GRIDPOST_HOME", value_name = "DIR")]
    pub home: Option<PathBuf>,
}

/// The deployment that a command is for.
#[derive(Clone, Debug)]
pub struct Target {
    manage_url: Option<String>,
    publish_url: Option<String>,
    emulator_url: Option<String>,
    name_prefix: Option<String>,
    aws_profile: Option<String>,
}

impl TargetArguments {
    /// Finds the deployment: what flags or environment name, else the local stack.
    ///
    /// # Errors
    ///
    /// [`Misuse`] when nothing is named and no local stack is up, or no deployment has that name.
    pub fn resolve(&self) -> anyhow::Result<Target> {
        let named = match &self.deployment {
            Some(name) => Deployments::read(&deployments::file()?)?.named(name)?.clone(),
            None => Deployment::default(),
        };
        let name_prefix = self.name_prefix.clone().or(named.name_prefix);
        let manage_url = self.manage_url.clone().or(named.manage_url);
        let publish_url = self.publish_url.clone().or(named.publish_url);
        if manage_url.is_some() || publish_url.is_some() {
            let emulator_url = env::var("AWS_ENDPOINT_URL").ok().filter(|url| !url.is_empty());
            let aws_profile = named.aws_profile;
            return Ok(Target { manage_url, publish_url, emulator_url, name_prefix, aws_profile });
        }
        let home = self.existing_home()?;
        let local = home.map(|home| Connection::read(&home)).transpose()?.flatten();
        let Some(local) = local else {
            return Err(Misuse(
                "no local stack is up here: start one with `gridpost dev` (`cargo run -- dev`), or name a \
                 deployment by --manage-url and --publish-url (GRIDPOST_MANAGE_URL, GRIDPOST_PUBLISH_URL) or by \
                 --deployment (GRIDPOST_DEPLOYMENT)"
                    .to_owned(),
            )
            .into());
        };
        let (manage_url, publish_url) = (Some(local.manage_url), Some(local.publish_url));
        let emulator_url = Some(local.emulator_url);
        Ok(Target { manage_url, publish_url, emulator_url, name_prefix, aws_profile: None })
    }

    /// The folder of an existing local stack, if there is one.
    ///
    /// # Errors
    ///
    /// When the current folder cannot be read.
    pub fn existing_home(&self) -> anyhow::Result<Option<Home>> {
        if let Some(folder) = &self.home {
            return Ok(Some(Home::at(&std::path::absolute(folder)?)));
        }
        let here = env::current_dir().context("the current folder cannot be read")?;
        Ok(home::find_upwards(&here).or_else(home::of_this_build))
    }
}

impl Target {
    /// A client of the deployment's resource API.
    ///
    /// # Errors
    ///
    /// [`Misuse`] when only a publish URL was given.
    pub async fn manage_api(&self) -> anyhow::Result<ManageApi> {
        let url = self.manage_url.as_deref().ok_or_else(|| {
            Misuse(
                "this needs the manage API, and --publish-url (or the variable GRIDPOST_PUBLISH_URL) alone \
                 chooses a deployment without one: give --manage-url (GRIDPOST_MANAGE_URL) too, or unset \
                 GRIDPOST_PUBLISH_URL to use the local stack"
                    .to_owned(),
            )
        })?;
        ManageApi::connect_as(url, self.aws_profile()).await
    }

    /// The URL of the resource API, where one is known.
    pub fn manage_url(&self) -> Option<&str> {
        self.manage_url.as_deref()
    }

    /// The emulator that stands for AWS, where one does.
    pub fn emulator_url(&self) -> Option<&str> {
        self.emulator_url.as_deref()
    }

    /// What names of the deployment's functions and queues begin with.
    pub fn name_prefix(&self) -> &str {
        self.name_prefix.as_deref().unwrap_or(NAME_PREFIX)
    }

    /// The profile of the AWS configuration that requests are signed with, where one was chosen.
    pub fn aws_profile(&self) -> Option<&str> {
        self.aws_profile.as_deref()
    }

    /// Whether a resource API is known.
    pub fn has_manage_url(&self) -> bool {
        self.manage_url.is_some()
    }

    /// Where events of `topic` are posted, if the publish URL is known.
    pub fn events_url(&self, topic: &str, is_namespace: bool) -> Option<String> {
        let base = self.publish_url.as_deref()?.trim_end_matches('/');
        let path = if is_namespace { ":publish" } else { "/api/events" };
        Some(format!("{base}/topics/{topic}{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_publish_url_alone_is_named_as_what_turned_the_command_away() {
        let publish_url = Some("https://p.example".to_owned());
        let target = TargetArguments { publish_url, ..TargetArguments::default() };
        let refused = target.resolve().expect("a deployment").manage_api().await.expect_err("none");
        let told = refused.to_string();
        assert!(told.contains("GRIDPOST_PUBLISH_URL") && told.contains("local stack"), "{told}");
        assert!(refused.is::<Misuse>());
    }
}
