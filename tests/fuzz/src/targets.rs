//! Fuzz targets: each takes any bytes, hands them to what reads hostile input, and asserts what must
//! hold whatever they are. `tests/fuzz/run` drives them with libFuzzer, `tests/fuzz/tests/seeds.rs`
//! replays the seeds in `tests/fuzz/seeds` with every `cargo test`.
//!
//! A new target is a function here, a line in [`TARGETS`] and a folder of seeds.

mod filter;
mod publish;
mod sas;
mod source;
mod subscription;

/// A target: its name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target. Its seeds lie in the folder of its name.
pub const TARGETS: [Target; 8] = [
    ("publish_event_grid", publish::event_grid),
    ("publish_cloud_events", publish::cloud_events),
    ("publish_binary", publish::binary),
    ("publish_custom", publish::custom),
    ("sas_token", sas::token),
    ("source_message", source::message),
    ("subscription_document", subscription::document),
    ("filter", filter::filter),
];

/// Runs the target of that name.
///
/// # Panics
///
/// Where there is none, or the input breaks what must hold.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.unwrap_or_else(|| panic!("no target is called {name}")).1(input);
}
