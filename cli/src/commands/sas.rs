//! `gridpost sas`: a SAS token from a topic's key. Works offline: whoever has the key can make one.

use clap::Args;
use gridpost_core::{publish::sas, time::Timestamp};
use serde_json::json;

use crate::output::Output;
use gridpost_ops::{clock, failure::Misuse, given::TimeSpan};

/// What the token is for.
#[derive(Args, Debug)]
pub struct SasArguments {
    /// URL that the token opens, or the beginning of it: the topic's endpoint
    #[arg(long, value_name = "URL")]
    resource: String,

    /// Topic key that signs the token
    #[arg(long, env = "GRIDPOST_KEY", hide_env_values = true)]
    key: String,

    /// How long it is good: 30m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "1h", conflicts_with = "until")]
    lasts: TimeSpan,

    /// When it ends instead: 2030-01-01T00:00:00Z
    #[arg(long, value_name = "DATE-TIME")]
    until: Option<String>,
}

/// Fails with [`Misuse`] when the end or the key can't be read, or the end has passed.
pub fn run(arguments: &SasArguments, output: Output) -> anyhow::Result<()> {
    let now = Timestamp::parse_rfc_3339(&clock::now_rfc3339()).unwrap_or_default();
    let (token, expires_at) = token(arguments, now)?;
    let document = json!({"token": token, "expires": expires_at.to_iso_8601()});
    output.print(&document, |_| token.clone());
    Ok(())
}

fn token(arguments: &SasArguments, now: Timestamp) -> Result<(String, Timestamp), Misuse> {
    let expires_at = match &arguments.until {
        None => now + arguments.lasts.0,
        Some(text) => Timestamp::parse_rfc_3339(text).ok_or_else(|| {
            Misuse(format!("--until {text} is not a date and time: write 2030-01-01T00:00:00Z"))
        })?,
    };
    if expires_at <= now {
        let end = expires_at.to_iso_8601();
        let refused = format!("the token would end at {end}, which has passed: choose a later end");
        return Err(Misuse(refused));
    }
    let token = sas::sign(&arguments.resource, expires_at, &arguments.key).ok_or_else(|| {
        Misuse(
            "--key is no topic key: it must be base64, as `gridpost topic keys` shows".to_owned(),
        )
    })?;
    Ok((token, expires_at))
}

#[cfg(test)]
mod tests {
    use gridpost_core::publish::sas::Token;

    use super::*;

    fn arguments(key: &str, until: Option<&str>) -> SasArguments {
        SasArguments {
            resource: "https://a.example/topics/orders/api/events".to_owned(),
            key: key.to_owned(),
            lasts: TimeSpan::minutes(2),
            until: until.map(str::to_owned),
        }
    }

    #[test]
    fn a_token_lasts_as_long_as_it_is_told() {
        let now = Timestamp::from_millis(1_795_248_000_000);
        for (until, end) in [
            (None, "2026-11-21T08:02:00.000Z"),
            (Some("2030-01-01T01:00:00+01:00"), "2030-01-01T00:00:00.000Z"),
        ] {
            let (text, expires_at) = token(&arguments("a2V5MQ==", until), now).expect("a token");
            assert_eq!(expires_at.to_iso_8601(), end);
            let token = Token::parse(&text).expect("readable");
            assert!(token.is_signed_with("a2V5MQ=="));
            assert!(token.check("/topics/orders/api/events", "", now).is_ok());
            assert!(token.check("/topics/orders/api/events", "", expires_at).is_err());
        }
        assert!(token(&arguments("no base64", None), now).is_err());
        assert!(token(&arguments("a2V5MQ==", Some("tomorrow")), now).is_err());
        for past in ["2026-11-21T08:00:00Z", "2020-01-01T00:00:00Z"] {
            let refused = token(&arguments("a2V5MQ==", Some(past)), now).expect_err(past);
            assert!(refused.to_string().contains("which has passed"), "{refused}");
        }
    }
}
