//! End-to-end tests: the real handlers in `gridpost dev`, and the real functions, deployed by the real
//! Terraform onto an AWS emulator.
//!
//! Each of [`cases`] says what it [`needs`]. `cargo test` runs those that need Rust alone on `gridpost
//! dev`; `tests/complete` runs all on a stack that it brings up and down again, apart from the one of
//! `gridpost up`, and on `gridpost dev` those that need programs of others. The cases share a stack or
//! process, each with topics and endpoints of its own. [`driver`] runs them and prints in the manner of
//! Rust's test harness; [`ground`] is the stack or [`process`]; [`world`] is what a case works with: topics
//! and event subscriptions by the resource API, a [`receiver`] that plays every endpoint, and a look
//! behind the scenes by [`inside`] (objects, logs, processes) and [`inventory`] (what is left of a
//! deployment). Publishers and parsers that are not ours
//! run in [`python`].

pub mod cases;
pub mod configuration;
pub mod driver;
pub mod ground;
pub mod inside;
pub mod inventory;
pub mod needs;
pub mod node;
pub mod process;
pub mod python;
pub mod receiver;
pub mod schedule;
pub mod schemathesis;
pub mod services;
pub mod world;
