//! What the tests share.

pub mod bench;
pub mod chaos;
pub mod e2e;
pub mod metric_line;
pub mod mutations;
pub mod naive_filter;
pub mod sim;
