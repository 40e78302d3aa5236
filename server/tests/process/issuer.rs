//! A token endpoint, and an endpoint for its tokens, on one port.

use std::collections::HashMap;

use gridpost_testkit::server::response;
use hyper::{Response, body::Bytes, http::request::Parts};
use serde_json::{Value, json};

use crate::server::Server;

pub(crate) const CLIENT: (&str, &str) = ("gridpost", "its-secret");

#[derive(Default)]
pub(crate) struct State {
    /// The number of tokens, from `token-1`.
    pub(crate) issued: usize,
    pub(crate) expires_in: u64,
    /// The only accepted token, if not all.
    pub(crate) only: Option<String>,
    /// The answer to token requests, if not a token.
    pub(crate) refuses: Option<(u16, &'static str)>,
    /// The endpoint's requests: event id or `handshake`, token, answer.
    pub(crate) seen: Vec<(String, String, u16)>,
}

pub(crate) type Issuer = Server<State>;

impl Issuer {
    pub(crate) async fn start() -> Self {
        Self::listen(State { expires_in: 3_600, ..State::default() }, State::answer).await
    }

    pub(crate) fn token_url(&self) -> String {
        format!("{}/token", self.url)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}/hook", self.url)
    }
}

impl State {
    fn answer(&mut self, parts: &Parts, body: &[u8]) -> Response<Bytes> {
        if parts.uri.path() == "/token" {
            return self.issue(body);
        }
        let given = parts.headers.get("authorization").and_then(|it| it.to_str().ok());
        let token = given.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
        self.take(token, body)
    }

    fn issue(&mut self, body: &[u8]) -> Response<Bytes> {
        if let Some((status, answer)) = self.refuses {
            return response(status, answer);
        }
        let form: HashMap<_, _> = url::form_urlencoded::parse(body).into_owned().collect();
        let given = |name: &str| form.get(name).map(String::as_str);
        let is_known = (given("client_id"), given("client_secret"))
            == (Some(CLIENT.0), Some(CLIENT.1))
            && given("grant_type") == Some("client_credentials");
        if !is_known {
            return response(401, json!({"error": "invalid_client"}).to_string());
        }
        self.issued += 1;
        let token = format!("token-{}", self.issued);
        let expires_in = self.expires_in;
        let answer =
            json!({"access_token": token, "token_type": "Bearer", "expires_in": expires_in});
        response(200, answer.to_string())
    }

    fn take(&mut self, token: &str, body: &[u8]) -> Response<Bytes> {
        let events: Value = serde_json::from_slice(body).unwrap_or_default();
        let code = &events[0]["data"]["validationCode"];
        let what =
            if code.is_string() { "handshake" } else { events[0]["id"].as_str().unwrap_or("") };
        let is_taken = match &self.only {
            Some(only) => only == token,
            None => token.starts_with("token-"),
        };
        let status = if is_taken { 200 } else { 401 };
        self.seen.push((what.to_owned(), token.to_owned(), status));
        response(status, json!({ "validationResponse": code }).to_string())
    }
}
