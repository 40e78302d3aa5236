//! Wires up and runs the wake function.

fn main() {}
