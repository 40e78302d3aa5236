//! Why a publish request was refused, in Event Grid's form.

use std::error::Error;

use serde_json::json;

use super::{BODY_BYTES_MAX, idempotency::KEY_CHARS_MAX, sas::TokenError};
use crate::event::ParseError;

/// Why a publish request was refused. Nothing is delivered, except with [`Self::Unavailable`].
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(
        "nothing is served here; publish with POST to /topics/<topic>/api/events, or to \
         /topics/<topic>:publish for a namespace topic"
    )]
    RouteNotFound,
    #[error("the topic does not exist")]
    TopicNotFound,
    #[error(
        "the request has no credentials; send one of the topic's two access keys in the header \
         aeg-sas-key, or a SAS token in aeg-sas-token"
    )]
    CredentialsMissing,
    #[error(
        "credentials in {given} are not taken; send an access key in aeg-sas-key or as \
         'Authorization: SharedAccessKey <key>', or a SAS token in aeg-sas-token or as \
         'Authorization: SharedAccessSignature <token>'"
    )]
    CredentialsUnsupported { given: &'static str },
    #[error("the request has credentials more than once, in {given}; send them once")]
    CredentialsTwice { given: &'static str },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the access key is not one of the topic's two; ask for them with listKeys")]
    KeyRefused,
    /// The request bypassed the deployment's authorizer.
    #[error(
        "publishers are authorized by API Gateway here, and this request did not pass its \
         authorizer; the deployment's publish routes have lost it: apply its Terraform again"
    )]
    AuthorizerPassedBy,
    #[error(
        "the topic's local authentication is disabled, so access keys and SAS tokens are refused; \
         set its disableLocalAuth to false, or publish to a deployment with an authorizer"
    )]
    LocalAuthDisabled,
    #[error("the topic is of kind '{kind}'; publish to it with POST to {path}")]
    OtherPath {
        /// As documents name it.
        kind: &'static str,
        path: String,
    },
    /// None of the body was parsed.
    #[error("the body has {size_bytes} bytes; at most {BODY_BYTES_MAX} are taken")]
    BodyTooLarge { size_bytes: usize },
    #[error("the topic takes {takes}, the request is '{given}'")]
    ContentType {
        /// Without parameters; may be empty.
        given: String,
        /// The content type for the topic's input schema.
        takes: &'static str,
    },
    #[error("the body has the Content-Encoding '{given}', and none is taken: send it uncompressed")]
    ContentEncoding { given: String },
    #[error(transparent)]
    Body(#[from] ParseError),
    /// API Gateway claims that the body is base64.
    #[error("the body is not the base64 that it is marked as")]
    NotBase64,
    #[error(
        "the key in the header {header} can't be used; send 1 to {KEY_CHARS_MAX} printable ASCII \
         characters"
    )]
    KeyUnusable { header: &'static str },
    #[error(
        "the idempotency key was used for a publish with another body; send a new key with each \
         publish, and the same one only to repeat it"
    )]
    KeyReused,
    /// A publish with the same key is under way, or has died. Azure's SDKs retry 503, but not 409,
    /// nor 408 in Python.
    #[error(
        "a publish with the same idempotency key is under way; send it again, and it is answered as \
         that one is"
    )]
    UnderWay { retry_after_s: u32 },
    /// A port failed. Some deliveries may have been made, and a retry duplicates them.
    #[error("the events could not be stored for delivery; send them again")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl PublishError {
    pub fn status(&self) -> u16 {
        self.kind().0
    }

    /// Returns Event Grid's name of the status.
    pub fn code(&self) -> &'static str {
        self.kind().1
    }

    pub fn detail(&self) -> &'static str {
        self.kind().2
    }

    /// Returns after how many seconds to retry, if that makes sense. Other answers must not carry
    /// `Retry-After`: the Azure SDK for Python repeats every request whose answer has it.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::Unavailable(_) => Some(1),
            Self::UnderWay { retry_after_s } => Some(*retry_after_s),
            _ => None,
        }
    }

    /// Writes the body of the answer. Source: Event Grid, "Publish events to custom topics
    /// with access keys", and observed bodies; `code` is the name of the status.
    pub fn to_json(&self) -> String {
        let message = self.to_string();
        let details = json!([{"code": self.detail(), "message": message}]);
        let error = json!({"code": self.code(), "message": message, "details": details});
        json!({ "error": error }).to_string()
    }

    fn kind(&self) -> (u16, &'static str, &'static str) {
        const BAD_REQUEST: &str = "BadRequest";
        const UNAUTHORIZED: &str = "Unauthorized";
        const TOO_LARGE: &str = "RequestEntityTooLarge";
        const UNAVAILABLE: &str = "ServiceUnavailable";
        match self {
            Self::RouteNotFound => (404, "NotFound", "RouteNotFound"),
            Self::TopicNotFound => (404, "NotFound", "TopicNotFound"),
            Self::CredentialsMissing => (401, UNAUTHORIZED, "CredentialsMissing"),
            Self::CredentialsTwice { .. } => (401, UNAUTHORIZED, "CredentialsTwice"),
            Self::Token(TokenError::Malformed(_) | TokenError::Expiry(_)) => {
                (401, UNAUTHORIZED, "TokenMalformed")
            }
            Self::Token(TokenError::Signature) => (401, UNAUTHORIZED, "TokenRefused"),
            Self::Token(TokenError::Expired(_)) => (401, UNAUTHORIZED, "TokenExpired"),
            Self::Token(TokenError::OtherResource { .. }) => {
                (401, UNAUTHORIZED, "TokenForOtherResource")
            }
            Self::CredentialsUnsupported { .. } => (401, UNAUTHORIZED, "CredentialsUnsupported"),
            Self::KeyRefused => (401, UNAUTHORIZED, "KeyRefused"),
            Self::AuthorizerPassedBy => (401, UNAUTHORIZED, "AuthorizerPassedBy"),
            Self::LocalAuthDisabled => (401, UNAUTHORIZED, "LocalAuthDisabled"),
            Self::OtherPath { .. } => (404, "NotFound", "OtherPath"),
            Self::BodyTooLarge { .. } => (413, TOO_LARGE, "RequestTooLarge"),
            Self::ContentType { .. } => (400, BAD_REQUEST, "ContentTypeUnsupported"),
            Self::Body(ParseError::Header { .. }) => (400, BAD_REQUEST, "InputHeaderInvalid"),
            Self::Body(ParseError::TooManyEvents { .. }) => (400, BAD_REQUEST, "TooManyEvents"),
            Self::ContentEncoding { .. } | Self::Body(_) | Self::NotBase64 => {
                (400, BAD_REQUEST, "InputJsonInvalid")
            }
            Self::KeyUnusable { .. } => (400, BAD_REQUEST, "IdempotencyKeyInvalid"),
            Self::KeyReused => (409, "Conflict", "IdempotencyKeyReused"),
            Self::UnderWay { .. } => (503, UNAVAILABLE, "PublishUnderWay"),
            Self::Unavailable(_) => (503, UNAVAILABLE, UNAVAILABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_body_has_event_grids_shape() {
        let error = PublishError::Body(ParseError::NotAnObject { index: 3, found: "a \"string\"" });
        let body: Value = serde_json::from_str(&error.to_json()).expect("JSON");
        let message = "the event at index 3 must be a JSON object, but it begins with a \"string\"";
        let details = json!([{"code": "InputJsonInvalid", "message": message}]);
        let want = json!({"error": {"code": "BadRequest", "message": message, "details": details}});
        assert_eq!(body, want);
    }

    #[test]
    fn what_went_wrong_inside_stays_inside() {
        let error = PublishError::Unavailable("sqs:SendMessageBatch failed: host x".into());
        let (status, retry_after_s) = (error.status(), error.retry_after_s());
        assert_eq!((status, retry_after_s), (503, Some(1)));
        assert!(!error.to_json().contains("host x"), "{}", error.to_json());
    }
}
