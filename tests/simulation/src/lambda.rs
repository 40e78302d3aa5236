//! Lambda: event source mappings over the queues, running copies of the functions, their timeout,
//! and the deletion of what a reply does not name.

mod invoke;
mod mapping;
mod pool;
mod usage;

pub use self::{
    invoke::schedule_wake,
    mapping::{Mapping, Ramp, Reading, Readings, poll},
    pool::Pools,
    usage::{Function, Usage, Used},
};
