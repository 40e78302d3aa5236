//! The filters of a topic, compiled together.
//!
//! Event types are indexed, so that an event is only tested by filters that include its type.
//! The keys of all advanced filters are one set: an event's text is walked once, when first
//! needed, and each value is prepared once (numbers parsed, strings folded and hashed).

use std::{cell::OnceCell, collections::HashMap};

use super::{
    AdvancedFilter, Filter,
    advanced::{Number, Operator},
    folded,
    values::{Keys, Kind, Text, Value, Values},
};
use crate::{
    event::{ParsedEvent, lookup::PathId, mapping::InputSchemaMapping},
    topic::InputSchema,
};

/// The filters of a topic, identified by position.
#[derive(Debug)]
pub struct Filters {
    keys: Keys,
    filters: Vec<Compiled>,
    /// Filters without event types, ascending.
    of_all_types: Vec<usize>,
    /// Filters by event type, ascending.
    by_type: HashMap<String, Vec<usize>>,
}

/// Why a filter refuses an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal<'f> {
    EventType,
    SubjectBeginsWith,
    SubjectEndsWith,
    Advanced {
        /// From 0.
        index: usize,
        filter: &'f AdvancedFilter,
        /// The JSON text of the value, if there is one.
        found: Option<String>,
    },
}

impl Filters {
    /// Compiles the filters of a topic with that schema and mapping.
    pub fn compile<'f>(
        schema: InputSchema,
        mapping: Option<&InputSchemaMapping>,
        filters: impl IntoIterator<Item = &'f Filter>,
    ) -> Self {
        let mut keys = Keys::new(schema, mapping);
        let (mut of_all_types, mut by_type) = (Vec::new(), HashMap::<_, Vec<usize>>::new());
        let mut compiled = Vec::new();
        for (position, filter) in filters.into_iter().enumerate() {
            match &filter.included_event_types {
                None => of_all_types.push(position),
                Some(types) => {
                    for name in types {
                        let wanting = by_type.entry(name.clone()).or_default();
                        if wanting.last() != Some(&position) {
                            wanting.push(position);
                        }
                    }
                }
            }
            compiled.push(Compiled::new(filter, &mut keys));
        }
        Self { keys, filters: compiled, of_all_types, by_type }
    }

    /// Calls `wanted` with the position of every matching filter, in no order.
    pub fn ask(&self, event: &ParsedEvent<'_>, mut wanted: impl FnMut(usize)) {
        let asked = Evaluation::new(&self.keys, event);
        let of_type = self.by_type.get(&*event.event_type).map_or(&[][..], Vec::as_slice);
        for position in self.of_all_types.iter().chain(of_type) {
            if self.filters[*position].wants(&asked) {
                wanted(*position);
            }
        }
    }

    /// Returns all reasons why the filter at that position refuses an event; empty if it matches.
    pub fn refusals<'f>(
        &self,
        position: usize,
        filter: &'f Filter,
        event: &ParsedEvent<'_>,
    ) -> Vec<Refusal<'f>> {
        let asked = Evaluation::new(&self.keys, event);
        let compiled = &self.filters[position];
        let types = filter.included_event_types.as_ref();
        let is_type = types.is_none_or(|types| types.iter().any(|name| *name == *event.event_type));
        let mut refusals = Vec::new();
        let mut note = |holds: bool, refusal| refusals.extend((!holds).then_some(refusal));
        note(is_type, Refusal::EventType);
        note(compiled.wants_beginning(&asked), Refusal::SubjectBeginsWith);
        note(compiled.wants_end(&asked), Refusal::SubjectEndsWith);
        for (index, (test, filter)) in compiled.tests.iter().zip(&filter.advanced).enumerate() {
            if !test.holds(&asked, compiled.looks_into_arrays) {
                let found = asked.values().shown(test.place);
                refusals.push(Refusal::Advanced { index, filter, found });
            }
        }
        refusals
    }
}

/// An event, and what filters have computed about it.
struct Evaluation<'a> {
    keys: &'a Keys,
    event: &'a ParsedEvent<'a>,
    folded_subject: OnceCell<String>,
    values: OnceCell<Values<'a>>,
}

impl<'a> Evaluation<'a> {
    fn new(keys: &'a Keys, event: &'a ParsedEvent<'a>) -> Self {
        Self { keys, event, folded_subject: OnceCell::new(), values: OnceCell::new() }
    }

    fn subject(&self, is_case_sensitive: bool) -> &str {
        if is_case_sensitive {
            return &self.event.subject;
        }
        self.folded_subject.get_or_init(|| folded(&self.event.subject))
    }

    fn values(&self) -> &Values<'a> {
        self.values.get_or_init(|| self.keys.look(self.event))
    }
}

#[derive(Debug)]
struct Compiled {
    /// Folded, unless case matters.
    subject_begins_with: String,
    /// Folded, unless case matters.
    subject_ends_with: String,
    is_subject_case_sensitive: bool,
    looks_into_arrays: bool,
    tests: Vec<Test>,
}

impl Compiled {
    fn new(filter: &Filter, keys: &mut Keys) -> Self {
        let is_subject_case_sensitive = filter.is_subject_case_sensitive;
        let subject = |text: &String| match is_subject_case_sensitive {
            true => text.clone(),
            false => folded(text),
        };
        Self {
            subject_begins_with: subject(&filter.subject_begins_with),
            subject_ends_with: subject(&filter.subject_ends_with),
            is_subject_case_sensitive,
            looks_into_arrays: filter.enable_advanced_filtering_on_arrays,
            tests: filter.advanced.iter().map(|filter| Test::new(filter, keys)).collect(),
        }
    }

    fn wants(&self, asked: &Evaluation<'_>) -> bool {
        self.wants_beginning(asked)
            && self.wants_end(asked)
            && self.tests.iter().all(|test| test.holds(asked, self.looks_into_arrays))
    }

    fn wants_beginning(&self, asked: &Evaluation<'_>) -> bool {
        self.subject_begins_with.is_empty()
            || asked.subject(self.is_subject_case_sensitive).starts_with(&self.subject_begins_with)
    }

    fn wants_end(&self, asked: &Evaluation<'_>) -> bool {
        self.subject_ends_with.is_empty()
            || asked.subject(self.is_subject_case_sensitive).ends_with(&self.subject_ends_with)
    }
}

#[derive(Debug)]
struct Test {
    place: PathId,
    /// Negates the predicate.
    is_negative: bool,
    wants_missing: bool,
    predicate: Predicate,
}

/// A predicate on a value, or on any element of an array.
#[derive(Debug)]
enum Predicate {
    Number(Vec<f64>),
    /// Their ends may be excluded.
    Ranges(Vec<Range>),
    Bool(bool),
    Text(Vec<Text>),
    Beginning(Vec<String>),
    End(Vec<String>),
    Part(Vec<Part>),
    /// Any value.
    Present,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    from: f64,
    to: f64,
    is_closed: bool,
}

#[derive(Debug)]
struct Part {
    text: Text,
    finder: memchr::memmem::Finder<'static>,
}

impl Test {
    fn new(filter: &AdvancedFilter, keys: &mut Keys) -> Self {
        use Operator::*;
        let (is_negative, predicate) = match &filter.operator {
            NumberIn(numbers) => (false, number(numbers)),
            NumberNotIn(numbers) => (true, number(numbers)),
            NumberLessThan(limit) => (false, open(f64::NEG_INFINITY, limit.get())),
            NumberGreaterThan(limit) => (false, open(limit.get(), f64::INFINITY)),
            NumberLessThanOrEquals(limit) => (false, closed(f64::NEG_INFINITY, limit.get())),
            NumberGreaterThanOrEquals(limit) => (false, closed(limit.get(), f64::INFINITY)),
            NumberInRange(all) => (false, ranges(all)),
            NumberNotInRange(all) => (true, ranges(all)),
            BoolEquals(flag) => (false, Predicate::Bool(*flag)),
            StringIn(texts) => (false, text(texts)),
            StringNotIn(texts) => (true, text(texts)),
            StringBeginsWith(texts) => (false, Predicate::Beginning(all_folded(texts))),
            StringNotBeginsWith(texts) => (true, Predicate::Beginning(all_folded(texts))),
            StringEndsWith(texts) => (false, Predicate::End(all_folded(texts))),
            StringNotEndsWith(texts) => (true, Predicate::End(all_folded(texts))),
            StringContains(texts) => (false, parts(texts)),
            StringNotContains(texts) => (true, parts(texts)),
            IsNullOrUndefined => (true, Predicate::Present),
            IsNotNull => (false, Predicate::Present),
        };
        let wants_missing = filter.operator.wants_missing();
        Self { place: keys.place(&filter.key), is_negative, wants_missing, predicate }
    }

    fn holds(&self, asked: &Evaluation<'_>, looks_into_arrays: bool) -> bool {
        let value = asked.values().at(self.place);
        match (value.kind, &self.predicate) {
            (Kind::Missing, _) => self.wants_missing,
            (_, Predicate::Present) => !self.is_negative,
            (Kind::Object, _) => false,
            (Kind::Array | Kind::EmptyArray, _) if !looks_into_arrays => false,
            // An empty array has no forbidden element.
            (Kind::EmptyArray, _) => self.is_negative,
            (Kind::Array | Kind::Scalar, predicate) => match predicate.finds(value) {
                None => false,
                Some(found) => found != self.is_negative,
            },
        }
    }
}

impl Predicate {
    /// Returns whether the value, or any element, matches; `None` if it has another type.
    fn finds(&self, value: &Value) -> Option<bool> {
        let in_texts = |holds: &dyn Fn(&Text) -> bool| {
            (!value.texts.is_empty()).then(|| value.texts.iter().any(holds))
        };
        match self {
            Self::Number(wanted) => match value.numbers.as_slice() {
                [] => None,
                [only] => Some(has(wanted, *only)),
                numbers => Some(wanted.iter().any(|wanted| has(numbers, *wanted))),
            },
            Self::Ranges(ranges) => {
                let numbers = value.numbers.as_slice();
                let finds = || ranges.iter().any(|range| range.has_some_of(numbers));
                (!numbers.is_empty()).then(finds)
            }
            Self::Bool(wanted) => match value.bools {
                [false, false] => None,
                bools => Some(bools[usize::from(*wanted)]),
            },
            Self::Text(wanted) => match value.texts.as_slice() {
                [] => None,
                [only] => Some(contains(wanted, only)),
                texts => Some(wanted.iter().any(|wanted| contains(texts, wanted))),
            },
            Self::Beginning(wanted) => in_texts(&|text| {
                wanted.iter().any(|beginning| text.folded.starts_with(beginning.as_str()))
            }),
            Self::End(wanted) => {
                in_texts(&|text| wanted.iter().any(|end| text.folded.ends_with(end.as_str())))
            }
            Self::Part(wanted) => in_texts(&|text| wanted.iter().any(|part| part.is_in(text))),
            Self::Present => Some(true),
        }
    }
}

impl Range {
    fn has_some_of(self, numbers: &[f64]) -> bool {
        let Self { from, to, is_closed } = self;
        let first = match is_closed {
            true => numbers.partition_point(|number| *number < from),
            false => numbers.partition_point(|number| *number <= from),
        };
        numbers.get(first).is_some_and(|number| *number < to || (is_closed && *number == to))
    }
}

impl Part {
    fn is_in(&self, text: &Text) -> bool {
        self.text.folded.len() <= text.folded.len()
            && text.pairs.may_contain(self.text.pairs)
            && self.finder.find(text.folded.as_bytes()).is_some()
    }
}

fn has(numbers: &[f64], wanted: f64) -> bool {
    numbers.binary_search_by(|number| number.total_cmp(&wanted)).is_ok()
}

fn contains(texts: &[Text], wanted: &Text) -> bool {
    let from = texts.partition_point(|text| text.hash < wanted.hash);
    let of_the_hash = texts[from..].iter().take_while(|text| text.hash == wanted.hash);
    of_the_hash.into_iter().any(|text| text.folded == wanted.folded)
}

fn number(numbers: &[Number]) -> Predicate {
    let mut numbers: Vec<_> = numbers.iter().map(|number| number.get()).collect();
    numbers.sort_unstable_by(f64::total_cmp);
    Predicate::Number(numbers)
}

fn open(from: f64, to: f64) -> Predicate {
    Predicate::Ranges(vec![Range { from, to, is_closed: false }])
}

fn closed(from: f64, to: f64) -> Predicate {
    Predicate::Ranges(vec![Range { from, to, is_closed: true }])
}

fn ranges(ranges: &[(Number, Number)]) -> Predicate {
    let range =
        |(from, to): &(Number, Number)| Range { from: from.get(), to: to.get(), is_closed: true };
    Predicate::Ranges(ranges.iter().map(range).collect())
}

fn text(texts: &[String]) -> Predicate {
    let mut texts: Vec<_> = texts.iter().map(|text| Text::new(text)).collect();
    texts.sort_unstable();
    Predicate::Text(texts)
}

fn all_folded(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| folded(text)).collect()
}

fn parts(texts: &[String]) -> Predicate {
    let part = |text: &String| {
        let text = Text::new(text);
        let finder = memchr::memmem::Finder::new(text.folded.as_bytes()).into_owned();
        Part { text, finder }
    };
    Predicate::Part(texts.iter().map(part).collect())
}
