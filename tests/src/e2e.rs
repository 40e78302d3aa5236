//! End-to-end tests: the real functions, deployed by the real Terraform onto an AWS emulator.
//!
//! `cargo test` brings its own stack up and down again, apart from the one of `gridpost up`; all
//! [`cases`] share it, each with topics and endpoints of its own. [`driver`] runs them and prints in
//! the manner of Rust's test harness; [`ground`] is the stack; [`world`] is what a case works with:
//! topics and event subscriptions by the resource API, a [`receiver`] that stands for every
//! endpoint, and a look behind the scenes by [`inside`] (objects, logs, processes). Publishers and
//! parsers that are not ours run in [`python`].

pub mod cases;
pub mod configuration;
pub mod driver;
pub mod ground;
pub mod inside;
pub mod node;
pub mod python;
pub mod receiver;
pub mod schedule;
pub mod schemathesis;
pub mod services;
pub mod world;
