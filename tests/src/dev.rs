//! `gridpost dev` from outside: the program as a process that can be killed ([`process`]) while
//! many clients publish ([`publisher`]).

pub mod process;
pub mod publisher;
