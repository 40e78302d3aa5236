//! Bugs in the authentication of endpoints.

use super::Mutation;

const REQUESTS: &str = "shared/ports/src/authentication.rs";
const TOKENS: &str = "shared/ports/src/authentication/tokens.rs";
const KEPT: &str = "shared/ports/src/authentication/kept.rs";
const ANSWER: &str = "shared/core/src/subscription/authentication/token.rs";
const IDENTITY: &str = "shared/webhook/src/http/identity.rs";
const CERTIFICATE: &str =
    "shared/core/src/subscription/resource/destination/authentication/certificate.rs";
const DOCUMENT: &str = "shared/core/src/subscription/resource/destination/authentication.rs";

/// Those in requests and the tokens in memory.
pub(super) const PORTS: &[Mutation] = &[
    Mutation {
        name: "one endpoint's refusal takes a token from all",
        file: "shared/ports/src/authentication/kept.rs",
        old: "*last = Last::Old(kept, Timestamp::MIN);",
        new: "*last = Last::Nothing;",
    },
    Mutation {
        name: "the refused token is another one",
        file: "shared/ports/src/authentication/tokens.rs",
        old: "if token == *refused { Err(NoToken::NoOther) } else { Ok(token) }",
        new: "Ok(token)",
    },
    Mutation {
        name: "a token that ended on the way was refused",
        file: "shared/ports/src/authentication/tokens.rs",
        old: "now.since(token.fetched_at) <= SUSPECT_AFTER && token.is_fresh(now)",
        new: "now.since(token.fetched_at) <= SUSPECT_AFTER",
    },
    Mutation {
        name: "one token too many forgets all",
        file: "shared/ports/src/authentication/kept.rs",
        old: "let mut left = KEPT_MAX / 16;",
        new: "let mut left = KEPT_MAX;",
    },
    Mutation {
        name: "a 401 counts at once",
        file: REQUESTS,
        old: "if !is_refused(&attempted) || self.tokens.is_new(&token) {",
        new: "if !is_refused(&attempted) || is_refused(&attempted) {",
    },
    Mutation {
        name: "an endpoint that refuses everything has a token asked for at each request",
        file: REQUESTS,
        old: "if !is_refused(&attempted) || self.tokens.is_new(&token) {",
        new: "if !is_refused(&attempted) {",
    },
    Mutation {
        name: "a refused token is used again",
        file: TOKENS,
        old: "        self.forget(by, refused);\n        let token",
        new: "        let token",
    },
    Mutation {
        name: "everyone who waits asks for a token",
        file: KEPT,
        old: "        if let Some(answer) = place.answer(asked_at, self.clock.now()) {\n            return answer;\n        }\n        let fetched",
        new: "        let fetched",
    },
    Mutation {
        name: "a token endpoint that is down is asked for each event",
        file: KEPT,
        old: "let is_new = *at >= asked_at || now.since(*at) < FAILURE_KEPT_FOR;",
        new: "let is_new = *at >= asked_at && now.since(*at) < FAILURE_KEPT_FOR;",
    },
    Mutation {
        name: "a token that is still good is thrown away where there is no other",
        file: KEPT,
        old: "            Last::Value(value) | Last::Old(value, _) if value.is_valid(now) => Some(value.clone()),",
        new: "            Last::Value(value) | Last::Old(value, _) if !value.is_valid(now) => Some(value.clone()),",
    },
    Mutation {
        name: "what fails at the token endpoint is the endpoint's own failure",
        file: REQUESTS,
        old: "Answer::without_status(Outcome::EndpointAuthenticationFailed)",
        new: "Answer::of_status(401, None)",
    },
    Mutation {
        name: "a secret goes to hosts that are not named for it",
        file: "shared/core/src/endpoint/secrets.rs",
        old: "is_tls && may.eq_ignore_ascii_case(host)",
        new: "is_tls && !may.is_empty()",
    },
    Mutation {
        name: "every assertion has the same id",
        file: TOKENS,
        old: "id: dice.id(),",
        new: "id: uuid::Uuid::from_u128(u128::from(dice.roll() > 2.0)),",
    },
    Mutation {
        name: "an assertion may arrive twice",
        file: TOKENS,
        old: "is_sent_once: matches!(proof, Proof::Assertion(_)),",
        new: "is_sent_once: false,",
    },
    Mutation {
        name: "a handshake that waits for its token blames the endpoint",
        file: REQUESTS,
        old: "        let token = self.token(by, whole.min(AUTHENTICATED_WITHIN)).await;\n        let token = token",
        new: "        let token = timeout(whole, self.tokens.get(by)).await;\n        let token = token.map_err(|_| HandshakeError::TimedOut(whole))?;\n        let token = token",
    },
    Mutation {
        name: "a private key is sent as a client secret",
        file: TOKENS,
        old: r#"secret.expose().contains(" PRIVATE KEY-----")"#,
        new: "secret.expose().is_empty()",
    },
];

/// Those in connections that show a client certificate.
pub(super) const WEBHOOK: &[Mutation] = &[
    Mutation {
        name: "connections are shared by identities",
        file: IDENTITY,
        old: "let place = match kept.get(by) {",
        new: "let place = match kept.values().next() {",
    },
    Mutation {
        name: "what may be seen once alone goes on a kept connection",
        file: "shared/webhook/src/http.rs",
        old: "            let response = match is_sent_once {",
        new: "            let response = match is_sent_once && wait.is_zero() {",
    },
    Mutation {
        name: "a probe that is at TLS blames the connection",
        file: "shared/webhook/src/connect.rs",
        old: "        Way::reaches(Stage::Tls);\n",
        new: "",
    },
    Mutation {
        name: "what an endpoint repeats of a token is kept",
        file: "shared/webhook/src/http/hidden.rs",
        old: "                kept.extend_from_slice(INSTEAD);\n                rest = &rest[value.len()..];",
        new: "                kept.extend_from_slice(value);\n                rest = &rest[value.len()..];",
    },
    Mutation {
        name: "a failed handshake refuses a certificate that was not asked for",
        file: IDENTITY,
        old: "DecryptError | HandshakeFailure => was_asked,",
        new: "DecryptError | HandshakeFailure => was_asked || !was_asked,",
    },
    Mutation {
        name: "a certificate that has expired is shown",
        file: IDENTITY,
        old: r#"Err(webpki::Error::CertExpired { .. }) => unusable("has expired"),"#,
        new: "Err(webpki::Error::CertExpired { .. }) => Ok(()),",
    },
    Mutation {
        name: "public authorities are trusted beside private ones",
        file: IDENTITY,
        old: "Some(trusted) => trusting_only(trusted)?,",
        new: "Some(trusted) => trusting_only(trusted).map(|_| self.trusting.clone())?,",
    },
    Mutation {
        name: "a refused certificate's secret is not read again",
        file: IDENTITY,
        old: "                kept.read_again_at = now;\n",
        new: "                let _ = &kept;\n",
    },
    Mutation {
        name: "a refused certificate's secret is read for each event",
        file: IDENTITY,
        old: "                && now.since(kept.tried_at) >= REFUSED_AFTER\n",
        new: "",
    },
    Mutation {
        name: "everyone who waits tries to read the secret of an expired certificate",
        file: IDENTITY,
        old: "now.since(self.tried_at) < REFUSED_AFTER;",
        new: "now.since(self.read_at) < REFUSED_AFTER;",
    },
    Mutation {
        name: "everyone who waits reads the secret",
        file: IDENTITY,
        old: "                match place.answer(asked_at, self.clock.now()) {\n                    Some(answer) => answer,\n                    None => self.renew(by, name, &place).await,\n                }",
        new: "                self.renew(by, name, &place).await",
    },
    Mutation {
        name: "a secret that was taken away is used on",
        file: IDENTITY,
        old: "if now.since(before.read_at) < USED_FOR =>",
        new: "if now.since(before.read_at) < USED_FOR * 2 =>",
    },
    Mutation {
        name: "a client certificate goes to hosts that its secret is not named for",
        file: "shared/core/src/subscription/authentication/certificate.rs",
        old: "secrets.check(name, endpoint_url).map(|()| Some(&**name))",
        new: "secrets.check(name, endpoint_url).map(|()| Some(&**name)).or(Ok(Some(&**name)))",
    },
];

/// Those in documents and in what token endpoints answer.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "a client secret follows the token URL",
        file: DOCUMENT,
        old: "            if stored.grant.token_url() == grant.token_url()\n",
        new: "            if !stored.grant.token_url().is_empty() && !grant.token_url().is_empty()\n",
    },
    Mutation {
        name: "a client secret follows the endpoint",
        file: DOCUMENT,
        old: "context.existing.filter(|_| has_stayed)",
        new: "context.existing.filter(|_| has_stayed || !has_stayed)",
    },
    Mutation {
        name: "a token may have line breaks",
        file: ANSWER,
        old: "!value.bytes().all(|byte| byte.is_ascii_graphic())",
        new: "!value.is_ascii()",
    },
    Mutation {
        name: "a token is used to its last moment",
        file: ANSWER,
        old: "life.saturating_sub(MARGIN_MAX.min(life / 4))",
        new: "life.saturating_sub(MARGIN_MAX.min(life / 400))",
    },
    Mutation {
        name: "reads show client secrets",
        file: DOCUMENT,
        old: "    shown[inline] = Value::Null;\n",
        new: "    shown[inline] = match secret {\n        ClientSecret::Inline { value } => json!(value.expose()),\n        _ => Value::Null,\n    };\n",
    },
    Mutation {
        name: "reads show private keys",
        file: CERTIFICATE,
        old: "Material::Inline { certificate, .. } => json!({CERTIFICATE: certificate, KEY: Value::Null}),",
        new: "Material::Inline { certificate, private_key } => {\n            json!({CERTIFICATE: certificate, KEY: private_key.expose()})\n        }",
    },
    Mutation {
        name: "a named key signs for whatever audience",
        file: "shared/core/src/subscription/authentication.rs",
        old: "                        secrets.check(name, audience)?;\n",
        new: "                        let _ = audience;\n",
    },
    Mutation {
        name: "a client secret is kept as a private key",
        file: DOCUMENT,
        old: "                && names(Some(&stored.grant)) == names(Some(grant)) =>",
        new: "                && !names(Some(&stored.grant)).is_empty() =>",
    },
];
