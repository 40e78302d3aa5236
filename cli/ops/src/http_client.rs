//! The HTTP client of every command.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use gridpost_core::time::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Response};

/// Longer than API Gateway's own limit of 30 s, so that its answer is what the user sees.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// Builds the client for the service at `url`. A proxy of the environment is not used for loopback,
/// where it could not reach the local stack. No service redirects; who does shall not get what the request carries.
pub fn for_url(url: &str) -> anyhow::Result<reqwest::Client> {
    trusting(url, None)
}

/// Makes a client that trusts the CA in that file and no other: the one of `gridpost dev --tls`.
/// Without a file, it trusts those of the system.
pub fn trusting(url: &str, ca_file: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(ANSWER_MAX).redirect(Policy::none());
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    let builder = match ca_file {
        Some(file) => builder.tls_certs_only([certificate(file)?]),
        // Without TLS, redirects and a proxy no certificate is ever looked at, and to read the system's takes longer than
        // many an answer.
        None if is_loopback(url) && url.starts_with("http://") => builder.tls_certs_only(None),
        None => builder,
    };
    Ok(builder.build()?)
}

/// When an answer was made, by the clock of what answered: its `Date`, which has whole seconds, in
/// milliseconds since the Unix epoch. None where it has none.
pub fn date_ms(answer: &Response) -> Option<i64> {
    let date = answer.headers().get("date")?.to_str().ok()?;
    Timestamp::parse_http_date(date).map(Timestamp::as_millis)
}

fn certificate(file: &Path) -> anyhow::Result<Certificate> {
    let read = || -> anyhow::Result<_> { Ok(Certificate::from_pem(&fs::read(file)?)?) };
    read().with_context(|| format!("the CA certificate {} cannot be read", file.display()))
}

/// Whether `url` names this machine, where no request is signed.
pub fn is_loopback(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_the_rest() {
        for (url, want) in [
            ("http://127.0.0.1:14566/_aws/execute-api/a1/$default", true),
            ("http://[::1]:1", true),
            ("http://localhost:4566", true),
            ("https://a1.execute-api.eu-north-1.amazonaws.com", false),
            ("http://127.0.0.1.example.com", false),
            ("not a url", false),
        ] {
            assert_eq!(is_loopback(url), want, "{url}");
        }
    }
}
