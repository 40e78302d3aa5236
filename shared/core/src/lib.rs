//! The core of Gridpost: what an event is, who wants it, and what becomes of every delivery.
//!
//! All of it is pure: it can't reach AWS, a network, a clock or dice. `Cargo.toml` names no crate
//! that could, a lint forbids those of std, and time and randomness are arguments.
//!
//! Modules build on those above them:

pub mod error;
pub mod name;
pub mod pem;
pub mod secret;
pub mod terminal;
pub mod text;
pub mod time;
pub mod trace;

pub mod access;
pub mod gateway;

pub mod endpoint;
pub mod retry;

pub mod event;
pub mod topic;

pub mod subscription;

pub mod delivery;

pub mod publish;

pub mod intake;

pub mod poison;

pub mod metric;

pub mod ledger;

pub mod journal;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;

/// Returns whether serde leaves out a member because a reader would get the same without it.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
