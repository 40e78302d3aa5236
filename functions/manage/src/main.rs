//! Wires up and runs the manage function.

fn main() {}
