//! Cleans text typed into a search. Copied text brings characters that do not show: a zero-width
//! space, a no-break space, the end of a line. With them nothing is found, and nothing says why.
//! They are left out, and the page says so, with a link that keeps them.

use maud::{Markup, html};

use gridpost_ops::output::hides;

use super::urls::with_query;

/// The field of a search that is about exactly what was given: links of the console itself have it where
/// a name has such characters.
pub(super) const EXACT: &str = "exact";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut(Vec<(&'static str, String)>);

impl LeftOut {
    /// Leaves out of these fields what does not show.
    pub(super) fn of<'a>(
        fields: impl IntoIterator<Item = (&'static str, &'a mut Option<String>)>,
    ) -> Self {
        let clean = |(field, text): (_, &mut Option<String>)| {
            let given = text.as_mut()?;
            let rest = shown(given);
            let is_less = rest != given.trim_matches(' ');
            is_less.then(|| (field, std::mem::replace(given, rest)))
        };
        Self(fields.into_iter().filter_map(clean).collect())
    }

    /// Says what was left out of the fields of a search, with a link that keeps it.
    pub(super) fn told(&self, url: &str, pairs: &[(&str, &str)]) -> Markup {
        let given = |field| self.0.iter().find(|(of, _)| *of == field).map(|(_, given)| &**given);
        let exact = pairs.iter().map(|(field, rest)| (*field, given(*field).unwrap_or(rest)));
        let exact: Vec<_> = exact.chain([(EXACT, "yes")]).collect();
        html! {
            (self.notes())
            @if !self.0.is_empty() { p { a href=(with_query(url, &exact)) { "Look for exactly what was given" } } }
        }
    }

    /// Says what was left out, where nothing can be meant by it.
    pub(super) fn notes(&self) -> Markup {
        html! {
            @if !self.0.is_empty() {
                div.warn role="status" {
                    @for (field, given) in &self.0 {
                        p { "Characters that do not show were left out of " (field) ", which was given as "
                            code { (numbered(given)) } "." }
                    }
                }
            }
        }
    }
}

/// Whether a text has to be looked for exactly: without what does not show it is another one.
pub(super) fn is_exact(text: &str) -> bool {
    shown(text) != text
}

/// A text without what does not show; other spaces are spaces.
fn shown(text: &str) -> String {
    let kept = text.chars().filter(|c| !hides(*c));
    let kept: String = kept.map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    kept.trim().to_owned()
}

fn numbered(text: &str) -> String {
    let one = |c: char| match hides(c) || (c.is_whitespace() && c != ' ') {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    text.chars().map(one).collect()
}

fn exactly(text: &str) -> (&'static str, &'static str) {
    (EXACT, if is_exact(text) { "yes" } else { "" })
}

/// Chooses the dead letters of an event.
pub(super) fn letters_query(id: &str) -> [(&'static str, &str); 2] {
    [("event", id), exactly(id)]
}

pub(super) fn event_url(topic: &str, id: &str) -> String {
    with_query("/events", &[("topic", topic), ("id", id), exactly(id)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_show_is_left_out_and_told() {
        let table = [
            ("order-1", "order-1", None),
            (" order-1 ", " order-1 ", None),
            ("\u{200b}order-1", "order-1", Some("\\u{200b}order-1")),
            ("order-1\u{a0}", "order-1", Some("order-1\\u{a0}")),
            ("order-1\r\n", "order-1", Some("order-1\\u{d}\\u{a}")),
            ("Order\u{a0}Placed", "Order Placed", Some("Order\\u{a0}Placed")),
            ("\u{feff}\u{2060}", "", Some("\\u{feff}\\u{2060}")),
            ("über/注文", "über/注文", None),
        ];
        for (given, want, told) in table {
            let mut text = Some(given.to_owned());
            let left_out = LeftOut::of([("id", &mut text)]);
            assert_eq!(text.as_deref(), Some(want), "{given:?}");
            let shown = left_out.told("/l", &[("topic", "t"), ("id", want)]).into_string();
            assert_eq!(shown.is_empty(), told.is_none(), "{shown}");
            let parts = [told.unwrap_or_default(), told.map_or("", |_| "/l?topic=t&amp;id=")];
            assert!(parts.iter().all(|part| shown.contains(part)), "{shown}");
        }
        assert_eq!(event_url("t", "order-1"), "/events?topic=t&id=order-1");
        assert!(event_url("t", "order-1\u{a0}").ends_with("&exact=yes"));
    }
}
