//! The operations of the command line and the console on a deployment.
//!
//! [`target`] finds the deployment that is meant, in flags, in the user's list ([`deployments`]) or in the
//! folder of a local stack ([`home`]). [`manage_api`] is the client of its resource API; [`aws_api`] calls
//! AWS itself. Requests to AWS are signed ([`signing`]) as the caller ([`identity`]).
//!
//! On these stand the operations: [`audit`] and [`explain`] say what became of events and [`tail`] follows
//! them, [`verify`] and [`prober`] try a deployment out, [`rollout`] leads functions to other versions,
//! [`doctor`] finds what AWS would refuse of a plan, [`cost`] reckons what deliveries cost, and [`declared`]
//! has all topics and event subscriptions in one file. [`receiver`] is an endpoint that says what it
//! receives. `testkit` has a manage API for tests.

// `println!` and `eprintln!` panic where the reader went away: [`output`] does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod attempt_lines;
pub mod audit;
pub mod aws_api;
pub mod aws_refusal;
pub mod clock;
pub mod cost;
pub mod declared;
pub mod delivery;
pub mod deployments;
pub mod doctor;
pub mod explain;
pub mod failure;
pub mod files;
pub mod given;
pub mod home;
pub mod http_client;
pub mod identity;
pub mod journal;
pub mod latency;
pub mod lookup;
pub mod manage_api;
pub mod output;
pub mod prober;
mod probing;
pub mod progress;
pub mod publish;
pub mod receiver;
pub mod rollout;
pub mod schedule;
pub mod signing;
pub mod subscription;
pub mod tail;
pub mod target;
#[cfg(any(test, feature = "fixtures"))]
pub mod testkit;
pub mod verify;
