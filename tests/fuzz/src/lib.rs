//! The fuzz targets: libFuzzer drives them, and `cargo test` replays their seeds.

pub mod naive_filter;
pub mod targets;
