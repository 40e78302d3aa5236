//! What event subscriptions make of an event as a dead letter has it.

use std::collections::BTreeSet;

use anyhow::Context;
use gridpost_core::time::Timestamp;
use serde_json::{Value, value::RawValue};

use super::{Found, Question};
use crate::{
    failure::{Refusal, chain},
    lookup::if_there,
    manage_api::{ManageApi, dead_letters::LetterChoice},
    output::text_at,
};

/// Event subscriptions whose dead letters may have the event: those that it was seen to end in, or,
/// where no log tells of it, all that have a destination.
pub(super) fn may_have_dead_letter<'a>(
    deliveries: &'a [Found],
    subscriptions: &'a [Value],
) -> BTreeSet<&'a str> {
    if !deliveries.is_empty() {
        let ended = deliveries.iter().filter(|found| found.has_ended());
        return ended.map(|found| found.name.as_str()).collect();
    }
    let stores = |one: &&Value| {
        one.pointer("/properties/deadLetterDestination").is_some_and(Value::is_object)
    };
    subscriptions.iter().filter(stores).map(|one| text_at(one, "/name")).collect()
}

/// What event subscriptions make of the event as a dead letter has it, where one does, and has it in
/// the schema in which it was published; and a note of each whose dead letters were refused until then.
/// These keep nothing of the others back.
pub(super) async fn verdicts_on_dead_letter(
    api: &ManageApi,
    arguments: &Question,
    since: Timestamp,
    names: BTreeSet<&str>,
) -> anyhow::Result<(Option<Value>, Vec<String>)> {
    let choice = LetterChoice {
        from: Some(since.to_iso_8601()),
        event_id: Some(arguments.id.clone()),
        ..LetterChoice::default()
    };
    let mut notes = Vec::new();
    for name in names {
        match verdicts_on(api, &arguments.topic, name, &choice).await {
            Ok(None) => {}
            Ok(verdicts) => return Ok((verdicts, notes)),
            Err(error) if error.is::<Refusal>() => notes.push(chain(&error)),
            Err(error) => return Err(error),
        }
    }
    Ok((None, notes))
}

async fn verdicts_on(
    api: &ManageApi,
    topic: &str,
    name: &str,
    choice: &LetterChoice,
) -> anyhow::Result<Option<Value>> {
    let unread = || format!("the dead letters of {name} can't be read");
    // 404: it was deleted. 409: without a dead-letter destination, what ended was dropped.
    let found = unless(&[404, 409], api.dead_letters(topic, name, choice, 1).await);
    let found = found.with_context(unread)?.unwrap_or_default();
    let Some(id) = found.first().and_then(|letter| letter["id"].as_str()) else { return Ok(None) };
    // It may have been purged just now.
    let letter = if_there(api.dead_letter(topic, name, id).await).with_context(unread)?;
    let event = letter.as_ref().and_then(|letter| letter["event"].as_str()).unwrap_or_default();
    let Ok(event) = serde_json::from_str::<Box<RawValue>>(event) else { return Ok(None) };
    // 400: it was converted for this event subscription.
    let verdicts = unless(&[400], api.explain(topic, &event).await);
    verdicts.with_context(|| format!("the filters can't be asked about a dead letter of {name}"))
}

/// What was answered; none when it was refused with one of those statuses.
fn unless<T>(statuses: &[u16], answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Err(error)
            if error.downcast_ref::<Refusal>().is_some_and(|it| statuses.contains(&it.status)) =>
        {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}
