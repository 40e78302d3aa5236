//! libFuzzer's entry to the target `publish_custom`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gridpost_fuzz::targets::run("publish_custom", input));
