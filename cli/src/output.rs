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

impl Output {
    /// JSON when `json`, else text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether the result is wanted as JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints a resource as JSON, its `ETag` beside its other members, or what `text` makes of it.
    pub fn print_tagged(self, reply: &Reply, text: impl FnOnce(&Value) -> String) {
        self.print(&tagged(reply), text);
    }

    /// The same for a command whose exit code says more: a reader that went away does not change it.
    pub fn tell_tagged(self, reply: &Reply, text: impl FnOnce(&Value) -> String) {
        self.tell(&tagged(reply), text);
    }

    /// Prints `document` as JSON, or what `text` makes of it.
    pub fn print<D: Serialize>(self, document: &D, text: impl FnOnce(&D) -> String) {
        if self.json { line(&pretty(document)) } else { line(&text(document)) }
    }
}

fn tagged(reply: &Reply) -> Value {
    let mut document = reply.document.clone();
    if let (Some(members), Some(etag)) = (document.as_object_mut(), &reply.etag) {
        members.insert("etag".to_owned(), Value::String(etag.clone()));
    }
    document
}

impl Output {
    /// The same for a command whose exit code says more: a reader that went away does not change it.
    pub fn tell<D: Serialize>(self, document: &D, text: impl FnOnce(&D) -> String) {
        tell(if self.json { pretty(document) } else { text(document) });
    }
}
