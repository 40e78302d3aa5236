//! A document as fields, and back, by the tables of settings. What the fields do not
//! change stays as it was, and what they can't mean stays a text: the API refuses it in its own words.

use gridpost_api::settings::{Document, Kind, SETTINGS, Setting, all, of_rows, setting};
use serde::Serialize;
use serde_json::Value;

use crate::{
    form::{Fields, Posted, meant, placed::Placed, written},
    text,
};
use gridpost_ops::failure::Refusal;

pub(super) const TYPE: &str = "destination.endpointType";
pub(super) const AUTHENTICATION: &str = "destination.authentication.type";
const RULES: &str = "retryPolicy.statusRules";

/// The field that says whose fields are on the page.
pub(super) fn shown(of_type: &str) -> String {
    format!("{}.shown", of_type.rsplit_once('.').map_or("", |(object, _)| object))
}

/// Returns those of the settings with fields, but for those in rows, that objects of the types in the fields
/// have.
fn of_types(
    settings: impl IntoIterator<Item = &'static Setting>,
    fields: &Fields,
) -> impl Iterator<Item = &'static Setting> {
    let own = settings.into_iter().filter(|one| one.list().is_none() && !one.label.is_empty());
    own.filter(|one| one.is_of(&|path| fields.get(path).to_owned()))
}

pub(super) fn fields_of(document: &impl Serialize) -> Fields {
    let document = Document::of(document);
    let mut fields = Fields::default();
    for one in all() {
        let whole = one.list().and_then(setting).unwrap_or(one);
        let has_field = !one.label.is_empty() && one.kind != Kind::Rows;
        if !has_field || !whole.is_of(&|path| document.text(path)) {
            continue;
        }
        match one.list() {
            None => show(one, one.path, &document, &mut fields),
            Some(list) => {
                for row in 0..document.rows(list) {
                    let path = one.path.replace('*', &row.to_string());
                    show(one, &path, &document, &mut fields);
                }
            }
        }
    }
    fields
}

/// Writes a setting into its field. Secrets are only written: no page shows one.
fn show(setting: &Setting, path: &str, document: &Document, fields: &mut Fields) {
    let texts = document.texts(path);
    let is_plain = |text: &String| {
        !text.starts_with('"') && text.lines().all(|line| text::visible(line) == line)
    };
    let given = texts.iter().filter(|text| !text.is_empty());
    let text = match setting.kind {
        Kind::Flag | Kind::Switch => return fields.tick(path, texts == ["true"]),
        _ if setting.is_secret() => return,
        Kind::Numbers => texts.join(", "),
        // An empty text may be an operand.
        Kind::Texts | Kind::Operands => {
            texts.iter().map(|text| written(text)).collect::<Vec<_>>().join("\n")
        }
        Kind::Pem if texts.iter().all(is_plain) => texts.concat(),
        _ => given.map(|text| written(text)).collect::<Vec<_>>().join("\n"),
    };
    fields.set(path, text);
}

/// The texts that a field means; none where it is empty.
fn texts(setting: &Setting, path: &str, fields: &Fields) -> Vec<String> {
    let text = fields.get(path);
    let given = (!text.trim().is_empty()).then_some(text);
    match setting.kind {
        // A row says what it is not, too.
        Kind::Flag | Kind::Switch => match (fields.is_on(path), setting.list()) {
            (false, None) => Vec::new(),
            (is_on, _) => vec![is_on.to_string()],
        },
        Kind::Texts | Kind::Operands => {
            text.lines().filter(|line| !line.trim().is_empty()).map(meant).collect()
        }
        Kind::Numbers => {
            let parts = text.split([',', ' ', '\n']).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        }
        // A secret may begin or end with a space.
        Kind::Secret => given.map(str::to_owned).into_iter().collect(),
        _ => given.map(meant).into_iter().collect(),
    }
}

/// The document that was, with what the fields change of those settings; and what they say that no document
/// can.
pub(super) fn document(
    fields: &Fields,
    was: &impl Serialize,
    settings: &[&'static Setting],
) -> (Document, Placed) {
    let mut before = fields_of(was);
    let mut document = Document::of(was);
    // An object of another type begins anew.
    for of_type in of_types(settings.iter().copied(), fields).filter(|one| one.is_type()) {
        if fields.get(of_type.path) == before.get(of_type.path) {
            continue;
        }
        match fields.get(of_type.path) {
            "" => document.set(of_type.path, &[]),
            name => document.begin(of_type.path, name),
        }
        before.clear(of_type.whole());
    }
    for one in of_types(settings.iter().copied(), fields) {
        if fields.is_same(&before, one.path) {
            continue;
        }
        if one.kind != Kind::Rows {
            document.set(one.path, &texts(one, one.path, fields));
            continue;
        }
        document.set(one.path, &[]);
        for row in 0..fields.rows(one.path) {
            let in_row = |path: &str| path.replace('*', &row.to_string());
            let type_of = |path: &str| fields.get(&in_row(path)).to_owned();
            for member in of_rows(one.path).filter(|member| member.is_of(&type_of)) {
                let path = in_row(member.path);
                document.set(&path, &texts(member, &path, fields));
            }
        }
    }
    (document, refused_rules(fields))
}

fn refused_rules(fields: &Fields) -> Placed {
    let mut problems = Placed::default();
    let field = |row: usize| format!("{RULES}.{row}.which");
    let which = |row: usize| meant(fields.get(&field(row)));
    for row in 0..fields.rows(RULES) {
        if (0..row).any(|before| which(before) == which(row)) {
            let which = which(row);
            let told =
                format!("{which} has a rule already: each status, class or outcome can have one");
            problems.add(&field(row), told);
        }
    }
    problems
}

/// The field of a problem of a rule, which the API names by the rule's name.
pub(super) fn field_of_rule(fields: &Fields, path: &str) -> Option<String> {
    let rest = path.strip_prefix(RULES)?.strip_prefix('.')?;
    let is_named = |row: &usize| {
        let which = meant(fields.get(&format!("{RULES}.{row}.which")));
        rest == which || rest.strip_prefix(&which).is_some_and(|below| below.starts_with('.'))
    };
    let row = (0..fields.rows(RULES)).find(is_named)?;
    let member = if rest.ends_with(".retryAfterSeconds") { "seconds" } else { "which" };
    Some(format!("{RULES}.{row}.{member}"))
}

pub(super) fn placed(error: &anyhow::Error, fields: &Fields) -> Placed {
    let mut problems = Placed::of(error);
    problems.rename(|path| field_of_rule(fields, path));
    let refusal = error.downcast_ref::<Refusal>();
    if let Some(refusal) = refusal.filter(|refusal| refusal.code == "Endpoint validation") {
        let member = if fields.get(TYPE) == "WebHook" { "endpointUrl" } else { "resourceId" };
        problems.add(&format!("destination.{member}"), refusal.message.clone());
    }
    problems
}

/// The members of a row without which it says nothing.
fn telling(list: &str) -> Vec<&'static str> {
    let members = of_rows(list).filter(|one| !matches!(one.kind, Kind::Choice | Kind::Flag));
    members.map(Setting::name).collect()
}

/// Does what a button asks for that changes the form alone: the field that has the focus then. None where
/// the form is to be saved.
pub(super) fn arranged(posted: &mut Posted, was: &impl Serialize) -> Option<String> {
    let before = fields_of(was);
    let fields = &mut posted.fields;
    let focus = match posted.button.split(' ').collect::<Vec<_>>()[..] {
        ["add", list] => {
            let Some(first) = telling(list).first().copied() else { return Some(String::new()) };
            let row = fields.rows(list);
            fields.add(list, first);
            if list == "filter.advancedFilters" {
                fields.set(format!("{list}.{row}.operatorType"), "StringIn");
            }
            format!("{list}.{row}.{first}")
        }
        ["remove", list, row] => {
            fields.keep_rows(list, |_, other| other.to_string() != row);
            list.to_owned()
        }
        // The fields of another type than the one that was chosen say nothing of it.
        ref button if *button != ["choose"] && are_all_shown(fields) => {
            for list in SETTINGS.iter().filter(|one| one.kind == Kind::Rows).map(|one| one.path) {
                let members = telling(list);
                fields.keep_rows(list, |fields, row| !fields.is_blank(list, row, &members));
            }
            // A text that is not in the form at all, not even empty, was not on its page: it stays.
            let is_text =
                |one: &&Setting| !matches!(one.kind, Kind::Flag | Kind::Switch | Kind::Rows);
            for one in all().filter(is_text) {
                fields.fill(&before, one.path);
            }
            return None;
        }
        _ => {
            let is_type_shown = fields.get(&shown(TYPE)) == fields.get(TYPE);
            let (chosen, object) = match is_type_shown {
                true => (AUTHENTICATION, "destination.authentication."),
                false => (TYPE, "destination."),
            };
            if before.get(chosen) == fields.get(chosen) {
                // The other type's fields were not on the page: as they are saved they are not lost.
                let own = of_types(SETTINGS, &before).filter(|one| one.path.starts_with(object));
                own.for_each(|one| fields.fill(&before, one.path));
            }
            if is_type_shown {
                return Some(AUTHENTICATION.to_owned());
            }
            let is_webhook = fields.get(TYPE) == "WebHook";
            format!("destination.{}", if is_webhook { "endpointUrl" } else { "resourceId" })
        }
    };
    Some(focus)
}

fn are_all_shown(fields: &Fields) -> bool {
    [TYPE, AUTHENTICATION].iter().all(|of_type| fields.get(&shown(of_type)) == fields.get(of_type))
}

/// Whether a secret was typed into one of the fields.
pub(super) fn has_secrets(fields: &Fields) -> bool {
    of_types(SETTINGS, fields).any(|one| one.is_secret() && !fields.get(one.path).is_empty())
}

/// Takes the secrets out that were typed into a document. Returns whether it had any.
pub(super) fn without_secrets(document: &Value) -> (Value, bool) {
    let mut settings = Document::of(document);
    let mut had_any = false;
    for secret in SETTINGS.iter().filter(|one| one.is_secret()) {
        if settings.has(secret.path) {
            settings.reset(secret);
            had_any = true;
        }
    }
    (settings.into_document(), had_any)
}
