//! libFuzzer's entry to the target `subscription_document`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gridpost_fuzz::targets::run("subscription_document", input));
