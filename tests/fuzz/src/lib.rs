//! The fuzz targets, for the binaries that libFuzzer drives.

pub mod targets;
