//! Decides which requests are answered.
//!
//! The console acts with its user's AWS identity, so a web page of anyone else must not reach it. It
//! listens on loopback alone; `Host` must be its own, so a name that is made to lead here (DNS rebinding)
//! is refused; a browser gets in with a cookie that it got for a link that works once; and a change must
//! come from a page of its own, by `Origin` and by a token that only these pages have.

use std::sync::{Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::App;
use super::failure::Refused;
use super::page::NOW;
use gridpost_ops::clock;

/// The longest form: an event of 1 MiB, every byte of which is percent-encoded, and some more.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Loads nothing from elsewhere and nothing inline, and forbids pages of other origins to frame
/// these.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Sent with every answer. A `Referrer-Policy` of `no-referrer` would make browsers send `Origin: null`
/// with the console's own forms.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (CACHE_CONTROL, "no-store"),
];

/// The end of a path whose `POST` asks a question and changes nothing.
const QUESTIONS: [&str; 4] = ["/filter", "/events", "/retry/preview", "/publish/check"];

#[derive(Debug)]
pub(super) struct Guard {
    hosts: Vec<String>,
    cookie_name: String,
    one_time: Mutex<Option<String>>,
    session: String,
    form_token: String,
    read_only: bool,
}

fn changes(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.headers().get(name)?.to_str().ok()
}

/// 244 random bits as text.
fn secret() -> String {
    format!("{}{}", clock::random_id(), clock::random_id()).replace('-', "")
}

fn is_same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}

/// A change must come from a page of this console. Everything else may also come from the address bar, or by a
/// link from elsewhere; what a page of elsewhere loads is refused, where the browser says so.
fn is_of_this_console(request: &Request, host: &str) -> bool {
    if changes(request) {
        return header(request, "origin") == Some(&format!("http://{host}"));
    }
    match header(request, "sec-fetch-site") {
        None | Some("none" | "same-origin") => true,
        Some(_) => header(request, "sec-fetch-mode") == Some("navigate"),
    }
}

impl Guard {
    /// One for that port, and the token that signs in once.
    pub(super) fn new(port: u16, read_only: bool) -> (Self, String) {
        let one_time = secret();
        let names = ["127.0.0.1", "localhost"];
        let mut hosts = names.map(|name| format!("{name}:{port}")).to_vec();
        // Browsers leave out the port that http has anyway.
        if port == 80 {
            hosts.extend(names.map(str::to_owned));
        }
        let guard = Self {
            hosts,
            // Cookies know no ports: two consoles on one machine need two names.
            cookie_name: format!("gridpost-console-{port}"),
            one_time: Mutex::new(Some(one_time.clone())),
            session: secret(),
            form_token: secret(),
            read_only,
        };
        (guard, one_time)
    }

    pub(super) fn form_token(&self) -> &str {
        &self.form_token
    }

    fn check(&self, request: &Request) -> Result<(), Refused> {
        let host = header(request, "host").filter(|host| self.hosts.iter().any(|own| own == host));
        if !is_of_this_console(request, host.ok_or(Refused::Host)?) {
            return Err(Refused::OtherSite);
        }
        let path = request.uri().path();
        if path == "/sign-in" || path.starts_with("/assets/") {
            return Ok(());
        }
        if !self.is_signed_in(request.headers()) {
            return Err(Refused::NotSignedIn { path: path.to_owned() });
        }
        let is_question = QUESTIONS.iter().any(|end| path.ends_with(end));
        if self.read_only && changes(request) && !is_question {
            return Err(Refused::ReadOnly);
        }
        Ok(())
    }

    fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|one| one.split_once('='));
        pairs.any(|(name, value)| {
            name.trim() == self.cookie_name && is_same(value.trim(), &self.session)
        })
    }

    /// Takes the token that works once.
    fn take(&self, token: &str) -> bool {
        let mut one_time = self.one_time.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = one_time.as_deref().is_some_and(|wanted| is_same(token, wanted));
        if fits {
            *one_time = None;
        }
        fits
    }
}

/// Refuses what the guard refuses, and adds the headers that every answer has.
pub(super) async fn protect(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut answer = match admitted(&app, request).await {
        Ok(request) if request.uri().path().starts_with("/assets/") => next.run(request).await,
        Ok(request) => match app.settings.target.now().await {
            Ok(now) => NOW.scope(now, next.run(request)).await,
            // What the page reads fails in the same way, and says so.
            Err(_) => next.run(request).await,
        },
        Err(refused) => refused.into_response(),
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The request, if it may pass. A form is read for its token and put back.
async fn admitted(app: &App, request: Request) -> Result<Request, Refused> {
    app.guard.check(&request)?;
    if !changes(&request) {
        return Ok(request);
    }
    let kind = header(&request, "content-type");
    if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(Refused::NoForm);
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, FORM_BYTES_MAX).await.map_err(|_| Refused::TooLarge)?;
    let mut pairs = url::form_urlencoded::parse(&body);
    let token = pairs.find(|(name, _)| name == "csrf").map(|(_, token)| token);
    match token.is_some_and(|token| is_same(&token, app.guard.form_token())) {
        true => Ok(Request::from_parts(parts, Body::from(body))),
        false => Err(Refused::FormToken),
    }
}

#[derive(Deserialize)]
pub(super) struct SignIn {
    #[serde(default)]
    token: String,
}

/// Gives the cookie for the token, once.
pub(super) async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    Query(SignIn { token }): Query<SignIn>,
) -> Response {
    let guard = &app.guard;
    if guard.is_signed_in(&headers) {
        return (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response();
    }
    if !guard.take(&token) {
        return Refused::UsedLink.into_response();
    }
    let cookie =
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", guard.cookie_name, guard.session);
    let headers = [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a signed-in browser sends from a page of its own; a header may be another one, or empty: left out.
    fn request(guard: &Guard, what: &str, other: (&str, &str)) -> Request {
        let (method, path) = what.split_once(' ').expect("a method and a path");
        let cookie = format!("a=b; {}={}", guard.cookie_name, guard.session);
        let origin = format!("http://{}", guard.hosts[0]);
        let own = [("host", &*guard.hosts[0]), ("origin", &origin), ("cookie", &cookie)];
        let mut builder = Request::builder().method(method).uri(path);
        let kept = own.into_iter().filter(|(name, _)| *name != other.0);
        for (name, value) in kept.chain([other]).filter(|(_, value)| !value.is_empty()) {
            builder = builder.header(name, value);
        }
        builder.body(Body::empty()).expect("a request")
    }

    #[test]
    fn what_is_not_the_console_s_own_is_refused() {
        let (guard, token) = Guard::new(7072, false);
        let (get, post) = ("GET /topics", "POST /topics/t/keys");
        let out = || Err(Refused::NotSignedIn { path: "/topics".to_owned() });
        let named = [("x", &guard.session), (&guard.cookie_name, &"x".to_owned())];
        let [other_name, other_value] = named.map(|(name, value)| format!("{name}={value}"));
        for (what, other, want) in [
            (get, ("", ""), Ok(())),
            (post, ("", ""), Ok(())),
            (get, ("host", "localhost:7072"), Ok(())),
            (get, ("host", ""), Err(Refused::Host)),
            (get, ("host", "evil.example:7072"), Err(Refused::Host)),
            (get, ("host", "127.0.0.1"), Err(Refused::Host)),
            (get, ("host", "127.0.0.1:7073"), Err(Refused::Host)),
            ("GET /assets/console.js", ("host", "evil.example"), Err(Refused::Host)),
            (post, ("origin", ""), Err(Refused::OtherSite)),
            (post, ("origin", "null"), Err(Refused::OtherSite)),
            (post, ("origin", "http://localhost:7072"), Err(Refused::OtherSite)),
            (post, ("origin", "http://127.0.0.1"), Err(Refused::OtherSite)),
            (get, ("sec-fetch-site", "same-site"), Err(Refused::OtherSite)),
            (get, ("sec-fetch-site", "cross-site"), Err(Refused::OtherSite)),
            (get, ("sec-fetch-site", "same-origin"), Ok(())),
            (get, ("cookie", ""), out()),
            (get, ("cookie", &other_name), out()),
            (get, ("cookie", &other_value), out()),
            ("GET /sign-in", ("cookie", ""), Ok(())),
        ] {
            assert_eq!(guard.check(&request(&guard, what, other)), want, "{what} {other:?}");
        }
        assert!(token.len() == 64 && token != guard.session && guard.session != guard.form_token);
    }

    #[test]
    fn the_port_of_http_goes_without_saying() {
        let (guard, _) = Guard::new(80, false);
        assert_eq!(guard.hosts, ["127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"]);
    }
}
