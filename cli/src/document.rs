//! The settings of an event subscription as flags, by the table of settings.

use std::{fmt::Display, path::Path};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches,
    builder::{PossibleValuesParser, ValueParser},
};
use gridpost_api::{
    settings::{Document, Kind, Mark, SETTINGS, Setting, of_flag},
    subscription::retry::write_duration,
};
use gridpost_core::{
    endpoint::arn::{Arn, NotAnArn},
    retry::profile::ProfileName,
    subscription::ResourceKind,
};
use gridpost_ops::{
    failure::Misuse,
    files,
    given::{count_in, read_json, whole_minutes},
};

const HEADERS: &str = "destination.deliveryAttributeMappings";

/// What flags say of an event subscription that is new, or of changes. What they do not say is left to
/// the server.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags<const IS_NEW: bool> {
    /// Flags with their texts, in the table's order.
    given: Vec<(&'static str, Vec<String>)>,
    removed: Vec<&'static Setting>,
    removed_headers: Vec<String>,
}

fn resource(given: &str) -> Result<ResourceKind, String> {
    let arn: Arn = given.parse().map_err(|error: NotAnArn| error.to_string())?;
    let kind = ResourceKind::ALL.into_iter().map(|(_, kind)| kind).find(|kind| kind.is_of(&arn));
    kind.ok_or_else(|| {
        let forms = ResourceKind::ALL.map(|(_, kind)| kind.rules().arn_form);
        format!("write the ARN of one of these: {}", forms.join("; "))
    })
}

/// `NAME=VALUE`. The message does not repeat the value: it may be a secret.
fn pair(given: &str) -> Result<(&str, &str), &'static str> {
    given.split_once('=').ok_or("write NAME=VALUE")
}

fn count(given: &str) -> Result<u32, String> {
    count_in(..)(given)
}

/// Returns a parser that refuses what the check does, and keeps the text.
fn checked<E: Display + 'static>(check: fn(&str) -> Result<(), E>) -> ValueParser {
    ValueParser::from(move |given: &str| match check(given) {
        Ok(()) => Ok(given.to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

fn arg(name: &'static str, setting: &Setting) -> Arg {
    let arg = Arg::new(name).long(name).help(setting.help).conflicts_with("file");
    if setting.kind == Kind::Switch {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(setting.flag().map_or("", |(_, value_name)| value_name));
    let several = || arg.clone().action(ArgAction::Append);
    match setting.kind {
        _ if setting.list().is_some() => several().value_parser(checked(|it| pair(it).map(drop))),
        Kind::Flag => {
            let arg = arg.num_args(0..=1).default_missing_value("true");
            arg.value_parser(["true", "false"])
        }
        Kind::Texts => several().value_delimiter(','),
        Kind::Rows => several().value_parser(checked(|it| read_json(it.as_bytes()).map(drop))),
        Kind::Number => arg.value_parser(checked(|it| count(it).map(drop))),
        Kind::Minutes => arg.value_parser(checked(|it| whole_minutes(it).map(drop))),
        Kind::Arn => arg.value_parser(checked(|it| resource(it).map(drop))),
        Kind::Choice => {
            let names = setting.choices().into_iter().map(|(name, _)| name);
            let names = PossibleValuesParser::new(names.filter(|name| !name.is_empty()));
            arg.value_parser(names).ignore_case(true)
        }
        _ if setting.is(Mark::Optional) => {
            arg.num_args(0..=1).require_equals(true).default_missing_value("")
        }
        _ => arg,
    }
}

/// Returns the settings with flags, without the others of flags that several share.
fn flagged(is_new: bool) -> impl Iterator<Item = (&'static str, &'static Setting)> + Clone {
    let other = if is_new { Mark::OnChange } else { Mark::OnCreation };
    let flags = SETTINGS.iter().filter(move |one| !one.is(other) && !one.help.is_empty());
    flags.filter_map(|one| Some((one.flag()?.0, one)))
}

/// Returns the flags that must not be given beside that of a setting.
fn excluded(setting: &Setting, name: &str) -> Vec<&'static str> {
    let is_other_type = |one: &Setting| {
        let is_shared = of_flag(name).count() > 1;
        let is_same_object = one.type_path() == setting.type_path();
        let has_it = one.of.iter().any(|of_type| setting.of.contains(of_type));
        one.is(Mark::Selects) && is_same_object && !has_it && !is_shared
    };
    let others = flagged(true).filter(|(other, one)| {
        *other != name && (setting.excludes.contains(other) || is_other_type(one))
    });
    others.map(|(other, _)| other).collect()
}

fn args(is_new: bool) -> Vec<Arg> {
    let mut args = Vec::new();
    let is_known = |name: &&str| flagged(is_new).any(|(known, _)| known == *name);
    for (name, setting) in flagged(is_new) {
        let others = excluded(setting, name).into_iter().filter(is_known);
        let arg = arg(name, setting).conflicts_with_all(others);
        args.push(match setting.requires {
            Some(other) => arg.requires(other),
            None => arg,
        });
    }
    for setting in SETTINGS.iter().filter(|_| !is_new) {
        let Some((name, help)) = setting.removal else { continue };
        let arg = Arg::new(name).long(name).help(help).conflicts_with("file");
        args.push(match setting.list() {
            Some(_) => arg.action(ArgAction::Append).value_name("NAME"),
            None => {
                let own = flagged(is_new).filter(|(_, one)| one.path.starts_with(setting.whole()));
                arg.action(ArgAction::SetTrue).conflicts_with_all(own.map(|(own, _)| own))
            }
        });
    }
    args
}

impl<const IS_NEW: bool> Args for SettingFlags<IS_NEW> {
    fn augment_args(command: Command) -> Command {
        command.args(args(IS_NEW))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const IS_NEW: bool> FromArgMatches for SettingFlags<IS_NEW> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let texts = |name: &str| -> Vec<String> {
            matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
        };
        let mut flags = Self::default();
        for (name, setting) in flagged(IS_NEW) {
            let texts = match setting.kind {
                Kind::Switch if matches.get_flag(name) => vec![true.to_string()],
                Kind::Switch => Vec::new(),
                _ => texts(name),
            };
            if !texts.is_empty() {
                flags.given.push((name, texts));
            }
        }
        for setting in SETTINGS.iter().filter(|_| !IS_NEW) {
            match setting.removal {
                Some((name, _)) if setting.list().is_some() => flags.removed_headers = texts(name),
                Some((name, _)) if matches.get_flag(name) => flags.removed.push(setting),
                _ => {}
            }
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const IS_NEW: bool> SettingFlags<IS_NEW> {
    fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.given.iter().flat_map(|(name, _)| of_flag(name))
    }

    /// Whether the topic's delivery profile says what they set.
    pub fn need_profile(&self) -> bool {
        self.settings().any(|one| one.type_path().is_none() && !one.of.is_empty())
    }

    /// Whether what is there must be known: filters, headers and authentications are replaced whole.
    pub fn need_current(&self) -> bool {
        let is_part = |one: &Setting| {
            one.path.starts_with("filter.") || one.list().is_some() || one.is(Mark::Selects)
        };
        !self.removed_headers.is_empty() || self.settings().any(is_part)
    }

    /// Returns the document of a new event subscription of a topic with that delivery profile.
    pub fn document(&self, profile: ProfileName) -> Result<Document, Misuse> {
        let mut document = Document::default();
        let arn = self.given.iter().find(|(name, _)| *name == "resource");
        let kind = arn.and_then(|(_, texts)| resource(texts.first()?).ok());
        document.begin("destination.endpointType", kind.map_or("WebHook", ResourceKind::name));
        self.write(&mut document, profile)?;
        Ok(document)
    }

    /// Returns a patch of `current`, which is read where [`need_current`](Self::need_current) says so.
    /// Fails with [`Misuse`] where a header is to be removed that does not exist.
    pub fn patch(&self, current: &Document, profile: ProfileName) -> Result<Document, Misuse> {
        let name_of = |row: usize| current.text(&format!("{HEADERS}.{row}.name"));
        let names: Vec<_> = (0..current.rows(HEADERS)).map(name_of).collect();
        let is_there = |name: &&String| names.iter().any(|own| own.eq_ignore_ascii_case(name));
        // A misspelt header must not stay in silence: it may hold a secret.
        if let Some(missing) = self.removed_headers.iter().find(|name| !is_there(name)) {
            let all = if names.is_empty() { "no headers".to_owned() } else { names.join(", ") };
            return Err(Misuse(format!(
                "--remove-header: there is no header `{missing}`; the event subscription has {all}"
            )));
        }
        let mut patch = Document::default();
        if self.settings().any(|one| one.path.starts_with("filter.")) {
            patch.copy("filter", current);
        }
        let headers = self.given.iter().filter(|(name, _)| name.ends_with("header"));
        let headers = headers.flat_map(|(_, texts)| texts).filter_map(|text| pair(text).ok());
        let mut replaced: Vec<_> = headers.map(|(name, _)| name).collect();
        replaced.extend(self.removed_headers.iter().map(String::as_str));
        if !replaced.is_empty() {
            let is_replaced =
                |name: &String| replaced.iter().any(|it| it.eq_ignore_ascii_case(name));
            patch.copy_rows(HEADERS, current, |row| !is_replaced(&names[row]));
        }
        self.write(&mut patch, profile)?;
        for setting in SETTINGS.iter().filter(|one| one.is(Mark::Stays)) {
            let of = |document: &Document| document.text(&setting.type_path().unwrap_or_default());
            let is_same = of(&patch) == of(current) && setting.of.contains(&of(current).as_str());
            if is_same && !patch.has(setting.path) {
                patch.copy(setting.path, current);
            }
        }
        self.removed.iter().for_each(|setting| patch.reset(setting));
        Ok(patch)
    }

    fn write(&self, document: &mut Document, profile: ProfileName) -> Result<(), Misuse> {
        for setting in self.settings().filter(|one| one.is(Mark::Selects)) {
            document.begin(&setting.type_path().unwrap_or_default(), setting.of[0]);
        }
        self.given.iter().try_for_each(|(name, texts)| set(document, name, texts, profile))
    }
}

/// Sets what a flag says: of several settings, that of the delivery profile, or of the type.
pub fn set(
    document: &mut Document,
    name: &str,
    texts: &[String],
    profile: ProfileName,
) -> Result<(), Misuse> {
    let is_meant = |one: &&Setting| match one.type_path() {
        Some(of_type) => one.of.contains(&document.text(&of_type).as_str()),
        None => one.is_of_profile(profile.into()),
    };
    let meant = of_flag(name).find(is_meant).or_else(|| of_flag(name).next());
    let Some((setting, text)) = meant.zip(texts.first()) else { return Ok(()) };
    if setting.list() == Some(HEADERS) {
        add_headers(document, setting, texts);
    } else if !(text.is_empty() && setting.is(Mark::Optional)) {
        document.set(
            setting.path,
            &match setting.kind {
                Kind::Number => vec![count(text).map_err(Misuse)?.to_string()],
                Kind::Minutes => vec![whole_minutes(text).map_err(Misuse)?.to_string()],
                Kind::Duration => vec![write_duration(whole_minutes(text).map_err(Misuse)?)],
                Kind::Pem | Kind::SecretPem => vec![file(name, text)?],
                _ => texts.to_vec(),
            },
        );
    }
    if let Some((path, text)) = setting.with {
        document.set(path, &[text.to_owned()]);
    }
    Ok(())
}

fn file(flag: &str, path: &str) -> Result<String, Misuse> {
    let read = files::text(Path::new(path));
    read.map_err(|error| Misuse(format!("--{flag}: {path} can't be read: {error:#}")))
}

fn add_headers(document: &mut Document, setting: &Setting, texts: &[String]) {
    for (name, value) in texts.iter().filter_map(|text| pair(text).ok()) {
        let is_secret = (setting.kind == Kind::Flag).to_string();
        let (member, of_type) = (setting.name(), setting.of[0]);
        let members =
            [("name", name), ("type", of_type), ("value", value), ("isSecret", &is_secret)];
        match member {
            "sourceField" => document.add(HEADERS, &[members[0], members[1], (member, value)]),
            _ => document.add(HEADERS, &members),
        }
    }
}

#[cfg(test)]
mod tests;
