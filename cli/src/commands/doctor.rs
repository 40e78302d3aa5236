//! `gridpost doctor`: what AWS would refuse of a plan, before it is applied. Works offline, but for what
//! the account is asked about: its quotas, and which names are taken in it.

use std::{fmt::Write, path::PathBuf};

use anyhow::bail;
use clap::Args;
use serde_json::json;

use crate::output::Output;
use gridpost_ops::{
    doctor::{
        self, Account, Fault,
        account::{AccountFacts, ask},
        check,
        deployer::{self, Policies},
        names::Note,
    },
    failure::Misuse,
    files,
    given::count_in,
};

/// Which plan, and what the account has.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// Terraform plan as JSON, from `terraform show -json` (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,

    /// A policy of the principal that runs Terraform, as JSON; give all that it has, each with this flag
    #[arg(long, value_name = "FILE")]
    deployer_policy: Vec<PathBuf>,

    /// The account's Lambda quota for concurrent executions (see `aws lambda get-account-settings`)
    #[arg(long, value_name = "COUNT", default_value_t = Account::default().concurrency,
        value_parser = count_in::<u64>(..))]
    account_concurrency: u64,

    /// The account's API Gateway quota for requests per second
    #[arg(long, value_name = "COUNT", default_value_t = Account::default().api_rate,
        value_parser = count_in::<u64>(..))]
    api_rate: u64,

    /// The account's API Gateway burst quota
    #[arg(long, value_name = "COUNT", default_value_t = Account::default().api_burst,
        value_parser = count_in::<u64>(..))]
    api_burst: u64,

    /// Read these three quotas from AWS and check that the plan's names are free, with the AWS identity
    /// of your environment
    #[arg(long, conflicts_with_all = ["account_concurrency", "api_rate", "api_burst"])]
    account: bool,

    /// Region to check [default: the plan's provider's, otherwise your environment's]
    #[arg(long, value_name = "REGION", requires = "account")]
    region: Option<String>,
}

/// Fails with [`Misuse`] when the file is no plan. It also fails when the plan has faults.
pub async fn run(arguments: &DoctorArguments, output: Output) -> anyhow::Result<()> {
    let path = arguments.plan.display();
    let bytes = files::bytes(&arguments.plan)?;
    if bytes.starts_with(b"PK") {
        let problem = "is a plan in Terraform's own form, which no other program reads; give \
                       `terraform show -json FILE`'s output";
        return Err(Misuse(format!("{path} {problem}")).into());
    }
    let text = files::text_of(&arguments.plan, &bytes)?;
    let document = serde_json::from_str(&text)
        .map_err(|error| Misuse(format!("{path} is not JSON: {error}")))?;
    let given = Account {
        concurrency: arguments.account_concurrency,
        api_rate: arguments.api_rate,
        api_burst: arguments.api_burst,
    };
    // What is no plan is told before AWS is asked.
    check(&document, &given).map_err(|error| Misuse(format!("{path}: {error}")))?;
    let mut asked = AccountFacts { account: given, ..AccountFacts::default() };
    if arguments.account {
        asked = ask(&document, arguments.region.as_deref()).await?;
    }
    let (resources, mut faults) =
        check(&document, &asked.account).map_err(|error| Misuse(format!("{path}: {error}")))?;
    faults.extend(asked.taken);
    let mut notes = asked.notes;
    if !arguments.deployer_policy.is_empty() {
        let policies = policies(&arguments.deployer_policy)?;
        let (lacking, unjudged) = deployer::check(&document, &policies)
            .map_err(|error| Misuse(format!("{path}: {error}")))?;
        faults.extend(lacking);
        notes.extend(unjudged);
    }
    notes.extend(doctor::notes(&document).map_err(|error| Misuse(format!("{path}: {error}")))?);
    let told = json!({
        "resources": resources, "faults": faults, "notes": notes, "region": asked.region,
    });
    let region = asked.region.as_deref();
    output.tell(&told, |_| told_in_words(resources, region, &faults, &notes));
    if !faults.is_empty() {
        bail!("{} in the plan", count(faults.len()));
    }
    Ok(())
}

/// Reads policies.
fn policies(paths: &[PathBuf]) -> anyhow::Result<Policies> {
    let mut policies = Policies::default();
    for path in paths {
        let text = files::text_of(path, &files::bytes(path)?)?;
        let path = path.display();
        let document = serde_json::from_str(&text)
            .map_err(|error| Misuse(format!("{path} is not JSON: {error}")))?;
        policies.add(&document).map_err(|error| Misuse(format!("{path}: {error}")))?;
    }
    Ok(policies)
}

fn told_in_words(
    resources: usize,
    region: Option<&str>,
    faults: &[Fault],
    notes: &[Note],
) -> String {
    let mut text = String::new();
    for fault in faults {
        let Fault { code, address, limit, found, source } = fault;
        let _ = writeln!(
            text,
            "{code}: {address}\n  limit  {limit}\n  found  {found}\n  from   {source}\n"
        );
    }
    for Note { code, message } in notes {
        let _ = writeln!(text, "{code}: {message}\n");
    }
    let asked = region.map(|region| format!(" (the account was asked in {region})"));
    let asked = asked.unwrap_or_default();
    let _ = write!(text, "{resources} resources, {}{asked}", count(faults.len()));
    text
}

fn count(faults: usize) -> String {
    match faults {
        0 => "no faults".to_owned(),
        1 => "1 fault".to_owned(),
        _ => format!("{faults} faults"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_in_words() {
        let fault = Fault {
            code: "queue-name",
            address: "aws_sqs_queue.a".to_owned(),
            limit: "name of 1 to 80 characters".to_owned(),
            found: "81 characters".to_owned(),
            source: "SQS quotas",
        };
        let note = Note { code: "not-checked", message: "whether".to_owned() };
        assert_eq!(told_in_words(7, None, &[], &[]), "7 resources, no faults");
        let asked = told_in_words(7, Some("eu-north-1"), &[], &[]);
        assert_eq!(asked, "7 resources, no faults (the account was asked in eu-north-1)");
        let told = told_in_words(7, None, &[], &[note]);
        assert_eq!(told, "not-checked: whether\n\n7 resources, no faults");
        assert_eq!(
            told_in_words(7, None, &[fault], &[]),
            "queue-name: aws_sqs_queue.a\n  limit  name of 1 to 80 characters\n  \
             found  81 characters\n  from   SQS quotas\n\n7 resources, 1 fault"
        );
    }
}
