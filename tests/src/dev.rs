//! `gridpost dev` from outside: the program as a process that can be killed ([`process`]),
//! publishes as many at the same time ([`publisher`]), and what it must hold while both go on:
//! nothing is lost ([`crash`]), and every attempt is made when it was due ([`schedules`]).

pub mod crash;
pub mod process;
pub mod publisher;
pub mod schedules;
