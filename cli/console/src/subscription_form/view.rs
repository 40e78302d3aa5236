//! The fields of an event subscription on a page.

use gridpost_api::settings::{Kind, SETTINGS, Setting, of_rows, setting};
use maud::{Markup, html};

use super::{AUTHENTICATION, SCHEMA, TYPE, shown};
use crate::{
    form::view::{Text, View},
    settings::group_of,
    text,
};

/// The groups of fields, each with a hint.
const GROUPS: [(&str, &str); 5] = [
    ("Destination", ""),
    ("Filter", ""),
    ("Retries", ""),
    ("Dead letters", "Without a bucket, what ends undelivered is dropped, counted and logged."),
    ("Further settings", ""),
];

#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    /// The topic's delivery profile.
    pub(crate) profile: &'a str,
    pub(crate) is_new: bool,
    /// The endpoint that is saved, without its query.
    pub(crate) base_url: Option<&'a str>,
}

pub(crate) fn sections(form: View<'_>, about: About<'_>) -> Markup {
    let is_shown = |one: &&Setting| {
        // Where a key comes from is chosen beside its fields: all of them are there.
        let key = one.type_path().filter(|_| matches!(one.of, ["Static"] | ["Dynamic"]));
        let whole = key.and_then(|key| setting(&key)).unwrap_or(one);
        one.list().is_none()
            && !one.label.is_empty()
            && (about.is_new || one.path != SCHEMA)
            && one.is_of_profile(about.profile)
            && whole.is_of(&|path| form.fields.get(path).to_owned())
    };
    let all: Vec<_> = SETTINGS.iter().filter(is_shown).collect();
    html! {
        @for (group, (legend, hint)) in GROUPS.iter().enumerate() {
            fieldset {
                legend { (legend) }
                @if !hint.is_empty() { p.hint { (hint) } }
                @for one in all.iter().filter(|one| group_of(one) == group) { (top(form, one, about)) }
            }
        }
        p.m { "A text in quotation marks is read as JSON, for characters that do not show: " code { "\"a\\u200bb\"" } "." }
    }
}

/// A field that is in no row.
fn top(form: View<'_>, setting: &Setting, about: About<'_>) -> Markup {
    match (setting.path, about.base_url) {
        ("destination.endpointUrl", Some(url)) => {
            let hint = format!(
                "Empty: {} stays, with its query. Another one is asked for its consent.",
                text::visible(url)
            );
            let text =
                Text { name: setting.path, label: setting.label, hint: &hint, ..Text::default() };
            form.text(Text { placeholder: url, ..text })
        }
        (TYPE, _) => chosen(form, setting, "type"),
        (AUTHENTICATION, _) => html! {
            h2 { "Authentication" }
            p.hint { "How requests prove who sends them." }
            (chosen(form, setting, "authentication"))
        },
        _ => field(&form, setting, setting.path),
    }
}

/// A choice of which further fields there are.
fn chosen(form: View<'_>, setting: &Setting, what: &str) -> Markup {
    html! {
        (field(&form, setting, setting.path))
        input type="hidden" name=(shown(setting.path)) value=(form.fields.get(setting.path));
        @if form.may_change { button name="do" value="choose" { "Show fields" span.vh { " of this " (what) } } }
    }
}

fn field(form: &View<'_>, setting: &Setting, name: &str) -> Markup {
    let (label, hint) = (setting.label, setting.hint());
    let object = name.rsplit_once('.').map(|(object, _)| object).unwrap_or_default();
    let also = match (setting.kind, setting.list()) {
        (Kind::Operands, _) => Some(format!("{object}.value")),
        (_, Some(_)) => None,
        _ => Some(object.to_owned()),
    };
    let is_number = matches!(setting.kind, Kind::Number | Kind::Minutes);
    let text = Text {
        name,
        label,
        hint: &hint,
        placeholder: setting.example,
        mode: is_number.then_some("numeric"),
        also: also.as_deref(),
        is_secret: setting.is_secret(),
    };
    match setting.kind {
        Kind::Flag | Kind::Switch => form.check(name, label, &hint),
        Kind::Choice => {
            let choices = setting.choices();
            let choices: Vec<_> =
                choices.iter().map(|(name, told)| (*name, told.as_str())).collect();
            form.select(name, label, &hint, &choices)
        }
        Kind::Texts | Kind::Operands | Kind::Pem | Kind::SecretPem => form.lines(text),
        Kind::Rows => html! {
            h2 { (label) }
            p.hint { (hint) }
            (form.rows(name, setting.example, |form, row, _| html! {
                @for member in of_rows(name) { (field(form, member, &format!("{row}.{}", member.name()))) }
            }))
        },
        _ => form.text(text),
    }
}
