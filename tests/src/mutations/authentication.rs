//! Bugs in the authentication of endpoints.

use super::Mutation;

const REQUESTS: &str = "shared/ports/src/authentication.rs";
const TOKENS: &str = "shared/ports/src/authentication/tokens.rs";
const KEPT: &str = "shared/ports/src/authentication/kept.rs";
const ANSWER: &str = "shared/core/src/subscription/authentication/token.rs";
const DOCUMENT: &str = "shared/core/src/subscription/resource/destination/authentication.rs";

/// Those in requests and the tokens in memory.
pub(super) const PORTS: &[Mutation] = &[
    Mutation {
        name: "a 401 counts at once",
        file: REQUESTS,
        old: "if !is_refused(&attempted) {",
        new: "if !is_refused(&attempted) || is_refused(&attempted) {",
    },
    Mutation {
        name: "a refused token is used again",
        file: TOKENS,
        old: "        self.forget(by, refused);\n        self.get(by).await",
        new: "        let _ = refused;\n        self.get(by).await",
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
];

/// Those in documents and in what token endpoints answer.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "a client secret follows the token URL",
        file: DOCUMENT,
        old: "            if stored.grant.token_url() == grant.token_url() =>",
        new: "            if !stored.grant.token_url().is_empty() && !grant.token_url().is_empty() =>",
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
        old: "    shown[SECRET] = Value::Null;\n",
        new: "    shown[SECRET] = match secret {\n        ClientSecret::Inline { value } => json!(value.expose()),\n        ClientSecret::Reference { .. } => Value::Null,\n    };\n",
    },
];
