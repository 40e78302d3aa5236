//! Explains a test request to an endpoint: the steps it passed, where it failed, and what to do.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::{
    retry::outcome::{Answer, Outcome, RESPONSE_WAIT},
    subscription::{Authentication, authentication::token::NoToken},
};

/// A slower answer deserves a warning: it comes close to a failure.
const SLOW: Duration = Duration::from_secs(10);

/// The stage at which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The client's secret or private key is missing or unusable.
    Secret,
    /// The AWS identity is not allowed for this host, or AWS gives no proof of it.
    Identity,
    TokenUnreachable,
    TokenRefused,
    /// The answer has no usable token.
    TokenUnusable,
    /// There is no usable client certificate.
    Certificate,
    /// The endpoint refused the client certificate.
    CertificateNotTaken,
    /// The host name has no address.
    Name,
    /// Refused by the address guard or the rules for URLs.
    Address,
    Connection,
    Tls,
    /// The endpoint wants a client certificate.
    WantsCertificate,
    /// No answer came.
    Answer,
}

impl Stage {
    /// Returns the stage at which getting a token failed.
    pub fn of(error: &NoToken) -> Self {
        match error {
            NoToken::NoSecret(_) | NoToken::NotSigned(_) => Self::Secret,
            NoToken::NotNamed(_) | NoToken::Aws(_) => Self::Identity,
            NoToken::NotAsked | NoToken::NoAnswer(_) => Self::TokenUnreachable,
            NoToken::Refused { .. } => Self::TokenRefused,
            NoToken::Unusable { .. } => Self::TokenUnusable,
            NoToken::RefusedLate(_) | NoToken::NoOther => Self::Answer,
        }
    }

    fn step(self) -> Step {
        match self {
            Self::Secret
            | Self::Identity
            | Self::TokenUnreachable
            | Self::TokenRefused
            | Self::TokenUnusable => Step::Token,
            Self::Certificate | Self::CertificateNotTaken => Step::ClientCertificate,
            Self::Name => Step::Name,
            Self::Address => Step::Address,
            Self::Connection => Step::Connection,
            Self::Tls | Self::WantsCertificate => Step::Tls,
            Self::Answer => Step::Answer,
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Secret => {
                "Check the secret: that the deployment's endpoint_secrets names it with this host, \
                 that it exists, and that it has what is expected and nothing else."
            }
            Self::Identity => {
                "Check that endpoint_signed_hosts, endpoint_roles or endpoint_audiences of the \
                 deployment name this host, that the role trusts dispatch and manage, and for tokens \
                 that the account has outbound web identity federation enabled."
            }
            Self::TokenUnreachable => {
                "Check tokenUrl: its name, its port, its certificate, and that it may be called: the \
                 same networks and ports are allowed as for endpoints."
            }
            Self::TokenRefused => {
                "Check clientId and the client's secret or key, clientAuthentication, scope and \
                 audience. The token server's log says more than its answer."
            }
            Self::TokenUnusable => {
                "Check that tokenUrl is the token endpoint itself: it must answer 200 with JSON that \
                 has access_token, of token_type Bearer."
            }
            Self::Certificate => {
                "Check the client certificate: its dates, that it comes before those of its authorities, \
                 and that it belongs to the key; and the secret, if it is in one."
            }
            Self::CertificateNotTaken => {
                "Check which authorities the endpoint trusts for clients, that the whole chain is sent, \
                 and that the certificate is not revoked."
            }
            Self::Name => "Check the host name in endpointUrl, and that it is in public DNS.",
            Self::Address => {
                "Check endpointUrl: it must lead to a public address, or to a network that the \
                 deployment's endpoint_allowed_networks names."
            }
            Self::Connection => {
                "Check that the endpoint runs, listens on that port, and that its firewall lets the \
                 deployment in."
            }
            Self::Tls => {
                "Check the endpoint's certificate: its dates, its names, that its whole chain is sent, \
                 and that a public authority or one of trustedCertificates has signed it. TLS must be \
                 1.2 or 1.3."
            }
            Self::WantsCertificate => {
                "The endpoint seems to ask for a client certificate: write authentication of type \
                 ClientCertificate."
            }
            Self::Answer => {
                "Check the endpoint's log: it was connected to, and ended or kept the request without \
                 an answer. It has 30 s; work that takes longer belongs after the answer."
            }
        }
    }
}

/// The failure that kept a request from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub stage: Stage,
    /// Without secrets.
    pub says: String,
}

impl Failure {
    pub fn at(stage: Stage, says: impl Into<String>) -> Self {
        Self { stage, says: says.into() }
    }

    /// Describes a stage that was not over in time.
    pub fn under_way(stage: Stage, took: Duration) -> Self {
        let what = if stage == Stage::Answer { "none" } else { "not done" };
        Self::at(stage, format!("{what} within {} s", took.as_secs()))
    }
}

/// The steps of a request, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[derive(strum::Display, strum::VariantArray, strum::VariantNames, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Step {
    Token,
    Name,
    Address,
    Connection,
    Tls,
    ClientCertificate,
    Answer,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(strum::Display, strum::VariantNames, Serialize, Deserialize)]
pub enum StepResult {
    Passed,
    Failed,
    NotReached,
}

/// A step, its result, and why it failed.
pub type Stepped = (Step, StepResult, Option<String>);

/// Explains an outcome as steps with advice.
///
/// If all that is known is that no answer came, there are no steps.
pub fn explain(
    is_tls: bool,
    authentication: Option<&Authentication>,
    answer: &Answer,
    failure: Option<&Failure>,
    took: Duration,
) -> (Vec<Stepped>, Option<&'static str>) {
    let failed = match (failure, answer.status) {
        (Some(failure), _) => Some((failure.stage.step(), failure.says.clone())),
        (None, Some(_)) if answer.outcome == Outcome::Delivered => None,
        (None, Some(status)) => Some((Step::Answer, format!("status {status}"))),
        (None, None) => return (Vec::new(), None),
    };
    let is_part = |step: Step| match step {
        Step::Token => matches!(
            authentication,
            Some(Authentication::ClientCredentials(_) | Authentication::AwsWebIdentity(_))
        ),
        Step::ClientCertificate => {
            matches!(authentication, Some(Authentication::ClientCertificate(_)))
        }
        Step::Tls => is_tls,
        _ => true,
    };
    let failed_at = failed.as_ref().map(|(step, _)| *step);
    let parts = Step::VARIANTS.iter().copied();
    let parts = parts.filter(|step| is_part(*step) || failed_at == Some(*step));
    let steps = parts.map(|step| match &failed {
        Some((at, says)) if *at == step => (step, StepResult::Failed, Some(says.clone())),
        Some((at, _)) if !came_before(step, *at, failure) => (step, StepResult::NotReached, None),
        _ => (step, StepResult::Passed, None),
    });
    let advice = match failure {
        Some(failure) => Some(failure.stage.advice()),
        None => advice(answer, authentication, took),
    };
    (steps.collect(), advice)
}

/// Returns whether a step was passed before the failed one; no certificate means nothing was sent.
fn came_before(step: Step, failed: Step, failure: Option<&Failure>) -> bool {
    let is_unsent = failure.is_some_and(|failure| failure.stage == Stage::Certificate);
    !is_unsent && step < failed
}

fn advice(
    answer: &Answer,
    authentication: Option<&Authentication>,
    took: Duration,
) -> Option<&'static str> {
    if answer.outcome != Outcome::Delivered {
        return Some(advice_on(answer.status, authentication));
    }
    let is_slow = took > SLOW && took <= RESPONSE_WAIT;
    is_slow.then_some(
        "It is slow: after 30 s an answer is too late, and the event is sent again. Answer first, and \
         work then.",
    )
}

/// Advises about a status that is not a success.
pub(super) fn advice_on(
    status: Option<u16>,
    authentication: Option<&Authentication>,
) -> &'static str {
    match (status, authentication) {
        (Some(401 | 403), None) => {
            "The endpoint wants to know who asks: give the event subscription an authentication, a \
             secret header, or the key in the URL that it expects."
        }
        (Some(401 | 403), Some(Authentication::AwsSigV4(_))) => {
            "The endpoint does not take the signature, or does not let its identity in: check service \
             and region, and that policies on both sides let the role that signs invoke it (a function \
             URL asks for lambda:InvokeFunctionUrl and lambda:InvokeFunction)."
        }
        (Some(401 | 403), Some(Authentication::AwsWebIdentity(_))) => {
            "The endpoint does not take the token of AWS: check which issuer, audience and subject it \
             trusts, and signingAlgorithm."
        }
        (Some(401), Some(Authentication::ClientCredentials(_))) => {
            "The endpoint refused a token that is new. Check what it expects of tokens: their issuer, \
             audience and scope."
        }
        (Some(403), Some(Authentication::ClientCredentials(_))) => {
            "The endpoint knows the client and does not let it: give the client the role or scope that \
             it asks for."
        }
        (Some(400 | 401 | 403), Some(Authentication::ClientCertificate(_))) => {
            "The endpoint, or a proxy before it, does not take the client certificate: check its \
             subject, and the authorities that are trusted there."
        }
        (Some(404 | 405), _) => "Check the path in endpointUrl: nothing there takes POST.",
        (Some(413), _) => "The endpoint's limit for bodies is too low for its events.",
        (Some(429 | 503), _) => {
            "The endpoint is busy. Gridpost tries again later by itself, and Retry-After is heard."
        }
        (Some(300..=399), _) => {
            "Redirects are not followed: write the URL that the answer leads to into endpointUrl."
        }
        (Some(500..=599), _) => "The endpoint failed at its own: its log says why.",
        _ => {
            "The endpoint does not take this event. If it expects events of its own types, send one of \
             them."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        endpoint::identities::IdentityRefused,
        secret,
        subscription::authentication::{
            Client, ClientCredentials, Grant, SigV4, SigningAlgorithm, WebIdentity,
            certificate::{ClientCertificate, Material},
        },
    };

    fn token() -> Authentication {
        let grant = Grant::EntraId { tenant: "t".to_owned(), application: "a".to_owned() };
        let by = ClientCredentials { grant, client: Client::Deployment };
        Authentication::ClientCredentials(by)
    }

    fn certificate() -> Authentication {
        let material =
            Material::Inline { certificate: "c".to_owned(), private_key: secret::Secret::new("k") };
        Authentication::ClientCertificate(ClientCertificate { material, trusted: None })
    }

    fn signed() -> Authentication {
        let service = "execute-api".to_owned();
        Authentication::AwsSigV4(SigV4 { service, region: None, role: None })
    }

    fn identity() -> Authentication {
        let algorithm = SigningAlgorithm::RS256;
        Authentication::AwsWebIdentity(WebIdentity { audience: "a".to_owned(), algorithm })
    }

    /// Draws each step as its first letter: upper-case if passed, after `!` if failed.
    fn drawn(steps: &[Stepped]) -> String {
        let draw = |(step, result, _): &Stepped| {
            let name = step.to_string();
            match result {
                StepResult::Passed => name[..1].to_uppercase(),
                StepResult::Failed => format!("!{}", &name[..1]),
                StepResult::NotReached => name[..1].to_owned(),
            }
        };
        steps.iter().map(draw).collect()
    }

    #[test]
    fn a_request_is_explained_by_its_steps() {
        use Stage::{
            Address, Certificate, CertificateNotTaken, Connection, Identity, Name, Secret, Tls,
            TokenRefused, TokenUnreachable, TokenUnusable, WantsCertificate,
        };
        let none = Answer::without_status;
        let broken = || none(Outcome::SocketError);
        let unauthenticated = || none(Outcome::EndpointAuthenticationFailed);
        let status = |status| Answer::of_status(status, None);
        let (token, certificate) = (Some(token()), Some(certificate()));
        let (signed, identity) = (Some(signed()), Some(identity()));
        let at = |stage, says| Some(Failure::at(stage, says));
        // TLS, authentication, answer, failure, steps, part of the advice.
        let table = [
            (true, &None, status(200), None, "NACTA", ""),
            (false, &None, status(200), None, "NACA", ""),
            (true, &token, status(200), None, "TNACTA", ""),
            (true, &certificate, status(200), None, "NACTCA", ""),
            (true, &None, none(Outcome::ResolutionError), at(Name, "x"), "!nacta", "host name"),
            (true, &None, broken(), at(Address, "x"), "N!acta", "endpoint_allowed_networks"),
            (true, &None, broken(), at(Connection, "x"), "NA!cta", "firewall"),
            (true, &None, broken(), at(Tls, "x"), "NAC!ta", "chain"),
            (true, &None, broken(), at(WantsCertificate, "x"), "NAC!ta", "ClientCertificate"),
            (true, &None, none(Outcome::TimedOut), at(Stage::Answer, "x"), "NACT!a", "30 s"),
            (true, &token, unauthenticated(), at(Secret, "x"), "!tnacta", "endpoint_secrets"),
            (true, &token, unauthenticated(), at(TokenUnreachable, "x"), "!tnacta", "tokenUrl"),
            (true, &token, unauthenticated(), at(TokenRefused, "x"), "!tnacta", "clientId"),
            (true, &token, unauthenticated(), at(TokenUnusable, "x"), "!tnacta", "access_token"),
            (true, &certificate, unauthenticated(), at(Certificate, "x"), "nact!ca", "dates"),
            (
                true,
                &certificate,
                unauthenticated(),
                at(CertificateNotTaken, "x"),
                "NACT!ca",
                "trusts",
            ),
            (true, &None, status(401), None, "NACT!a", "authentication"),
            (true, &token, status(401), None, "TNACT!a", "audience"),
            (true, &token, status(403), None, "TNACT!a", "role"),
            (true, &certificate, status(403), None, "NACTC!a", "proxy"),
            (true, &signed, status(200), None, "NACTA", ""),
            (true, &signed, unauthenticated(), at(Identity, "x"), "!tnacta", "endpoint_roles"),
            (true, &signed, status(403), None, "NACT!a", "service and region"),
            (true, &identity, status(200), None, "TNACTA", ""),
            (true, &identity, unauthenticated(), at(Identity, "x"), "!tnacta", "federation"),
            (true, &identity, status(401), None, "TNACT!a", "issuer"),
            (true, &None, status(302), None, "NACT!a", "Redirects"),
            (true, &None, status(404), None, "NACT!a", "path"),
            (true, &None, status(413), None, "NACT!a", "limit"),
            (true, &None, status(503), None, "NACT!a", "busy"),
            (true, &None, status(500), None, "NACT!a", "its log"),
            (true, &None, status(400), None, "NACT!a", "its own types"),
            (true, &None, none(Outcome::TimedOut), None, "", ""),
        ];
        for (is_tls, by, answer, failure, want, says) in table {
            let (steps, advice) =
                explain(is_tls, by.as_ref(), &answer, failure.as_ref(), Duration::ZERO);
            assert_eq!(drawn(&steps), want, "{answer:?} {failure:?}");
            let advice = advice.unwrap_or_default();
            assert!(advice.contains(says), "{answer:?} {failure:?}: {advice}");
            assert_eq!(advice.is_empty(), says.is_empty(), "{advice}");
        }
    }

    #[test]
    fn a_slow_answer_is_worth_a_word() {
        let answer = Answer::of_status(200, None);
        for (seconds, is_slow) in [(1, false), (10, false), (11, true)] {
            let took = Duration::from_secs(seconds);
            let (_, advice) = explain(true, None, &answer, None, took);
            assert_eq!(advice.is_some(), is_slow, "{seconds} s");
        }
    }

    #[test]
    fn each_failure_on_the_way_to_a_token_has_its_step() {
        let table = [
            (NoToken::NoSecret(String::new()), Stage::Secret),
            (NoToken::NotSigned(String::new()), Stage::Secret),
            (NoToken::Aws(String::new()), Stage::Identity),
            (NoToken::NotNamed(IdentityRefused::Role), Stage::Identity),
            (NoToken::NoAnswer(String::new()), Stage::TokenUnreachable),
            (NoToken::Refused { status: 400, error: None }, Stage::TokenRefused),
            (NoToken::Unusable { status: 200, why: "" }, Stage::TokenUnusable),
            (NoToken::RefusedLate(SLOW), Stage::Answer),
        ];
        for (error, stage) in table {
            assert_eq!(Stage::of(&error), stage, "{error:?}");
        }
    }
}
