//! The core of Gridpost: what an event is, who wants it, and what becomes of every delivery.
//!
//! Modules in the order an event meets them. `event`, `topic`, `subscription`, `publish`, `delivery`
//! and `ledger` are pure: no AWS, no HTTP client, no clock, no dice. What the pipeline needs of the
//! world stands in [`ports`]; [`aws`] and [`endpoint`] implement it for real.

pub mod document;
pub mod secret;
pub mod time;
pub mod trace;

pub mod event;
pub mod topic;

pub mod subscription;

pub mod publish;

pub mod delivery;

pub mod ledger;

pub mod ports;

pub mod aws;
pub mod config;
pub mod configuration;
pub mod dead_letters;
pub mod endpoint;
#[cfg(feature = "lambda")]
pub mod lambda;
pub mod system;
pub mod telemetry;
