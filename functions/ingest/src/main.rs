//! Wires up and runs the ingest function.

fn main() {}
