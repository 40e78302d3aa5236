//! Secrets of event subscriptions, which a file leaves to the environment: `${NAME}` in the URL
//! of an endpoint, in the value of a secret header, in a client secret, or in a private key, is what
//! the environment variable holds. A literal `${` is written as `$${`.

use std::collections::BTreeSet;

use gridpost_api::settings::{Kind, SETTINGS, Setting};
use serde_json::{Map, Value};

/// Fills in the secrets of an event subscription's document, in whichever of its forms. The names
/// of variables that are not known are answered, and stay in the document.
pub fn fill(document: &mut Value, known: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut missing = Vec::new();
    fill_all(document, known, &mut missing);
    missing
}

fn fill_all(
    document: &mut Value,
    known: &impl Fn(&str) -> Option<String>,
    missing: &mut Vec<String>,
) {
    match document {
        Value::Object(members) => {
            let is_hidden = |one: &&Setting| one.is_secret() || one.kind == Kind::Url;
            // Each once: what is filled in is not to be filled again.
            let hidden: BTreeSet<_> =
                SETTINGS.iter().filter(is_hidden).map(Setting::name).collect();
            for member in hidden.into_iter().chain(is_secret(members).then_some("value")) {
                fill_member(members, member, known, missing);
            }
            members.values_mut().for_each(|value| fill_all(value, known, missing));
        }
        Value::Array(values) => values.iter_mut().for_each(|one| fill_all(one, known, missing)),
        _ => {}
    }
}

fn is_secret(members: &Map<String, Value>) -> bool {
    members.get("isSecret").is_some_and(|given| match given {
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        given => *given == true,
    })
}

fn fill_member(
    members: &mut Map<String, Value>,
    member: &str,
    known: &impl Fn(&str) -> Option<String>,
    missing: &mut Vec<String>,
) {
    if let Some(Value::String(text)) = members.get_mut(member) {
        *text = filled(text, known, missing);
    }
}

/// Escapes a text, so that filling in variables gives it back unchanged.
pub fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// A text with its variables filled in. What looks like none stays as it is.
fn filled(
    text: &str,
    known: &impl Fn(&str) -> Option<String>,
    missing: &mut Vec<String>,
) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    let mut is_escaped = filled.ends_with('$');
    for part in parts {
        if is_escaped {
            filled.extend(["{", part]);
            is_escaped = part.ends_with('$');
            continue;
        }
        is_escaped = part.ends_with('$');
        match part.split_once('}').filter(|(name, _)| is_variable(name)) {
            Some((name, rest)) => match known(name) {
                Some(value) => filled.extend([value.as_str(), rest]),
                None => {
                    missing.push(name.to_owned());
                    filled.extend(["${", part]);
                }
            },
            None => filled.extend(["${", part]),
        }
    }
    filled
}

/// Whether a text is a name as [`variable`] makes them: capital letters, digits and `_`, a letter
/// first.
fn is_variable(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_uppercase()) && name.bytes().all(fits)
}

/// The variable for a secret of an event subscription: `SECRET_ORDERS_BILLING_X_TOKEN`.
pub fn variable(topic: &str, subscription: &str, secret: &str) -> String {
    let name = format!("SECRET_{topic}_{subscription}_{secret}").to_ascii_uppercase();
    name.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '_' }).collect()
}

/// Returns the placeholder in a file.
pub fn placeholder(variable: &str) -> String {
    format!("${{{variable}}}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        /// Whatever a secret holds, and whatever the environment has, it comes back as it was.
        #[test]
        fn what_is_escaped_is_filled_in_as_it_was(
            text in prop_oneof![".*", r"[$\{}A-Z_a\\]{0,12}", r"(\$|\$\{|\$\$\{HOME\}|\$\{HOME\}|\}|x){0,6}"],
            known: bool,
        ) {
            let mut missing = Vec::new();
            let filled = filled(&escaped(&text), &|_| known.then(|| "root".into()), &mut missing);
            prop_assert_eq!((filled, missing), (text, Vec::<String>::new()));
        }
    }

    #[test]
    fn only_secrets_are_filled_in() {
        let known = |name: &str| (name == "KEY_1").then(|| "k".to_owned());
        let header = |value: &str, is_secret: bool| {
            json!({"name": "${KEY_1}", "type": "Static",
            "properties": {"value": value, "isSecret": is_secret}})
        };
        let mut document = json!({"properties": {
            "destination": {"properties": {
                "endpointUrl": "https://e/${KEY_1}?code=${KEY_1}&d=${key}${}$",
                "deliveryAttributeMappings": [
                    header("Bearer ${KEY_1}", true),
                    header("${KEY_1}", false),
                    header("${OTHER}", true),
                ],
            }},
            "labels": ["${KEY_1}"],
        }});
        let want = json!({"properties": {
            "destination": {"properties": {
                "endpointUrl": "https://e/k?code=k&d=${key}${}$",
                "deliveryAttributeMappings": [
                    header("Bearer k", true),
                    header("${KEY_1}", false),
                    header("${OTHER}", true),
                ],
            }},
            "labels": ["${KEY_1}"],
        }});
        assert_eq!(fill(&mut document, &known), ["OTHER"]);
        assert_eq!(document, want);
    }

    #[test]
    fn a_variable_is_found_in_a_file() {
        let name = variable("1-orders", "billing", "X-Token!");
        assert_eq!(name, "SECRET_1_ORDERS_BILLING_X_TOKEN_");
        let text = placeholder(&name);
        let filled = filled(&text, &|asked: &str| (asked == name).then(|| "s".into()), &mut vec![]);
        assert_eq!(filled, "s");
    }
}
