//! Lambda: event source mappings over the queues, running copies of the functions, their timeout,
//! and the deletion of what a reply does not name.

mod invoke;
mod mapping;
mod pool;
mod usage;
mod wake;

pub use self::{
    mapping::{Hop, Mapping, Ramp, Reading, Readings, poll},
    pool::Pools,
    usage::{Function, Usage, Used},
    wake::{Wakes, schedule_wake},
};
