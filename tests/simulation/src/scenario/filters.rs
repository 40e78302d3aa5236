//! Topics with several event subscriptions, each with a filter of its own, and events for them.

use gridpost_api::subscription::read_filter;
use gridpost_core::{
    secret::Secret,
    subscription::{Endpoint, Filter},
};
use gridpost_testkit::dice::SeededDice;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CHANGING, Scenario, seeds};

/// An event published to a topic whose event subscriptions have filters.
#[derive(Clone, Copy, Debug)]
pub struct Filtered {
    /// Whether events have equal ids now and then, those of a publish that is made again always.
    /// Where an endpoint answers for each event, ids must tell them apart.
    pub equal_ids: bool,
    /// How many times larger than others events may be.
    pub grown: usize,
}

/// Gives some topics two to six event subscriptions with filters.
pub(super) fn set(dice: &SeededDice, scenario: &mut Scenario) {
    let Scenario { topics, scripts, filtered, .. } = scenario;
    for (topic, subscriptions) in topics.iter_mut().filter(|(topic, _)| topic.name != CHANGING) {
        let is_filtered = dice.chance(0.35);
        let more = dice.number(1..6);
        if !is_filtered {
            continue;
        }
        let first = &mut subscriptions[0];
        if dice.chance(0.5) {
            first.filter = filter(dice, &topic.name);
        }
        let to_resource = matches!(first.endpoint, Endpoint::Resource(_));
        let grown = dice.choose(&[1, 1, 1, 20, 100]);
        let equal_ids = dice.chance(0.6) && !to_resource;
        filtered.insert(topic.name.clone(), Filtered { equal_ids, grown });
        let plain = first.clone();
        for number in 0..more {
            let mut one = plain.clone();
            one.key.name = format!("sub-{number}");
            one.uid = Uuid::from_u128(plain.uid.as_u128() << 64 | u128::from(number + 1));
            let url = format!("https://{}.example/f{number}", topic.name);
            one.endpoint = Endpoint::WebHook { url: Secret::new(url) };
            one.allowed_rate = None;
            seeds::set_subscription(dice, topic.delivery_profile, &mut one);
            // Events are delivered as they were published.
            one.delivery_schema = plain.delivery_schema;
            one.filter =
                if dice.chance(0.8) { filter(dice, &topic.name) } else { Filter::default() };
            if let Some(script) = seeds::script(dice) {
                scripts.insert(one.key.clone(), script);
            }
            subscriptions.push(one);
        }
    }
}

fn filter(dice: &SeededDice, topic: &str) -> Filter {
    read_filter(&json!({ "filter": document(dice, topic) })).expect("a filter's document")
}

fn document(dice: &SeededDice, topic: &str) -> Value {
    let advanced: Vec<_> = (0..dice.number(0..3)).map(|_| advanced(dice)).collect();
    let mut document = json!({
        "isSubjectCaseSensitive": dice.chance(0.3),
        "enableAdvancedFilteringOnArrays": dice.chance(0.5),
        "advancedFilters": advanced,
    });
    match dice.number(0..6) {
        0 => document["includedEventTypes"] = json!(["simulated", "a.created"]),
        1 => document["subjectBeginsWith"] = json!(format!("{topic}/SUB/r")),
        2 => document["subjectEndsWith"] = json!(dice.choose(&["/red", "7", "/\u{c4}"])),
        _ => {}
    }
    document
}

fn advanced(dice: &SeededDice) -> Value {
    let one = |operator: &str, key: &str, (member, value): (&str, Value)| {
        let mut filter = json!({ "operatorType": operator, "key": key });
        filter[member] = value;
        filter
    };
    match dice.number(0..12) {
        0 => one("StringIn", "data.color", ("values", json!(["RED", "blue"]))),
        1 => one("StringNotIn", "data.color", ("values", json!(["red"]))),
        2 => one("StringContains", "subject", ("values", json!(["red", "\u{e4}"]))),
        3 => one("StringNotBeginsWith", "data.color", ("values", json!(["b"]))),
        4 => one("NumberGreaterThan", "data.n", ("value", json!(1))),
        5 => one("NumberNotInRange", "data.n", ("values", json!([[0, 2], [9.5, 10]]))),
        6 => one("NumberIn", "data.n", ("values", json!([-1, 2.5]))),
        7 => one("BoolEquals", "data.on", ("value", json!(true))),
        8 => json!({ "operatorType": "IsNotNull", "key": "data.color" }),
        9 => json!({ "operatorType": "IsNullOrUndefined", "key": "data.color" }),
        10 => one("StringEndsWith", "data.tags", ("values", json!(["b"]))),
        _ => one("NumberLessThanOrEquals", "data.tags", ("value", json!(4))),
    }
}

/// Draws determined by a text.
struct Draws(u64);

impl Draws {
    fn of(text: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        let drawn = of[(self.0 >> 32) as usize % of.len()];
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        drawn
    }
}

/// The parts of one event.
pub(crate) struct EventFacts<'e> {
    /// Topic and event subscription that its subject begins with.
    pub(crate) to: &'e str,
    /// Its identity.
    pub(crate) mark: &'e str,
    /// The id that it shares with its repetitions.
    pub(crate) id: &'e str,
    /// Bytes of its data, besides what filters ask for.
    pub(crate) bytes: usize,
    /// Whether it is a CloudEvent.
    pub(crate) is_cloud_event: bool,
}

/// An event's JSON: of members that filters ask for, and of texts and numbers that are easily
/// changed on the way.
pub(crate) fn event(filtered: Filtered, said: &EventFacts<'_>) -> String {
    let EventFacts { to, mark, id, bytes, is_cloud_event } = *said;
    let mut draws = Draws::of(mark);
    let id = match filtered.equal_ids {
        false => mark,
        true if draws.one(&["", "", "", "twin"]).is_empty() => id,
        true => "twin",
    };
    let color = draws.one(&[
        "",
        r#""color":"red","#,
        r#""color":"Red","#,
        r#""color":"blue","#,
        r#""color":null,"#,
    ]);
    let number = draws.one(&["-1", "0", "1", "2.50", "10", "1e1"]);
    let level = draws.one(&["-1", "0", "7"]);
    let on = draws.one(&["true", "false"]);
    let tags = draws.one(&["[]", r#"["a","B"]"#, "[3,4.0,5]", r#""b""#, "4", "null"]);
    let exact = draws.one(&[
        "12345678901234567890.10",
        "-0.0",
        "1E-7",
        r#""\ud83d\ude00\/\u0000\uffff""#,
        "{ }",
    ]);
    let pad = "x".repeat(bytes * filtered.grown);
    let asked = format!(r#"{color}"n":{number},"on":{on},"tags":{tags}"#);
    let data = format!(r#"{{"mark":"{mark}",{asked},"exact":{exact},"pad":"{pad}"}}"#);
    let of_type = draws.one(&["simulated", "a.created", "a.deleted", "B"]);
    let under = draws.one(&["", "/red", "/RED/7", "/\u{e4}", "/reds"]);
    let subject = format!("{to}{under}");
    match is_cloud_event {
        true => {
            let before = r#""specversion":"1.0","source":"/simulation""#;
            let after = format!(r#""type":"{of_type}","level":{level}"#);
            format!(r#"{{{before},"id":"{id}","subject":"{subject}",{after},"data":{data}}}"#)
        }
        false => {
            let before = r#""dataVersion":"1","eventTime":"2026-01-01T00:00:00.1200Z""#;
            let after = format!(r#""eventType":"{of_type}""#);
            format!(r#"{{{before},"id":"{id}","subject":"{subject}",{after},"data":{data}}}"#)
        }
    }
}
