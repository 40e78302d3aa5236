//! Gridpost's ingest function.
