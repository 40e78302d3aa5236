//! Finds content delivery networks (CloudFront) in front of the publish API that requests can pass
//! by: the API has public names of its own, so ingest must ask for a secret that only the network
//! knows.

use gridpost_core::publish::origin::ORIGIN_SECRET;
use serde_json::Value;

use super::{
    Fault, Plan,
    plan::{Resource, module_of},
};

const SOURCE: &str = "CloudFront developer guide, adding custom headers to origin requests";

/// A setting that ingest alone has.
const INGEST: &str = "GRIDPOST_PUBLISH_AUTHORIZATION";

/// The setting that makes ingest ask for the network's secret.
const SECRETS: &str = "GRIDPOST_ORIGIN_SECRET_SHA256";

/// A function's settings.
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
        let origins = || origins.into_iter().flatten();
        for ingest in &all {
            let is_known = |origin: &&Value| origin["domain_name"].is_string();
            let leads = |origin: &&Value| leads_to(distribution, origin, ingest);
            let known = origins().filter(is_known).filter(leads).map(sends_secret);
            let mut sends: Vec<_> = known.collect();
            if sends.is_empty() {
                // Origins are a set: which of several unknown ones is this API cannot be told, so one with
                // the header will do.
                let unknown = origins().filter(|origin| !is_known(origin)).filter(leads);
                sends.extend(unknown.map(sends_secret).reduce(|one, other| one || other));
            }
            faults.extend(sends.into_iter().filter_map(|sends| fault(distribution, sends, ingest)));
        }
    }
    faults
}

fn ingest<'p>(plan: &'p Plan<'p>, function: &'p Resource<'p>) -> Option<Ingest<'p>> {
    if let Some(variables) = function.at(VARIABLES) {
        variables.get(INGEST)?;
    }
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
        mapping.traces("domain_name", domain.address)
            && mapping.traces("api_id", &format!("{module}.publish_api_id"))
    })
}

/// Whether an origin is the publish API of an ingest, by its name or, if that is not known yet, by
/// the outputs of the module that the distribution names.
fn leads_to(distribution: &Resource<'_>, origin: &Value, ingest: &Ingest<'_>) -> bool {
    match origin["domain_name"].as_str() {
        Some(host) => ingest.hosts.contains(&host),
        None => ["publish_host", "publish_url", "publish_api_id"]
            .iter()
            .any(|output| distribution.traces("origin", &format!("{}.{output}", ingest.module))),
    }
}

/// Whether CloudFront sends the network's secret to an origin.
fn sends_secret(origin: &Value) -> bool {
    let headers = origin["custom_header"].as_array().into_iter().flatten();
    let mut names = headers.filter_map(|header| header["name"].as_str());
    names.any(|name| name.eq_ignore_ascii_case(ORIGIN_SECRET))
}

fn fault(distribution: &Resource<'_>, sends: bool, ingest: &Ingest<'_>) -> Option<Fault> {
    let setting = format!("{VARIABLES}.{SECRETS}");
    let function = ingest.function;
    // With a digest that is not known yet, no setting is: then nothing can be said of it.
    let asks = function.at(&setting).is_some() || function.is_unknown(VARIABLES);
    let (code, limit, found) = match (asks, sends) {
        (true, true) => return None,
        (false, _) => (
            "cdn-passed-by",
            format!(
                "an API that asks for the secret of the CDN in front of it: origin_secret_sha256, \
                 and the header {ORIGIN_SECRET} in the origin"
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Account, check};

    const HOST: &str = "origin.example.com";

    /// A plan with a deployment, and with a distribution in front of it in a module of its own, as
    /// Terraform tells it. `setting` is ingest's, `origin` the distribution's, `host` what its
    /// module is given.
    fn plan(setting: &Value, origin: &Value, host: &Value) -> Value {
        let (ingest, cdn) = (
            "module.gridpost[\"eu\"].module.ingest.aws_lambda_function.this",
            "module.cdn.aws_cloudfront_distribution.this",
        );
        let of = |at, kind, values: Value| json!({"address": at, "type": kind, "values": values});
        let resources = json!([
            of(
                "aws_apigatewayv2_domain_name.own",
                "aws_apigatewayv2_domain_name",
                json!({"domain_name": HOST})
            ),
            of(
                "aws_apigatewayv2_api_mapping.own",
                "aws_apigatewayv2_api_mapping",
                json!({"stage": "$default"})
            ),
            of(ingest, "aws_lambda_function", json!({"environment": [setting]})),
            of(cdn, "aws_cloudfront_distribution", json!({"origin": [origin]})),
        ]);
        let mapping = json!({
            "api_id": {"references": ["module.gridpost[\"eu\"].publish_api_id"]},
            "domain_name": {"references": ["aws_apigatewayv2_domain_name.own.id"]},
        });
        let distribution = json!({"origin": [{"domain_name": {"references": ["var.host"]}}]});
        let cdn_module = json!({"resources": [{
            "address": "aws_cloudfront_distribution.this", "expressions": distribution,
        }]});
        let unknown = setting.get("variables").is_none();
        json!({
            "planned_values": {"root_module": {"resources": resources}},
            "resource_changes": [{
                "address": ingest,
                "change": {"after_unknown": {"environment": [{"variables": unknown}]}},
            }],
            "configuration": {"root_module": {
                "resources": [
                    {"address": "aws_apigatewayv2_api_mapping.own", "expressions": mapping},
                ],
                "module_calls": {"cdn": {"expressions": {"host": host}, "module": cdn_module}},
            }},
        })
    }

    #[test]
    fn a_distribution_that_can_be_passed_by_is_found() {
        let keys = json!({"variables": {"GRIDPOST_PUBLISH_AUTHORIZATION": "KEYS"}});
        let closed = json!({"variables": {
            "GRIDPOST_PUBLISH_AUTHORIZATION": "KEYS", "GRIDPOST_ORIGIN_SECRET_SHA256": "00",
        }});
        let (later, other) = (json!({}), json!({"variables": {"ANY": "1"}}));
        let by_name = json!({"domain_name": HOST});
        let by_output = json!({});
        let header = json!([{"name": "X-Gridpost-Origin-Secret"}]);
        let with_secret = json!({"custom_header": header});
        let given = json!({"references": ["module.gridpost[\"eu\"].publish_host"]});
        let by_each = json!({"references": ["module.gridpost.publish_url", "each.key"]});
        let elsewhere = json!({"references": ["module.gridpost[\"us\"].publish_host"]});
        let local = json!({"references": ["local.host"]});
        let passed_by = &["cdn-passed-by"][..];
        let table: [(&Value, &Value, &Value, &[&str]); 12] = [
            (&keys, &by_name, &local, passed_by),
            (&keys, &by_output, &given, passed_by),
            (&keys, &by_output, &by_each, passed_by),
            (&keys, &with_secret, &given, passed_by),
            (&closed, &by_output, &given, &["cdn-without-secret"]),
            (&later, &by_name, &local, &["cdn-without-secret"]),
            (&closed, &with_secret, &given, &[]),
            (&later, &with_secret, &given, &[]),
            (&keys, &by_output, &elsewhere, &[]),
            (&keys, &by_output, &local, &[]),
            (&keys, &json!({"domain_name": "www.example.com"}), &given, &[]),
            (&other, &by_name, &local, &[]),
        ];
        for (setting, origin, host, want) in table {
            let document = plan(setting, origin, host);
            let (_, faults) = check(&document, &Account::default()).expect("a plan");
            let codes: Vec<_> = faults.iter().map(|fault| fault.code).collect();
            assert_eq!(codes, want, "{setting} {origin} {host}");
        }
        let beside = |origins: Value| {
            let mut document = plan(&closed, &by_output, &given);
            let resources = &mut document["planned_values"]["root_module"]["resources"];
            resources[3]["values"]["origin"] = origins;
            let (_, faults) = check(&document, &Account::default()).expect("a plan");
            faults.into_iter().map(|fault| fault.code).collect::<Vec<_>>()
        };
        let bucket = json!({"custom_header": []});
        assert_eq!(beside(json!([with_secret, bucket])), [""; 0], "a bucket, as unknown");
        assert_eq!(beside(json!([bucket, with_secret])), [""; 0]);
        assert_eq!(beside(json!([bucket, bucket])), ["cdn-without-secret"]);
        assert_eq!(beside(json!([by_name, with_secret])), ["cdn-without-secret"]);
        let known = json!({"domain_name": HOST, "custom_header": header});
        assert_eq!(beside(json!([known, bucket])), [""; 0], "the other origin is the known one");
        assert_eq!(beside(json!([by_name, bucket])), ["cdn-without-secret"]);
    }
}
