//! The filters of a topic, compiled together.
//!
//! Event types are indexed, so that an event is only tested by filters that include its type.
//! The keys of all advanced filters are one set: an event's text is walked once, when first
//! needed, and each value is prepared once (numbers parsed, strings folded and hashed).

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    AdvancedFilter, Filter,
    advanced::{Number, Operator},
    folded,
};
use crate::{
    event::{
        ParsedEvent,
        lookup::{FoundValues, PathId, Paths, elements, text_of},
        mapping::InputSchemaMapping,
    },
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

/// The reason why a filter refuses an event.
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
            NumberIn(numbers) => (false, one_of(numbers)),
            NumberNotIn(numbers) => (true, one_of(numbers)),
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

fn one_of(numbers: &[Number]) -> Predicate {
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

#[derive(Clone, Debug)]
struct Keys {
    schema: InputSchema,
    paths: Paths,
    /// Keys whose values come from stamps or a mapping if the event lacks them.
    stamps: Vec<(PathId, Stamp)>,
    /// Members that the schema stamps, or that a mapping gives.
    stampable: Vec<(&'static str, Stamp)>,
    /// Keys within `data` of a publisher's own schema, the event itself, and their places there.
    inside: Vec<(PathId, PathId)>,
    /// CloudEvents' attributes, which count as text even if written as numbers.
    attributes: BTreeSet<PathId>,
}

/// A member of Event Grid's envelope that an event may get from elsewhere.
#[derive(Clone, Copy, Debug)]
enum Stamp {
    Id,
    Topic,
    Subject,
    EventType,
    EventTime,
    DataVersion,
    MetadataVersion,
}

const STAMPS: [(&str, Stamp); 3] = [
    ("topic", Stamp::Topic),
    ("dataVersion", Stamp::DataVersion),
    ("metadataVersion", Stamp::MetadataVersion),
];

const EVENT_GRID: [&str; 8] =
    ["id", "topic", "subject", "eventType", "eventTime", "data", "dataVersion", "metadataVersion"];

#[derive(Debug, Default)]
struct Value {
    kind: Kind,
    /// Ascending: the value itself, or an array's elements.
    numbers: Vec<f64>,
    /// The value itself, or an array's elements.
    texts: Vec<Text>,
    /// Whether it is, or contains, `false` and `true`.
    bools: [bool; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Missing,
    Scalar,
    Array,
    EmptyArray,
    Object,
}

/// A case-folded string, prepared for fast comparison.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Text {
    hash: u64,
    pairs: Pairs,
    folded: Box<str>,
}

impl Text {
    fn new(text: &str) -> Self {
        let folded = folded(text).into_boxed_str();
        let mut hasher = DefaultHasher::new();
        folded.hash(&mut hasher);
        Self { hash: hasher.finish(), pairs: Pairs::of(&folded), folded }
    }
}

/// An approximate set of a text's byte pairs: a text can't contain one with a pair that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pairs([u64; 4]);

impl Pairs {
    fn of(text: &str) -> Self {
        let mut bits = [0; 4];
        for pair in text.as_bytes().windows(2) {
            let bit = pair[0].wrapping_mul(31).wrapping_add(pair[1]);
            bits[usize::from(bit >> 6)] |= 1 << (bit & 63);
        }
        Self(bits)
    }

    fn may_contain(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }
}

impl Keys {
    fn new(schema: InputSchema, mapping: Option<&InputSchemaMapping>) -> Self {
        let stampable = match schema {
            InputSchema::EventGridSchema => STAMPS.to_vec(),
            InputSchema::CloudEventSchemaV1_0 => Vec::new(),
            InputSchema::CustomEventSchema => mapping.map(mapped).unwrap_or_default(),
        };
        let (stamps, inside, attributes) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { schema, paths: Paths::default(), stamps, stampable, inside, attributes }
    }

    /// Registers a key.
    ///
    /// The envelope's names match in any case: Event Grid's documentation writes `Subject` and
    /// `subject`. Names within `data`, and all names of a publisher's own schema, are exact; there,
    /// the envelope's names are those that the mapping has, and `data` is the event.
    fn place(&mut self, key: &str) -> PathId {
        let (first, rest) = key.split_once('.').map_or((key, None), |(a, b)| (a, Some(b)));
        let first = self.envelope_name(first);
        let segments = rest.into_iter().flat_map(|rest| rest.split('.'));
        let place = self.paths.add(std::iter::once(&*first).chain(segments));
        if let (InputSchema::CustomEventSchema, "data", Some(rest)) = (self.schema, &*first, rest) {
            let own = self.paths.add(rest.split('.'));
            self.inside.push((place, own));
        }
        if !key.contains('.') {
            let stamp = self.stampable.iter().find(|(known, _)| *known == first);
            self.stamps.extend(stamp.map(|(_, stamp)| (place, *stamp)));
            if self.schema == InputSchema::CloudEventSchemaV1_0 && first != "data" {
                self.attributes.insert(place);
            }
        }
        place
    }

    fn envelope_name<'k>(&self, name: &'k str) -> Cow<'k, str> {
        match self.schema {
            InputSchema::EventGridSchema => {
                let known = EVENT_GRID.iter().find(|known| known.eq_ignore_ascii_case(name));
                Cow::Borrowed(known.copied().unwrap_or(name))
            }
            InputSchema::CloudEventSchemaV1_0 => Cow::Owned(name.to_ascii_lowercase()),
            InputSchema::CustomEventSchema => {
                let mut names = self.stampable.iter().map(|(known, _)| *known);
                Cow::Borrowed(names.find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name))
            }
        }
    }

    fn look<'a>(&'a self, event: &'a ParsedEvent<'_>) -> Values<'a> {
        let cells = std::iter::repeat_with(OnceCell::new).take(self.paths.len()).collect();
        Values { keys: self, event, found: self.paths.walk(&event.text), cells }
    }
}

fn mapped(mapping: &InputSchemaMapping) -> Vec<(&'static str, Stamp)> {
    let InputSchemaMapping { id, topic, event_time, event_type, subject, data_version } = mapping;
    let all = [
        ("id", id.is_some(), Stamp::Id),
        ("topic", topic.is_some(), Stamp::Topic),
        ("eventTime", event_time.is_some(), Stamp::EventTime),
        ("eventType", !event_type.is_unmapped(), Stamp::EventType),
        ("subject", !subject.is_unmapped(), Stamp::Subject),
        ("dataVersion", !data_version.is_unmapped(), Stamp::DataVersion),
    ];
    let mapped = all.into_iter().filter(|(_, is_mapped, _)| *is_mapped);
    mapped.map(|(name, _, stamp)| (name, stamp)).collect()
}

struct Values<'a> {
    keys: &'a Keys,
    event: &'a ParsedEvent<'a>,
    found: FoundValues<'a>,
    cells: Vec<OnceCell<Value>>,
}

impl Values<'_> {
    fn at(&self, place: PathId) -> &Value {
        self.cells[place.index()].get_or_init(|| self.read(place))
    }

    /// Returns the JSON text of a value, for people.
    fn shown(&self, place: PathId) -> Option<String> {
        let stamp = || self.stamp(place).map(|text| serde_json::Value::from(text).to_string());
        self.found(place).map(str::to_owned).or_else(stamp)
    }

    /// Returns the JSON text at a path, unless a stamp replaces a null, or a mapping the member.
    fn found(&self, place: PathId) -> Option<&str> {
        if self.keys.schema == InputSchema::CustomEventSchema && self.stamp(place).is_some() {
            return None;
        }
        let inside = || {
            let (_, own) = self.keys.inside.iter().find(|(key, _)| *key == place)?;
            self.found.at(*own)
        };
        let json = self.found.at(place).or_else(inside)?;
        (json != "null" || self.stamp(place).is_none()).then_some(json)
    }

    fn stamp(&self, place: PathId) -> Option<&str> {
        let (_, stamp) = self.keys.stamps.iter().find(|(stamped, _)| *stamped == place)?;
        Some(match stamp {
            Stamp::Id => &self.event.id,
            Stamp::Topic => &self.event.source,
            Stamp::Subject => &self.event.subject,
            Stamp::EventType => &self.event.event_type,
            Stamp::EventTime => self.event.mapped_time()?,
            Stamp::DataVersion => &self.event.data_version,
            Stamp::MetadataVersion => "1",
        })
    }

    fn read(&self, place: PathId) -> Value {
        let mut value = Value::default();
        let Some(json) = self.found(place) else {
            if let Some(stamp) = self.stamp(place) {
                value.kind = Kind::Scalar;
                value.texts.push(Text::new(stamp));
            }
            return value;
        };
        value.kind = match json.as_bytes().first() {
            Some(b'[') => {
                let mut kind = Kind::EmptyArray;
                for element in elements(json) {
                    kind = Kind::Array;
                    value.add(element);
                }
                kind
            }
            Some(b'{') => Kind::Object,
            Some(b'n') | None => Kind::Missing,
            Some(_) => {
                value.add(json);
                // A number or boolean of an extension attribute means its text.
                if self.keys.attributes.contains(&place) && value.texts.is_empty() {
                    value.texts.push(Text::new(json));
                }
                Kind::Scalar
            }
        };
        value.numbers.sort_unstable_by(f64::total_cmp);
        value.texts.sort_unstable();
        value
    }
}

impl Value {
    fn add(&mut self, json: &str) {
        match json.as_bytes().first() {
            Some(b'"') => self.texts.push(Text::new(&text_of(json))),
            Some(b't') => self.bools[1] = true,
            Some(b'f') => self.bools[0] = true,
            Some(b'-' | b'0'..=b'9') => self.numbers.push(number(json)),
            _ => {}
        }
    }
}

/// Parses a number as documents do; one out of range becomes the largest or smallest.
fn number(json: &str) -> f64 {
    let number: f64 = serde_json::from_str(json).or_else(|_| json.parse()).unwrap_or_default();
    number.clamp(f64::MIN, f64::MAX) + 0.0
}
