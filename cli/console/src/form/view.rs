//! Fields on a page: each with its label, its hint, and its problems.

use maud::{Markup, html};

use super::Fields;
use super::placed::Placed;
use crate::text;

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) problems: &'a Placed,
    pub(crate) focus: Option<&'a str>,
    pub(crate) may_change: bool,
    /// Whether problems come and go while one types: their places are there before them.
    pub(crate) is_live: bool,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Text<'a> {
    pub(crate) name: &'a str,
    pub(crate) label: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) placeholder: &'a str,
    pub(crate) mode: Option<&'a str>,
    /// Problems of this member are this field's, too.
    pub(crate) also: Option<&'a str>,
    pub(crate) is_secret: bool,
    /// Whether characters that do not show are written as in JSON.
    pub(crate) is_json: bool,
}

pub(crate) fn id_of(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("f-{}", name.chars().map(letter).collect::<String>())
}

struct Below {
    id: String,
    problems: Vec<Markup>,
    markup: Markup,
    described_by: Option<String>,
}

impl<'a> View<'a> {
    fn below(&self, name: &str, also: Option<&str>, hint: &str) -> Below {
        let id = id_of(name);
        let mut problems = self.problems.at(name, &id);
        problems.extend(also.iter().flat_map(|also| self.problems.exactly_at(also, &id)));
        let problems: Vec<_> = problems.into_iter().map(text::prose).collect();
        let (hint_id, problem_id) = (format!("{id}-hint"), format!("{id}-problem"));
        let has_place = self.is_live || !problems.is_empty();
        let described = [(!hint.is_empty(), &hint_id), (has_place, &problem_id)];
        let described: Vec<_> =
            described.iter().filter(|(is, _)| *is).map(|(_, id)| id.as_str()).collect();
        let described_by = (!described.is_empty()).then(|| described.join(" "));
        let markup = html! {
            @if !hint.is_empty() { p.hint id=(hint_id) { (text::prose(hint)) } }
            @if has_place {
                p.bad id=(problem_id) data-problem-of=(id) { @for one in &problems { span.line { (one) } } }
            }
        };
        Below { id, problems, markup, described_by }
    }

    fn has_focus(&self, name: &str) -> bool {
        self.focus == Some(name)
    }

    /// A line; a secret one is written and never shown.
    pub(crate) fn text(&self, text: Text<'_>) -> Markup {
        let Text { name, label, hint, placeholder, mode, also, is_secret, .. } = text;
        let below = self.below(name, also, hint);
        let (kind, autocomplete) =
            if is_secret { ("password", "new-password") } else { ("text", "off") };
        html! {
            div.field {
                label for=(below.id) { (label) }
                input type=(kind) id=(below.id) name=(name) value=[(!is_secret).then(|| self.fields.get(name))]
                    inputmode=[mode] placeholder=[(!placeholder.is_empty()).then_some(placeholder)]
                    autocomplete=(autocomplete) spellcheck="false" aria-describedby=[below.described_by]
                    aria-invalid=[(!below.problems.is_empty()).then_some("true")] autofocus[self.has_focus(name)];
                (below.markup)
            }
        }
    }

    /// Several lines; secret ones are written and never shown.
    pub(crate) fn lines(&self, text: Text<'_>) -> Markup {
        let Text { name, label, hint, also, is_secret, is_json, .. } = text;
        let below = self.below(name, also, hint);
        let text = match self.fields.get(name) {
            _ if is_secret => String::new(),
            text if is_json => text::visible_json(text),
            text => text.to_owned(),
        };
        let rows = text.lines().count().clamp(2, if is_json { 28 } else { 12 });
        html! {
            div.field {
                label for=(below.id) { (label) }
                textarea id=(below.id) name=(name) rows=(rows) spellcheck="false" autocomplete=[is_secret.then_some("off")]
                    aria-describedby=[below.described_by] aria-invalid=[(!below.problems.is_empty()).then_some("true")]
                    autofocus[self.has_focus(name)] { "\n" (text) }
                (below.markup)
            }
        }
    }

    pub(crate) fn select(
        &self,
        name: &str,
        label: &str,
        hint: &str,
        options: &[(&str, &str)],
    ) -> Markup {
        let below = self.below(name, None, hint);
        let given = self.fields.get(name);
        let is_known = given.is_empty() || options.iter().any(|(value, _)| *value == given);
        html! {
            div.field {
                label for=(below.id) { (label) }
                select id=(below.id) name=(name) aria-describedby=[below.described_by]
                    aria-invalid=[(!below.problems.is_empty()).then_some("true")] autofocus[self.has_focus(name)] {
                    @for (value, told) in options {
                        option value=(value) selected[*value == given] { (told) }
                    }
                    @if !is_known { option value=(given) selected { (text::visible(given)) } }
                }
                (below.markup)
            }
        }
    }

    pub(crate) fn check(&self, name: &str, label: &str, hint: &str) -> Markup {
        let below = self.below(name, None, hint);
        html! {
            div.field {
                label.check for=(below.id) {
                    input type="checkbox" id=(below.id) name=(name) value="yes" checked[self.fields.is_on(name)]
                        aria-describedby=[below.described_by]
                        aria-invalid=[(!below.problems.is_empty()).then_some("true")];
                    (label)
                }
                (below.markup)
            }
        }
    }

    /// A list with a row for each of its elements, and buttons that change it.
    pub(crate) fn rows(
        &self,
        list: &str,
        one: &str,
        row: impl Fn(&View<'a>, &str, usize) -> Markup,
    ) -> Markup {
        let id = id_of(list);
        let row_of = |index: usize| {
            let name = format!("{list}.{index}");
            (row(self, &name, index), self.problems.exactly_at(&name, &id_of(&name)), name)
        };
        let rows: Vec<_> = (0..self.fields.rows(list)).map(row_of).collect();
        let problems = self.problems.exactly_at(list, &id);
        html! {
            div.rows id=(id) {
                @for (index, (fields, problems, name)) in rows.iter().enumerate() {
                    fieldset.one id=(id_of(name)) {
                        legend { (one) " " (index + 1) }
                        @for problem in problems { p.bad { (text::prose(problem)) } }
                        (fields)
                        @if self.may_change {
                            button name="do" value={ "remove " (list) " " (index) } { "Remove " (one) " " (index + 1) }
                        }
                    }
                }
                @for problem in problems { p.bad { (text::prose(problem)) } }
                @if self.may_change {
                    button name="do" value={ "add " (list) } autofocus[self.has_focus(list)] { "Add: " (one) }
                }
            }
        }
    }

    /// All problems, with links to their fields. It is rendered after the fields, and stands before them.
    pub(crate) fn summary(&self, head: &str) -> Markup {
        html! {
            div.problem role="alert" {
                p { strong { (head) } }
                ul {
                    @for (message, id) in self.problems.all() {
                        li {
                            @match id {
                                Some(id) => { a href={ "#" (id) } { (text::prose(message)) } }
                                None => { (text::prose(message)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
