//! The ports on HTTP: requests to endpoints, which are untrusted.

pub mod guard;
pub mod handshake;
pub mod http;
mod resolve;
