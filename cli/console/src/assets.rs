//! The files that pages load: a style sheet, a small script, htmx, and an icon, all in this program.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};

/// Each file's name, content type and content.
///
/// htmx 2.0.11 is the package's `dist/htmx.min.js`, unchanged; its licence (0BSD) lies beside it.
const FILES: [(&str, &str, &str); 4] = [
    ("console.css", "text/css; charset=utf-8", include_str!("assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("assets/console.js")),
    ("htmx.js", "text/javascript; charset=utf-8", include_str!("assets/htmx-2.0.11.min.js")),
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
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn htmx_is_what_was_released() {
        const HASH: &str = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717";
        let found = Sha256::digest(FILES[2].2.as_bytes());
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, HASH);
    }

    #[test]
    fn a_page_loads_less_than_a_hundred_kilobytes() {
        let all: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(all < 70_000, "{all} bytes, which leaves too little for the page itself");
    }
}
