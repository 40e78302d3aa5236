//! The runtime of the functions' programs: settings, logs, metrics, Lambda's invocations, the machine's
//! clock and randomness.

pub mod config;
#[cfg(feature = "lambda")]
pub mod gateway;
#[cfg(feature = "lambda")]
pub mod lambda;
pub mod lineage;
pub mod sqs;
pub mod system;
pub mod telemetry;
