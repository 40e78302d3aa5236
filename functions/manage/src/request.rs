//! Converts requests for axum, with what the gate needs besides: the path as API Gateway had it.

use axum::body::Body;
use gridpost_core::gateway::{Authorizer, Request};
use http::{Uri, uri::PathAndQuery};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::Reply;

/// Characters that a path decoded by API Gateway may have, but a URI's may not.
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The characters of queries.
const NOT_IN_QUERIES: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');

/// How a request arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrival {
    /// The path as it came. The URI's differs in the characters that no URI may have: decoding a name
    /// again could lead to another route than API Gateway has authorised.
    pub(crate) path: String,
    /// The route that API Gateway matched.
    pub(crate) route: Option<String>,
    /// The authorizer or the token that admitted it.
    pub(crate) authorizer: Option<Authorizer>,
    /// The ARN of the IAM principal that signed it, or the name of its token.
    pub(crate) caller: Option<String>,
    /// Whether the function was invoked directly, by a principal that may.
    pub(crate) is_invocation: bool,
}

impl Arrival {
    /// Reads a request's arrival. Without one, it did not come through API Gateway.
    pub(crate) fn of<B>(request: &http::Request<B>) -> Self {
        let plain = || Self { path: request.uri().path().to_owned(), ..Self::default() };
        request.extensions().get().cloned().unwrap_or_else(plain)
    }
}

/// Converts a request for axum. Fails with 404 if no URI has such a path.
pub(crate) fn into_http(request: Request) -> Result<http::Request<Body>, Reply> {
    let Request { method, path, query, headers, body, route, authorizer, caller } = request;
    let uri = uri(&path, &query).ok_or_else(|| Reply::no_route(&path))?;
    let mut request = http::Request::new(Body::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let arrival = Arrival { path, route, authorizer, caller, is_invocation: false };
    request.extensions_mut().insert(arrival);
    Ok(request)
}

/// Makes a URI. Encodes what a URI may not have, and decodes nothing.
fn uri(path: &str, query: &str) -> Option<Uri> {
    let mut text = utf8_percent_encode(path, NOT_IN_PATHS).to_string();
    if !query.is_empty() {
        text.push('?');
        text.extend(utf8_percent_encode(query, NOT_IN_QUERIES));
    }
    PathAndQuery::try_from(text).ok().map(Uri::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_is_a_uri_with_the_same_segments() {
        let table = [
            ("/topics", "", "/topics"),
            ("/topics", "$top=1&a=b%20c", "/topics?$top=1&a=b%20c"),
            ("/topics/a b", "", "/topics/a%20b"),
            ("/topics/a%2Fb", "", "/topics/a%2Fb"),
            ("/topics/s-1?/validate", "", "/topics/s-1%3F/validate"),
            ("/topics/s-1#/validate", "a=#", "/topics/s-1%23/validate?a=%23"),
            ("/topics/../x", "", "/topics/../x"),
            ("/topics/\\", "", "/topics/%5C"),
            ("/topics/\u{e9}\n\u{0}", "\u{e9}", "/topics/%C3%A9%0A%00?%C3%A9"),
            ("//topics", "", "//topics"),
            ("/", "", "/"),
        ];
        for (path, query, want) in table {
            let found = uri(path, query).expect(path);
            assert_eq!(found.to_string(), want, "{path}");
            let segments = |path: &str| path.split('/').count();
            assert_eq!(segments(found.path()), segments(path), "{path}");
        }
        for byte in 0..=u8::MAX {
            let text = char::from(byte).to_string();
            assert!(uri(&format!("/{text}"), &text).is_some(), "{byte}");
        }
        assert_eq!(uri(&"/a".repeat(40_000), ""), None, "longer than any URI");
    }
}
