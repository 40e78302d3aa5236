//! `gridpost tail`: attempts and ends, as they happen.

use std::collections::BTreeSet;

use clap::Args;
use tokio::time::sleep;

use crate::{
    commands::{Price, Scope},
    output,
    target::Common,
};
use gridpost_ops::{
    failure::{Misuse, Refusal},
    given::{TimeSpan, outcome_name},
    journal::Journal,
    lookup::check_exists,
    progress::Progress,
    tail::{Filter, Follower, POLL, describe},
};

/// What to follow.
#[derive(Args, Debug)]
pub struct TailArguments {
    #[command(flatten)]
    filter: FilterArguments,

    /// Begin this long ago: 10m, 2h
    #[arg(long, value_name = "TIME")]
    since: Option<TimeSpan>,

    /// Print existing entries, then end
    #[arg(long, requires = "since")]
    no_follow: bool,

    #[command(flatten)]
    price: Price,
}

/// Which attempts and ends.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArguments {
    #[command(flatten)]
    scope: Scope,

    /// Only attempts with this outcome, such as Busy; may be given several times
    #[arg(long, value_name = "OUTCOME", value_parser = outcome_name)]
    outcome: Vec<String>,

    /// Only attempts that failed or succeeded too late, and deliveries that ended undelivered
    #[arg(long, conflicts_with = "outcome")]
    failed: bool,
}

impl FilterArguments {
    fn filter(self) -> Filter {
        let Self { scope: Scope { topic, subscription: name }, outcome, failed } = self;
        let outcome = outcome.iter().filter_map(|name| name.parse().ok()).collect();
        Filter { topic, name, outcome, failed }
    }
}

/// Runs `gridpost tail`, until it is stopped, or once with `--no-follow`.
pub async fn run(arguments: TailArguments, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let TailArguments { filter, since, no_follow, price } = arguments;
    let filter = filter.filter();
    let mut missing = None;
    if filter.topic.is_some() {
        let api = target.manage_api().await?;
        let checked = check_exists(&api, filter.topic.as_deref(), filter.name.as_deref()).await;
        match checked {
            Err(error) if error.is::<Misuse>() => missing = Some(error),
            checked => {
                as_far_as_allowed(checked)?.iter().for_each(|note| Progress::on_stderr().line(note))
            }
        }
    }
    let since = since.unwrap_or_default();
    let journal = Journal::connect(&target, price.max_dollars).await?;
    let mut follower = Follower::of(journal, filter, target.ago(since).await?);
    let mut noted = BTreeSet::new();
    loop {
        let lines = match no_follow {
            // It fails where it should ask again.
            true => follower.catch_up(usize::MAX).await?.lines,
            false => follower.look(usize::MAX).await?.lines,
        };
        for gap in follower.gaps.iter().filter(|gap| noted.insert((*gap).clone())) {
            output::note(&format!("! {gap}"));
        }
        // A deleted topic has a history, too.
        if let Some(missing) = missing.take()
            && lines.is_empty()
        {
            return Err(missing);
        }
        for line in lines {
            output::line(&match common.output.is_json() {
                true => serde_json::to_string(&line)?,
                false => describe(&line),
            });
        }
        if no_follow {
            return Ok(());
        }
        sleep(POLL).await;
    }
}

/// Goes on where the names may not be looked up: the journal is all that is needed.
fn as_far_as_allowed(checked: anyhow::Result<()>) -> anyhow::Result<Option<String>> {
    match checked {
        Err(error) if error.downcast_ref::<Refusal>().is_some_and(|it| it.status == 403) => {
            let note = "! whether these names exist is not known: your AWS identity may not read topics \
                        (execute-api:Invoke on GET /topics*)";
            Ok(Some(note.to_owned()))
        }
        checked => checked.map(|()| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_far_as_that_is_allowed() {
        let refusal = |status| Refusal::from_answer(status, r#"{"message":"Forbidden"}"#);
        let note = as_far_as_allowed(Err(refusal(403).into())).expect("no error");
        assert!(note.expect("a note").contains("GET /topics*"));
        assert!(as_far_as_allowed(Err(refusal(500).into())).is_err());
        assert!(as_far_as_allowed(Err(Misuse("no such topic".to_owned()).into())).is_err());
        assert_eq!(as_far_as_allowed(Ok(())).expect("no error"), None);
    }
}
