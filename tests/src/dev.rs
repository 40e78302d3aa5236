//! `gridpost dev` from outside: the program as a process that can be killed ([`process`]) while
//! many clients publish ([`publisher`]). Meanwhile nothing may be lost ([`crash`]), and every
//! attempt must be made when it is due ([`schedules`]).

pub mod crash;
pub mod process;
pub mod publisher;
pub mod schedules;
