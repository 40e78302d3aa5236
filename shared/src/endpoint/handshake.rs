//! The endpoint proves that it wants our events.
