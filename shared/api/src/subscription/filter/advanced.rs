//! `advancedFilters`: conditions on values of events.

use gridpost_core::subscription::filter::{
    self,
    advanced::{Number, Operator, VALUE_CHARS_MAX, VALUES_MAX},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    document::{At, Code, flag, kind, literal, quoted, text_of},
    schema::stand_in,
};

/// A condition on a value of an event.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdvancedFilter {
    #[schema(value_type = stand_in::Operator, required = true)]
    pub operator_type: Option<String>,
    /// Where the value stands, such as subject or data.order.total.
    #[schema(required = true, min_length = 1, max_length = 512)]
    pub key: Option<String>,
    /// A number or a boolean.
    #[schema(value_type = Option<stand_in::NumberOrFlag>)]
    pub value: Option<Value>,
    /// Numbers, pairs of numbers or strings, of which one must hold; with Not, none may.
    pub values: Option<Vec<Value>>,
}

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

fn operand(operator: &str) -> Option<Operand> {
    OPERATORS.iter().find(|(name, _)| *name == operator).map(|(_, operand)| *operand)
}

/// Says what an operator takes.
pub(crate) fn operands_of(operator: &str) -> &'static str {
    match operand(operator) {
        Some(Operand::Number(_)) => "a number",
        Some(Operand::Numbers(_)) => "numbers",
        Some(Operand::Ranges(_)) => "lines such as 1, 10",
        Some(Operand::Bool(_)) => "true or false",
        Some(Operand::Texts(_)) => "texts",
        Some(Operand::Nothing(_)) | None => "no value",
    }
}

/// Returns the member that lines of operands mean, with its name.
pub(crate) fn operands(operator: &str, lines: &[String]) -> Option<(&'static str, Value)> {
    let numbers = |line: &String| -> Vec<Value> {
        line.split(',').filter(|part| !part.trim().is_empty()).map(literal).collect()
    };
    Some(match operand(operator) {
        Some(Operand::Number(_) | Operand::Bool(_)) => match lines {
            [] => return None,
            [line] => ("value", literal(line)),
            // One is taken: the handler refuses them all as one text.
            several => ("value", several.join(", ").into()),
        },
        Some(Operand::Numbers(_)) => ("values", lines.iter().flat_map(numbers).collect()),
        Some(Operand::Ranges(_)) => ("values", lines.iter().map(numbers).collect()),
        _ => ("values", lines.into()),
    })
}

/// Returns operands as lines.
pub(crate) fn lines(value: &Value, values: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::Array(pair) => pair.iter().map(text_of).collect::<Vec<_>>().join(", "),
        value => text_of(value),
    };
    let several = values.as_array().map(Vec::as_slice).unwrap_or_default();
    match value {
        Value::Null => several.iter().map(one).collect(),
        value => vec![one(value)],
    }
}

/// Reads the advanced filters of the filter at that path.
pub(super) fn read(
    given: Option<Vec<AdvancedFilter>>,
    at: &mut At<'_>,
) -> Vec<filter::AdvancedFilter> {
    let at = &mut at.member("advancedFilters");
    let given = given.unwrap_or_default();
    // Values are counted as given: invalid ones count too.
    let values = given.iter().map(|one| {
        let several = one.values.as_ref().map(Vec::len);
        several.unwrap_or(usize::from(one.value.is_some()))
    });
    let values: usize = values.sum();
    let read = given.into_iter().enumerate();
    let read: Vec<_> =
        read.filter_map(|(index, one)| read_one(one, &mut at.element(index))).collect();
    if values > VALUES_MAX {
        let rule = format!(
            "must have at most {VALUES_MAX} values in all advanced filters together, but has \
             {values}"
        );
        at.add(Code::OutOfRange, rule);
    }
    read
}

fn read_one(given: AdvancedFilter, at: &mut At<'_>) -> Option<filter::AdvancedFilter> {
    let AdvancedFilter { operator_type, key, value, values } = given;
    // Event Grid has no way to escape a dot in a name.
    if let Some(key) = key.as_deref().filter(|key| key.split('.').any(str::is_empty)) {
        let rule = format!(
            "must be names with single dots between them, such as data.order.total, but is {}",
            quoted(key)
        );
        at.member("key").invalid(rule);
    }
    let operator_type = operator_type?;
    let (name, takes) = OPERATORS.iter().find(|(name, _)| *name == operator_type)?;
    let mut operands = Operands { name, value, values, at };
    let operator = operands.operator(*takes);
    Some(filter::AdvancedFilter { key: key?, operator: operator? })
}

/// The values that an operator is given.
struct Operands<'r, 'p> {
    /// The operator's name.
    name: &'r str,
    value: Option<Value>,
    values: Option<Vec<Value>>,
    at: &'r mut At<'p>,
}

impl Operands<'_, '_> {
    fn operator(&mut self, takes: Operand) -> Option<Operator> {
        match takes {
            Operand::Number(make) => {
                let value = self.one("a number")?;
                number(&value, &mut self.at.member("value")).map(make)
            }
            Operand::Bool(make) => {
                let value = self.one("true or false")?;
                let given = flag(&value);
                if given.is_none() {
                    let found = quoted(&value.to_string());
                    let rule = format!("must be true or false, but is {found}");
                    self.at.member("value").add(Code::WrongType, rule);
                }
                given.map(make)
            }
            Operand::Numbers(make) => self.all("numbers", number).map(make),
            Operand::Ranges(make) => self.all("pairs of numbers", range).map(make),
            Operand::Texts(make) => self.all("strings", string).map(make),
            Operand::Nothing(make) => {
                self.refuse(self.value.is_some(), "value", "neither value nor values");
                self.refuse(self.values.is_some(), "values", "neither value nor values");
                Some(make())
            }
        }
    }

    fn refuse(&mut self, is_given: bool, member: &str, instead: &str) {
        if is_given {
            let rule = format!("must be left out: {} takes {instead}", self.name);
            self.at.member(member).invalid(rule);
        }
    }

    fn one(&mut self, what: &str) -> Option<Value> {
        self.refuse(self.values.is_some(), "values", "value");
        let value = self.value.take();
        if value.is_none() {
            self.at.member("value").require(format!("is required: {what}"));
        }
        value
    }

    /// The members of `values`, at least one.
    fn all<T>(&mut self, what: &str, one: fn(&Value, &mut At<'_>) -> Option<T>) -> Option<Vec<T>> {
        self.refuse(self.value.is_some(), "value", "values");
        let Some(values) = self.values.take() else {
            let rule = format!("is required: an array of {what}");
            self.at.member("values").require(rule);
            return None;
        };
        let at = &mut self.at.member("values");
        if values.is_empty() {
            let rule = format!("must have at least one of the {what} that it is about");
            at.add(Code::OutOfRange, rule);
            return Some(Vec::new());
        }
        let read = values.iter().enumerate();
        let read = read.filter_map(|(index, value)| one(value, &mut at.element(index)));
        Some(read.collect())
    }
}

fn number(value: &Value, at: &mut At<'_>) -> Option<Number> {
    let number = value.as_f64().and_then(Number::new);
    if number.is_none() {
        let rule = format!("must be a number, but is {}", quoted(&value.to_string()));
        at.add(Code::WrongType, rule);
    }
    number
}

fn range(value: &Value, at: &mut At<'_>) -> Option<(Number, Number)> {
    let Some([from, to]) = value.as_array().map(Vec::as_slice) else {
        let found = quoted(&value.to_string());
        let rule = format!("must be a pair of numbers such as [1, 10], but is {found}");
        at.add(Code::WrongType, rule);
        return None;
    };
    let from = number(from, &mut at.element(0));
    let to = number(to, &mut at.element(1));
    let (from, to) = (from?, to?);
    if from > to {
        let rule = format!("must be a pair that rises, but {from} is above {to}");
        at.add(Code::OutOfRange, rule);
    }
    Some((from, to))
}

fn string(value: &Value, at: &mut At<'_>) -> Option<String> {
    let Some(given) = value.as_str() else {
        let rule = format!("must be a string, but is {}", kind(value));
        at.add(Code::WrongType, rule);
        return None;
    };
    let chars = given.chars().count();
    if chars > VALUE_CHARS_MAX {
        let rule = format!("must have at most {VALUE_CHARS_MAX} characters, but has {chars}");
        at.add(Code::OutOfRange, rule);
    }
    Some(given.to_owned())
}

impl AdvancedFilter {
    pub(super) fn of(filter: &filter::AdvancedFilter) -> Self {
        use Operator::*;
        let range = |(from, to): &(Number, Number)| Value::from(vec![from.to_json(), to.to_json()]);
        let (mut value, mut values) = (None, None);
        match &filter.operator {
            NumberIn(numbers) | NumberNotIn(numbers) => {
                values = Some(numbers.iter().map(|number| number.to_json()).collect());
            }
            NumberLessThan(number)
            | NumberLessThanOrEquals(number)
            | NumberGreaterThan(number)
            | NumberGreaterThanOrEquals(number) => value = Some(number.to_json()),
            NumberInRange(ranges) | NumberNotInRange(ranges) => {
                values = Some(ranges.iter().map(range).collect());
            }
            BoolEquals(flag) => value = Some(Value::from(*flag)),
            StringIn(texts)
            | StringNotIn(texts)
            | StringBeginsWith(texts)
            | StringNotBeginsWith(texts)
            | StringEndsWith(texts)
            | StringNotEndsWith(texts)
            | StringContains(texts)
            | StringNotContains(texts) => {
                values = Some(texts.iter().map(|text| Value::from(text.as_str())).collect());
            }
            IsNullOrUndefined | IsNotNull => {}
        }
        Self {
            operator_type: Some(filter.operator.name().to_owned()),
            key: Some(filter.key.clone()),
            value,
            values,
        }
    }
}
