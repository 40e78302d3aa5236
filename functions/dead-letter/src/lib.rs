//! Gridpost's dead-letter function.
