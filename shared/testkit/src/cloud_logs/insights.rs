//! An evaluator of Logs Insights' language: the part that Gridpost's journal writes. Everything else is
//! refused, so that no text from outside is taken for a command.

use std::collections::BTreeMap;

use gridpost_core::time::Timestamp;
use gridpost_ports::log_store::Row;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A field, a word, or a number.
    Word(String),
    Text(String),
    /// A name between backticks.
    Field(String),
    Sign(String),
}

#[derive(Debug)]
enum Term {
    Field(String),
    Lower(String),
    Millis,
}

#[derive(Debug)]
enum Check {
    IsPresent(String),
    Is(Term, String, String),
    Like(Term, String),
    In(String, Vec<String>),
}

#[derive(Debug)]
enum Command {
    /// All of the alternatives' checks of one of them.
    Filter(Vec<Vec<Check>>),
    Sums {
        sums: Vec<(String, String)>,
        by: Vec<String>,
    },
    Fields,
    NewestFirst,
    Limit(usize),
}

/// Evaluates a query on lines, each as often as it was logged. Returns `None` for a text that is not one.
pub(super) fn rows<'l>(
    text: &str,
    lines: impl Iterator<Item = (Timestamp, &'l str, u64)>,
    most: usize,
) -> Option<Vec<Row>> {
    let commands = commands(text)?;
    let mut sums: BTreeMap<Vec<Option<String>>, BTreeMap<String, f64>> = BTreeMap::new();
    let mut found = Vec::new();
    let (mut limit, mut is_newest_first) = (most, false);
    for (at, line, times) in lines {
        let fields = fields(at, line);
        let is_wanted = commands.iter().all(|command| match command {
            Command::Filter(any) => {
                any.iter().any(|all| all.iter().all(|it| it.holds(at, &fields)))
            }
            _ => true,
        });
        if !is_wanted {
            continue;
        }
        let mut is_summed = false;
        for command in &commands {
            match command {
                Command::Limit(own) => limit = most.min(*own),
                Command::NewestFirst => is_newest_first = true,
                Command::Sums { sums: of, by } => {
                    is_summed = true;
                    let key = by.iter().map(|field| group_value(field, at, &fields)).collect();
                    let group = sums.entry(key).or_default();
                    for (field, name) in of {
                        let Some(value) = fields.get(field) else { continue };
                        let value: f64 = value.parse().ok()?;
                        *group.entry(name.clone()).or_default() += value * times as f64;
                    }
                }
                Command::Filter(_) | Command::Fields => {}
            }
        }
        if !is_summed {
            let row = ["@timestamp", "@message"].map(|it| (it.to_owned(), fields[it].clone()));
            found.extend((0..times.min(most as u64)).map(|_| Row::from(row.clone())));
        }
    }
    if is_newest_first {
        found.sort_by(|one, other| other["@timestamp"].cmp(&one["@timestamp"]));
    }
    let by = commands.iter().find_map(|command| match command {
        Command::Sums { by, .. } => Some(by.clone()),
        _ => None,
    });
    for (key, group) in sums {
        let keys = by.iter().flatten().cloned().zip(key);
        let keys = keys.filter_map(|(name, value)| Some((name, value?)));
        // As the service writes large numbers.
        let values = group.into_iter().map(|(name, sum)| (name, number(sum)));
        found.push(keys.chain(values).collect());
    }
    found.truncate(limit);
    Some(found)
}

fn number(sum: f64) -> String {
    if sum >= 1e7 { format!("{sum:e}").replace('e', "E") } else { sum.to_string() }
}

fn shown(at: Timestamp) -> String {
    at.to_iso_8601().replace('T', " ").replace('Z', "")
}

fn group_value(field: &str, at: Timestamp, fields: &BTreeMap<String, String>) -> Option<String> {
    let period = field.strip_prefix("bin(").and_then(|rest| rest.strip_suffix(')'));
    let Some((number, unit)) = period.and_then(|period| period.split_at_checked(period.len() - 1))
    else {
        return fields.get(field).cloned();
    };
    let unit_ms = if unit == "h" { 3_600_000 } else { 60_000 };
    let step_ms = number.parse::<i64>().ok()? * unit_ms;
    Some(shown(Timestamp::from_millis(at.as_millis().div_euclid(step_ms) * step_ms)))
}

/// The fields of a line: of an object within it, with a dot.
fn fields(at: Timestamp, line: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::from([
        ("@timestamp".to_owned(), shown(at)),
        ("@message".to_owned(), line.to_owned()),
    ]);
    flatten(None, &serde_json::from_str(line).unwrap_or(Value::Null), &mut fields);
    fields
}

fn flatten(prefix: Option<&str>, value: &Value, fields: &mut BTreeMap<String, String>) {
    let Value::Object(members) = value else {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        fields.extend(prefix.map(|prefix| (prefix.to_owned(), text)));
        return;
    };
    for (name, value) in members {
        let name = prefix.map_or_else(|| name.clone(), |prefix| format!("{prefix}.{name}"));
        flatten(Some(&name), value, fields);
    }
}

impl Check {
    fn holds(&self, at: Timestamp, fields: &BTreeMap<String, String>) -> bool {
        let value = |term: &Term| match term {
            Term::Field(field) => fields.get(field).cloned(),
            Term::Lower(field) => fields.get(field).map(|value| value.to_ascii_lowercase()),
            Term::Millis => Some(at.as_millis().to_string()),
        };
        match self {
            Self::IsPresent(field) => fields.contains_key(field),
            Self::In(field, values) => fields.get(field).is_some_and(|it| values.contains(it)),
            Self::Like(term, part) => value(term).is_some_and(|it| it.contains(part.as_str())),
            Self::Is(term, sign, than) => {
                let (value, numbers) = (value(term), |text: &str| text.parse::<i64>().ok());
                let is_equal = value.as_ref() == Some(than);
                match sign.as_str() {
                    "=" => is_equal,
                    "!=" => !is_equal,
                    "<" => value.and_then(|it| numbers(&it)) < numbers(than),
                    _ => value.and_then(|it| numbers(&it)) >= numbers(than),
                }
            }
        }
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = |closing: char| rest[1..].find(closing).map(|at| at + 1);
        let is_word = |one: char| one.is_ascii_alphanumeric() || "@._".contains(one);
        let length = match first {
            '"' | '`' => {
                let end = end(first)?;
                let inner = rest[1..end].to_owned();
                // A backslash would escape the end.
                if inner.contains(['\\', '\n']) {
                    return None;
                }
                tokens.push(if first == '"' { Token::Text(inner) } else { Token::Field(inner) });
                end + 1
            }
            _ if is_word(first) => {
                let length = rest.find(|one| !is_word(one)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..length].to_owned()));
                length
            }
            _ => {
                let two = ["!=", ">="].into_iter().find(|sign| rest.starts_with(sign));
                let one = "|()[],=<".contains(first).then(|| &rest[..1]);
                let sign = two.or(one)?;
                tokens.push(Token::Sign(sign.to_owned()));
                sign.len()
            }
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

/// The rest of a command.
struct Reader<'t> {
    tokens: &'t [Token],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first.clone())
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = match self.tokens.first() {
            Some(Token::Word(word)) => word == wanted,
            Some(Token::Sign(sign)) => sign == wanted,
            _ => false,
        };
        if is_next {
            self.next();
        }
        is_next
    }

    fn must(&mut self, wanted: &str) -> Option<()> {
        self.takes(wanted).then_some(())
    }

    fn field(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(name) | Token::Field(name) => Some(name),
            Token::Text(_) | Token::Sign(_) => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        match self.next()? {
            Token::Text(text) => Some(text),
            _ => None,
        }
    }

    fn call(&mut self) -> Option<String> {
        self.must("(")?;
        let field = self.field()?;
        self.must(")")?;
        Some(field)
    }

    fn check(&mut self) -> Option<Check> {
        if self.takes("ispresent") {
            return Some(Check::IsPresent(self.call()?));
        }
        let term = if self.takes("tolower") {
            Term::Lower(self.call()?)
        } else if self.takes("toMillis") {
            (self.call()? == "@timestamp").then_some(Term::Millis)?
        } else {
            Term::Field(self.field()?)
        };
        if self.takes("like") {
            return Some(Check::Like(term, self.text()?));
        }
        if self.takes("in") {
            let Term::Field(field) = term else { return None };
            self.must("[")?;
            let mut values = vec![self.text()?];
            while self.takes(",") {
                values.push(self.text()?);
            }
            self.must("]")?;
            return Some(Check::In(field, values));
        }
        let sign = ["=", "!=", ">=", "<"].into_iter().find(|sign| self.takes(sign))?;
        let than = match self.next()? {
            Token::Text(text) => text,
            Token::Word(number) if number.parse::<i64>().is_ok() => number,
            _ => return None,
        };
        Some(Check::Is(term, sign.to_owned(), than))
    }

    fn command(&mut self) -> Option<Command> {
        let Token::Word(name) = self.next()? else { return None };
        let command = match name.as_str() {
            "filter" => {
                let mut any = vec![vec![self.check()?]];
                loop {
                    if self.takes("and") {
                        any.last_mut()?.push(self.check()?);
                    } else if self.takes("or") {
                        any.push(vec![self.check()?]);
                    } else {
                        break Command::Filter(any);
                    }
                }
            }
            "stats" => {
                let (mut sums, mut by) = (Vec::new(), Vec::new());
                loop {
                    self.must("sum")?;
                    let field = self.call()?;
                    self.must("as")?;
                    sums.push((field, self.field()?));
                    if !self.takes(",") {
                        break;
                    }
                }
                self.must("by")?;
                loop {
                    let field = self.field()?;
                    by.push(match field.as_str() {
                        "bin" => format!("bin({})", self.call()?),
                        _ => field,
                    });
                    if !self.takes(",") {
                        break Command::Sums { sums, by };
                    }
                }
            }
            "fields" => {
                self.must("@timestamp")?;
                self.must(",")?;
                self.must("@message")?;
                Command::Fields
            }
            "sort" => {
                self.must("@timestamp")?;
                self.must("desc")?;
                Command::NewestFirst
            }
            "limit" => Command::Limit(self.field()?.parse().ok()?),
            _ => return None,
        };
        self.tokens.is_empty().then_some(command)
    }
}

fn commands(text: &str) -> Option<Vec<Command>> {
    let tokens = tokens(text)?;
    let pipe = Token::Sign("|".to_owned());
    tokens.split(|token| *token == pipe).map(|tokens| Reader { tokens }.command()).collect()
}
