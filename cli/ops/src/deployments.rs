//! Deployments by name, so that their URLs need not be given with each command: a TOML file that
//! people may edit. It holds no secret.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::failure::Misuse;

/// Names another file.
pub const FILE_VARIABLE: &str = "GRIDPOST_DEPLOYMENTS";

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Deployments {
    #[serde(default)]
    pub deployment: BTreeMap<String, Deployment>,
}

/// A deployment's place, and the caller's identity there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manage_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_url: Option<String>,
    /// The beginning of the names of its functions and queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Profile of the AWS configuration that signs requests to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_profile: Option<String>,
    /// The file with a token for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// The file: `GRIDPOST_DEPLOYMENTS`, else `gridpost/deployments.toml` in the user's configuration.
/// Fails with [`Misuse`] when there is no home folder.
pub fn file() -> anyhow::Result<PathBuf> {
    let named =
        |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration =
        || named("XDG_CONFIG_HOME").or_else(|| named("HOME").map(|home| home.join(".config")));
    let found = named(FILE_VARIABLE)
        .or_else(|| configuration().map(|folder| folder.join("gridpost/deployments.toml")));
    found.ok_or_else(|| {
        Misuse(format!("there is no home folder for named deployments: set {FILE_VARIABLE}")).into()
    })
}

impl Deployments {
    /// Reads the file; none is an empty one.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        match fs::read_to_string(file) {
            Ok(text) => {
                toml::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
        }
    }

    /// Writes the file, and its folder.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let write = || -> anyhow::Result<()> {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            // A reader never sees half of it.
            let half = file.with_extension("toml.new");
            fs::write(&half, toml::to_string(self)?)?;
            Ok(fs::rename(half, file)?)
        };
        write().with_context(|| format!("{} cannot be written", file.display()))
    }

    /// The deployment of that name. Fails with [`Misuse`], which says which there are.
    pub fn named(&self, name: &str) -> anyhow::Result<&Deployment> {
        self.deployment.get(name).ok_or_else(|| {
            let names: Vec<_> = self.deployment.keys().map(String::as_str).collect();
            let known = match names.as_slice() {
                [] => "there is none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            Misuse(format!(
                "no deployment is called {name}, {known}: `gridpost deployment add {name} --manage-url …` \
                 adds it"
            ))
            .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a/deployments.toml");
        assert_eq!(Deployments::read(&file).expect("none yet"), Deployments::default());
        let mut all = Deployments::default();
        let deployment = Deployment {
            manage_url: Some("https://a.example".into()),
            aws_profile: Some("prod".into()),
            ..Deployment::default()
        };
        all.deployment.insert("prod".into(), deployment);
        all.write(&file).expect("written");
        assert_eq!(Deployments::read(&file).expect("read"), all);
        let error = all.named("prd").expect_err("there is none").to_string();
        assert!(error.contains("there are prod"), "{error}");
    }

    #[test]
    fn a_misspelt_member_is_no_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deployments.toml");
        fs::write(&file, "[deployment.prod]\nmanage_uri = \"https://a\"\n").expect("written");
        let error = Deployments::read(&file).expect_err("misspelt");
        let text = format!("{error:#}");
        assert!(text.contains("is damaged") && text.contains("manage_uri"), "{text}");
    }
}
