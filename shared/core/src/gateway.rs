//! Requests of API Gateway's HTTP APIs and of function URLs, as the handlers take them. The edge to
//! Lambda reads them out of events (`gateway.rs` in `shared/runtime`); `gridpost dev` makes them of
//! requests by HTTP.

use http::{HeaderMap, Method};

/// An HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: Method,
    /// The path without the stage; its segments may be percent-encoded.
    pub path: String,
    /// The query as it was sent, without its question mark; may be empty.
    pub query: String,
    pub headers: HeaderMap,
    /// The API Gateway authorizer that admitted it, if any.
    pub authorizer: Option<Authorizer>,
    /// The ARN of the IAM principal that signed it, if IAM was asked.
    pub caller: Option<String>,
    /// The matched route, as `METHOD /path/{variable}`; `None` if its sender has no routes.
    pub route: Option<String>,
    pub body: Vec<u8>,
}

impl Request {
    /// A request without query and headers, not from API Gateway.
    pub fn new(method: Method, path: String, body: Vec<u8>) -> Self {
        Self { method, path, body, ..Self::default() }
    }
}

/// An authorizer of API Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorizer {
    /// The request was signed by an IAM principal that may make it.
    Iam,
    /// The request has a token of the issuer that was configured.
    Jwt,
}
