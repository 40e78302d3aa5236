//! End-to-end tests: the real handlers in `gridpost dev`, and the real functions, deployed by the
//! real Terraform onto an AWS emulator.
//!
//! Each of the [`cases`] says what it [`needs`]. `cargo test` runs those that need only Rust on
//! `gridpost dev`. `tests/complete` runs all of them on a stack that it brings up and down again,
//! separate from that of `gridpost up`, and runs those that need third-party programs on `gridpost
//! dev` too. The cases share a stack or process, but each has its own topics and endpoints.
//! [`driver`] runs them and prints like Rust's test harness; [`ground`] is the stack or
//! process; [`fixture`] is what a case works with: topics and event subscriptions through the
//! resource API, and a [`receiver`] that plays every endpoint. [`inside`] looks at objects, logs
//! and processes, [`inventory`] at what is left of a deployment. Third-party publishers and parsers
//! run in [`python`].

pub mod case;
pub mod cases;
pub mod configuration;
pub mod driver;
pub mod fixture;
pub mod ground;
pub mod inside;
pub mod inventory;
pub mod needs;
pub mod node;
pub mod python;
pub mod receiver;
pub mod schedule;
pub mod schemathesis;
pub mod services;
