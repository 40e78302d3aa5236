//! Dead letters of event subscriptions, and jobs that send them again.

use gridpost_api::{
    health::{Health, NewEvents},
    schema::Time,
};
use gridpost_core::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ManageApi, PAGES_MAX, path_segment, subscription_path};
use crate::{output::or_dash, subscription::untyped::Read};

/// A choice of dead letters.
#[derive(Clone, Debug, Default)]
pub struct LetterChoice {
    /// Written at this time or later, RFC 3339.
    pub from: Option<String>,
    /// Written at this time or before.
    pub to: Option<String>,
    pub reason: Option<String>,
    pub event_type: Option<String>,
    pub event_id: Option<String>,
    /// Whether a redrive has sent them again.
    pub redriven: Option<bool>,
}

impl LetterChoice {
    fn parts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let Self { from, to, reason, event_type, event_id, redriven: _ } = self;
        let times = [("from", from), ("to", to)];
        let texts = [("reason", reason), ("eventType", event_type), ("eventId", event_id)];
        times.into_iter().chain(texts).filter_map(|(name, value)| Some((name, value.as_ref()?)))
    }

    /// The members of a request's document.
    pub fn document(&self) -> Value {
        let mut document: Value =
            self.parts().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        if let Some(redriven) = self.redriven {
            document["redriven"] = json!(redriven);
        }
        document
    }

    /// Whether it chooses by what a dead letter says, and not by when it was written alone.
    pub fn chooses_by_content(&self) -> bool {
        let Self { from: _, to: _, reason, event_type, event_id, redriven } = self;
        let texts = [reason, event_type, event_id];
        redriven.is_some() || texts.into_iter().any(Option::is_some)
    }

    pub(super) fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.parts());
        if let Some(redriven) = self.redriven {
            query.append_pair("redriven", if redriven { "true" } else { "false" });
        }
        match query.finish() {
            none if none.is_empty() => none,
            query => format!("?{query}"),
        }
    }
}

impl ManageApi {
    /// The first `most` dead letters of an event subscription.
    pub async fn dead_letters(
        &self,
        topic: &str,
        name: &str,
        choice: &LetterChoice,
        most: usize,
    ) -> anyhow::Result<Vec<Value>> {
        let path = format!("{}/deadLetters{}", subscription_path(topic, name)?, choice.query());
        let mut found = Vec::new();
        let mut next = Some(format!("{}{path}", self.base_url()));
        while let Some(url) = next.filter(|_| found.len() < most) {
            let page = self.send(Method::GET, &url, None).await?.document;
            found.extend(page["value"].as_array().into_iter().flatten().cloned());
            next = page["nextLink"].as_str().map(|link| self.resolve(link)).transpose()?;
        }
        found.truncate(most);
        Ok(found)
    }

    /// Counts dead letters; takes the answer of each request.
    pub async fn count_dead_letters(
        &self,
        topic: &str,
        name: &str,
        choice: &LetterChoice,
        take: impl FnMut(&Value),
    ) -> anyhow::Result<()> {
        let path = subscription_path(topic, name)?;
        let path = format!("{path}/deadLetters:count{}", choice.query());
        self.repeat(Method::GET, &path, None, take).await
    }

    /// Deletes objects all of whose dead letters are chosen; takes the answer of each request.
    pub async fn purge_dead_letters(
        &self,
        topic: &str,
        name: &str,
        choice: &LetterChoice,
        take: impl FnMut(&Value),
    ) -> anyhow::Result<()> {
        let path = format!("{}/deadLetters:purge", subscription_path(topic, name)?);
        let mut document = choice.document();
        if document == json!({}) {
            document["all"] = json!(true);
        }
        self.repeat(Method::POST, &path, Some(&document), take).await
    }

    /// Repeats a request as long as its answer names the place where it goes on.
    pub(super) async fn repeat(
        &self,
        method: Method,
        path: &str,
        document: Option<&Value>,
        mut take: impl FnMut(&Value),
    ) -> anyhow::Result<()> {
        let mut next = format!("{}{path}", self.base_url());
        for _ in 0..PAGES_MAX {
            let answer = self.send(method.clone(), &next, document).await?.document;
            take(&answer);
            match answer["nextLink"].as_str() {
                Some(link) => next = self.resolve(link)?,
                None => return Ok(()),
            }
        }
        anyhow::bail!("{path} did not end within {PAGES_MAX} requests; repeat it to go on")
    }

    /// One dead letter with its event.
    pub async fn dead_letter(&self, topic: &str, name: &str, id: &str) -> anyhow::Result<Value> {
        let path = format!("{}/deadLetters/{}", subscription_path(topic, name)?, path_segment(id)?);
        Ok(self.call(Method::GET, &path, None).await?.document)
    }

    /// Begins a redrive. Fails with 409 when one is running.
    pub async fn redrive(&self, topic: &str, name: &str, input: &Value) -> anyhow::Result<Value> {
        let path = format!("{}/deadLetters:redrive", subscription_path(topic, name)?);
        Ok(self.call(Method::POST, &path, Some(input)).await?.document)
    }

    /// Every redrive of an event subscription, the newest first.
    pub async fn redrives(&self, topic: &str, name: &str) -> anyhow::Result<Vec<Value>> {
        self.list(&format!("{}/redrives", subscription_path(topic, name)?)).await
    }

    /// One redrive.
    pub async fn redrive_job(&self, topic: &str, name: &str, id: &str) -> anyhow::Result<Value> {
        let path = format!("{}/redrives/{}", subscription_path(topic, name)?, path_segment(id)?);
        Ok(self.call(Method::GET, &path, None).await?.document)
    }

    /// Stops a redrive (`cancel`), or has it go on (`resume`, at another pace where the document says
    /// so).
    pub async fn change_redrive(
        &self,
        topic: &str,
        name: &str,
        id: &str,
        action: &str,
        document: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let path = subscription_path(topic, name)?;
        let path = format!("{path}/redrives/{}/{action}", path_segment(id)?);
        Ok(self.call(Method::POST, &path, document).await?.document)
    }
}

/// S3 tells times in whole seconds, and clocks differ a little.
const SETTLED_MS: i64 = 2_000;

/// Returns the end of the time that is counted and deleted: `to`, or so shortly before now that nothing more
/// is written in it.
pub fn end_of_count(to: Option<Time>, now: Timestamp) -> Time {
    let counted = Time(Timestamp::from_millis(now.as_millis() - SETTLED_MS));
    to.map_or(counted, |to| to.min(counted))
}

/// Ends the choice where the count begins: dead letters written between the count and the deletion
/// were not counted, and stay.
pub fn until_counted(choice: LetterChoice, now: Timestamp) -> LetterChoice {
    let counted = Timestamp::from_millis(now.as_millis() - SETTLED_MS);
    let asked = choice.to.as_deref().map(Timestamp::parse_rfc_3339);
    match asked {
        // One that is not a time is the server's to refuse.
        Some(None) => choice,
        Some(Some(asked)) if asked <= counted => choice,
        Some(Some(_)) | None => LetterChoice { to: Some(counted.to_iso_8601()), ..choice },
    }
}

/// Says why not to send to an endpoint on a probation that ends events at once, and what to do.
pub fn refusal_by_probation(topic: &str, name: &str, health: &impl Read<Health>) -> Option<String> {
    let Health { new_events, until, cause, .. } = &*health.read();
    (*new_events == NewEvents::Ends).then(|| {
        format!(
            "{topic}/{name} is on probation until {} because of {}: each event sent now ends at once, as a \
             new dead letter. Mend the cause, test it (gridpost subscription send-test --topic {topic} --subscription \
             {name}) and end the probation (gridpost subscription health --topic {topic} --subscription \
             {name} --reset). --on-probation sends all the same.",
            or_dash(*until),
            or_dash(cause.as_ref().map(|cause| &cause.outcome))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::documents;

    #[test]
    fn a_choice_is_a_query_and_a_document() {
        let text = |text: &str| Some(text.to_owned());
        let one = LetterChoice { reason: text("a b"), ..LetterChoice::default() };
        let two = LetterChoice { from: text("T:1"), event_type: text("x"), ..one.clone() };
        let all = json!({"from": "T:1", "reason": "a b", "eventType": "x"});
        let three = LetterChoice { redriven: Some(false), ..LetterChoice::default() };
        assert!(three.chooses_by_content() && !LetterChoice::default().chooses_by_content());
        let table = [
            (three, json!({"redriven": false}), "?redriven=false"),
            (LetterChoice::default(), json!({}), ""),
            (one, json!({"reason": "a b"}), "?reason=a+b"),
            (two, all, "?from=T%3A1&reason=a+b&eventType=x"),
        ];
        for (choice, document, query) in table {
            assert_eq!((choice.document(), choice.query()), (document, query.to_owned()));
        }
    }

    #[test]
    fn nothing_is_sent_to_an_endpoint_that_ends_events_at_once() {
        let health = |new_events: &str| {
            documents::health(&json!({"newEvents": new_events, "until": "2026-01-01T00:05:00.000Z",
                "cause": {"outcome": "Unauthorized"}}))
        };
        for sent in ["Attempted", "Waits", "NotMatched"] {
            assert_eq!(refusal_by_probation("t", "u", &health(sent)), None, "{sent}");
        }
        let refused = refusal_by_probation("t", "u", &health("Ends")).expect("refused");
        for part in ["t/u", "until 2026-01-01T00:05:00.000Z", "Unauthorized", "--on-probation"] {
            assert!(refused.contains(part), "{part} is not in\n{refused}");
        }
    }
}
