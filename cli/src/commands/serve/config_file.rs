//! The configuration file of `gridpost serve`: flags that are written down.

use std::{env, ffi::OsString, fs, path::Path};

use clap::Command;
use gridpost_ops::failure::Misuse;
use toml::{Table, Value};

/// The commands that have such a file.
const COMMANDS: [&str; 3] = ["serve", "token", "healthcheck"];

/// Has the commands with such a file take a flag again, whose last value counts.
pub fn taking_flags_again(command: Command) -> Command {
    COMMANDS.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |own| {
            own.args_override_self(true).mut_subcommands(|below| below.args_override_self(true))
        })
    })
}

/// Returns a command line with what its configuration file says in front of its own flags, which count more. What the
/// environment says counts more than the file, too. Fails with every member that is no flag of `serve`.
pub fn with_file(command: &Command, line: Vec<OsString>) -> Result<Vec<OsString>, Misuse> {
    let is_own = |word: &OsString| COMMANDS.iter().any(|name| word == name);
    let Some(at) = line.iter().take(2).position(is_own) else { return Ok(line) };
    let Some(path) = file_of(&line) else { return Ok(line) };
    let path = Path::new(&path);
    let refused = |why: String| Misuse(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let table: Table = toml::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let flags = flags(command, &table, |name| env::var_os(name).is_some()).map_err(refused)?;
    // The others know some of these flags alone.
    let known = |flag: &&Flag| {
        let name = line[at].to_string_lossy();
        let mut own = command.get_subcommands().filter(|one| one.get_name() == name);
        own.any(|own| has(own, &flag.id))
    };
    let written = flags.iter().filter(known).map(|flag| OsString::from(&flag.text));
    let (before, after) = line.split_at(at + 1);
    // Behind the words of a subcommand, such as `token create`.
    let words = after.iter().take_while(|word| !word.to_string_lossy().starts_with('-')).count();
    let (words, after) = after.split_at(words);
    let all = before.iter().chain(words).cloned().chain(written).chain(after.iter().cloned());
    Ok(all.collect())
}

/// Whether a command, or one below it, has a flag.
fn has(command: &Command, id: &str) -> bool {
    command.get_arguments().any(|flag| flag.get_id() == id)
        || command.get_subcommands().any(|below| has(below, id))
}

/// Returns the file that a command line or the environment names.
fn file_of(line: &[OsString]) -> Option<OsString> {
    let mut words = line.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--config" {
            return words.next().cloned();
        }
        if let Some(path) = text.strip_prefix("--config=") {
            return Some(path.to_owned().into());
        }
    }
    env::var_os("GRIDPOST_CONFIG")
}

struct Flag {
    id: String,
    text: String,
}

/// Writes the members of a file as flags, but for those that a variable sets.
fn flags(
    command: &Command,
    table: &Table,
    is_set: impl Fn(&str) -> bool,
) -> Result<Vec<Flag>, String> {
    let serve = command.get_subcommands().find(|one| one.get_name() == "serve");
    let known = |id: &str| {
        let mut all = serve.into_iter().flat_map(Command::get_arguments);
        all.find(|flag| flag.get_id() == id && flag.get_env().is_some() && id != "config")
    };
    let (mut flags, mut problems) = (Vec::new(), Vec::new());
    for (id, value) in table {
        let Some(flag) = known(id) else {
            problems.push(format!("{id} is no setting"));
            continue;
        };
        let variable = flag.get_env().and_then(|name| name.to_str()).unwrap_or_default();
        let text = match value {
            _ if is_set(variable) => continue,
            Value::Boolean(false) => continue,
            Value::Boolean(true) => None,
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Array(all) if all.iter().all(Value::is_str) => {
                let texts: Vec<_> = all.iter().filter_map(Value::as_str).collect();
                Some(texts.join(","))
            }
            other => {
                let kind = other.type_str();
                problems
                    .push(format!("{id} is a text, a number, true or a list of texts, not {kind}"));
                continue;
            }
        };
        let name = id.replace('_', "-");
        let text = text.map_or_else(|| format!("--{name}"), |text| format!("--{name}={text}"));
        flags.push(Flag { id: id.clone(), text });
    }
    if problems.is_empty() {
        return Ok(flags);
    }
    let all = serve.into_iter().flat_map(Command::get_arguments);
    let all = all.filter(|flag| flag.get_env().is_some() && flag.get_id() != "config");
    let all: Vec<_> = all.map(|flag| flag.get_id().as_str()).collect();
    Err(format!("{}; settings are {}", problems.join(", "), all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::command;

    /// A command line with the file, and what comes of it.
    fn read(text: &str, line: &str) -> Result<String, Misuse> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.toml");
        fs::write(&path, text).expect("written");
        let file = format!("--config={}", path.display());
        let words = line.split(' ').map(|word| if word == "FILE" { &file } else { word });
        let read = with_file(&command(), words.map(OsString::from).collect())?;
        command().try_get_matches_from(&read).expect("it is understood");
        let words = read.iter().map(|word| word.to_string_lossy().into_owned());
        Ok(words.filter(|word| *word != file).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn members_are_flags_before_those_of_the_command_line() {
        let text = "data = \"d\"\nlisten = \"127.0.0.1:1\"\nallow_aws = true\n\
            trusted_proxies = [\"10.0.0.0/8\", \"fd00::/8\"]";
        let table = [
            (
                "gridpost serve FILE --listen=127.0.0.1:2",
                "gridpost serve --allow-aws --data=d --listen=127.0.0.1:1 \
                 --trusted-proxies=10.0.0.0/8,fd00::/8 --listen=127.0.0.1:2",
            ),
            ("gridpost token list FILE", "gridpost token list --data=d"),
            ("gridpost token revoke ci FILE", "gridpost token revoke ci --data=d"),
            ("gridpost topic list", "gridpost topic list"),
            ("gridpost serve --data d", "gridpost serve --data d"),
        ];
        for (line, want) in table {
            assert_eq!(read(text, line).expect("read"), want, "{line}");
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_with_those_that_there_are() {
        for (text, problem) in [
            ("port = 1", "port is no setting; settings are data, secrets_key_file, listen"),
            ("config = \"x\"", "config is no setting"),
            ("data = 1.5", "data is a text, a number, true or a list of texts, not float"),
            ("listen = [1]", "not array"),
            ("data", "c.toml: "),
        ] {
            let refused = read(text, "gridpost serve FILE").expect_err(text).0;
            assert!(refused.contains(problem), "{refused}");
        }
    }

    #[test]
    fn a_variable_counts_more_than_the_file() {
        let table = toml::from_str("data = \"d\"\nlisten = \"l\"").expect("TOML");
        let flags = flags(&command(), &table, |name| name == "GRIDPOST_LISTEN").expect("flags");
        assert_eq!(flags.iter().map(|flag| &*flag.text).collect::<Vec<_>>(), ["--data=d"]);
    }
}
