//! The state of a document that a page was made from, and what to do when another person has changed it
//! since: nothing that was typed is lost, and nothing that was saved is undone unseen.

use gridpost_api::{
    client::Condition,
    document::{difference, merge},
};
use maud::{Markup, html};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::failure;
use super::kit;
use super::text;
use gridpost_ops::failure::{Misuse, Refusal};

/// Fields of a form: what its page was made from.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Made {
    #[serde(default)]
    etag: String,
    #[serde(default)]
    was: String,
}

impl Made {
    pub(super) fn of(etag: Option<&str>, was: &impl Serialize) -> Self {
        Self { etag: etag.unwrap_or_default().to_owned(), was: value(was).to_string() }
    }

    pub(super) fn sent(etag: String, was: String) -> Self {
        Self { etag, was }
    }

    pub(super) fn fields(&self) -> Markup {
        html! {
            input type="hidden" name="etag" value=(self.etag);
            input type="hidden" name="was" value=(self.was);
        }
    }

    pub(super) fn was<D: DeserializeOwned>(&self) -> Result<D, Misuse> {
        serde_json::from_str(&self.was).map_err(|_| Self::unknown())
    }

    /// Returns the condition of a change: the resource still is in the state that was read.
    pub(super) fn condition(&self) -> Result<Option<Condition>, Misuse> {
        match self.etag.is_empty() {
            true => Err(Self::unknown()),
            false => Ok(Some(Condition::Is(self.etag.clone()))),
        }
    }

    fn unknown() -> Misuse {
        let told = "The form does not say what it was made from, so nothing was saved: open its page again.";
        Misuse(told.to_owned())
    }
}

/// Whether a change was refused because another one came before it.
pub(super) fn is_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == 412)
}

/// Returns a document as a value, to compare it with another one.
pub(super) fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

/// Merges the changes made on the page into what is saved now.
pub(super) fn merged(was: &impl Serialize, now: &impl Serialize, mine: &Value) -> Value {
    let mut merged = value(now);
    merge(&mut merged, &difference(&value(was), mine));
    merged
}

/// Shows the difference, where the form below means that document.
pub(super) fn told(was: &impl Serialize, now: &impl Serialize, in_form: &Value) -> Markup {
    let (was, now) = (value(was), value(now));
    let row = |path: Vec<&str>| {
        let mut cells = vec![html! { code { (dotted(&path)) } }];
        cells.extend([&was, &now, in_form].map(|document| html! { (shown(document, &path)) }));
        cells
    };
    let rows: Vec<_> = differing(&was, &now).into_iter().map(row).collect();
    html! {
        p { strong { "Nothing was saved: it was changed meanwhile." } }
        @if rows.is_empty() {
            p { "What was changed is not on this page. What you have typed is still below: save it again." }
        } @else {
            p { "The table has what another one has changed. The form below is what is saved now with what you have "
                "changed: look at it, and save it again." }
            (kit::table("What was changed meanwhile", &[("Member", ""), ("When you opened the page", ""), ("Saved now", ""), ("In the form below", "")], &rows))
        }
    }
}

/// Lists typed values for which the form below has no field. Of an event subscription's form that is so because
/// another operator has saved a destination of another type.
pub(super) fn lost(
    was: &impl Serialize,
    mine: &Value,
    in_form: &Value,
    of_destination: bool,
) -> Markup {
    let was = value(was);
    // What was emptied is in no field either, and nothing is lost by that.
    let is_lost = |path: &Vec<&str>| {
        let value = at(mine, path).filter(|value| !value.is_null());
        value.is_some() && at(in_form, path) != value
    };
    let row =
        |path: Vec<&str>| vec![html! { code { (dotted(&path)) } }, html! { (shown(mine, &path)) }];
    let rows: Vec<_> = differing(&was, mine).into_iter().filter(is_lost).map(row).collect();
    html! {
        @if !rows.is_empty() {
            p {
                "The form below has no field for these, which you have typed"
                @if of_destination {
                    ": the destination is of another type now. Copy what you still need, or choose the type again."
                } @else { ". Copy what you still need." }
            }
            (kit::table("What you have typed and the form below lacks", &[("Member", ""), ("What you have typed", "")], &rows))
        }
    }
}

/// A member's path, as people write it.
fn dotted(path: &[&str]) -> Markup {
    text::soft(&path.join("."))
}

fn at<'d>(document: &'d Value, path: &[&str]) -> Option<&'d Value> {
    path.iter().try_fold(document, |document, name| document.get(name))
}

fn shown(document: &Value, path: &[&str]) -> String {
    match at(document, path) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => text::visible(&value.to_string()),
    }
}

/// Shows that the changes of another operator can't be read.
pub(super) fn unread(error: &anyhow::Error) -> Markup {
    html! {
        div.problem role="alert" {
            p { strong { "Nothing was saved: it was changed meanwhile." } }
            p { "What is saved now could not be read. What you have typed is still below: save it again to see both." }
            (failure::told(error))
        }
    }
}

/// Returns the paths of the members that differ; lists are told whole. An object that is not there has no members.
fn differing<'d>(old: &'d Value, new: &'d Value) -> Vec<Vec<&'d str>> {
    let has_members = |one: &Value| one.is_object() || one.is_null();
    if old == new || !(has_members(old) && has_members(new)) {
        return if old == new { Vec::new() } else { vec![Vec::new()] };
    }
    let names = |of: &'d Value| of.as_object().into_iter().flat_map(Map::keys);
    let added = names(new).filter(|name| old.get(name).is_none());
    let below = |name: &'d String| {
        let of = |document: &'d Value| document.get(name).unwrap_or(&Value::Null);
        let paths = differing(of(old), of(new)).into_iter();
        paths.map(|path| [vec![name.as_str()], path].concat())
    };
    names(old).chain(added).flat_map(below).collect()
}

#[cfg(test)]
mod tests {
    use gridpost_api::subscription::EventSubscriptionInput;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_that_a_page_was_made_from_is_read_as_its_type() {
        for (was, is_taken) in [
            ("{}", true),
            (r#"{"properties": {}}"#, true),
            ("5", false),
            ("[5]", false),
            (r#"{"properties": 5}"#, false),
            ("{", false),
        ] {
            let made = Made::sent("e".to_owned(), was.to_owned());
            assert_eq!(made.was::<EventSubscriptionInput>().is_ok(), is_taken, "{was}");
        }
    }

    #[test]
    fn two_changes_of_different_members_are_both_kept() {
        let was = json!({"a": 1, "b": {"c": 1, "d": [1]}, "e": 1});
        let now = json!({"a": 2, "b": {"c": 1, "d": [1, 2]}});
        let mine = json!({"a": 1, "b": {"c": 5, "d": [1]}, "e": 1, "f": "x"});
        let want = json!({"a": 2, "b": {"c": 5, "d": [1, 2]}, "f": "x"});
        assert_eq!(merged(&was, &now, &mine), want);
        let shown = told(&was, &now, &want).into_string();
        for part in ["<code>a</code>", "<code>b.<wbr>d</code>", "<code>e</code>", "[1,2]"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        assert!(!shown.contains("<code>b.<wbr>c</code>"), "only what others changed: {shown}");
        // Text in an object that was missing before is not lost if the form has it.
        let [mine, in_form] = [json!({"o": {"x": 1, "y": null}}), json!({"o": {"x": 1, "z": 2}})];
        assert_eq!(lost(&json!({}), &mine, &in_form, true).into_string(), "");
    }
}
