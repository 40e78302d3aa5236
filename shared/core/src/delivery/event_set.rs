//! A set of events of one delivery, for endpoints that answer for each event.

use std::{fmt, str::FromStr};

use serde_with::{DeserializeFromStr, SerializeDisplay};

/// Positions of events in their delivery. As text, two hexadecimal digits for each eight events.
#[derive(Clone, Debug, Default, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub struct EventSet(Vec<u8>);

impl EventSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Returns a number that tells it from other sets; 0 for the empty one.
    pub fn number(&self) -> u32 {
        // The hash FNV-1a.
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        if self.is_empty() { 0 } else { self.0.iter().fold(0x811c_9dc5, step).max(1) }
    }

    pub fn has(&self, position: usize) -> bool {
        self.0.get(position / 8).is_some_and(|byte| byte >> (position % 8) & 1 == 1)
    }

    pub fn add(&mut self, position: usize) {
        if self.0.len() <= position / 8 {
            self.0.resize(position / 8 + 1, 0);
        }
        self.0[position / 8] |= 1 << (position % 8);
    }

    pub fn add_all(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (byte, more) in self.0.iter_mut().zip(&other.0) {
            *byte |= more;
        }
    }
}

impl FromIterator<usize> for EventSet {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        let mut set = Self::default();
        positions.into_iter().for_each(|position| set.add(position));
        set
    }
}

/// A text that is not a set of events.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is no set of events: pairs of hexadecimal digits")]
pub struct InvalidEventSet(String);

impl FromStr for EventSet {
    type Err = InvalidEventSet;

    fn from_str(text: &str) -> Result<Self, InvalidEventSet> {
        let byte = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        bytes.map(Self).ok_or_else(|| InvalidEventSet(text.to_owned()))
    }
}

impl fmt::Display for EventSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_travel_as_digits() {
        let set: EventSet = [0, 3, 499].into_iter().collect();
        assert_eq!((set.len(), set.has(3), set.has(4), set.has(5_000)), (3, true, false, false));
        let text = serde_json::to_string(&set).expect("JSON");
        assert_eq!((text.len(), &text[..5]), (128, r#""0900"#));
        assert_eq!(serde_json::from_str::<EventSet>(&text).expect("a set"), set);
        let mut all = EventSet::default();
        assert!(all.is_empty());
        all.add_all(&set);
        all.add_all(&[1].into_iter().collect());
        assert_eq!((all.len(), all.has(1), all.has(499)), (4, true, true));
        for bad in [r#""0""#, r#""0g""#, r#""é""#] {
            assert!(serde_json::from_str::<EventSet>(bad).is_err(), "{bad}");
        }
    }
}
