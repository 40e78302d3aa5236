//! The values of one event at the keys of all filters, each prepared once.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::folded;
use crate::{
    event::{
        ParsedEvent,
        lookup::{FoundValues, PathId, Paths, elements, text_of},
        mapping::InputSchemaMapping,
    },
    topic::InputSchema,
};

#[derive(Clone, Debug)]
pub(super) struct Keys {
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
pub(super) struct Value {
    pub(super) kind: Kind,
    /// Ascending: the value itself, or an array's elements.
    pub(super) numbers: Vec<f64>,
    /// The value itself, or an array's elements.
    pub(super) texts: Vec<Text>,
    /// Whether it is, or contains, `false` and `true`.
    pub(super) bools: [bool; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Missing,
    Scalar,
    Array,
    EmptyArray,
    Object,
}

/// A case-folded string, prepared for fast comparison.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text {
    pub(super) hash: u64,
    pub(super) pairs: Pairs,
    pub(super) folded: Box<str>,
}

impl Text {
    pub(super) fn new(text: &str) -> Self {
        let folded = folded(text).into_boxed_str();
        let mut hasher = DefaultHasher::new();
        folded.hash(&mut hasher);
        Self { hash: hasher.finish(), pairs: Pairs::of(&folded), folded }
    }
}

/// An approximate set of a text's byte pairs: a text can't contain one with a pair that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pairs([u64; 4]);

impl Pairs {
    fn of(text: &str) -> Self {
        let mut bits = [0; 4];
        for pair in text.as_bytes().windows(2) {
            let bit = pair[0].wrapping_mul(31).wrapping_add(pair[1]);
            bits[usize::from(bit >> 6)] |= 1 << (bit & 63);
        }
        Self(bits)
    }

    pub(super) fn may_contain(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }
}

impl Keys {
    pub(super) fn new(schema: InputSchema, mapping: Option<&InputSchemaMapping>) -> Self {
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
    pub(super) fn place(&mut self, key: &str) -> PathId {
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

    pub(super) fn look<'a>(&'a self, event: &'a ParsedEvent<'_>) -> Values<'a> {
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

pub(super) struct Values<'a> {
    keys: &'a Keys,
    event: &'a ParsedEvent<'a>,
    found: FoundValues<'a>,
    cells: Vec<OnceCell<Value>>,
}

impl Values<'_> {
    pub(super) fn at(&self, place: PathId) -> &Value {
        self.cells[place.index()].get_or_init(|| self.read(place))
    }

    /// Returns the JSON text of a value, for people.
    pub(super) fn shown(&self, place: PathId) -> Option<String> {
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
