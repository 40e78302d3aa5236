//! Wires up and runs the dead-letter function.

fn main() {}
