//! The whole product on this machine, without AWS or Docker: the real functions, deployed by the real
//! Terraform onto an AWS emulator that listens on loopback only.
//!
//! [`stack`] brings it up and takes it down, in steps: [`prerequisites`], [`python`] (an environment with the
//! emulator and cargo-lambda), [`providers`], [`build`] or a release's [`artefacts`], [`emulator`],
//! [`terraform`]. [`plan`] decides what is kept of an earlier run, from the recorded state
//! (`gridpost_ops::home::state`) and a [`fingerprint`] of the deployment. [`demonstration`] shows that it
//! works; [`samples`] are payloads for `cargo lambda invoke`. All files are in one folder
//! (`gridpost_ops::home`), with one that says how to connect (`gridpost_ops::home::connection`).
//! `gridpost dev` needs none of that, but writes that file, too.

// They panic when the reader has gone; `gridpost_ops::output` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod artefacts;
pub mod build;
pub mod child;
pub mod demonstration;
pub mod emulator;
pub mod fingerprint;
pub mod plan;
pub mod prerequisites;
pub mod processes;
pub mod providers;
pub mod python;
pub mod quotas;
pub mod samples;
pub mod stack;
pub mod terraform;
pub mod watched;
