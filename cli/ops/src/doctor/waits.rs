//! Event subscriptions of a plan whose events live shorter than their endpoints may not be asked. AWS would
//! refuse none of it: it is a note.

use serde_json::Value;

use super::names::Note;
use super::{Plan, PlanError};
use crate::schedule::delayed;

/// What to know of the event subscriptions that the module `event-subscription` makes: their documents are
/// inputs of `terraform_data`.
pub fn notes(document: &Value) -> Result<Vec<Note>, PlanError> {
    let plan = Plan::read(document)?;
    let notes = plan.of("terraform_data").filter_map(|resource| {
        let told = delayed::warning_of(&resource.values["input"])?;
        let message = format!("{}: {told}", resource.address);
        Some(Note { code: "short-time-to-live", message })
    });
    Ok(notes.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_subscription_of_a_plan_is_told_of() {
        let of = |name: &str, minutes: u32| {
            json!({"address": format!("module.{name}.terraform_data.document"),
                "type": "terraform_data", "values": {"input":
                    {"properties": {"retryPolicy": {"eventTimeToLiveInMinutes": minutes}}}}})
        };
        let other = json!({"address": "terraform_data.other", "type": "terraform_data",
            "values": {"input": "text"}});
        let plan = json!({"planned_values": {"root_module": {"resources":
            [of("short", 60), of("long", 1_440), other]}}});
        let found = notes(&plan).expect("a plan");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, "short-time-to-live");
        for part in ["module.short.terraform_data.document: ", "of 1 h is", "for 3 h"] {
            assert!(found[0].message.contains(part), "{part} is not in {}", found[0].message);
        }
        assert!(notes(&json!({})).is_err());
    }
}
