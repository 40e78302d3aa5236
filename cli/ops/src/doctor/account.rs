//! Asks the caller's account about a plan: its quotas, and which names are taken.

use anyhow::Context;
use serde_json::{Value, json};

use super::{
    Account, Fault, Regions,
    aws::Aws,
    names::{Look, Note, judge, look_up, wanted},
};
use crate::{
    aws_api::{AwsApi, Service},
    aws_refusal::AwsRefusal,
    failure::Misuse,
};

type Quota = (&'static str, &'static str, fn(&mut Account) -> &mut u64);

/// The quotas to ask for; codes are the same in all regions.
///
/// Source: Service Quotas, AWS Lambda "Concurrent executions", API Gateway "Throttle rate" and
/// "Throttle burst rate".
const QUOTAS: [Quota; 3] = [
    ("lambda", "L-B99A9384", |account| &mut account.concurrency),
    ("apigateway", "L-8A5B8E43", |account| &mut account.api_rate),
    ("apigateway", "L-CDF5615A", |account| &mut account.api_burst),
];

/// What an account was asked about a plan.
#[derive(Debug, Default)]
pub struct AccountFacts {
    pub account: Account,
    pub taken: Vec<Fault>,
    pub notes: Vec<Note>,
    /// The region that was asked; `None` if none was.
    pub region: Option<String>,
}

/// Asks the account of the environment, in that region or the plan's.
pub async fn ask(document: &Value, region: Option<&str>) -> anyhow::Result<AccountFacts> {
    let (region, note) = place(&Regions::of(document), region)?;
    let api = &AwsApi::of_environment(Service::Quotas, region.as_deref()).await?;
    let (account, mut notes) =
        of_account(|ask| async move { api.call("GetServiceQuota", &ask).await }).await?;
    let (taken, more) = names(document, &Aws::of_environment(region.as_deref()).await?).await;
    notes.extend(more.into_iter().chain(note));
    Ok(AccountFacts { account, taken, notes, region: Some(api.region().to_owned()) })
}

/// The region to ask in, none for the environment's; and what to know of it.
fn place(plan: &Regions, given: Option<&str>) -> Result<(Option<String>, Option<Note>), Misuse> {
    let region = given.or(plan.main.as_deref());
    // It becomes part of a host name, to which signed requests go.
    let is_name = |region: &str| {
        let is_part = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        !region.is_empty() && region.bytes().all(is_part)
    };
    if let Some(region) = region.filter(|region| !is_name(region)) {
        return Err(Misuse(format!("`{region}` is no region: write it as in eu-central-1")));
    }
    let has_others = given.is_none() && !plan.aliased.is_empty();
    let note = has_others.then(|| Note {
        code: "other-providers",
        message: format!(
            "the plan has the providers {}, too: what they make was looked up in {}; --region asks in \
             another one",
            plan.aliased.join(", "),
            region.unwrap_or("your environment's region"),
        ),
    });
    Ok((region.map(str::to_owned), note))
}

async fn names(document: &Value, account: &impl Look) -> (Vec<Fault>, Vec<Note>) {
    let Some(wanted) = wanted(document) else {
        let message = "whether names are free: the plan does not say what it would create \
                       (resource_changes)";
        return (Vec::new(), vec![Note { code: "not-checked", message: message.to_owned() }]);
    };
    let found = look_up(account, &wanted).await;
    judge(&wanted, &found)
}

/// The quotas of the caller's account. One that may not be read is taken to be AWS's default, and that is
/// said.
async fn of_account<T: Future<Output = anyhow::Result<Value>>>(
    ask: impl Fn(Value) -> T,
) -> anyhow::Result<(Account, Vec<Note>)> {
    let (mut account, mut notes) = (Account::default(), Vec::new());
    for (service, code, place) in QUOTAS {
        match ask(json!({"ServiceCode": service, "QuotaCode": code})).await {
            Ok(answer) => {
                *place(&mut account) = value(&answer).with_context(|| {
                    format!("AWS told no value of the quota {code} of {service}")
                })?;
            }
            Err(error) => {
                let refusal = error.downcast::<AwsRefusal>()?;
                let default = *place(&mut account);
                let message =
                    format!("the quota {code} of {service}, taken to be {default}: {refusal}");
                notes.push(Note { code: "not-checked", message });
            }
        }
    }
    Ok((account, notes))
}

/// A quota's value. Source: Service Quotas API reference, GetServiceQuota.
fn value(answer: &Value) -> Option<u64> {
    let value = answer["Quota"]["Value"].as_f64().filter(|value| *value >= 0.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::names::{Kind, NameState};

    #[test]
    fn a_quota_is_what_its_answer_says() {
        let table = [
            (json!({"Quota": {"Value": 10.0}}), Some(10)),
            (json!({"Quota": {"Value": 1_000}}), Some(1_000)),
            (json!({"Quota": {}}), None),
            (json!({"Quota": {"Value": -1}}), None),
            (json!(null), None),
        ];
        for (answer, want) in table {
            assert_eq!(value(&answer), want, "{answer}");
        }
        let mut account = Account::default();
        for (_, _, place) in QUOTAS {
            *place(&mut account) = 7;
        }
        assert_eq!(account, Account { concurrency: 7, api_rate: 7, api_burst: 7 });
    }

    /// (provider's region, variables, what --region says, where it is asked)
    #[test]
    fn an_account_is_asked_where_the_plan_deploys_to() {
        let variable = json!({"references": ["var.region"]});
        let eu = json!({"region": {"value": "eu-central-1"}});
        let table = [
            (json!({"constant_value": "eu-north-1"}), json!({}), None, Some("eu-north-1")),
            (variable.clone(), eu.clone(), None, Some("eu-central-1")),
            (variable.clone(), eu, Some("us-east-2"), Some("us-east-2")),
            (variable, json!({}), None, None),
            (json!({"references": ["local.region", "var.region"]}), json!({}), None, None),
            (Value::Null, json!({}), None, None),
            (Value::Null, json!({}), Some("us-east-2"), Some("us-east-2")),
        ];
        for (region, variables, given, want) in table {
            let plan = json!({"variables": variables, "configuration": {"provider_config": {
                "aws": {"expressions": {"region": region}}, "random": {},
            }}});
            let (found, note) = place(&Regions::of(&plan), given).expect("a region");
            assert_eq!((found.as_deref(), note.is_none()), (want, true), "{plan} {given:?}");
        }
        assert_eq!(place(&Regions::of(&json!({})), None).expect("none").0, None);
    }

    #[test]
    fn a_second_provider_is_told_of_and_what_is_no_region_is_refused() {
        let plan = json!({"configuration": {"provider_config": {
            "aws": {"expressions": {"region": {"constant_value": "eu-north-1"}}},
            "aws.global": {"expressions": {"region": {"constant_value": "us-east-1"}}},
        }}});
        let (_, note) = place(&Regions::of(&plan), None).expect("a region");
        let note = note.expect("a note").message;
        assert!(note.contains("aws.global") && note.contains("eu-north-1"), "{note}");
        assert!(place(&Regions::of(&plan), Some("us-east-1")).expect("a region").1.is_none());
        for region in ["", "evil.example/", "eu-central-1@evil", "EU"] {
            assert!(place(&Regions::default(), Some(region)).is_err(), "{region}");
        }
    }

    /// The throttle's quotas may not be read.
    #[tokio::test]
    async fn a_quota_that_may_not_be_read_is_said_and_taken_to_be_the_default() {
        let ask = |asked: Value| async move {
            match asked["ServiceCode"].as_str() {
                Some("lambda") => Ok(json!({"Quota": {"Value": 10.0}})),
                _ => Err(AwsRefusal {
                    call: "servicequotas:GetServiceQuota".to_owned(),
                    code: "AccessDeniedException".to_owned(),
                    message: "no".to_owned(),
                }
                .into()),
            }
        };
        let (account, notes) = of_account(ask).await.expect("quotas");
        assert_eq!(account, Account { concurrency: 10, ..Account::default() });
        assert_eq!(notes.len(), 2);
        let told = &notes[0].message;
        assert!(
            told.contains("taken to be 10000") && told.contains("needs the permission"),
            "{told}"
        );
        let silent = |_: Value| async { Err(anyhow::anyhow!("no answer")) };
        assert!(of_account(silent).await.is_err(), "no answer is no refusal");
    }

    #[tokio::test]
    async fn a_plan_that_does_not_say_what_is_new_has_no_names_to_look_up() {
        struct Unasked;
        impl Look for Unasked {
            async fn look(&self, _: Kind, name: &str) -> anyhow::Result<NameState> {
                panic!("{name} is looked up")
            }
        }
        let (faults, notes) = names(&json!({"planned_values": {}}), &Unasked).await;
        assert_eq!((faults.len(), notes.len()), (0, 1));
    }
}
