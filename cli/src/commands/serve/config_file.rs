//! The configuration file of `gridpost serve`: flags that are written down.

use std::{env, ffi::OsString, fs, path::Path};

use clap::Command;
use gridpost_ops::failure::Misuse;
use toml::{Table, Value};

/// The commands that have such a file.
const COMMANDS: [&str; 3] = ["serve", "token", "healthcheck"];

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
