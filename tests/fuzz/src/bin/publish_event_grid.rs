//! libFuzzer's entry to the target `publish_event_grid`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gridpost_fuzz::targets::run(
    "publish_event_grid",
    input
));
