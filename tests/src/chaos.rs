//! Causes failures while events flow, and proves that none is lost. The program `chaos` runs
//! each for long; short runs are tests.
//!
//! - [`aws`]: the deployed functions on an emulator: killed, their calls refused or answered
//!   wrongly, the emulator restarted, the functions switched between two commits.
//! - [`dev`]: `gridpost dev` under load, ended by SIGKILL at random instants and started again, perhaps on a
//!   [`machine`] with a full disk, few file descriptors and a clock that is moved, or on a [`disk`] that loses its power.
//! - [`schedules`]: the schedules of the conformance tables as real deliveries.
//!
//! [`endpoints`] are those of the first two, and [`tally`] judges what became of their events; [`journal`]
//! compares what [`dev`] says of it. For
//! [`aws`], [`proxy`] sits between functions and emulator, with [`planned_answer`] for the failures that a
//! case plans; [`mayhem`] kills and restarts; [`roll_out`] has the other commit's programs.

pub mod aws;
pub mod deployment;
pub mod dev;
pub mod disk;
pub mod endpoints;
pub mod journal;
pub mod machine;
pub mod mayhem;
pub mod planned_answer;
pub mod proxy;
pub mod roll_out;
pub mod schedules;
pub mod tally;
