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
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) label: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) placeholder: &'a str,
    pub(crate) mode: Option<&'a str>,
    /// Problems of this member are this field's, too.
    pub(crate) also: Option<&'a str>,
    /// Whether it is only written, and never shown.
    pub(crate) is_secret: bool,
    pub(crate) control: Control<'a>,
}

impl<'a> Field<'a> {
    pub(crate) fn of(name: &'a str, label: &'a str, hint: &'a str) -> Self {
        Self { name, label, hint, ..Self::default() }
    }

    /// One whose text is JSON.
    pub(crate) fn json(name: &'a str, label: &'a str) -> Self {
        Self { control: Control::Json, ..Self::of(name, label, "") }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Control<'a> {
    #[default]
    Line,
    Lines,
    /// Lines of JSON, in which characters that do not show are written as their numbers.
    Json,
    /// Values, each with what it means.
    Select(&'a [(&'a str, &'a str)]),
    Check,
}

pub(crate) fn id_of(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("f-{}", name.chars().map(letter).collect::<String>())
}

impl<'a> View<'a> {
    pub(crate) fn field(&self, field: Field<'_>) -> Markup {
        let Field { name, label, hint, also, .. } = field;
        let id = id_of(name);
        let mut problems = self.problems.at(name, &id);
        problems.extend(also.iter().flat_map(|also| self.problems.exactly_at(also, &id)));
        let (hint_id, problem_id) = (format!("{id}-hint"), format!("{id}-problem"));
        let has_place = self.is_live || !problems.is_empty();
        let described = [(!hint.is_empty(), &*hint_id), (has_place, &*problem_id)];
        let described: Vec<_> = described.iter().filter(|(is, _)| *is).map(|(_, id)| *id).collect();
        let described = (!described.is_empty()).then(|| described.join(" "));
        let invalid = (!problems.is_empty()).then_some("true");
        let control = self.control(&field, &id, described.as_deref(), invalid);
        html! {
            div.field {
                @if field.control == Control::Check { label.check for=(id) { (control) (label) } }
                @else { label for=(id) { (label) } (control) }
                @if !hint.is_empty() { p.hint id=(hint_id) { (text::prose(hint)) } }
                @if has_place {
                    p.bad id=(problem_id) data-problem-of=(id) {
                        @for one in &problems { span.line { (text::prose(one)) } }
                    }
                }
            }
        }
    }

    fn control(
        &self,
        field: &Field<'_>,
        id: &str,
        described: Option<&str>,
        invalid: Option<&str>,
    ) -> Markup {
        let Field { name, placeholder, mode, is_secret, control, .. } = *field;
        let has_focus = self.focus == Some(name);
        let text = if is_secret { "" } else { self.fields.get(name) };
        let (least, most) = if control == Control::Json { (6, 28) } else { (2, 12) };
        match control {
            Control::Line => {
                let (kind, autocomplete) =
                    if is_secret { ("password", "new-password") } else { ("text", "off") };
                html! {
                    input type=(kind) id=(id) name=(name) value=[(!is_secret).then_some(text)] inputmode=[mode]
                        placeholder=[(!placeholder.is_empty()).then_some(placeholder)]
                        autocomplete=(autocomplete) spellcheck="false" aria-describedby=[described]
                        aria-invalid=[invalid] autofocus[has_focus];
                }
            }
            Control::Lines | Control::Json => html! {
                textarea id=(id) name=(name) rows=(text.lines().count().clamp(least, most)) spellcheck="false"
                    autocomplete=[is_secret.then_some("off")] aria-describedby=[described] aria-invalid=[invalid]
                    autofocus[has_focus] {
                    "\n" @if control == Control::Json { (text::visible_json(text)) } @else { (text) }
                }
            },
            Control::Select(options) => html! {
                select id=(id) name=(name) aria-describedby=[described] aria-invalid=[invalid] autofocus[has_focus] {
                    @for (value, told) in options { option value=(value) selected[*value == text] { (told) } }
                    @if !text.is_empty() && options.iter().all(|(value, _)| *value != text) {
                        option value=(text) selected { (text::visible(text)) }
                    }
                }
            },
            Control::Check => html! {
                input type="checkbox" id=(id) name=(name) value="yes" checked[self.fields.is_on(name)]
                    aria-describedby=[described] aria-invalid=[invalid];
            },
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
                    button name="do" value={ "add " (list) } autofocus[self.focus == Some(list)] { "Add: " (one) }
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
