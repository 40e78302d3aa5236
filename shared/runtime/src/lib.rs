//! What the functions' programs run on: settings, logs and metrics, Lambda's invocations, the real
//! clock and the real dice.

pub mod config;
#[cfg(feature = "lambda")]
pub mod gateway;
#[cfg(feature = "lambda")]
pub mod lambda;
pub mod lineage;
pub mod sqs;
pub mod system;
pub mod telemetry;
