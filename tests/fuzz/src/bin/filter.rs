//! libFuzzer's entry to the target `filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gridpost_fuzz::targets::run("filter", input));
