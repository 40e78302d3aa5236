//! The files that pages load: a style sheet, a script, and an icon, all in this program.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};

/// Each file's name, content type and content.
const FILES: [(&str, &str, &str); 3] = [
    ("console.css", "text/css; charset=utf-8", include_str!("assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("assets/console.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

pub(super) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => {
            ([(CONTENT_TYPE, HeaderValue::from_static(kind))], *text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_little_besides_itself() {
        let all: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(all < 32_000, "{all} bytes, which leaves too little for the page itself");
    }
}
