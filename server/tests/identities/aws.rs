//! An endpoint for signed requests, and the Security Token Service that it trusts, on one port.

use std::collections::HashMap;

use gridpost_testkit::{
    server::response,
    sigv4::{Received, Signed, verify},
};
use hyper::{Response, body::Bytes, http::request::Parts};

use crate::server::Server;

pub(crate) const OWN: (&str, &str) = ("AKIDOWN", "own-secret");

pub(crate) const ROLE: (&str, &str) = ("ASIAROLE", "role-secret");

#[derive(Default)]
pub(crate) struct State {
    /// STS's answer, if not a success.
    pub(crate) refuses: Option<(u16, &'static str)>,
    /// STS's actions.
    pub(crate) asked: Vec<String>,
    /// The endpoint's requests: body, and what the signature says or why it is wrong.
    pub(crate) seen: Vec<(String, Result<Signed, String>)>,
    pub(crate) tokens: Vec<String>,
}

pub(crate) type Aws = Server<State>;

impl Aws {
    pub(crate) async fn start() -> Self {
        Self::listen(State::default(), State::answer).await
    }
}

impl State {
    fn answer(&mut self, parts: &Parts, body: &[u8]) -> Response<Bytes> {
        let headers: Vec<_> = parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let received = Received { method: parts.method.as_str(), target, headers: &headers, body };
        match parts.uri.path() {
            "/" => self.sts(received),
            _ => self.take(received),
        }
    }

    fn sts(&mut self, request: Received<'_>) -> Response<Bytes> {
        let form: HashMap<_, _> = url::form_urlencoded::parse(request.body).into_owned().collect();
        let action = form.get("Action").cloned().unwrap_or_default();
        self.asked.push(action.clone());
        if let Some((status, answer)) = self.refuses {
            return response(status, answer);
        }
        if let Err(wrong) = verify(request, OWN.1) {
            return response(403, wrong);
        }
        let ends = "2999-01-01T00:00:00Z";
        let (id, secret) = ROLE;
        let answer = match action.as_str() {
            "AssumeRole" => format!(
                "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{id}</AccessKeyId>\
                 <SecretAccessKey>{secret}</SecretAccessKey><SessionToken>session</SessionToken>\
                 <Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
            ),
            _ => format!(
                "<GetWebIdentityTokenResponse><GetWebIdentityTokenResult><WebIdentityToken>jwt-for-{}\
                 </WebIdentityToken><Expiration>{ends}</Expiration></GetWebIdentityTokenResult>\
                 </GetWebIdentityTokenResponse>",
                form.get("Audience.member.1").map_or("", String::as_str)
            ),
        };
        response(200, answer)
    }

    fn take(&mut self, request: Received<'_>) -> Response<Bytes> {
        let given = request.headers.iter().find(|(name, _)| name == "authorization");
        let given = given.map_or("", |(_, value)| value.as_str());
        let is_good = match given.strip_prefix("Bearer ") {
            Some(token) => {
                self.tokens.push(token.to_owned());
                true
            }
            None => {
                let secret = if given.contains(ROLE.0) { ROLE.1 } else { OWN.1 };
                let verified = verify(request, secret);
                let is_good = verified.is_ok();
                self.seen.push((String::from_utf8_lossy(request.body).into_owned(), verified));
                is_good
            }
        };
        // A handshake's body has what Event Grid's schema takes for consent.
        let code = serde_json::from_slice::<serde_json::Value>(request.body).ok();
        let code = code.and_then(|events| events.pointer("/0/data/validationCode").cloned());
        match (is_good, code) {
            (true, Some(code)) => {
                response(200, serde_json::json!({ "validationResponse": code }).to_string())
            }
            (true, None) => response(200, ""),
            (false, _) => response(403, r#"{"message": "Forbidden"}"#),
        }
    }
}
