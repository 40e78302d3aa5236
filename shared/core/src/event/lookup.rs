//! Finds values at paths of an event in one walk over its text, which was checked to be JSON.
//! Everything else is skipped without parsing, recursion or allocation.

use std::{borrow::Cow, collections::BTreeMap, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// The requested paths, as a tree: an event is walked once for all of them.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Parents come before their children; the first node is the event.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    parent: usize,
    children: BTreeMap<Box<str>, usize>,
}

/// A requested path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathId(usize);

impl PathId {
    /// Returns its position among all nodes; the event is 0.
    pub fn index(self) -> usize {
        self.0
    }
}

const ROOT: usize = 0;

#[cfg(test)]
thread_local! {
    /// Counts the walks of this thread, and so of a test.
    pub(crate) static WALKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Default for Paths {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

impl Paths {
    /// Adds a path: the names of members, from the event inwards.
    pub fn add<'s>(&mut self, segments: impl IntoIterator<Item = &'s str>) -> PathId {
        let mut node = ROOT;
        for segment in segments {
            let next = self.nodes.len();
            let child = *self.nodes[node].children.entry(segment.into()).or_insert(next);
            if child == next {
                self.nodes.push(Node { parent: node, children: BTreeMap::new() });
            }
            node = child;
        }
        PathId(node)
    }

    /// Counts the nodes, including those on the way to others.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Walks an event. Of duplicate members the last counts, as for most readers.
    pub fn walk<'t>(&self, text: &'t str) -> FoundValues<'t> {
        #[cfg(test)]
        WALKS.set(WALKS.get() + 1);
        let spots = vec![Spot::default(); self.len()];
        let mut walk = Walk { paths: self, cursor: Cursor { text, at: 0 }, spots, visits: 0 };
        // Malformed text has no values.
        let _ended = walk.value(ROOT, 0);
        let mut values: Vec<Option<&str>> = vec![None; self.len()];
        for (node, spot) in walk.spots.iter().enumerate() {
            let parent = self.nodes[node].parent;
            // A later duplicate of a member replaces everything found in the earlier one.
            let stands = node == ROOT
                || (values[parent].is_some() && spot.within == walk.spots[parent].visit);
            values[node] = spot.range.clone().filter(|_| stands).map(|range| &text[range]);
        }
        FoundValues { values }
    }
}

/// The values of one event, each as its JSON text.
#[derive(Clone, Debug)]
pub struct FoundValues<'t> {
    values: Vec<Option<&'t str>>,
}

impl<'t> FoundValues<'t> {
    /// Returns the JSON text at that path.
    pub fn at(&self, place: PathId) -> Option<&'t str> {
        self.values.get(place.0).copied().flatten()
    }
}

/// What was found for a node: its position, the visit of the node, and the visit of its parent.
#[derive(Clone, Debug, Default)]
struct Spot {
    range: Option<Range<usize>>,
    visit: usize,
    within: usize,
}

struct Walk<'p, 't> {
    paths: &'p Paths,
    cursor: Cursor<'t>,
    spots: Vec<Spot>,
    /// Values visited.
    visits: usize,
}

impl Walk<'_, '_> {
    /// Reads the value of a node. The recursion is as deep as the longest path.
    fn value(&mut self, node: usize, within: usize) -> Option<()> {
        let first = self.cursor.peek()?;
        let start = self.cursor.at;
        self.visits += 1;
        let visit = self.visits;
        if first == b'{' && !self.paths.nodes[node].children.is_empty() {
            self.members(node, visit)?;
        } else {
            self.cursor.skip()?;
        }
        self.spots[node] = Spot { range: Some(start..self.cursor.at), visit, within };
        Some(())
    }

    fn members(&mut self, node: usize, visit: usize) -> Option<()> {
        let paths = self.paths;
        self.cursor.take(b'{')?;
        if self.cursor.peek()? == b'}' {
            return self.cursor.take(b'}');
        }
        loop {
            let name = self.cursor.string()?;
            self.cursor.take(b':')?;
            match paths.nodes[node].children.get(&*text_of(name)) {
                Some(child) => self.value(*child, visit)?,
                None => self.cursor.skip()?,
            }
            match self.cursor.peek()? {
                b',' => self.cursor.take(b',')?,
                _ => return self.cursor.take(b'}'),
            }
        }
    }
}

/// A position in JSON text. Methods return `None` if the text is malformed.
#[derive(Clone, Debug)]
struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// Moves to the next byte that is not whitespace, and returns it.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Reads a string and returns its text, quotes included.
    fn string(&mut self) -> Option<&'t str> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at;
        self.at += 1;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            let stop = memchr::memchr2(b'"', b'\\', rest)?;
            let is_end = rest[stop] == b'"';
            // The byte after a backslash belongs to the escape.
            self.at += stop + if is_end { 1 } else { 2 };
            if is_end {
                return self.text.get(start..self.at);
            }
        }
    }

    /// Skips a value of any depth.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                b',' | b':' => return None,
                _ => {
                    let rest = self.text.as_bytes().get(self.at..)?;
                    let ends = |byte: &u8| {
                        matches!(byte, b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
                    };
                    self.at += rest.iter().position(ends).unwrap_or(rest.len());
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// Returns the JSON texts of an array's elements; none for another value.
pub fn elements(array: &str) -> impl Iterator<Item = &str> {
    let mut cursor = Cursor { text: array, at: 0 };
    let mut separator = b'[';
    std::iter::from_fn(move || {
        cursor.take(separator)?;
        separator = b',';
        if cursor.peek()? == b']' {
            return None;
        }
        let start = cursor.at;
        cursor.skip()?;
        array.get(start..cursor.at)
    })
}

/// Decodes a JSON string. Half of a surrogate pair becomes U+FFFD.
pub fn text_of(json_string: &str) -> Cow<'_, str> {
    let inner = json_string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        _ => {
            let text = serde_json::from_str::<Lossy>(json_string);
            Cow::Owned(text.map(|Lossy(text)| text).unwrap_or_default())
        }
    }
}

/// A string that may have half of a surrogate pair, which serde's strings refuse.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Lossy;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Lossy, E> {
                Ok(Lossy(String::from_utf8_lossy(bytes).into_owned()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, path: &str) -> Option<String> {
        let mut paths = Paths::default();
        paths.add(["data", "other"]);
        let place = paths.add(path.split('.'));
        paths.add(["data", "a", "deeper"]);
        paths.walk(text).at(place).map(str::to_owned)
    }

    #[test]
    fn lookup_table() {
        let table = [
            ("a member", r#"{"id":"1","data":2}"#, "data", Some("2")),
            ("a member within", r#"{"data":{"a":{"b": -1.50e3 }}}"#, "data.a.b", Some("-1.50e3")),
            (
                "an object as it stands",
                r#"{"data": {"a" : [1, 2] } }"#,
                "data",
                Some(r#"{"a" : [1, 2] }"#),
            ),
            ("no such member", r#"{"data":{"a":1}}"#, "data.b", None),
            ("within a string", r#"{"data":"{\"a\":1}"}"#, "data.a", None),
            ("within an array", r#"{"data":[{"a":1}]}"#, "data.a", None),
            ("null", r#"{"data":{"a":null}}"#, "data.a", Some("null")),
            (
                "behind what is passed over",
                r#"{"x":[{"data":{}},"]}\""],"y":{"a":1},"data":{"a":true}}"#,
                "data.a",
                Some("true"),
            ),
            ("a name with escapes", r#"{"d\u0061ta":{"a":"\n"}}"#, "data.a", Some(r#""\n""#)),
            ("twice: the last one", r#"{"data":{"a":1,"a":2}}"#, "data.a", Some("2")),
            ("what stood in the first of two", r#"{"data":{"a":1},"data":{}}"#, "data.a", None),
            ("the second is no object", r#"{"data":{"a":1},"data":5}"#, "data.a", None),
            (
                "whitespace everywhere",
                " {\n\"data\" :\t{ \"a\" : \"x\" } }\r\n",
                "data.a",
                Some(r#""x""#),
            ),
            ("no object", "5", "data", None),
            ("no JSON", r#"{"data":{"a":"#, "data.a", None),
            ("cut off behind it", r#"{"data":1,"#, "data", None),
        ];
        for (row, text, path, want) in table {
            assert_eq!(found(text, path).as_deref(), want, "{row}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!(r#"{{"x":{}{},"data":1}}"#, "[".repeat(400_000), "]".repeat(400_000));
        assert_eq!(found(&deep, "data").as_deref(), Some("1"));
    }

    #[test]
    fn elements_of_arrays() {
        let all = |text: &'static str| elements(text).collect::<Vec<_>>();
        assert_eq!(
            all(r#"[ 1 , "a,b" ,[2,[3]], {"x":[4]} ,null]"#),
            ["1", r#""a,b""#, "[2,[3]]", r#"{"x":[4]}"#, "null"]
        );
        for none in ["[]", "[ ]", "{}", "5", "\"[1]\""] {
            assert!(all(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn texts_are_whole_characters() {
        for (json, want) in
            [(r#""plain""#, "plain"), (r#""\u00e9\t\"""#, "é\t\""), (r#""\ud83d\ude00""#, "😀")]
        {
            assert_eq!(text_of(json), want);
        }
        assert!(text_of(r#""a\ud800b""#).starts_with("a\u{fffd}"));
    }
}
