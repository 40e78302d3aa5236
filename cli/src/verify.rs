//! What `gridpost verify` shows of a deployment: which steps, what each must look like, how long things
//! took, what it costs. Pure: [`commands::verify`](crate::commands::verify) does what is planned here.

pub mod bill;
pub mod figures;
pub mod judge;
pub mod report;
pub mod step;
