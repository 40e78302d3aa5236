//! Code that the tests share.

pub mod bench;
pub mod chaos;
pub mod dev;
pub mod e2e;
pub mod json_api;
pub mod packages;
pub mod program;
