//! Finds content delivery networks (CloudFront) in front of the publish API that requests can pass by: the API
//! has public names of its own, so ingest must ask for a secret that only the network knows.

use gridpost_core::publish::origin::ORIGIN_SECRET;
use serde_json::Value;

use super::{
    Fault, Plan,
    plan::{Resource, module_of, without_indexes},
};

const SOURCE: &str = "CloudFront developer guide, adding custom headers to origin requests";

/// The setting by which a function is ingest, whatever its name.
const INGEST: &str = "GRIDPOST_PUBLISH_AUTHORIZATION";
const SECRETS: &str = "GRIDPOST_ORIGIN_SECRET_SHA256";
const VARIABLES: &str = "environment.0.variables";

/// A deployment's ingest, and the names under which the publish API behind it answers.
struct Ingest<'p> {
    function: &'p Resource<'p>,
    /// Address of the deployment's module; empty for the root.
    module: &'p str,
    hosts: Vec<&'p str>,
}

/// Finds distributions that can be passed by, and those whose every publish would be refused.
pub(super) fn check(plan: &Plan<'_>) -> Vec<Fault> {
    let all: Vec<_> = plan.of("aws_lambda_function").filter_map(|one| ingest(plan, one)).collect();
    let mut faults = Vec::new();
    for distribution in plan.of("aws_cloudfront_distribution") {
        let origins = distribution.at("origin").and_then(Value::as_array);
        for origin in origins.into_iter().flatten() {
            let behind = all.iter().filter(|ingest| leads_to(distribution, origin, ingest));
            faults.extend(behind.filter_map(|ingest| fault(distribution, origin, ingest)));
        }
    }
    faults
}

fn ingest<'p>(plan: &'p Plan<'p>, function: &'p Resource<'p>) -> Option<Ingest<'p>> {
    function.at(&format!("{VARIABLES}.{INGEST}"))?;
    let own = module_of(function.address);
    let module = own.strip_suffix("module.ingest")?.trim_end_matches('.');
    let is_within = |resource: &&Resource<'_>| module_of(resource.address) == module;
    let endpoint = |kind, path: &'static str| {
        let all = plan.of(kind).filter(is_within);
        all.filter(|one| one.address.contains(".publish")).filter_map(move |one| one.text(path))
    };
    let apis = endpoint("aws_apigatewayv2_api", "api_endpoint");
    let urls = endpoint("aws_cloudformation_stack", "outputs.Url");
    let addresses = apis.chain(urls);
    let mut hosts: Vec<_> = addresses.filter_map(|url| url.split('/').nth(2)).collect();
    let domains = plan.of("aws_apigatewayv2_domain_name");
    let of_api = domains.filter(|domain| {
        let own = is_within(domain) && domain.address.ends_with("[\"publish\"]");
        own || is_mapped(plan, domain, module)
    });
    hosts.extend(of_api.filter_map(|domain| domain.text("domain_name")));
    Some(Ingest { function, module, hosts })
}

/// Whether a mapping outside the module leads from a domain to its publish API.
fn is_mapped(plan: &Plan<'_>, domain: &Resource<'_>, module: &str) -> bool {
    plan.of("aws_apigatewayv2_api_mapping").any(|mapping| {
        let names = |argument, name: &str| mapping.traced(argument).iter().any(|it| it == name);
        let domain = without_indexes(domain.address);
        let is_of_domain = mapping.traced("domain_name").iter().any(|it| it.starts_with(&domain));
        is_of_domain && names("api_id", &output(module, "publish_api_id"))
    })
}

fn output(module: &str, name: &str) -> String {
    format!("{}.{name}", without_indexes(module))
}

/// Whether an origin is the publish API of an ingest, by its name or, if that is not known yet, by the
/// outputs of the module that the distribution names.
fn leads_to(distribution: &Resource<'_>, origin: &Value, ingest: &Ingest<'_>) -> bool {
    match origin["domain_name"].as_str() {
        Some(host) => ingest.hosts.contains(&host),
        None => ["publish_host", "publish_url", "publish_api_id"].iter().any(|name| {
            let output = output(ingest.module, name);
            distribution.traced("origin").contains(&output)
        }),
    }
}

fn fault(distribution: &Resource<'_>, origin: &Value, ingest: &Ingest<'_>) -> Option<Fault> {
    let setting = format!("{VARIABLES}.{SECRETS}");
    let function = ingest.function;
    let asks = function.at(&setting).is_some() || function.is_unknown(&setting);
    let headers = origin["custom_header"].as_array().into_iter().flatten();
    let names = headers.filter_map(|header| header["name"].as_str());
    let sends = names.filter(|name| name.eq_ignore_ascii_case(ORIGIN_SECRET)).count() > 0;
    let (code, limit, found) = match (asks, sends) {
        (true, true) => return None,
        (false, _) => (
            "cdn-passed-by",
            format!(
                "an API that asks for the secret of the CDN in front of it: origin_secret_sha256, and the \
                 header {ORIGIN_SECRET} in the origin"
            ),
            format!("{} takes publishes at the API's own names, too", function.address),
        ),
        (true, false) => (
            "cdn-without-secret",
            format!(
                "the header {ORIGIN_SECRET} in the origin, with a secret of origin_secret_sha256"
            ),
            "no such header: every publish would be answered with 403".to_owned(),
        ),
    };
    Some(Fault { code, address: distribution.address.to_owned(), limit, found, source: SOURCE })
}
