//! Gridpost's manage function.
