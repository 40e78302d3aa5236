//! Gridpost's command line.

fn main() {}
