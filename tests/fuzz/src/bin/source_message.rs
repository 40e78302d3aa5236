//! libFuzzer's entry to the target `source_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gridpost_fuzz::targets::run("source_message", input));
