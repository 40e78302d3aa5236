//! Questions about events. They go as the texts that they are: a value would have lost what makes a publish
//! refuse an event, or take it.

use std::fmt::Display;

use reqwest::Method;
use serde_json::{Value, json, value::RawValue};

use super::{ManageApi, subscription_path};

impl ManageApi {
    /// Sends one event to an event subscription alone; what its endpoint answered.
    pub async fn send_test_event(
        &self,
        topic: &str,
        name: &str,
        event: &RawValue,
    ) -> anyhow::Result<Value> {
        let path = format!("{}/sendTestEvent", subscription_path(topic, name)?);
        self.ask_about("event", event, &json!({}), &path).await
    }

    async fn ask_about(
        &self,
        member: &str,
        events: &RawValue,
        others: &Value,
        path: &str,
    ) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.base_url());
        let document = with_text(others, member, events);
        Ok(self.send_text(Method::POST, &url, Some(document)).await?.document)
    }
}

/// An object with one more member, whose JSON text stays as it is.
pub(crate) fn with_text(others: &Value, member: &str, text: impl Display) -> String {
    let mut document = others.to_string();
    document.pop();
    let comma = if document.len() > 1 { "," } else { "" };
    format!("{document}{comma}\"{member}\":{text}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_as_it_stands() {
        let text = r#"{"n":1e400,"n":1.50}"#.to_owned();
        let event = RawValue::from_string(text).expect("JSON");
        let none = with_text(&json!({}), "event", &event);
        assert_eq!(none, r#"{"event":{"n":1e400,"n":1.50}}"#);
        let named = with_text(&json!({"name": "s1"}), "events", &event);
        assert_eq!(named, r#"{"name":"s1","events":{"n":1e400,"n":1.50}}"#);
    }
}
