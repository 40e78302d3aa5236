//! The HTTP client of every command.

use std::time::Duration;

use reqwest::redirect::Policy;

/// Longer than API Gateway's own limit of 30 s, so that its answer is what the user sees.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// Builds the client for the service at `url`. A proxy of the environment is not used for loopback,
/// where it could not reach the local stack. No service redirects; who does shall not get what the request carries.
///
/// # Errors
///
/// When the platform's TLS roots cannot be loaded.
pub fn for_url(url: &str) -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(ANSWER_MAX).redirect(Policy::none());
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    Ok(builder.build()?)
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
