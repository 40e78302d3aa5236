//! The record of a delivery that ended undelivered.
