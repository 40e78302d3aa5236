//! The core of Gridpost.
