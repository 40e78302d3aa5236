//! The process's environment variables, of which tests bring their own.

use std::collections::HashMap;
use std::path::PathBuf;
use std::{env, fmt};

use aws_credential_types::Credentials;

/// Environment variables.
#[derive(Clone)]
pub struct Environment(HashMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

impl Environment {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(env::vars_os().filter_map(text).collect())
    }

    /// These alone.
    #[cfg(test)]
    pub fn of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// A variable's value. A blank one counts as none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The file that a variable names, or else that in the home folder, if there is one.
    pub(super) fn file(&self, name: &str, at_home: &str) -> Option<PathBuf> {
        let home = || self.get("HOME").map(PathBuf::from);
        match self.get(name) {
            Some(path) => match path.strip_prefix("~/") {
                Some(below) => Some(home()?.join(below)),
                None => Some(path.into()),
            },
            None => Some(home()?.join(at_home)),
        }
    }

    pub(super) fn keys(&self) -> Option<Credentials> {
        let id = self.get("AWS_ACCESS_KEY_ID")?;
        let secret = self.get("AWS_SECRET_ACCESS_KEY").or_else(|| self.get("SECRET_ACCESS_KEY"))?;
        let token = self.get("AWS_SESSION_TOKEN").map(|token| token.trim().to_owned());
        Some(Credentials::new(id, secret, token, None, "environment"))
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION"))
    }

    /// The role and the file with the token for it, as EKS and CI systems set them.
    pub(super) fn web_identity(&self) -> Option<(Role<'_>, &str)> {
        let token_file = self.get("AWS_WEB_IDENTITY_TOKEN_FILE")?;
        let arn = self.get("AWS_ROLE_ARN")?;
        let session_name = self.get("AWS_ROLE_SESSION_NAME");
        Some((Role { arn, external_id: None, session_name }, token_file))
    }
}

pub(super) struct Role<'a> {
    pub(super) arn: &'a str,
    pub(super) external_id: Option<&'a str>,
    pub(super) session_name: Option<&'a str>,
}
