//! The whole product on this machine, without AWS or Docker: the real functions, deployed by the real
//! Terraform onto an AWS emulator that listens on loopback only.
//!
//! [`stack`] brings it up and takes it down, in steps that each own a file: [`prerequisites`],
//! [`python`] (a private environment with the emulator and cargo-lambda), [`providers`], [`build`] or, of a
//! release, [`artefacts`], [`emulator`], [`terraform`]. What may be kept from an earlier run is one pure decision ([`plan`]) over the
//! recorded state (`gridpost_ops::home::state`) and a [`fingerprint`] of everything that was deployed. [`demonstration`] shows
//! that it works; [`samples`] are payloads for each function, for `cargo lambda invoke`. Everything is kept in one folder (`gridpost_ops::home`);
//! other programs connect by the file in it that `gridpost_ops::home::connection` describes.
//!
//! `gridpost dev` needs none of that, and writes the same file.

// `println!` and `eprintln!` panic where the reader went away: `gridpost_ops::output` does not.
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
