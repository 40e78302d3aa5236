//! The ports on HTTP: requests to endpoints, which are untrusted.

mod connect;
pub mod guard;
pub mod http;
pub mod keys;
mod metered_stream;
pub mod network;
mod sockets;
