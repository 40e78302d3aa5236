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
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
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

/// The facts of a request that decide whether it is answered.
#[derive(Clone, Debug, Default)]
struct RequestFacts {
    method: Method,
    path: String,
    host: Option<String>,
    origin: Option<String>,
    fetch_site: Option<String>,
    fetch_mode: Option<String>,
    cookies: Vec<String>,
}

impl RequestFacts {
    fn of(request: &Request) -> Self {
        let text = |name: HeaderName| {
            request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            host: text(HOST),
            origin: text(ORIGIN),
            fetch_site: text(HeaderName::from_static("sec-fetch-site")),
            fetch_mode: text(HeaderName::from_static("sec-fetch-mode")),
            cookies: cookies(request.headers()),
        }
    }

    fn changes(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD)
    }
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';')).map(|one| one.trim().to_owned()).collect()
}

/// 244 random bits as text.
fn secret() -> String {
    format!("{}{}", clock::random_id(), clock::random_id()).replace('-', "")
}

fn is_same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}

impl Guard {
    /// One for that port, and the token that signs in once.
    pub(super) fn new(port: u16, read_only: bool) -> (Self, String) {
        let one_time = secret();
        let names = ["127.0.0.1", "localhost"];
        let mut hosts: Vec<_> = names.iter().map(|name| format!("{name}:{port}")).collect();
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

    fn check(&self, facts: &RequestFacts) -> Result<(), Refused> {
        let host = facts.host.as_deref().filter(|host| self.hosts.iter().any(|own| own == host));
        let host = host.ok_or(Refused::Host)?;
        if !self.is_of_this_console(facts, host) {
            return Err(Refused::OtherSite);
        }
        if facts.path == "/sign-in" || facts.path.starts_with("/assets/") {
            return Ok(());
        }
        if !self.is_signed_in(&facts.cookies) {
            return Err(Refused::NotSignedIn { path: facts.path.clone() });
        }
        let is_question = QUESTIONS.iter().any(|end| facts.path.ends_with(end));
        if self.read_only && facts.changes() && !is_question {
            return Err(Refused::ReadOnly);
        }
        Ok(())
    }

    /// A change must come from a page of this console. Everything else may also come from the address
    /// bar, or by a link from elsewhere; what a page of elsewhere loads is refused, where the browser
    /// says so.
    fn is_of_this_console(&self, facts: &RequestFacts, host: &str) -> bool {
        if facts.changes() {
            let own = format!("http://{host}");
            return facts.origin.as_deref() == Some(own.as_str());
        }
        match facts.fetch_site.as_deref() {
            None | Some("none" | "same-origin") => true,
            Some(_) => facts.fetch_mode.as_deref() == Some("navigate"),
        }
    }

    fn is_signed_in(&self, cookies: &[String]) -> bool {
        let own = cookies.iter().filter_map(|one| one.split_once('='));
        own.into_iter()
            .any(|(name, value)| name == self.cookie_name && is_same(value, &self.session))
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
    let facts = RequestFacts::of(&request);
    let mut answer = match admitted(&app, &facts, request).await {
        Ok(request) if facts.path.starts_with("/assets/") => next.run(request).await,
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
async fn admitted(app: &App, facts: &RequestFacts, request: Request) -> Result<Request, Refused> {
    app.guard.check(facts)?;
    if !facts.changes() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(Refused::NoForm);
    }
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
    if guard.is_signed_in(&cookies(&headers)) {
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

    fn facts(guard: &Guard, method: Method, path: &str) -> RequestFacts {
        RequestFacts {
            method,
            path: path.to_owned(),
            host: Some("127.0.0.1:7072".to_owned()),
            origin: Some("http://127.0.0.1:7072".to_owned()),
            cookies: vec![format!("{}={}", guard.cookie_name, guard.session)],
            ..RequestFacts::default()
        }
    }

    #[test]
    fn what_is_not_the_console_s_own_is_refused() {
        let (guard, _) = Guard::new(7072, false);
        let text = |text: &str| Some(text.to_owned());
        let get = || facts(&guard, Method::GET, "/topics");
        let post = || facts(&guard, Method::POST, "/topics/t/keys");
        let from = |site: &str, mode: &str, facts: RequestFacts| RequestFacts {
            fetch_site: text(site),
            fetch_mode: text(mode),
            ..facts
        };
        assert_eq!(guard.check(&get()), Ok(()));
        assert_eq!(guard.check(&post()), Ok(()));
        let local = RequestFacts { host: text("localhost:7072"), ..get() };
        assert_eq!(guard.check(&local), Ok(()));
        for host in [None, text("evil.example:7072"), text("127.0.0.1"), text("127.0.0.1:7073")] {
            assert_eq!(guard.check(&RequestFacts { host, ..get() }), Err(Refused::Host));
        }
        for origin in [None, text("null"), text("http://localhost:7072"), text("http://127.0.0.1")]
        {
            assert_eq!(guard.check(&RequestFacts { origin, ..post() }), Err(Refused::OtherSite));
        }
        assert_eq!(guard.check(&from("same-site", "no-cors", get())), Err(Refused::OtherSite));
        assert_eq!(guard.check(&from("cross-site", "cors", get())), Err(Refused::OtherSite));
        assert_eq!(guard.check(&from("cross-site", "navigate", get())), Ok(()));
        assert_eq!(guard.check(&from("same-origin", "cors", get())), Ok(()));
        let name = &guard.cookie_name;
        for cookies in [vec![], vec![format!("{name}=x")], vec![format!("x={}", guard.session)]] {
            let refused = guard.check(&RequestFacts { cookies, ..get() });
            assert_eq!(refused, Err(Refused::NotSignedIn { path: "/topics".to_owned() }));
        }
    }

    #[test]
    fn the_port_of_http_goes_without_saying() {
        let (guard, _) = Guard::new(80, false);
        let text = |text: &str| Some(text.to_owned());
        for host in ["127.0.0.1", "localhost", "127.0.0.1:80"] {
            let own = RequestFacts {
                host: text(host),
                origin: Some(format!("http://{host}")),
                ..facts(&guard, Method::POST, "/topics/t/keys")
            };
            assert_eq!(guard.check(&own), Ok(()), "{host}");
            let other = RequestFacts { origin: text("http://evil.example"), ..own };
            assert_eq!(guard.check(&other), Err(Refused::OtherSite), "{host}");
        }
        let other = RequestFacts { host: text("evil.example"), ..facts(&guard, Method::GET, "/") };
        assert_eq!(guard.check(&other), Err(Refused::Host));
    }

    #[test]
    fn read_only_refuses_all_but_questions() {
        let (guard, _) = Guard::new(7072, true);
        for (method, path, want) in [
            (Method::GET, "/topics", Ok(())),
            (Method::POST, "/topics/t/subscriptions/s/filter", Ok(())),
            (Method::POST, "/topics/t/subscriptions/s/retry/preview", Ok(())),
            (Method::POST, "/topics/t/publish/check", Ok(())),
            (Method::POST, "/topics/t/publish", Err(Refused::ReadOnly)),
            (Method::POST, "/topics/t/subscriptions/s/retry", Err(Refused::ReadOnly)),
            (Method::POST, "/topics/t/keys", Err(Refused::ReadOnly)),
            (Method::POST, "/waiting/parked", Err(Refused::ReadOnly)),
            (Method::DELETE, "/topics/t", Err(Refused::ReadOnly)),
        ] {
            assert_eq!(guard.check(&facts(&guard, method, path)), want, "{path}");
        }
    }

    #[test]
    fn a_link_signs_in_once() {
        let (guard, token) = Guard::new(7072, false);
        assert!(!guard.take("") && !guard.take("x"));
        assert!(guard.take(&token) && !guard.take(&token));
        assert!(token.len() == 64 && token != guard.session && guard.session != guard.form_token);
    }
}
