//! `gridpost schedule`: the timeline of a retry policy, before it is saved, or of one that is. Works
//! offline, by the same decisions that deliver.

use std::time::Duration;

use clap::Args;
use gridpost_api::settings::Document;
use gridpost_core::retry::{
    EndReason,
    profile::{EndpointKind, ProfileName},
};
use gridpost_ports::Dice;
use gridpost_runtime::system::SystemDice;
use serde_json::Value;

use crate::{
    commands::{one_of, one_of_names},
    document, output,
    target::Common,
};
use gridpost_ops::{
    attempt_lines::describe_reason,
    failure::Misuse,
    given::{count_in, whole_minutes, whole_seconds},
    schedule::{
        Circumstances, Preview, PreviewedEnd, ProbationSeconds, Response, StatusRule, Subject,
        hours, played, saved,
    },
};

/// The policy, and what the endpoint would answer.
#[derive(Args, Debug)]
pub struct ScheduleArguments {
    /// The topic's delivery profile
    #[arg(long, visible_alias = "profile", value_name = "PROFILE", default_value = "basic",
        value_parser = one_of_names::<ProfileName>(), ignore_case = true)]
    delivery_profile: ProfileName,

    /// Which column of the status table applies
    #[arg(long, default_value = "webhook", value_parser = one_of(ENDPOINTS.to_vec()))]
    endpoint: EndpointKind,

    /// Time-to-live in whole minutes: 30m, 24h, 7d (default: the profile's maximum)
    #[arg(long, value_name = "TIME", value_parser = whole_minutes)]
    ttl: Option<u32>,

    /// Most attempts, including the first (default: the profile's maximum)
    #[arg(long, value_name = "COUNT", value_parser = count_in::<u32>(..))]
    max_attempts: Option<u32>,

    /// Custom schedule: offsets from the first attempt, ascending: 10s,5m,1h; bare numbers are seconds
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = whole_seconds)]
    schedule: Option<Vec<u32>>,

    /// Custom row of the status table: 404=1m, 404=deadLetter, 5xx=10s, SocketError=10 (seconds); may be given
    /// several times
    #[arg(long = "status-rule", value_name = "ROW=RULE")]
    status_rules: Vec<StatusRule>,

    /// What the endpoint answers, in order; the last one repeats: 500,408,200, or an outcome such as
    /// TimedOut, SocketError, ResolutionError
    #[arg(
        long = "answer",
        visible_alias = "responses",
        value_name = "ANSWER,…",
        value_delimiter = ',',
        default_value = "500"
    )]
    responses: Vec<Response>,

    /// How long each of these answers asks to wait by Retry-After: 30s, 2m; a bare number is seconds. A delivery
    /// that is retried waits at least as long. Other deliveries to the endpoint wait for its probation alone
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    retry_after: Option<u32>,

    /// Wait for the end of a probation instead of ending at one caused by a client error
    #[arg(long)]
    delay_on_probation: bool,

    /// Probation after an outcome, where the deployment has its own (Terraform variable probation_seconds):
    /// Busy=20s, TimedOut=0 (seconds); may be given several times
    #[arg(long = "probation", value_name = "OUTCOME=TIME")]
    probations: Vec<ProbationSeconds>,

    /// Draw jitter as a delivery would: up to a tenth of each wait, at most 5 minutes
    #[arg(long)]
    jitter: bool,

    /// The timeline of a saved event subscription of this topic
    #[arg(long, requires = "subscription",
        conflicts_with_all = ["delivery_profile", "endpoint", "ttl", "max_attempts", "schedule", "status_rules", "delay_on_probation"])]
    topic: Option<String>,

    /// That event subscription
    #[arg(long, visible_alias = "name", value_name = "NAME", requires = "topic")]
    subscription: Option<String>,
}

impl ScheduleArguments {
    fn answers(&self) -> Vec<Response> {
        let wait = self.retry_after.map(|seconds| Duration::from_secs(seconds.into()));
        let answers = self.responses.iter().cloned();
        answers.map(|answer| answer.with_retry_after(wait)).collect()
    }
}

const ENDPOINTS: [(&str, EndpointKind); 2] =
    [("webhook", EndpointKind::Webhook), ("resource", EndpointKind::Resource)];

/// Prints the timeline.
pub async fn run(arguments: &ScheduleArguments, common: &Common) -> anyhow::Result<()> {
    let subject = match arguments.topic.as_deref().zip(arguments.subscription.as_deref()) {
        Some((topic, name)) => {
            let api = common.target.resolve()?.manage_api().await?;
            let (topic, subscription) =
                tokio::try_join!(api.topic(topic), api.subscription(topic, name))?;
            saved(&topic.document, &subscription.document)
        }
        None => given(arguments)?,
    };
    let circumstances = Circumstances {
        probations: &arguments.probations,
        dice: if arguments.jitter { SystemDice.roll() } else { 0.0 },
        names_attempts: arguments.max_attempts.is_some(),
    };
    let document = played(subject, &arguments.answers(), circumstances)?;
    common.output.print(&document, text);
    Ok(())
}

fn given(arguments: &ScheduleArguments) -> Result<Subject, Misuse> {
    let ScheduleArguments { delivery_profile: profile, endpoint: kind, delay_on_probation, .. } =
        *arguments;
    let policy = policy(arguments)?;
    Ok(Subject { profile, kind, policy, delays_on_probation: delay_on_probation })
}

/// The policy as the document in which it would be saved, so that the same rules check it.
fn policy(arguments: &ScheduleArguments) -> Result<Value, Misuse> {
    let mut document = Document::default();
    let attempts = arguments.max_attempts.map(|count| count.to_string());
    let minutes = arguments.ttl.map(|minutes| format!("{minutes}m"));
    for (flag, text) in [("max-attempts", attempts), ("ttl", minutes)] {
        let texts: Vec<_> = text.into_iter().collect();
        document::set(&mut document, flag, &texts, arguments.delivery_profile)?;
    }
    let steps = arguments.schedule.iter().flatten().map(ToString::to_string);
    document.set("retryPolicy.schedule", &steps.collect::<Vec<_>>());
    arguments.status_rules.iter().for_each(|rule| rule.add(&mut document));
    Ok(document.into_retry_policy())
}

fn text(preview: &Preview) -> String {
    let mut rows = vec![["attempt", "at", "answer", "waited for"].map(str::to_owned)];
    rows.extend(preview.attempts.iter().map(|attempt| {
        let because = attempt.wait_because.map(describe_reason).unwrap_or_default();
        let number = attempt.number.to_string();
        [number, hours(attempt.at), attempt.response.clone(), because.to_owned()]
    }));
    let PreviewedEnd { at, reason } = &preview.end;
    let lives = Duration::from_secs(preview.time_to_live_seconds);
    let late = match *at > lives && *reason == EndReason::TimeToLiveExceeded.to_string() {
        true => {
            format!(" (its time-to-live ended at {}; this attempt was due after it)", hours(lives))
        }
        false => String::new(),
    };
    let warnings = preview.warnings.iter().map(|text| format!("\nwarning: {text}"));
    let warnings: String = warnings.collect();
    format!("{}\nends at {}: {reason}{late}{warnings}", output::columns(&rows), hours(*at))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ScheduleArguments,
    }

    fn played(line: &str) -> Value {
        serde_json::to_value(previewed(line)).expect("JSON")
    }

    fn previewed(line: &str) -> Preview {
        let words = std::iter::once("schedule").chain(line.split_whitespace());
        let arguments = Line::try_parse_from(words).expect("a line").arguments;
        let circumstances = Circumstances {
            probations: &arguments.probations,
            names_attempts: true,
            ..Circumstances::default()
        };
        super::played(given(&arguments).expect("a subject"), &arguments.answers(), circumstances)
            .expect("in range")
    }

    #[test]
    fn the_documented_example() {
        let document = played("--ttl 30m --max-attempts 10 --responses 500,500,408,500");
        let at: Vec<_> = document["attempts"]
            .as_array()
            .expect("attempts")
            .iter()
            .map(|attempt| (attempt["atSeconds"].clone(), attempt["response"].clone()))
            .collect();
        let want = [(0, "500"), (10, "500"), (30, "408"), (150, "500"), (300, "500"), (600, "500")];
        assert_eq!(at, want.map(|(at, response)| (json!(at), json!(response))));
        assert_eq!(document["end"], json!({"atSeconds": 1800, "reason": "TimeToLiveExceeded"}));
    }

    #[test]
    fn limits_that_can_not_be_reached_are_named() {
        let document = played("--responses 200");
        let warning = document["warnings"][0].as_str().expect("a warning");
        assert!(warning.contains("30 attempts") && warning.contains("room for 11"), "{warning}");
        assert!(played("--schedule 1,2,3 --max-attempts 9").get("warnings").is_none());
        let fewer = played("--max-attempts 9 --ttl 2h --responses 404");
        let warning = fewer["warnings"][0].as_str().expect("a warning");
        let shown = fewer["attempts"].as_array().expect("attempts").len();
        assert!(warning.contains(&format!("({shown} with these answers)")), "{warning}");
    }

    #[test]
    fn a_deployments_own_probation_counts() {
        let second = |line: &str| played(line)["attempts"][1]["atSeconds"].clone();
        assert_eq!(second("--responses 429,200"), json!(10));
        assert_eq!(
            second("--responses 429,200 --probation Busy=40 --probation NotFound=7"),
            json!(40)
        );
        assert_eq!(second("--responses 404,200 --delay-on-probation"), json!(300));
        for wrong in ["Busy", "Busy=-1", "Busy=86401", "Delivered=5", "BadRequest=5", "busy=5"] {
            let line = ["schedule", "--probation", wrong];
            let refused = Line::try_parse_from(line).map(|_| ()).expect_err(wrong).to_string();
            assert!(refused.contains("is no probation"), "{wrong}: {refused}");
        }
    }

    #[test]
    fn retry_after_makes_waits_longer() {
        // Answers and Retry-After, when the second attempt is made, and what that waited for.
        let table = [
            ("503", 30, "LeastWait"),
            ("503 --retry-after 120", 120, "RetryAfter"),
            ("503 --retry-after 5", 30, "LeastWait"),
            ("500 --retry-after 40", 40, "RetryAfter"),
            ("SocketError --retry-after 120", 30, "EndpointWaits"),
        ];
        for (answers, at, because) in table {
            let second = &played(&format!("--responses {answers}"))["attempts"][1];
            assert_eq!(second["atSeconds"], at, "{answers}: {second}");
            assert_eq!(second["waitBecause"], because, "{answers}");
        }
        let ends = played("--ttl 1m --responses 503 --retry-after 3600");
        assert_eq!(ends["end"]["reason"], "TimeToLiveExceeded");
    }

    #[test]
    fn every_wait_says_what_for_and_an_end_after_its_time_says_so() {
        let told = text(&previewed("--ttl 24h --responses 500 --delay-on-probation"));
        assert!(told.contains("the next step of its schedule"), "{told}");
        let delayed =
            previewed("--schedule 1,2,3,4,5,6,7,8,9,10,11 --max-attempts 12 --delay-on-probation");
        assert!(
            text(&delayed).contains("probation or delayed delivery ends"),
            "{}",
            text(&delayed)
        );
        let late = PreviewedEnd {
            at: Duration::from_secs(10_800),
            reason: EndReason::TimeToLiveExceeded.to_string(),
        };
        let told = text(&Preview { end: late, time_to_live_seconds: 7_200, ..delayed });
        assert!(
            told.contains("ends at 3 h: TimeToLiveExceeded (its time-to-live ended at 2 h"),
            "{told}"
        );
    }

    #[test]
    fn own_rows_and_outcomes() {
        let document = played("--status-rule 404=deadLetter --responses SocketError,404");
        assert_eq!(document["attempts"][1]["atSeconds"], json!(30));
        assert_eq!(document["end"]["reason"], json!("UndeliverableDueToHttpNotFound"));
    }
}
