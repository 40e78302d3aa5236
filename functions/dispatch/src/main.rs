//! Wires up and runs the dispatch function.

fn main() {}
