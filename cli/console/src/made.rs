//! The state of a document that a page was made from, and what to do when another person has changed it
//! since: nothing that was typed is lost, and nothing that was saved is undone unseen.

use gridpost_api::{client::Condition, document::merge};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::failure;
use super::page;
use super::patch::difference;
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
    pub(super) fn of(etag: Option<&str>, was: &Value) -> Self {
        Self { etag: etag.unwrap_or_default().to_owned(), was: was.to_string() }
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

    pub(super) fn was(&self) -> Result<Value, Misuse> {
        let was: Value = serde_json::from_str(&self.was).map_err(|_| Self::unknown())?;
        let may_have_members = |value: &Value| value.is_object() || value.is_null();
        match may_have_members(&was) && may_have_members(&was["properties"]) {
            true => Ok(was),
            false => Err(Self::unknown()),
        }
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

/// Merges the changes made on the page into what is saved now.
pub(super) fn merged(was: &Value, now: &Value, mine: &Value) -> Value {
    let mut merged = now.clone();
    merge(&mut merged, &difference(was, mine));
    merged
}

pub(super) fn told(was: &Value, now: &Value, mine: &Value) -> Markup {
    told_of(was, now, &merged(was, now, mine))
}

/// Shows the difference, where the form below means that document.
pub(super) fn told_of(was: &Value, now: &Value, in_form: &Value) -> Markup {
    let mut paths = Vec::new();
    differing(was, now, "", &mut paths);
    let row = |path: &String| {
        let mut cells = vec![html! { code { (dotted(path)) } }];
        cells.extend([was, now, in_form].map(|document| html! { (shown(document, path)) }));
        cells
    };
    let rows: Vec<_> = paths.iter().map(row).collect();
    html! {
        p { strong { "Nothing was saved: it was changed meanwhile." } }
        @if rows.is_empty() {
            p { "What was changed is not on this page. What you have typed is still below: save it again." }
        } @else {
            p { "The table has what another one has changed. The form below is what is saved now with what you have "
                "changed: look at it, and save it again." }
            (page::table("What was changed meanwhile", &["Member", "When you opened the page", "Saved now", "In the form below"], &rows))
        }
    }
}

/// Lists typed values for which the form below has no field: another operator has saved a destination
/// of another type.
pub(super) fn lost(was: &Value, mine: &Value, in_form: &Value) -> Markup {
    let mut paths = Vec::new();
    differing(was, mine, "", &mut paths);
    // What was emptied is in no field either, and nothing is lost by that.
    let is_lost = |path: &&String| {
        mine.pointer(path)
            .is_some_and(|value| !value.is_null() && in_form.pointer(path) != Some(value))
    };
    let row =
        |path: &String| vec![html! { code { (dotted(path)) } }, html! { (shown(mine, path)) }];
    let rows: Vec<_> = paths.iter().filter(is_lost).map(row).collect();
    html! {
        @if !rows.is_empty() {
            p { "The form below has no field for these, which you have typed: the destination is of another type now. "
                "Copy what you still need, or choose the type again." }
            (page::table("What you have typed and the form below lacks", &["Member", "What you have typed"], &rows))
        }
    }
}

/// A member's path, as people write it.
fn dotted(path: &str) -> String {
    page::visible(path.trim_start_matches('/')).replace('/', ".")
}

fn shown(document: &Value, path: &str) -> String {
    match document.pointer(path) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => page::visible(&value.to_string()),
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

/// Pointers of the members that differ; lists are told whole.
fn differing(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            found.push(path.to_owned());
        }
        return;
    };
    let added = after.keys().filter(|name| !before.contains_key(*name));
    for name in before.keys().chain(added) {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        let none = Value::Null;
        let (old, new) = (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
        differing(old, new, &format!("{path}/{escaped}"), found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_page_was_made_from_has_members() {
        for (was, is_taken) in [
            ("null", true),
            ("{}", true),
            (r#"{"properties": {}}"#, true),
            ("5", false),
            ("[]", false),
            (r#"{"properties": 5}"#, false),
            ("{", false),
        ] {
            let made = Made::sent("e".to_owned(), was.to_owned());
            assert_eq!(made.was().is_ok(), is_taken, "{was}");
        }
    }

    #[test]
    fn two_changes_of_different_members_are_both_kept() {
        let was = json!({"a": 1, "b": {"c": 1, "d": [1]}, "e": 1});
        let now = json!({"a": 2, "b": {"c": 1, "d": [1, 2]}});
        let mine = json!({"a": 1, "b": {"c": 5, "d": [1]}, "e": 1, "f": "x"});
        let want = json!({"a": 2, "b": {"c": 5, "d": [1, 2]}, "f": "x"});
        assert_eq!(merged(&was, &now, &mine), want);
        let shown = told(&was, &now, &mine).into_string();
        for part in ["<code>a</code>", "<code>b.d</code>", "<code>e</code>", "[1,2]"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        assert!(!shown.contains("<code>b.c</code>"), "only what others changed: {shown}");
    }

    #[test]
    fn a_form_of_an_unknown_state_saves_nothing() {
        assert!(Made::default().condition().is_err() && Made::default().was().is_err());
        let made = Made::of(Some("\"1\""), &json!({"a": "<"}));
        assert_eq!(made.was().expect("JSON"), json!({"a": "<"}));
        assert!(made.fields().into_string().contains("&quot;1&quot;"));
    }
}
