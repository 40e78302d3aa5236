//! The fields of topics and event subscriptions on a page.

use gridpost_api::settings::{Document, Kind, Setting, of_rows, setting};
use maud::{Markup, html};

use super::fields::{AUTHENTICATION, TYPE, shown};
use crate::{
    form::view::{Control, Field, View},
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

/// The part of a topic that explains events of one's own.
const MAPPING: &str = "inputSchemaMapping.";

/// Shows the fields of a topic, with those for events of one's own where it has such events.
pub(super) fn of_topic(form: View<'_>, settings: &[&Setting], has_mapping: bool) -> Markup {
    let (mapping, plain): (Vec<_>, Vec<_>) =
        settings.iter().partition(|one| one.path.starts_with(MAPPING));
    let is_shown = |one: &&&Setting| !one.label.is_empty();
    let mapping: Vec<_> = mapping.into_iter().filter(is_shown).collect();
    html! {
        @for one in plain { (field(&form, one, one.path)) }
        @if has_mapping {
            details open[mapping.iter().any(|one| !form.fields.get(one.path).is_empty())] {
                summary { "Events of one's own: which member is what" }
                p.hint { "For CustomEventSchema. A member that has a source and no default must be in every event." }
                @for one in mapping { (field(&form, one, one.path)) }
            }
        }
    }
}

/// Shows the fields of an event subscription of a topic with that delivery profile, in groups.
pub(super) fn of_subscription(
    form: View<'_>,
    settings: &[&Setting],
    profile: &str,
    was: &Document,
) -> Markup {
    let is_shown = |one: &&&Setting| {
        // Where a key comes from is chosen beside its fields: all of them are there.
        let key = one.type_path().filter(|_| matches!(one.of, ["Static"] | ["Dynamic"]));
        let whole = key.and_then(|key| setting(&key)).unwrap_or(one);
        one.list().is_none()
            && !one.label.is_empty()
            && one.is_of_profile(profile)
            && whole.is_of(&|path| form.fields.get(path).to_owned())
    };
    let all: Vec<_> = settings.iter().filter(is_shown).collect();
    let base_url = was.text("destination.endpointBaseUrl");
    html! {
        @for (group, (legend, hint)) in GROUPS.iter().enumerate() {
            fieldset {
                legend { (legend) }
                @if !hint.is_empty() { p.hint { (hint) } }
                @for one in all.iter().filter(|one| group_of(one) == group) { (top(form, one, &base_url)) }
            }
        }
        p.m { "A text in quotation marks is read as JSON, for characters that do not show: " code { "\"a\\u200bb\"" } "." }
    }
}

/// A field that is in no row. `base_url` is the endpoint that is saved, without its query.
fn top(form: View<'_>, setting: &Setting, base_url: &str) -> Markup {
    match (setting.path, base_url) {
        ("destination.endpointUrl", url) if !url.is_empty() => {
            let hint = format!(
                "Empty: {} stays, with its query. Another one is asked for its consent.",
                text::visible(url)
            );
            let field = Field::of(setting.path, setting.label, &hint);
            form.field(Field { placeholder: url, ..field })
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

pub(super) fn field(form: &View<'_>, setting: &Setting, name: &str) -> Markup {
    let (label, hint) = (setting.label, setting.hint());
    let object = name.rsplit_once('.').map(|(object, _)| object).unwrap_or_default();
    let also = match (setting.kind, setting.list()) {
        (Kind::Operands, _) => Some(format!("{object}.value")),
        (_, Some(_)) => None,
        _ => Some(object.to_owned()),
    };
    let choices = setting.choices();
    let choices: Vec<_> = choices.iter().map(|(name, told)| (*name, told.as_str())).collect();
    let control = match setting.kind {
        Kind::Flag | Kind::Switch => Control::Check,
        Kind::Choice => Control::Select(&choices),
        Kind::Texts | Kind::Operands | Kind::Pem | Kind::SecretPem => Control::Lines,
        Kind::Rows => {
            return html! {
                h2 { (label) }
                p.hint { (hint) }
                (form.rows(name, setting.example, |form, row, _| html! {
                    @for member in of_rows(name) { (field(form, member, &format!("{row}.{}", member.name()))) }
                }))
            };
        }
        _ => Control::Line,
    };
    form.field(Field {
        placeholder: setting.example,
        mode: matches!(setting.kind, Kind::Number | Kind::Minutes).then_some("numeric"),
        also: also.as_deref(),
        is_secret: setting.is_secret(),
        control,
        ..Field::of(name, label, &hint)
    })
}
