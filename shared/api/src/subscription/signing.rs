//! `properties.signing`, and the documents of signing secrets.

use std::time::Duration;

use gridpost_core::subscription::signing::{OVERLAP_DEFAULT, OVERLAP_MAX, Signing};
use serde_json::{Value, json};

use crate::document::{Object, Problems};

const SCHEMES: [(&str, ()); 1] = [("StandardWebhooks", ())];

const OVERLAP: &str = "overlapInSeconds";

/// Whether requests are to be signed.
pub(super) fn read(properties: &mut Object<'_>, problems: &mut Problems) -> bool {
    let Some(mut signing) = properties.object("signing", problems) else { return false };
    // Reads return it.
    signing.ignore(&["previousSecretValidUntil"]);
    signing.required("scheme", "'StandardWebhooks'", problems);
    signing.choice("scheme", &SCHEMES, None, problems);
    signing.finish(problems);
    true
}

/// The signing settings in a read, without secrets.
pub(super) fn write(signing: &Signing) -> Value {
    let valid_until = signing.previous.as_ref().map(|previous| previous.valid_until.to_iso_8601());
    json!({"scheme": SCHEMES[0].0, "previousSecretValidUntil": valid_until})
}

/// The document of `getSigningSecrets` and `rotateSigningSecret`: the secrets themselves.
pub fn write_secrets(signing: &Signing) -> Value {
    let previous = signing.previous.as_ref();
    json!({
        "secret": signing.secret.expose(),
        "previousSecret": previous.map(|previous| previous.secret.expose()),
        "previousSecretValidUntil": previous.map(|previous| previous.valid_until.to_iso_8601()),
    })
}

/// Reads the request of `rotateSigningSecret`: for how long the replaced secret stays valid.
pub fn read_rotation(document: &Value) -> Result<Duration, Problems> {
    let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    let (longest, default) = (seconds(OVERLAP_MAX), seconds(OVERLAP_DEFAULT));
    let mut problems = Problems::default();
    let overlap = Object::root(document, &mut problems).map(|mut root| {
        let overlap = root.whole(OVERLAP, 0..=longest, default, &mut problems);
        root.finish(&mut problems);
        Duration::from_secs(overlap.into())
    });
    problems.or(overlap)
}
