//! Advanced filters as they are stored: a key, an operator, and the operator's values.
//!
//! Source: Event Grid, "Understand event filtering for Event Grid subscriptions".

use std::{cmp::Ordering, fmt, num::ParseFloatError, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::{DeserializeFromStr, SerializeDisplay};

/// The most advanced filters of one event subscription. Source: as above, "Limitations".
pub const FILTERS_MAX: usize = 25;

/// The most values of all of them together. Source: the same.
pub const VALUES_MAX: usize = 25;

/// The most characters of a string value. Source: the same.
pub const VALUE_CHARS_MAX: usize = 512;

/// The most characters of a key. Event Grid names no limit.
pub const KEY_CHARS_MAX: usize = 512;

/// A condition on one value of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvancedFilter {
    /// Names of members with dots between them, such as `data.order.total`.
    pub key: String,
    pub operator: Operator,
}

/// A condition on a value. It holds for one of several values; with `Not`, for none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[derive(strum::IntoStaticStr, strum::VariantNames, Serialize, Deserialize)]
#[serde(tag = "operatorType", content = "values")]
pub enum Operator {
    NumberIn(Vec<Number>),
    NumberNotIn(Vec<Number>),
    NumberLessThan(Number),
    NumberLessThanOrEquals(Number),
    NumberGreaterThan(Number),
    NumberGreaterThanOrEquals(Number),
    /// Both ends included.
    NumberInRange(Vec<(Number, Number)>),
    /// Both ends included.
    NumberNotInRange(Vec<(Number, Number)>),
    BoolEquals(bool),
    /// In any case.
    StringIn(Vec<String>),
    /// In any case.
    StringNotIn(Vec<String>),
    StringBeginsWith(Vec<String>),
    StringNotBeginsWith(Vec<String>),
    StringEndsWith(Vec<String>),
    StringNotEndsWith(Vec<String>),
    StringContains(Vec<String>),
    StringNotContains(Vec<String>),
    IsNullOrUndefined,
    IsNotNull,
}

impl Operator {
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Counts the values towards the limit: a range is one.
    pub fn values(&self) -> usize {
        use Operator::*;
        match self {
            NumberIn(numbers) | NumberNotIn(numbers) => numbers.len(),
            NumberInRange(ranges) | NumberNotInRange(ranges) => ranges.len(),
            StringIn(texts) | StringBeginsWith(texts) | StringEndsWith(texts) => texts.len(),
            StringNotIn(texts) | StringNotBeginsWith(texts) | StringNotEndsWith(texts) => {
                texts.len()
            }
            StringContains(texts) | StringNotContains(texts) => texts.len(),
            NumberLessThan(_) | NumberLessThanOrEquals(_) | NumberGreaterThan(_) => 1,
            NumberGreaterThanOrEquals(_) | BoolEquals(_) => 1,
            IsNullOrUndefined | IsNotNull => 0,
        }
    }

    /// Returns whether it matches a missing or null key.
    ///
    /// Source: as above, which lists `NumberNotIn` and `StringNotIn` alone of the negative
    /// operators. `NumberNotInRange`, which it does not mention, follows `NumberNotIn`.
    pub fn wants_missing(&self) -> bool {
        matches!(
            self,
            Self::NumberNotIn(_)
                | Self::NumberNotInRange(_)
                | Self::StringNotIn(_)
                | Self::IsNullOrUndefined
        )
    }
}

/// A finite number of a filter. It is stored as text, so that it keeps every bit.
#[derive(Clone, Copy, Debug, PartialEq, SerializeDisplay, DeserializeFromStr)]
pub struct Number(f64);

impl Number {
    /// Up to here, whole numbers are written without fraction: beyond, `f64` has gaps.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

    /// Returns `None` for an infinite number and NaN.
    pub fn new(number: f64) -> Option<Self> {
        // Adding zero turns -0.0 into 0.0.
        number.is_finite().then_some(Self(number + 0.0))
    }

    pub fn get(self) -> f64 {
        self.0
    }

    pub fn to_json(self) -> Value {
        if self.0.fract() == 0.0 && self.0.abs() <= Self::WHOLE_MAX {
            return Value::from(self.0 as i64);
        }
        Value::from(self.0)
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl FromStr for Number {
    type Err = ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(|number: f64| Self(number + 0.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_stored_to_their_last_bit(number in any::<f64>()) {
            if let Some(number) = Number::new(number) {
                let stored = serde_json::to_string(&number).expect("text");
                let read: Number = serde_json::from_str(&stored).expect("a number");
                prop_assert_eq!(read.get().to_bits(), number.get().to_bits());
                let shown = serde_json::from_str::<Value>(&number.to_json().to_string());
                let shown = shown.ok().and_then(|value| value.as_f64());
                prop_assert_eq!(shown.and_then(Number::new), Some(number), "as reads show it");
            }
        }
    }

    #[test]
    fn whole_numbers_are_written_whole() {
        for (number, want) in [
            (3.0, "3"),
            (-0.0, "0"),
            (-2.5, "-2.5"),
            (1e300, "1e300"),
            (9_007_199_254_740_992.0, "9007199254740992"),
        ] {
            let number = Number::new(number).expect("finite");
            let value: Value = serde_json::from_str(want).expect("JSON");
            assert_eq!(number.to_json(), value, "{want}");
        }
        assert_eq!((Number::new(f64::NAN), Number::new(f64::INFINITY)), (None, None));
    }
}
