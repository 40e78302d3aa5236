//! Problems of a document, each at the field that it is about.

use std::sync::OnceLock;

use gridpost_ops::failure::{Detail, Refusal};

/// The problems. One is shown once: at the first field that asks for it, or with those that no field has.
#[derive(Debug, Default)]
pub(crate) struct Placed(Vec<Problem>);

#[derive(Debug)]
struct Problem {
    field: String,
    message: String,
    /// The id of the field that shows it.
    shown: OnceLock<String>,
}

impl Placed {
    /// Places the problems of a refusal; another error has none.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let refusal = error.downcast_ref::<Refusal>();
        let mut placed = Self::default();
        for Detail { message, target, .. } in refusal.iter().flat_map(|refusal| &refusal.details) {
            placed.add(&field_of(target.as_deref().unwrap_or_default()), message.as_str());
        }
        placed
    }

    pub(crate) fn add(&mut self, field: &str, message: impl Into<String>) {
        let (field, message) = (field.to_owned(), message.into());
        self.0.push(Problem { field, message, shown: OnceLock::new() });
    }

    pub(crate) fn rename(&mut self, name: impl Fn(&str) -> Option<String>) {
        for problem in &mut self.0 {
            if let Some(renamed) = name(&problem.field) {
                problem.field = renamed;
            }
        }
    }

    /// Returns the problems of a field, and of what is within it. `id` is the field's.
    pub(crate) fn at(&self, field: &str, id: &str) -> Vec<&str> {
        self.take(id, |name| super::is_of(name, field))
    }

    pub(super) fn exactly_at(&self, field: &str, id: &str) -> Vec<&str> {
        self.take(id, |name| name == field)
    }

    fn take(&self, id: &str, is_meant: impl Fn(&str) -> bool) -> Vec<&str> {
        let meant = self.0.iter().filter(|one| is_meant(&one.field));
        let free = meant.filter(|one| one.shown.set(id.to_owned()).is_ok());
        free.map(|one| one.message.as_str()).collect()
    }

    /// All of them, each with the id of the field that shows it.
    pub(crate) fn all(&self) -> Vec<(&str, Option<&str>)> {
        self.0
            .iter()
            .map(|one| (one.message.as_str(), one.shown.get().map(String::as_str)))
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The field of a path such as `properties.filter.advancedFilters[2].values`: forms leave out the objects
/// that are called `properties`.
fn field_of(target: &str) -> String {
    let target = target.trim_start_matches("$.");
    let plain = target.replace(['[', ']', '\'', '"'], ".");
    let parts = plain.split('.').filter(|part| !matches!(*part, "properties" | "$" | ""));
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_at_one_field() {
        for (target, field) in [
            ("properties.filter.advancedFilters[2].values[1]", "filter.advancedFilters.2.values.1"),
            ("properties.destination.properties.endpointUrl", "destination.endpointUrl"),
            ("properties.retryPolicy.statusRules[\"404\"]", "retryPolicy.statusRules.404"),
            ("properties.retryPolicy.statusRules['5xx'].a", "retryPolicy.statusRules.5xx.a"),
            ("$.properties.labels", "labels"),
            ("$", ""),
        ] {
            assert_eq!(field_of(target), field);
        }
        let details = serde_json::json!({"details": [
            {"target": "properties.a[0].k", "message": "one"},
            {"target": "properties.a", "message": "two"},
            {"target": "x", "message": "three"}]});
        let placed = Placed::of(&Refusal::from_answer(400, &details.to_string()).into());
        assert_eq!(placed.at("a.0.k", "f-1"), ["one"]);
        assert_eq!(placed.exactly_at("a", "f-2"), ["two"]);
        assert!(placed.at("a", "f-3").is_empty(), "each is shown once");
        let all = placed.all();
        assert_eq!((all[0], all[2]), (("one", Some("f-1")), ("three", None)));
    }
}
