//! Gridpost's dispatch function.
