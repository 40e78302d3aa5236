//! libFuzzer's entry to the target `sas_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gridpost_fuzz::targets::run("sas_token", input));
