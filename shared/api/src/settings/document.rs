//! Documents of event subscriptions and topics, written and read by settings.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Kind, SETTINGS, Setting, all, names, pointer, setting};
use crate::{
    document::{literal, parse, text_of},
    subscription::filter::advanced,
};

/// Where rules are in a document: by their names. Here they are rows.
const RULES: &str = "/retryPolicy/statusRules";

/// Objects of topics that are sent whole or not at all. Others stay, empty: a patch then names what was taken out of
/// them alone.
const WHOLE: [&str; 2] = ["idempotency", "inputSchemaMapping"];

/// How a client proves itself.
const PROOF: &str = "destination.authentication.clientAuthentication";

/// The settings of an event subscription or a topic, or changes of them: the `properties` of its document. Each has
/// the path of its row in the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document(Value);

impl Kind {
    /// Returns the value that texts, at least one, mean.
    fn value(self, texts: &[String]) -> Value {
        let text = texts.first().map(String::as_str).unwrap_or_default();
        match self {
            Self::Texts => texts.into(),
            Self::Number | Self::Minutes | Self::Flag => literal(text),
            Self::Numbers => texts.iter().map(|text| literal(text)).collect(),
            Self::Switch => json!({"scheme": "StandardWebhooks"}),
            Self::Pem | Self::SecretPem => format!("{}\n", text.trim_end()).into(),
            Self::Rows => texts.iter().filter_map(|text| parse(text.as_bytes()).ok()).collect(),
            _ => text.into(),
        }
    }
}

impl Document {
    /// Takes the settings out of a document.
    pub fn of(document: &impl Serialize) -> Self {
        let mut document = serde_json::to_value(document).unwrap_or_default();
        let mut properties = document.get_mut("properties").map(Value::take).unwrap_or_default();
        if let Some(rules) = properties.pointer_mut(RULES) {
            *rules = rows_of(rules);
        }
        Self(properties)
    }

    /// Returns its document.
    pub fn into_document(self) -> Value {
        json!({"properties": self.into_properties()})
    }

    /// Returns the retry policy of its document, empty where it has none.
    pub fn into_retry_policy(self) -> Value {
        match self.into_properties()["retryPolicy"].take() {
            Value::Null => json!({}),
            policy => policy,
        }
    }

    /// Returns the `properties` of its document.
    pub fn into_properties(mut self) -> Value {
        if let Some(rules) = self.0.pointer_mut(RULES) {
            *rules = rules_of(rules);
        }
        match self.0 {
            Value::Null => json!({}),
            properties => properties,
        }
    }

    fn get(&self, path: &str) -> &Value {
        self.0.pointer(&pointer(path)).unwrap_or(&Value::Null)
    }

    /// Whether a setting, or an object of settings, is there.
    pub fn has(&self, path: &str) -> bool {
        !self.get(path).is_null()
    }

    /// Returns a setting's texts; none where it is not set.
    pub fn texts(&self, path: &str) -> Vec<String> {
        let value = self.get(path);
        match (setting(path).map(|setting| setting.kind), value) {
            (Some(Kind::Operands), _) => {
                let one = path.rsplit_once('.').map_or(path, |(row, _)| row);
                let [values, value] = ["values", "value"].map(|name| format!("{one}.{name}"));
                advanced::lines(self.get(&value), self.get(&values))
            }
            (Some(Kind::Switch), Value::Object(_)) => vec![true.to_string()],
            (_, Value::Null) => Vec::new(),
            (_, Value::Array(all)) => all.iter().map(text_of).collect(),
            (_, value) => vec![text_of(value)],
        }
    }

    /// Returns a setting's only text; empty where it is not set.
    pub fn text(&self, path: &str) -> String {
        self.texts(path).into_iter().next().unwrap_or_default()
    }

    /// Takes a setting out, and returns its texts.
    pub fn take(&mut self, path: &str) -> Vec<String> {
        let texts = self.texts(path);
        self.remove(path);
        texts
    }

    /// Returns the secret that is stored with its authentication, which no read shows: none where the
    /// secret is kept elsewhere, or a token of AWS proves the client.
    pub fn stored_secret(&self) -> Option<&'static Setting> {
        let own = || SETTINGS.iter().filter(|one| one.is_of(&|path| self.text(path)));
        let is_elsewhere = |one: &Setting| {
            one.name().ends_with("Reference") || one.path.contains(".clientAssertion.")
        };
        if own().any(|one| is_elsewhere(one) && self.has(one.path)) {
            return None;
        }
        let is_signed = self.text(PROOF) == "PrivateKeyJwt";
        let mut secrets = own().filter(|one| one.is_secret());
        if is_signed { secrets.next_back() } else { secrets.next() }
    }

    /// Counts the rows of a list.
    pub fn rows(&self, list: &str) -> usize {
        self.get(list).as_array().map_or(0, Vec::len)
    }

    /// Sets a setting; without texts it is taken out. A type takes its object along, and so does what is
    /// set last of an object that is sent whole.
    pub fn set(&mut self, path: &str, texts: &[String]) {
        let Some(setting) = setting(path) else { return };
        let object = path.rsplit_once('.').map(|(object, _)| object);
        if texts.is_empty() {
            let whole = object.filter(|_| setting.is_type());
            self.remove(whole.unwrap_or(path));
            let of_one_type = setting.type_path().filter(|_| setting.has_one_type());
            let of_one_type = of_one_type.as_deref().and_then(|path| path.rsplit_once('.'));
            let mut above = whole.unwrap_or(path);
            while let Some((object, _)) = above.rsplit_once('.') {
                let is_hollow = of_one_type.is_some_and(|(of_one_type, _)| of_one_type == object);
                let is_bare = WHOLE.iter().any(|whole| object.starts_with(whole))
                    && self.get(object).as_object().is_some_and(Map::is_empty);
                if is_bare || is_hollow && !self.is_set(object) {
                    self.remove(object);
                }
                above = object;
            }
            return;
        }
        if setting.has_one_type()
            && let Some(of_type) = setting.type_path().filter(|of_type| !self.has(of_type))
        {
            self.begin(&of_type, names(&of_type)[0]);
        }
        if setting.kind == Kind::Operands {
            let row = object.unwrap_or_default();
            let operator = self.text(&format!("{row}.operatorType"));
            if let Some((name, value)) = advanced::operands(&operator, texts) {
                self.put(&pointer(&format!("{row}.{name}")), value);
            }
            return;
        }
        self.put(&pointer(path), setting.kind.value(texts));
    }

    /// Whether more than choices is set of an object.
    fn is_set(&self, object: &str) -> bool {
        let own = all().filter(|one| one.kind != Kind::Choice);
        let mut own =
            own.filter(|one| one.path.strip_prefix(object).is_some_and(|it| it.starts_with('.')));
        own.any(|one| !self.text(one.path).is_empty())
    }

    /// Makes an object anew, of that type: `of_type` is the path of its type.
    pub fn begin(&mut self, of_type: &str, name: &str) {
        let Some((object, of_type)) = of_type.rsplit_once('.') else { return };
        self.put(&pointer(object), json!({of_type: name, "properties": {}}));
    }

    /// Adds a row to a list.
    pub fn add(&mut self, list: &str, members: &[(&str, &str)]) {
        let row = self.rows(list);
        for (member, text) in members {
            self.set(&format!("{list}.{row}.{member}"), &[(*text).to_owned()]);
        }
    }

    /// Copies a setting, or an object of settings, from another document.
    pub fn copy(&mut self, path: &str, other: &Self) {
        let value = other.get(path).clone();
        if !value.is_null() {
            self.put(&pointer(path), value);
        }
    }

    /// Copies those rows of a list that are wanted.
    pub fn copy_rows(&mut self, list: &str, other: &Self, is_wanted: impl Fn(usize) -> bool) {
        let rows = other.get(list).as_array().into_iter().flatten().enumerate();
        let rows = rows.filter(|(row, _)| is_wanted(*row)).map(|(_, row)| row.clone());
        self.put(&pointer(list), rows.collect());
    }

    /// Restores a setting's default by a patch.
    pub fn reset(&mut self, setting: &Setting) {
        self.put(&pointer(setting.whole()), Value::Null);
    }

    /// Puts a value in its place; what is missing above it is made.
    fn put(&mut self, pointer: &str, value: Value) {
        let mut place = &mut self.0;
        for part in pointer.split('/').skip(1) {
            place = match part.parse::<usize>() {
                Ok(row) => {
                    if !place.is_array() {
                        *place = json!([]);
                    }
                    if let Some(rows) = place.as_array_mut() {
                        rows.resize(rows.len().max(row + 1), Value::Null);
                    }
                    &mut place[row]
                }
                Err(_) => {
                    if !place.is_object() {
                        *place = json!({});
                    }
                    &mut place[part]
                }
            };
        }
        *place = value;
    }

    fn remove(&mut self, path: &str) {
        let pointer = pointer(path);
        let Some((above, name)) = pointer.rsplit_once('/') else { return };
        if let Some(members) = self.0.pointer_mut(above).and_then(Value::as_object_mut) {
            members.remove(name);
        }
    }
}

/// Turns rules by their names into rows.
fn rows_of(rules: &Value) -> Value {
    let row = |(which, rule): (&String, &Value)| match rule {
        Value::Object(_) => {
            json!({"which": which, "action": "retry", "seconds": rule["retryAfterSeconds"]})
        }
        end => json!({"which": which, "action": end}),
    };
    rules.as_object().into_iter().flatten().map(row).collect()
}

fn rules_of(rows: &Value) -> Value {
    let rule = |row: &Value| match &row["action"] {
        Value::String(action) if action == "retry" => {
            let seconds = row.get("seconds").cloned();
            json!({"retryAfterSeconds": seconds.unwrap_or_else(|| "".into())})
        }
        end => end.clone(),
    };
    let rows = rows.as_array().into_iter().flatten();
    Value::Object(rows.map(|row| (text_of(&row["which"]), rule(row))).collect())
}
