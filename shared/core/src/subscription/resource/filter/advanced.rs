//! `advancedFilters`: reading them, every problem listed, and writing them.

use serde_json::{Map, Value, json};

use crate::{
    document::{Code, Object, Problems, one_of, quoted, text},
    subscription::filter::{
        AdvancedFilter,
        advanced::{FILTERS_MAX, KEY_CHARS_MAX, Number, Operator, VALUE_CHARS_MAX, VALUES_MAX},
    },
};

/// What an operator takes, and what makes it of that.
#[derive(Clone, Copy)]
enum Takes {
    /// `value`, a number.
    Number(fn(Number) -> Operator),
    /// `values`, numbers.
    Numbers(fn(Vec<Number>) -> Operator),
    /// `values`, pairs of numbers.
    Ranges(fn(Vec<(Number, Number)>) -> Operator),
    /// `value`, a boolean.
    Bool(fn(bool) -> Operator),
    /// `values`, strings.
    Texts(fn(Vec<String>) -> Operator),
    /// Neither.
    Nothing(fn() -> Operator),
}

const OPERATORS: [(&str, Takes); 19] = [
    ("NumberIn", Takes::Numbers(Operator::NumberIn)),
    ("NumberNotIn", Takes::Numbers(Operator::NumberNotIn)),
    ("NumberLessThan", Takes::Number(Operator::NumberLessThan)),
    ("NumberGreaterThan", Takes::Number(Operator::NumberGreaterThan)),
    ("NumberLessThanOrEquals", Takes::Number(Operator::NumberLessThanOrEquals)),
    ("NumberGreaterThanOrEquals", Takes::Number(Operator::NumberGreaterThanOrEquals)),
    ("NumberInRange", Takes::Ranges(Operator::NumberInRange)),
    ("NumberNotInRange", Takes::Ranges(Operator::NumberNotInRange)),
    ("BoolEquals", Takes::Bool(Operator::BoolEquals)),
    ("StringIn", Takes::Texts(Operator::StringIn)),
    ("StringNotIn", Takes::Texts(Operator::StringNotIn)),
    ("StringBeginsWith", Takes::Texts(Operator::StringBeginsWith)),
    ("StringNotBeginsWith", Takes::Texts(Operator::StringNotBeginsWith)),
    ("StringEndsWith", Takes::Texts(Operator::StringEndsWith)),
    ("StringNotEndsWith", Takes::Texts(Operator::StringNotEndsWith)),
    ("StringContains", Takes::Texts(Operator::StringContains)),
    ("StringNotContains", Takes::Texts(Operator::StringNotContains)),
    ("IsNullOrUndefined", Takes::Nothing(|| Operator::IsNullOrUndefined)),
    ("IsNotNull", Takes::Nothing(|| Operator::IsNotNull)),
];

/// Reads the advanced filters of `filter`, which calls them `name`.
pub(super) fn read(
    filter: &mut Object<'_>,
    name: &'static str,
    problems: &mut Problems,
) -> Vec<AdvancedFilter> {
    let path = filter.path_of(name);
    let given = filter.list(name, problems).unwrap_or_default();
    if given.len() > FILTERS_MAX {
        let rule =
            format!("must have at most {FILTERS_MAX} advanced filters, but has {}", given.len());
        problems.add(Code::OutOfRange, path, rule);
        return Vec::new();
    }
    // Values are counted as they are given: those that break a rule count too.
    let mut values = 0;
    let read = given.into_iter().filter_map(|(path, value)| {
        let count = value.get("values").and_then(Value::as_array).map_or(1, Vec::len);
        let takes_values = value.get("value").is_some() || value.get("values").is_some();
        values += if takes_values { count } else { 0 };
        one(Object::at(path, value, problems)?, problems)
    });
    let read: Vec<_> = read.collect();
    if values > VALUES_MAX {
        let rule = format!(
            "must have at most {VALUES_MAX} values in all advanced filters together, but has \
             {values}"
        );
        problems.add(Code::OutOfRange, path, rule);
    }
    read
}

fn one(mut filter: Object<'_>, problems: &mut Problems) -> Option<AdvancedFilter> {
    let names = OPERATORS.map(|(name, _)| name);
    let what = format!("one of {}", one_of(&names));
    let given = filter.required_text("operatorType", &what, problems);
    let key = key(&mut filter, problems);
    // Event Grid's own clients write the names in any case.
    let known =
        |given: &str| OPERATORS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
    let Some((name, takes)) = given.and_then(known) else {
        if let Some(given) = given {
            let rule = format!("must be {}, but is {}", one_of(&names), quoted(given));
            problems.add(Code::InvalidValue, filter.path_of("operatorType"), rule);
        }
        filter.ignore(&["value", "values"]);
        filter.finish(problems);
        return None;
    };
    let operator = operator(&mut filter, name, takes, problems);
    filter.finish(problems);
    Some(AdvancedFilter { key: key?, operator: operator? })
}

/// The key: names with dots between them. Event Grid has no way to escape a dot in a name.
fn key(filter: &mut Object<'_>, problems: &mut Problems) -> Option<String> {
    let what = "where the value stands, such as subject or data.order.total";
    let key = filter.required_text("key", what, problems)?;
    let chars = key.chars().count();
    let path = filter.path_of("key");
    if !(1..=KEY_CHARS_MAX).contains(&chars) {
        let rule = format!("must have 1 to {KEY_CHARS_MAX} characters, but has {chars}");
        problems.add(Code::OutOfRange, path, rule);
    } else if key.split('.').any(str::is_empty) {
        let rule = format!(
            "must be names with single dots between them, such as data.order.total, but is {}",
            quoted(key)
        );
        problems.add(Code::InvalidValue, path, rule);
    }
    Some(key.to_owned())
}

fn operator(
    filter: &mut Object<'_>,
    name: &str,
    takes: Takes,
    problems: &mut Problems,
) -> Option<Operator> {
    let wrong_member = match takes {
        Takes::Number(_) | Takes::Bool(_) => ("values", "value"),
        Takes::Numbers(_) | Takes::Ranges(_) | Takes::Texts(_) => ("value", "values"),
        Takes::Nothing(_) => ("value", "neither value nor values"),
    };
    let refuse = |member: &'static str, filter: &mut Object<'_>, problems: &mut Problems| {
        filter.ignore(&[member]);
        if filter.has(member) {
            let rule = format!("must be left out: {name} takes {}", wrong_member.1);
            problems.add(Code::InvalidValue, filter.path_of(member), rule);
        }
    };
    refuse(wrong_member.0, filter, problems);
    match takes {
        Takes::Number(make) => {
            let value = filter.required("value", "a number", problems)?;
            number(value, &filter.path_of("value"), problems).map(make)
        }
        Takes::Bool(make) => {
            let value = filter.required("value", "true or false", problems)?;
            let flag = value.as_bool();
            if flag.is_none() {
                let rule = format!("must be true or false, but is {}", quoted(&value.to_string()));
                problems.add(Code::WrongType, filter.path_of("value"), rule);
            }
            flag.map(make)
        }
        Takes::Numbers(make) => all(filter, "numbers", problems, number).map(make),
        Takes::Ranges(make) => all(filter, "pairs of numbers", problems, range).map(make),
        Takes::Texts(make) => all(filter, "strings", problems, string).map(make),
        Takes::Nothing(make) => {
            refuse("values", filter, problems);
            Some(make())
        }
    }
}

/// The members of `values`, at least one.
fn all<T>(
    filter: &mut Object<'_>,
    what: &str,
    problems: &mut Problems,
    one: fn(&Value, &str, &mut Problems) -> Option<T>,
) -> Option<Vec<T>> {
    filter.required("values", &format!("an array of {what}"), problems)?;
    let given = filter.list("values", problems)?;
    if given.is_empty() {
        let rule = format!("must have at least one of the {what} that it is about");
        problems.add(Code::OutOfRange, filter.path_of("values"), rule);
    }
    Some(given.iter().filter_map(|(path, value)| one(value, path, problems)).collect())
}

fn number(value: &Value, path: &str, problems: &mut Problems) -> Option<Number> {
    let number = value.as_f64().and_then(Number::new);
    if number.is_none() {
        let rule = format!("must be a number, but is {}", quoted(&value.to_string()));
        problems.add(Code::WrongType, path, rule);
    }
    number
}

fn range(value: &Value, path: &str, problems: &mut Problems) -> Option<(Number, Number)> {
    let Some([from, to]) = value.as_array().map(Vec::as_slice) else {
        let found = quoted(&value.to_string());
        let rule = format!("must be a pair of numbers such as [1, 10], but is {found}");
        problems.add(Code::WrongType, path, rule);
        return None;
    };
    let from = number(from, &format!("{path}[0]"), problems);
    let to = number(to, &format!("{path}[1]"), problems);
    let (from, to) = (from?, to?);
    if from > to {
        let rule = format!("must be a pair that rises, but {from} is above {to}");
        problems.add(Code::OutOfRange, path, rule);
    }
    Some((from, to))
}

fn string(value: &Value, path: &str, problems: &mut Problems) -> Option<String> {
    let given = text(value, path, problems)?;
    let chars = given.chars().count();
    if chars > VALUE_CHARS_MAX {
        let rule = format!("must have at most {VALUE_CHARS_MAX} characters, but has {chars}");
        problems.add(Code::OutOfRange, path, rule);
    }
    Some(given.to_owned())
}

/// Advanced filters as a document has them.
pub(in crate::subscription::resource) fn write(filters: &[AdvancedFilter]) -> Value {
    filters.iter().map(write_one).collect()
}

fn write_one(filter: &AdvancedFilter) -> Value {
    use Operator::*;
    let (member, value) = match &filter.operator {
        NumberIn(numbers) | NumberNotIn(numbers) => {
            ("values", numbers.iter().map(|number| number.to_json()).collect())
        }
        NumberLessThan(number)
        | NumberLessThanOrEquals(number)
        | NumberGreaterThan(number)
        | NumberGreaterThanOrEquals(number) => ("value", number.to_json()),
        NumberInRange(ranges) | NumberNotInRange(ranges) => {
            let range = |(from, to): &(Number, Number)| json!([from.to_json(), to.to_json()]);
            ("values", ranges.iter().map(range).collect())
        }
        BoolEquals(flag) => ("value", json!(flag)),
        StringIn(texts)
        | StringNotIn(texts)
        | StringBeginsWith(texts)
        | StringNotBeginsWith(texts)
        | StringEndsWith(texts)
        | StringNotEndsWith(texts)
        | StringContains(texts)
        | StringNotContains(texts) => ("values", json!(texts)),
        IsNullOrUndefined | IsNotNull => ("values", Value::Null),
    };
    let mut written = Map::new();
    written.insert("operatorType".to_owned(), json!(filter.operator.name()));
    written.insert("key".to_owned(), json!(filter.key));
    if !value.is_null() {
        written.insert(member.to_owned(), value);
    }
    Value::Object(written)
}
