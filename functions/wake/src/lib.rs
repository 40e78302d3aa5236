//! Gridpost's wake function.
