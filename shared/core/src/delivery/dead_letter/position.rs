//! The positions of dead letters: object names by hour, and how to skip the objects of other hours.

use std::{fmt, str::FromStr};

use serde_with::{DeserializeFromStr, SerializeDisplay};
use uuid::Uuid;

use crate::time::Timestamp;

/// A dead letter's object, and its index there. As text, its id: `2026-11-21-8-{uuid}-0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub struct Position {
    /// Year, month, day and hour (UTC) of the write.
    hour: [u16; 4],
    object: Uuid,
    /// From 0.
    pub index: usize,
}

impl Position {
    /// Returns the first position in an object; `None` if its name is not one of this folder.
    pub fn first_of(folder: &str, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".json")?;
        let parts: Vec<_> = rest.split('/').collect();
        let [hour @ .., object] = parts.as_slice() else { return None };
        let position = Self { hour: numbers(hour)?, object: object.parse().ok()?, index: 0 };
        (position.name(folder) == name).then_some(position)
    }

    /// Returns another position in the same object.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }

    pub fn name(&self, folder: &str) -> String {
        format!("{}.json", self.before(folder))
    }

    /// Returns a text that sorts just before the object's name, for a listing that starts after it.
    pub fn before(&self, folder: &str) -> String {
        let [year, month, day, hour] = self.hour;
        format!("{folder}/{year}/{month}/{day}/{hour}/{}", self.object)
    }

    /// Reads an id.
    pub fn parse(id: &str) -> Option<Self> {
        let parts: Vec<_> = id.split('-').collect();
        let [hour @ .., a, b, c, d, e, index] = parts.as_slice() else { return None };
        let object = [*a, *b, *c, *d, *e].join("-").parse().ok()?;
        let position = Self { hour: numbers(hour)?, object, index: index.parse().ok()? };
        (position.to_string() == id).then_some(position)
    }

    /// Returns whether it precedes another position in listing order.
    pub fn is_before(&self, other: &Self) -> bool {
        (self.name(""), self.index) < (other.name(""), other.index)
    }
}

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::parse(id).ok_or("it is not the position of a dead letter")
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour] = self.hour;
        write!(formatter, "{year}-{month}-{day}-{hour}-{}-{}", self.object, self.index)
    }
}

fn numbers(parts: &[&str]) -> Option<[u16; 4]> {
    let numbers: Vec<u16> = parts.iter().map(|part| part.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// A range of hours, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct Hours {
    first: [u16; 4],
    last: [u16; 4],
}

impl Hours {
    /// Returns the hours of objects written between these times. Clocks differ, and an object may
    /// be written a moment after its name was made: one hour more is included at either end.
    pub fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Self {
        const HOUR_MS: i64 = 3_600_000;
        let from = from.map_or(Timestamp::from_millis(0), |from| {
            Timestamp::from_millis(from.as_millis().saturating_sub(HOUR_MS).max(0))
        });
        let to = to.map_or(Timestamp::MAX, |to| {
            Timestamp::from_millis(to.as_millis().saturating_add(HOUR_MS)).min(Timestamp::MAX)
        });
        Self { first: parts(from), last: parts(to) }
    }

    /// Returns the text up to which all names are of other hours; `None` for one of these hours.
    pub fn pass_over(&self, folder: &str, position: &Position) -> Option<String> {
        let is_out = |parts: &usize| {
            let of = &position.hour[..*parts];
            of < &self.first[..*parts] || of > &self.last[..*parts]
        };
        let parts = (1..=4).find(is_out)?;
        let out: Vec<_> = position.hour[..parts].iter().map(u16::to_string).collect();
        // '0' follows '/': everything under this path sorts before it.
        Some(format!("{folder}/{}0", out.join("/")))
    }

    /// Returns the common prefix of all object names of these hours.
    pub fn prefix(&self, folder: &str) -> String {
        let same = self.first.iter().zip(&self.last).take_while(|(first, last)| first == last);
        let same: String = same.map(|(part, _)| format!("{part}/")).collect();
        format!("{folder}/{same}")
    }
}

fn parts(at: Timestamp) -> [u16; 4] {
    let at = at.utc();
    let year = u16::try_from(at.year()).unwrap_or(u16::MAX);
    [year, u8::from(at.month()).into(), at.day().into(), at.hour().into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = "00000000-0000-0000-0000-00000000000a";

    fn name(hour: &str) -> String {
        format!("p/S/{hour}/{OBJECT}.json")
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc_3339(text).expect(text)
    }

    #[test]
    fn a_place_has_a_name_and_an_id() {
        let name = name("2026/1/21/8");
        let position = Position::first_of("p/S", &name).expect("a position").at(12);
        assert_eq!(position.to_string(), format!("2026-1-21-8-{OBJECT}-12"));
        assert_eq!(Position::parse(&position.to_string()), Some(position));
        assert_eq!(position.name("p/S"), name);
        assert!(*position.before("p/S") < *name);
        for other in ["", "1", "p/S/2026/01/21/8/x.json", &format!("{name}x"), &name[1..]] {
            assert_eq!(Position::first_of("p/S", other), None, "{other}");
        }
        for other in ["2026-01-21-8-00000000-0000-0000-0000-00000000000a-0", "--", "a", OBJECT] {
            assert_eq!(Position::parse(other), None, "{other}");
        }
        assert!(position.is_before(&position.at(13)) && !position.is_before(&position));
        assert!(
            !position
                .is_before(&Position::first_of("p/S", &self::name("2026/1/10/8")).expect("one"))
        );
    }

    #[test]
    fn other_hours_are_passed_over_a_year_a_month_a_day_an_hour_at_a_time() {
        let (from, to) = (at("2026-02-03T10:30:00Z"), at("2026-10-20T05:00:00Z"));
        let hours = Hours::between(Some(from), Some(to));
        let table = [
            ("2025/12/31/23", Some("p/S/20250")),
            ("2027/1/1/0", Some("p/S/20270")),
            ("2026/1/31/23", Some("p/S/2026/10")),
            ("2026/11/1/0", Some("p/S/2026/110")),
            ("2026/2/2/23", Some("p/S/2026/2/20")),
            ("2026/2/3/8", Some("p/S/2026/2/3/80")),
            ("2026/2/3/9", None),
            ("2026/2/3/10", None),
            ("2026/10/20/5", None),
            ("2026/10/20/6", None),
            ("2026/10/20/7", Some("p/S/2026/10/20/70")),
            ("2026/10/21/0", Some("p/S/2026/10/210")),
            ("2026/9/30/7", None),
        ];
        for (hour, want) in table {
            let position = Position::first_of("p/S", &name(hour)).expect(hour);
            let passed = hours.pass_over("p/S", &position);
            assert_eq!(passed.as_deref(), want, "{hour}");
            // Names up to and including this text are skipped.
            assert!(passed.is_none_or(|passed| passed > name(hour)), "{hour}");
        }
        assert_eq!(hours.prefix("p/S"), "p/S/2026/");
        assert_eq!(Hours::between(None, None).prefix("p/S"), "p/S/");
        let position = Position::first_of("p/S", &name("2026/2/3/9")).expect("a position");
        assert_eq!(Hours::between(None, None).pass_over("p/S", &position), None);
        let one =
            Hours::between(Some(at("2026-02-03T10:30:00Z")), Some(at("2026-02-03T10:59:00Z")));
        assert_eq!(one.prefix("p/S"), "p/S/2026/2/3/");
    }
}
