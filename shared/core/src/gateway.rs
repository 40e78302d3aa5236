//! Requests of API Gateway's HTTP APIs and of function URLs, as handlers take them. The Lambda edge
//! (`gateway.rs` in `shared/runtime`) and `gridpost dev` make them.

use http::{HeaderMap, Method};

use crate::access::Grant;

/// An HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: Method,
    /// Without the stage; segments may be percent-encoded.
    pub path: String,
    /// As it was sent, without its question mark; may be empty.
    pub query: String,
    pub headers: HeaderMap,
    /// Set if it admitted the request.
    pub authorizer: Option<Authorizer>,
    /// The ARN of the IAM principal that signed it, or the name of its token.
    pub caller: Option<String>,
    /// `METHOD /path/{variable}`; `None` if its sender has no routes.
    pub route: Option<String>,
    pub body: Vec<u8>,
}

impl Request {
    /// Creates a request without query and headers, not from API Gateway.
    pub fn new(method: Method, path: String, body: Vec<u8>) -> Self {
        Self { method, path, body, ..Self::default() }
    }
}

/// The authorizer of API Gateway, or the token of `gridpost serve`, that admitted a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorizer {
    /// An allowed IAM principal signed the request.
    Iam,
    /// The request has a token of the configured issuer.
    Jwt,
    /// The request has a token of this deployment.
    Token(Grant),
}
