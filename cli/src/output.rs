//! Results go to standard output, as text for people or as JSON for programs; all else goes to
//! standard error.

use gridpost_ops::manage_api::Reply;
use serde::Serialize;
use serde_json::Value;

pub use gridpost_ops::output::*;

/// How a command prints its result.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

/// A list as JSON.
#[derive(Serialize)]
struct List<'a, D> {
    value: &'a [D],
}

impl Output {
    /// JSON when `json`, else text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether the result is wanted as JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    fn format<D: Serialize>(self, document: &D, text: impl FnOnce(&D) -> String) -> String {
        if self.json { pretty(document) } else { text(document) }
    }

    /// Prints `document` as JSON, or what `text` makes of it.
    pub fn print<D: Serialize>(self, document: &D, text: impl FnOnce(&D) -> String) {
        line(&self.format(document, text));
    }

    /// Prints `document` for a command whose exit code says more: a reader that went away does not
    /// change it.
    pub fn tell<D: Serialize>(self, document: &D, text: impl FnOnce(&D) -> String) {
        tell(self.format(document, text));
    }

    /// Prints a list as [`Output::print`] prints a document.
    pub fn print_list<D: Serialize>(self, value: &[D], text: impl FnOnce(&[D]) -> String) {
        self.print(&List { value }, |list| text(list.value));
    }

    /// Prints a list as [`Output::tell`] prints a document.
    pub fn tell_list<D: Serialize>(self, value: &[D], text: impl FnOnce(&[D]) -> String) {
        self.tell(&List { value }, |list| text(list.value));
    }

    /// Prints a resource as JSON, its `ETag` beside its other members, or what `text` makes of it.
    pub fn print_tagged(self, reply: &Reply, text: impl FnOnce(&Value) -> String) {
        self.print(&tagged(reply), text);
    }

    /// Prints it for a command whose exit code says more.
    pub fn tell_tagged(self, reply: &Reply, text: impl FnOnce(&Value) -> String) {
        self.tell(&tagged(reply), text);
    }
}

fn tagged(reply: &Reply) -> Value {
    let mut document = reply.document.clone();
    if let (Some(members), Some(etag)) = (document.as_object_mut(), &reply.etag) {
        members.insert("etag".to_owned(), Value::String(etag.clone()));
    }
    document
}
