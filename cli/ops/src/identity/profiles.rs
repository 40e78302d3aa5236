//! Reads the profiles of `~/.aws/config` and `~/.aws/credentials`, and what leads to a profile's credentials.
//!
//! The files look like INI files, but comments, indented lines and the names of sections have rules of their own, for
//! which INI parsers have no setting. Source: <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>.

use std::collections::HashMap;
use std::io::ErrorKind;

use anyhow::{Context, anyhow, bail};
use aws_credential_types::Credentials;

use crate::identity::{
    DEFAULT_PROFILE,
    environment::{Environment, Role},
};

/// Names of settings, in lower case, and their values.
type Profile = HashMap<String, String>;

/// Finds the profile that a section is about.
type ProfileOf = fn(&str) -> Option<&str>;

#[derive(Default)]
pub(super) struct Profiles(HashMap<String, Profile>);

pub(super) enum Base<'a> {
    Keys(Credentials),
    Source(&'a str),
    WebIdentity { role: Role<'a>, token_file: &'a str },
}

/// The way to a profile's credentials: the base's, then each role in turn.
pub(super) struct Plan<'a> {
    pub(super) base: Base<'a>,
    pub(super) roles: Vec<Role<'a>>,
}

/// Ways of signing in that this program does not know, by the setting that asks for them.
const UNKNOWN: [&str; 5] =
    ["sso_session", "sso_start_url", "sso_account_id", "login_session", "credential_process"];

impl Profiles {
    /// Reads both files. What is in the credentials file wins.
    pub(super) async fn read(environment: &Environment) -> anyhow::Result<Self> {
        let mut profiles = Self::default();
        let files: [(_, _, ProfileOf); 2] = [
            ("AWS_CONFIG_FILE", ".aws/config", config_section),
            ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", credentials_section),
        ];
        for (name, at_home, profile) in files {
            let Some(path) = environment.file(name, at_home) else { continue };
            let is_named = environment.get(name).is_some();
            match tokio::fs::read_to_string(&path).await {
                Err(error) if is_absent(error.kind(), is_named) => {}
                Err(error) => bail!("{} cannot be read: {error}", path.display()),
                Ok(text) => {
                    profiles.add(&text, profile).with_context(|| path.display().to_string())?;
                }
            }
        }
        Ok(profiles)
    }

    fn add(&mut self, text: &str, profile: ProfileOf) -> anyhow::Result<()> {
        let sections = sections(text)?;
        let stands_in = |name| name != DEFAULT_PROFILE && profile(name) == Some(DEFAULT_PROFILE);
        let replaced = sections.iter().any(|(name, _)| stands_in(name));
        for (section, settings) in sections {
            // `[profile default]` replaces `[default]`.
            let is_replaced = replaced && section == DEFAULT_PROFILE;
            if let Some(name) = profile(section).filter(|_| !is_replaced) {
                self.0.entry(name.to_owned()).or_default().extend(settings);
            }
        }
        Ok(())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn region<'a>(&'a self, mut name: &'a str) -> Option<&'a str> {
        // After as many steps as there are profiles the way is a circle.
        for _ in 0..self.0.len() {
            let profile = self.0.get(name)?;
            match setting(profile, "region").filter(|region| !region.is_empty()) {
                None => name = setting(profile, "source_profile")?,
                region => return region,
            }
        }
        None
    }

    /// How to get the credentials of a profile; none where there is no such profile, or it has no word about any.
    pub(super) fn plan<'a>(&'a self, name: &'a str) -> anyhow::Result<Option<Plan<'a>>> {
        let Some(mut profile) = self.0.get(name) else { return Ok(None) };
        let mut seen = vec![name];
        let mut roles = Vec::new();
        while let Some(role) = role(profile) {
            // A profile that is another's source gives its own keys, if it has any, rather than its role's.
            if seen.len() > 1 && matches!(keys(profile), Ok(Some(_))) {
                break;
            }
            roles.push(role);
            let next = match source_of(profile, seen[seen.len() - 1])? {
                Some(next) => next,
                None => break,
            };
            if seen.contains(&next) {
                bail!("profile {name} leads in a circle: {} -> {next}", seen.join(" -> "));
            }
            let missing = || anyhow!("profile {name} needs profile {next}, which there is not");
            profile = self.0.get(next).ok_or_else(missing)?;
            seen.push(next);
        }
        let last = seen[seen.len() - 1];
        let found = base(profile, seen.len() > 1).with_context(|| format!("profile {last}"))?;
        if found.is_none() && !roles.is_empty() {
            bail!("profile {last} has no credentials, which profile {name} needs");
        }
        roles.reverse();
        Ok(found.map(|base| Plan { base, roles }))
    }
}

/// Whether a file that cannot be read is as good as none. One that the user names is there for a reason.
fn is_absent(error: ErrorKind, is_named: bool) -> bool {
    match error {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => !is_named,
        _ => false,
    }
}

fn setting<'a>(profile: &'a Profile, name: &str) -> Option<&'a str> {
    profile.get(name).map(String::as_str)
}

/// The role to assume with a source's credentials. One with a token file needs no source.
fn role(profile: &Profile) -> Option<Role<'_>> {
    let arn = setting(profile, "role_arn")?;
    let session_name = setting(profile, "role_session_name");
    let external_id = setting(profile, "external_id");
    let needs_source = setting(profile, "web_identity_token_file").is_none();
    needs_source.then_some(Role { arn, external_id, session_name })
}

/// The profile whose credentials a role needs; none where they are the profile's own.
fn source_of<'a>(profile: &'a Profile, name: &str) -> anyhow::Result<Option<&'a str>> {
    match (setting(profile, "source_profile"), setting(profile, "credential_source")) {
        (Some(_), Some(_)) => {
            bail!("profile {name} has both a source_profile and a credential_source")
        }
        (None, None) => {
            bail!("profile {name} has a role_arn, but no source_profile or credential_source")
        }
        (source, _) => Ok(source.filter(|source| *source != name)),
    }
}

fn base(profile: &Profile, is_source: bool) -> anyhow::Result<Option<Base<'_>>> {
    if is_source && let Ok(Some(keys)) = keys(profile) {
        return Ok(Some(Base::Keys(keys)));
    }
    if let Some(source) = setting(profile, "credential_source") {
        return Ok(Some(Base::Source(source)));
    }
    if let Some(token_file) = setting(profile, "web_identity_token_file") {
        let arn =
            setting(profile, "role_arn").context("web_identity_token_file, but no role_arn")?;
        let session_name = setting(profile, "role_session_name");
        let role = Role { arn, external_id: None, session_name };
        return Ok(Some(Base::WebIdentity { role, token_file }));
    }
    if let Some(name) = UNKNOWN.iter().find(|name| setting(profile, name).is_some()) {
        bail!("gridpost does not know this way of signing in: {name}");
    }
    Ok(keys(profile)?.map(Base::Keys))
}

fn keys(profile: &Profile) -> anyhow::Result<Option<Credentials>> {
    let id = setting(profile, "aws_access_key_id");
    let secret = setting(profile, "aws_secret_access_key");
    let token = setting(profile, "aws_session_token");
    if (id, secret, token) == (None, None, None) {
        return Ok(None);
    }
    let id = id.context("aws_access_key_id is missing")?;
    let secret = secret.context("aws_secret_access_key is missing")?;
    Ok(Some(Credentials::new(id, secret, token.map(str::to_owned), None, "profile")))
}

/// The profile of a section such as `[profile dev]` or `[default]`, which is all that the config file has them in.
fn config_section(section: &str) -> Option<&str> {
    if section == DEFAULT_PROFILE { Some(section) } else { prefixed(section) }
}

fn credentials_section(section: &str) -> Option<&str> {
    (!section.contains([' ', '\t'])).then_some(section)
}

fn prefixed(section: &str) -> Option<&str> {
    let (prefix, name) = section.split_once([' ', '\t'])?;
    (prefix == "profile").then_some(name.trim())
}

/// The sections of a file in order. Errors name the line, not what is in it.
fn sections(text: &str) -> anyhow::Result<Vec<(&str, Profile)>> {
    let mut sections: Vec<(&str, Profile)> = Vec::new();
    for (line, number) in text.trim_start_matches('\u{feff}').lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        // Indented lines go on with a setting that has an inner structure; no such setting counts here.
        if line.starts_with([' ', '\t']) {
            if sections.last().is_none_or(|(_, settings)| settings.is_empty()) {
                bail!("line {number}: an indented line that goes on with no setting");
            }
            continue;
        }
        if line.starts_with('[') {
            let header = line.split(['#', ';']).next().unwrap_or_default().trim();
            let name = header.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
            let name = name.with_context(|| format!("line {number}: a ] is missing"))?;
            sections.push((name.trim(), Profile::new()));
            continue;
        }
        let (name, value) =
            line.split_once('=').with_context(|| format!("line {number}: a = is missing"))?;
        let (_, section) =
            sections.last_mut().with_context(|| format!("line {number}: outside of a section"))?;
        section.insert(name.trim().to_ascii_lowercase(), without_comment(value).trim().to_owned());
    }
    Ok(sections)
}

/// A comment begins with a sign that stands after white space.
fn without_comment(value: &str) -> &str {
    let is_comment = |(at, _): &(usize, &str)| value[..*at].ends_with([' ', '\t']);
    let end = value.match_indices(['#', ';']).find(is_comment).map(|(at, _)| at);
    &value[..end.unwrap_or(value.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(config: &str) -> Profiles {
        let mut profiles = Profiles::default();
        for (section, settings) in sections(config).expect("read") {
            let name = config_section(section).expect("a profile").to_owned();
            profiles.0.insert(name, settings);
        }
        profiles
    }

    #[test]
    fn comments_indented_lines_and_spelling() {
        let text = "\u{feff}# c\n; c\n\n[default] # c\nRegion = eu-north-1 ; c\ns3 =\n  region = no\nrole_arn=a#b=c\n\
                    [ profile\tx ]\noutput = json";
        let sections = sections(text).expect("read");
        assert_eq!((sections[0].0, prefixed(sections[1].0)), ("default", Some("x")));
        let settings = &sections[0].1;
        assert_eq!(setting(settings, "region"), Some("eu-north-1"));
        assert_eq!(setting(settings, "role_arn"), Some("a#b=c"));
        assert_eq!(setting(settings, "s3"), Some(""));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_none_unless_it_is_named() {
        for (error, is_named, want) in [
            (ErrorKind::NotFound, true, true),
            (ErrorKind::NotADirectory, true, true),
            (ErrorKind::PermissionDenied, false, true),
            (ErrorKind::PermissionDenied, true, false),
            (ErrorKind::InvalidData, false, false),
        ] {
            assert_eq!(is_absent(error, is_named), want, "{error} {is_named}");
        }
    }

    #[test]
    fn a_broken_file_is_told_without_its_content() {
        for (text, want) in [
            ("[default\n", "line 1: a ] is missing"),
            ("[default]\nsecret", "line 2: a = is missing"),
            ("a = secret", "line 1: outside of a section"),
            ("\n a = secret", "line 2: an indented line that goes on with no setting"),
            (
                "[a]\nb = c\n[d]\n\ta = secret",
                "line 4: an indented line that goes on with no setting",
            ),
        ] {
            assert_eq!(sections(text).expect_err("broken").to_string(), want);
        }
    }

    #[test]
    fn roles_are_assumed_from_the_source_on() {
        let profiles = profiles(
            "[profile c]\nrole_arn = C\nsource_profile = b\nexternal_id = e\n\
             [profile b]\nrole_arn = B\nsource_profile = a\nrole_session_name = s\n\
             [profile a]\nrole_arn = no\naws_access_key_id = i\naws_secret_access_key = s\n\
             [profile self]\nrole_arn = S\nsource_profile = self\naws_access_key_id = i\naws_secret_access_key = s\n\
             [profile env]\nrole_arn = E\ncredential_source = Environment\n\
             [profile web]\nrole_arn = W\nweb_identity_token_file = /t\n[profile empty]\nregion = r",
        );
        let plan = |name| profiles.plan(name).expect("no error").expect("a plan");
        let chain = plan("c");
        let roles: Vec<_> = chain
            .roles
            .iter()
            .map(|role| (role.arn, role.external_id, role.session_name))
            .collect();
        assert_eq!(roles, [("B", None, Some("s")), ("C", Some("e"), None)]);
        assert!(matches!(chain.base, Base::Keys(_)));
        assert!(matches!((plan("self").base, plan("self").roles.len()), (Base::Keys(_), 1)));
        assert!(matches!(plan("env").base, Base::Source("Environment")));
        assert!(matches!(plan("web").base, Base::WebIdentity { token_file: "/t", .. }));
        for name in ["empty", "absent"] {
            assert!(profiles.plan(name).expect("no error").is_none(), "{name}");
        }
    }

    #[test]
    fn the_region_is_the_profiles_or_its_sources() {
        let profiles = profiles(
            "[profile a]\nregion =\nsource_profile = b\n[profile b]\nsource_profile = c\n\
             [profile c]\nregion = r\nsource_profile = a\n[profile d]\nsource_profile = e\n\
             [profile e]\nsource_profile = d\n[profile f]\nsource_profile = f\n[profile g]\nregion =",
        );
        for (name, want) in
            [("a", Some("r")), ("c", Some("r")), ("d", None), ("f", None), ("g", None)]
        {
            assert_eq!(profiles.region(name), want, "{name}");
        }
    }

    #[test]
    fn what_cannot_work_is_told() {
        let profiles = profiles(
            "[profile a]\nrole_arn = A\nsource_profile = b\n[profile b]\nrole_arn = B\nsource_profile = a\n\
             [profile c]\nrole_arn = C\nsource_profile = none\n[profile d]\nrole_arn = D\n\
             [profile e]\nrole_arn = E\nsource_profile = f\n[profile f]\nregion = r\n\
             [profile g]\nsso_session = s\n[profile h]\naws_access_key_id = secret\n",
        );
        for (name, want) in [
            ("a", "profile a leads in a circle: a -> b -> a"),
            ("c", "profile c needs profile none, which there is not"),
            ("d", "profile d has a role_arn, but no source_profile or credential_source"),
            ("e", "profile f has no credentials, which profile e needs"),
            ("g", "profile g: gridpost does not know this way of signing in: sso_session"),
            ("h", "profile h: aws_secret_access_key is missing"),
        ] {
            let error = profiles.plan(name).err().expect("an error");
            assert_eq!(format!("{error:#}"), want);
        }
    }
}
