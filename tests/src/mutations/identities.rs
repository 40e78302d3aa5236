//! Bugs in the proof of identities of AWS.

use super::Mutation;

const REQUESTS: &str = "shared/ports/src/authentication.rs";
const TOKENS: &str = "shared/ports/src/authentication/tokens.rs";
const NAMED: &str = "shared/core/src/endpoint/identities.rs";
const RULES: &str = "shared/core/src/subscription/authentication/aws.rs";
const DOCUMENT: &str = "shared/core/src/subscription/resource/destination/authentication/aws.rs";
const SIGNER: &str = "shared/signing/src/signer.rs";
const STS: &str = "shared/signing/src/sts.rs";

/// Those in requests.
pub(super) const PORTS: &[Mutation] = &[
    Mutation {
        name: "an identity is proven to whatever host an event subscription has",
        file: REQUESTS,
        old: "        if let Err(refused) = self.tokens.check(by, &request.url) {\n            return failed(&refused);\n        }\n",
        new: "",
    },
    Mutation {
        name: "a handshake proves an identity to whatever host it is for",
        file: REQUESTS,
        old: "        self.tokens.check(by, &request.url).map_err(HandshakeError::Unauthenticated)?;\n",
        new: "",
    },
    Mutation {
        name: "a signature is refused and it is not noted",
        file: REQUESTS,
        old: "            self.tokens.is_refused(by);\n",
        new: "",
    },
    Mutation {
        name: "every handshake is signed as a POST",
        file: REQUESTS,
        old: "let (method, url) = (request.method.as_str(), &request.url);",
        new: "let (method, url) = (\"POST\", &request.url);",
    },
    Mutation {
        name: "what AWS does not give is the endpoint's own failure",
        file: TOKENS,
        old: "        self.aws.signature(by, request).await\n",
        new: "        Ok(self.aws.signature(by, request).await.unwrap_or_default())\n",
    },
    Mutation {
        name: "a token of AWS goes to Entra ID as a secret",
        file: TOKENS,
        old: "Proof::Assertion(self.aws.token(&identity).await?.0)",
        new: "Proof::Secret(self.aws.token(&identity).await?.0)",
    },
];

/// Those in what a deployment allows, and in documents.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "any token endpoint gets a token for Entra ID",
        file: "shared/core/src/subscription/authentication/aws.rs",
        old: "if self.is_for_entra() && !host",
        new: "if self.audience.is_empty() && !host",
    },
    Mutation {
        name: "a role signs to hosts that are not named for it",
        file: NAMED,
        old: "        named_host(hosts, url).map_err(IdentityRefused::RoleHost)",
        new: "        named_host(hosts, url).map_err(IdentityRefused::RoleHost).or(Ok(()))",
    },
    Mutation {
        name: "a token goes to hosts that are not named for it",
        file: NAMED,
        old: "        named_host(hosts, url).map_err(IdentityRefused::AudienceHost)",
        new: "        named_host(hosts, url).map_err(IdentityRefused::AudienceHost).or(Ok(()))",
    },
    Mutation {
        name: "a host that ends like one of AWS shows its region",
        file: NAMED,
        old: "host.strip_suffix(end))?;",
        new: "host.find(end).map(|at| &host[..at]))?;",
    },
    Mutation {
        name: "the function signs for every service in its own name",
        file: RULES,
        old: "                if self.service != EXECUTE_API && !(self.service == LAMBDA && is_function) {",
        new: "                if self.service.is_empty() && !is_function {",
    },
    Mutation {
        name: "an endpoint gets a token that it could exchange",
        file: RULES,
        old: "        if self.is_for_entra() {\n",
        new: "        if self.audience.is_empty() {\n",
    },
    Mutation {
        name: "what a token is exchanged for goes anywhere",
        file: RULES,
        old: "                    named.check_audience(&identity.audience, url)\n                }",
        new: "                    Ok(())\n                }",
    },
    Mutation {
        name: "a token is exchanged at any server",
        file: RULES,
        old: "        named.check_audience(&self.audience, token_url)\n",
        new: "        let _ = named;\n        Ok(())\n",
    },
    Mutation {
        name: "a document may ask for a signature to any host",
        file: DOCUMENT,
        old: "        problems.add(code, members.path_of(name), refused.to_string());\n",
        new: "        let _ = (code, name, refused);\n",
    },
    Mutation {
        name: "commands of AWS go along with a signature",
        file: "shared/core/src/subscription/resource/destination/authentication.rs",
        old: "    if is_signed && has(",
        new: "    if !is_signed && has(",
    },
];

/// Those in signatures and at the Security Token Service.
pub(super) const SIGNING: &[Mutation] = &[
    Mutation {
        name: "a signature leaves the body out",
        file: "shared/signing/src/sign.rs",
        old: "SignableBody::Bytes(body)",
        new: "SignableBody::Bytes(&body[..0])",
    },
    Mutation {
        name: "a role is assumed for every request",
        file: SIGNER,
        old: "self.assumed.get(role, || self.assume(role)).await?.credentials",
        new: "self.assume(role).await?.credentials",
    },
    Mutation {
        name: "every refusal has a role assumed again",
        file: SIGNER,
        old: "now.since(kept.fetched_at) > SUSPECT_AFTER",
        new: "now.since(kept.fetched_at) <= SUSPECT_AFTER || true",
    },
    Mutation {
        name: "a role's credentials are used to their last moment",
        file: STS,
        old: "let use_until = now + life.saturating_sub(MARGIN.min(life / 4));",
        new: "let use_until = now + life.saturating_sub(MARGIN.min(life / 400));",
    },
    Mutation {
        name: "a session token may have line breaks",
        file: STS,
        old: "text.bytes().all(|it| it.is_ascii_graphic())",
        new: "text.is_ascii()",
    },
    Mutation {
        name: "what STS says of an error is repeated",
        file: STS,
        old: "    is_code.then(|| given.to_owned())",
        new: "    (is_code || !given.is_empty()).then(|| given.to_owned())",
    },
];
