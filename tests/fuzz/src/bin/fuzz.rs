//! Gives libFuzzer the target that `GRIDPOST_FUZZ_TARGET` names.
#![no_main]

use std::{env, sync::LazyLock};

use gridpost_fuzz::targets;

static TARGET: LazyLock<String> =
    LazyLock::new(|| env::var("GRIDPOST_FUZZ_TARGET").expect("GRIDPOST_FUZZ_TARGET"));

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::run(&TARGET, input));
