//! Reads and writes `advancedFilters`; every problem is listed.

use gridpost_core::subscription::filter::{
    AdvancedFilter,
    advanced::{FILTERS_MAX, KEY_CHARS_MAX, Number, Operator, VALUE_CHARS_MAX, VALUES_MAX},
};
use serde_json::{Map, Value, json};

use crate::document::{Code, Object, Problems, flag, one_of, quoted, text};

/// The operand of an operator, with its constructor.
#[derive(Clone, Copy)]
enum Operand {
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
    Nothing(fn() -> Operator),
}

const OPERATORS: [(&str, Operand); 19] = [
    ("NumberIn", Operand::Numbers(Operator::NumberIn)),
    ("NumberNotIn", Operand::Numbers(Operator::NumberNotIn)),
    ("NumberLessThan", Operand::Number(Operator::NumberLessThan)),
    ("NumberGreaterThan", Operand::Number(Operator::NumberGreaterThan)),
    ("NumberLessThanOrEquals", Operand::Number(Operator::NumberLessThanOrEquals)),
    ("NumberGreaterThanOrEquals", Operand::Number(Operator::NumberGreaterThanOrEquals)),
    ("NumberInRange", Operand::Ranges(Operator::NumberInRange)),
    ("NumberNotInRange", Operand::Ranges(Operator::NumberNotInRange)),
    ("BoolEquals", Operand::Bool(Operator::BoolEquals)),
    ("StringIn", Operand::Texts(Operator::StringIn)),
    ("StringNotIn", Operand::Texts(Operator::StringNotIn)),
    ("StringBeginsWith", Operand::Texts(Operator::StringBeginsWith)),
    ("StringNotBeginsWith", Operand::Texts(Operator::StringNotBeginsWith)),
    ("StringEndsWith", Operand::Texts(Operator::StringEndsWith)),
    ("StringNotEndsWith", Operand::Texts(Operator::StringNotEndsWith)),
    ("StringContains", Operand::Texts(Operator::StringContains)),
    ("StringNotContains", Operand::Texts(Operator::StringNotContains)),
    ("IsNullOrUndefined", Operand::Nothing(|| Operator::IsNullOrUndefined)),
    ("IsNotNull", Operand::Nothing(|| Operator::IsNotNull)),
];

/// Reads the advanced filters of `filter`, in its member `name`.
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
        problems.add(Code::OutOfRange, &path, rule);
    }
    // Values are counted as given: invalid ones count too.
    let mut values = 0;
    let read = given.into_iter().filter_map(|(path, value)| {
        let count = value.get("values").and_then(Value::as_array).map_or(1, Vec::len);
        let has = |name: &str| value.get(name).is_some_and(|value| !value.is_null());
        let takes_values = has("value") || has("values");
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
    takes: Operand,
    problems: &mut Problems,
) -> Option<Operator> {
    let wrong_member = match takes {
        Operand::Number(_) | Operand::Bool(_) => ("values", "value"),
        Operand::Numbers(_) | Operand::Ranges(_) | Operand::Texts(_) => ("value", "values"),
        Operand::Nothing(_) => ("value", "neither value nor values"),
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
        Operand::Number(make) => {
            let value = filter.required("value", "a number", problems)?;
            number(value, &filter.path_of("value"), problems).map(make)
        }
        Operand::Bool(make) => {
            let value = filter.required("value", "true or false", problems)?;
            let given = flag(value);
            if given.is_none() {
                let rule = format!("must be true or false, but is {}", quoted(&value.to_string()));
                problems.add(Code::WrongType, filter.path_of("value"), rule);
            }
            given.map(make)
        }
        Operand::Numbers(make) => all(filter, "numbers", problems, number).map(make),
        Operand::Ranges(make) => all(filter, "pairs of numbers", problems, range).map(make),
        Operand::Texts(make) => all(filter, "strings", problems, string).map(make),
        Operand::Nothing(make) => {
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

pub(in crate::subscription) fn write(filters: &[AdvancedFilter]) -> Value {
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
