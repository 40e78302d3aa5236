//! Results go to standard output, as text for people or as JSON for programs; all else goes to
//! standard error.

use serde::Serialize;

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
}
