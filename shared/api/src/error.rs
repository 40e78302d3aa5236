//! Refusals as documents.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::{Code, Problem, Problems};

/// A refusal, in Event Grid's shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    pub error: ErrorBody,
}

/// Why a request is refused, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    #[schema(value_type = ErrorCode)]
    pub code: String,
    #[schema(min_length = 1)]
    pub message: String,
    /// Each problem of the request, where there may be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetail>,
}

/// One problem of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    #[schema(value_type = Code)]
    pub code: String,
    /// The path of the member.
    pub target: String,
    pub message: String,
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, ToSchema)]
pub enum ErrorCode {
    InvalidRequest,
    InvalidJson,
    InvalidHeader,
    /// A publish would be refused.
    InputJsonInvalid,
    TooManyEvents,
    RequestTooLarge,
    #[strum(serialize = "Endpoint validation")]
    #[schema(rename = "Endpoint validation")]
    EndpointValidation,
    /// Without a token that is known.
    Unauthorized,
    Forbidden,
    /// Not the caller, but the deployment itself may not read its journal.
    JournalDenied,
    ResourceNotFound,
    MethodNotAllowed,
    Conflict,
    ValidationExpired,
    PreconditionFailed,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    TooManyRequests,
    ServiceUnavailable,
}

impl Error {
    /// Makes a refusal without details.
    pub fn new(code: impl Display, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_string(), message.into());
        Self { error: ErrorBody { code, message, details: Vec::new() } }
    }

    /// Makes a refusal of what does not go with what exists. `target` is the path of the member.
    pub fn conflict(target: &str, message: impl Into<String>) -> Self {
        let mut conflict = Self::new(ErrorCode::Conflict, message);
        let message = conflict.error.message.clone();
        let code = Code::Conflict.to_string();
        conflict.error.details = vec![ErrorDetail { code, target: target.to_owned(), message }];
        conflict
    }
}

/// Lists every problem.
impl From<&Problems> for Error {
    fn from(problems: &Problems) -> Self {
        let mut error = Self::new(ErrorCode::InvalidRequest, problems.to_string());
        error.error.details = problems.iter().map(Into::into).collect();
        error
    }
}

impl From<&Problem> for ErrorDetail {
    fn from(problem: &Problem) -> Self {
        let Problem { code, path, .. } = problem;
        Self { code: code.to_string(), target: path.clone(), message: problem.to_string() }
    }
}
