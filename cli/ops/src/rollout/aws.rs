//! An account of AWS, by Lambda's and CloudWatch's own APIs.

use anyhow::Context;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use super::Account;
use super::alarms::{Alarm, is_of};
use super::plan::{ALIAS, Alias, Route};
use crate::{
    aws_api::{AwsApi, Service},
    aws_refusal::if_found,
    target::Target,
};

/// The deployment's account and region.
#[derive(Debug)]
pub struct Aws {
    functions: AwsApi,
    alarms: AwsApi,
    prefix: String,
}

impl Aws {
    /// Connects to the deployment's account and region.
    pub async fn connect(target: &Target) -> anyhow::Result<Self> {
        Ok(Self {
            functions: AwsApi::connect(Service::Functions, target).await?,
            alarms: AwsApi::connect(Service::Alarms, target).await?,
            prefix: target.name_prefix().to_owned(),
        })
    }

    /// The path of a function. Source: Lambda API reference, GetAlias.
    fn path(&self, role: &str) -> String {
        format!("/2015-03-31/functions/{}-{role}", self.prefix)
    }
}

impl Account for Aws {
    async fn alias(&self, role: &str) -> anyhow::Result<Option<Alias>> {
        let path = format!("{}/aliases/{ALIAS}", self.path(role));
        let answer = self.functions.call_path("GetAlias", "GET", &path, None).await;
        Ok(if_found(answer)?.map(|answer| alias(&answer)))
    }

    async fn versions(&self, role: &str) -> anyhow::Result<Option<Vec<u64>>> {
        let mut versions = Vec::new();
        let first = format!("{}/versions?MaxItems=50", self.path(role));
        let mut path = first.clone();
        loop {
            let page = self.functions.call_path("ListVersionsByFunction", "GET", &path, None);
            let Some(page) = if_found(page.await)? else { return Ok(None) };
            let of_page = page["Versions"].as_array().into_iter().flatten();
            // $LATEST is not a number.
            versions.extend(of_page.filter_map(|it| it["Version"].as_str()?.parse::<u64>().ok()));
            match page["NextMarker"].as_str().filter(|marker| !marker.is_empty()) {
                Some(marker) => {
                    let marker: String = byte_serialize(marker.as_bytes()).collect();
                    path = format!("{first}&Marker={marker}");
                }
                None => return Ok(Some(versions)),
            }
        }
    }

    async fn lead(&self, role: &str, route: Route, revision: &str) -> anyhow::Result<()> {
        let path = format!("{}/aliases/{ALIAS}", self.path(role));
        let ask = update(route, revision);
        self.functions.call_path("UpdateAlias", "PUT", &path, Some(&ask)).await?;
        Ok(())
    }

    async fn alarms(&self) -> anyhow::Result<Vec<Alarm>> {
        let mut ask =
            json!({"AlarmNamePrefix": format!("{}-", self.prefix), "AlarmTypes": ["MetricAlarm"]});
        let mut found = Vec::new();
        loop {
            let page = self.alarms.call("DescribeAlarms", &ask).await?;
            let alarms = page["MetricAlarms"].as_array().context("CloudWatch told no alarms")?;
            found.extend(alarms.iter().map(alarm).filter(|it| is_of(&self.prefix, &it.name)));
            match page["NextToken"].as_str() {
                Some(token) => ask["NextToken"] = json!(token),
                None => return Ok(found),
            }
        }
    }
}

/// Source: Lambda API reference, AliasConfiguration.
fn alias(answer: &Value) -> Alias {
    let text = |member: &str| answer[member].as_str().unwrap_or_default().to_owned();
    let weights = answer["RoutingConfig"]["AdditionalVersionWeights"].as_object();
    let weight = |(version, share): (&String, &Value)| Some((version.clone(), share.as_f64()?));
    Alias {
        version: text("FunctionVersion"),
        others: weights.into_iter().flatten().filter_map(weight).collect(),
        description: text("Description"),
        revision: text("RevisionId"),
    }
}

/// Source: Lambda API reference, UpdateAlias. Weights that are not named would stay.
fn update(route: Route, revision: &str) -> Value {
    let mut weights = json!({});
    if let Some((version, percent)) = route.other {
        weights[version.to_string()] = json!(f64::from(percent) / 100.0);
    }
    json!({
        "FunctionVersion": route.version.to_string(),
        "RoutingConfig": {"AdditionalVersionWeights": weights},
        "RevisionId": revision,
    })
}

/// Source: CloudWatch API reference, MetricAlarm.
fn alarm(answer: &Value) -> Alarm {
    let text = |member: &str| answer[member].as_str().unwrap_or_default().to_owned();
    Alarm { name: text("AlarmName"), state: text("StateValue"), reason: text("StateReason") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rollout::plan::OURS, testkit::FakeApi};

    async fn account(functions: &FakeApi, alarms: &FakeApi) -> Aws {
        Aws {
            functions: AwsApi::at(Service::Functions, &functions.url()),
            alarms: AwsApi::at(Service::Alarms, &alarms.url()),
            prefix: "gridpost".to_owned(),
        }
    }

    #[tokio::test]
    async fn an_account_is_read_as_aws_answers() {
        let alias = json!({"AliasArn": "arn:…:live", "Name": "live", "FunctionVersion": "7",
            "Description": OURS, "RevisionId": "r1",
            "RoutingConfig": {"AdditionalVersionWeights": {"8": 0.1}}});
        let first =
            json!({"Versions": [{"Version": "$LATEST"}, {"Version": "7"}], "NextMarker": "a+b"});
        let second = json!({"Versions": [{"Version": "8"}]});
        let missing = json!({"Message": "Cannot find alias", "Type": "User", "code": "ResourceNotFoundException"});
        let functions = FakeApi::answering(&[
            ("GET /2015-03-31/functions/gridpost-dispatch/aliases/live ", 200, alias),
            ("GET /2015-03-31/functions/gridpost-wake/aliases/live ", 404, missing.clone()),
            ("GET /2015-03-31/functions/gridpost-expand/versions?MaxItems=50 ", 404, missing),
            ("GET /2015-03-31/functions/gridpost-dispatch/versions?MaxItems=50 ", 200, first),
            (
                "GET /2015-03-31/functions/gridpost-dispatch/versions?MaxItems=50&Marker=a%2Bb ",
                200,
                second,
            ),
            ("PUT /2015-03-31/functions/gridpost-dispatch/aliases/live ", 200, json!({})),
        ])
        .await;
        let of = |name: &str| json!({"AlarmName": name, "StateValue": "OK", "StateReason": "Threshold Crossed"});
        let told = json!({"MetricAlarms": [of("gridpost-late"), of("gridpost-test-late")]});
        let alarms = FakeApi::answering(&[("POST /", 200, told)]).await;
        let account = account(&functions, &alarms).await;
        let want = Alias {
            version: "7".to_owned(),
            others: [("8".to_owned(), 0.1)].into(),
            description: OURS.to_owned(),
            revision: "r1".to_owned(),
        };
        assert_eq!(account.alias("dispatch").await.expect("an alias"), Some(want));
        assert_eq!(account.alias("wake").await.expect("none"), None);
        assert_eq!(account.versions("dispatch").await.expect("versions"), Some(vec![7, 8]));
        assert_eq!(account.versions("expand").await.expect("none"), None);
        let found = account.alarms().await.expect("alarms");
        assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["gridpost-late"]);
        let route = Route { version: 7, other: None };
        account.lead("dispatch", route, "r1").await.expect("led");
        assert!(account.lead("wake", route, "r1").await.is_err());
    }

    #[test]
    fn an_update_names_all_that_an_alias_leads_to() {
        let of = |other| update(Route { version: 7, other }, "r1");
        let want = |weights: Value| {
            json!({"FunctionVersion": "7", "RoutingConfig": {"AdditionalVersionWeights": weights},
                "RevisionId": "r1"})
        };
        assert_eq!(of(Some((8, 25))), want(json!({"8": 0.25})));
        assert_eq!(of(None), want(json!({})));
    }
}
