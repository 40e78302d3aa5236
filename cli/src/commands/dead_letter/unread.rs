//! Event subscriptions whose dead letters can't be read: they keep nothing of the others back, and are named
//! at the end.

use anyhow::Context;
use serde_json::{Value, json};

use super::Filter;
use crate::{commands::SubscriptionArgs, output::count};
use gridpost_ops::{
    failure::{Refusal, chain},
    lookup::if_there,
};

/// Which could not be read, and why.
#[derive(Debug, Default)]
pub(super) struct Unread {
    all: usize,
    /// Whether it is the one that was named: it must be there.
    is_named: bool,
    pub(super) failed: Vec<(String, String)>,
}

impl Unread {
    pub(super) fn of(filter: &Filter, whose: &[SubscriptionArgs]) -> Self {
        let is_named = filter.scope.subscription.is_some();
        Self { all: whose.len(), is_named, failed: Vec::new() }
    }

    /// What was read of one. Nothing of one that was deleted since its name was read, nor of one that
    /// could not be read, which is kept for the end. Fails with what is wrong with the only one, or
    /// with the request, and so with all of them.
    pub(super) fn take<T>(
        &mut self,
        whose: &SubscriptionArgs,
        read: anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let key = format!("{}/{}", whose.topic, whose.subscription);
        let read = if self.is_named { read.map(Some) } else { if_there(read) };
        match read {
            Err(error) if self.all > 1 && !is_bad_request(&error) => {
                self.failed.push((key, chain(&error)));
                Ok(None)
            }
            read => read.context(key),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }

    pub(super) fn document(&self) -> Value {
        let one = |(key, error): &(String, String)| json!({"whose": key, "error": error});
        self.failed.iter().map(one).collect()
    }

    pub(super) fn told(&self) -> Option<String> {
        let line = |(key, error): &(String, String)| format!("\n  {key}: {error}");
        let lines: String = self.failed.iter().map(line).collect();
        let all = count(self.all as u64, "event subscription");
        (!lines.is_empty())
            .then(|| format!("{} of {all} could not be read:{lines}", self.failed.len()))
    }

    /// What is said where nothing was found.
    pub(super) fn nothing_found(&self) -> &'static str {
        match self.is_empty() {
            true => "There is no such dead letter.",
            false => "There is no such dead letter in what could be read.",
        }
    }

    /// Fails the command behind what it printed of the others.
    pub(super) fn ended(&self) -> anyhow::Result<()> {
        self.told().map_or(Ok(()), |told| Err(anyhow::Error::msg(told)))
    }
}

fn is_bad_request(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == 400)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use gridpost_core::time::Timestamp;

    use super::*;
    use crate::{
        commands::dead_letter::{self, DeadLetterCommand, Sent},
        output::Output,
        target::{Common, TargetArguments},
    };
    use gridpost_ops::{manage_api::ManageApi, testkit::FakeApi};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,

        #[command(flatten)]
        sent: Sent,
    }

    #[derive(Parser)]
    struct Whole {
        #[command(subcommand)]
        command: DeadLetterCommand,
    }

    fn refused(message: &str) -> Value {
        json!({"error": {"code": "Conflict", "message": message}})
    }

    /// The bucket of `a` is gone, `gone` was deleted since its name was read, and `b` has three letters.
    async fn world() -> FakeApi {
        let one = |name: &str| json!({"name": name, "properties": {"deadLetterDestination": {}}});
        let counted = json!({"events": 3, "redrivenEvents": 1, "byReason": {"R": 3}});
        FakeApi::answering(&[
            ("GET /topics/t/eventSubscriptions/a/", 409, refused("no bucket")),
            ("GET /topics/t/eventSubscriptions/gone/", 404, refused("gone")),
            ("GET /topics/t/eventSubscriptions/b/deadLetters:count", 200, counted),
            ("GET /topics/t/eventSubscriptions/b/deadLetters/1", 200, json!({"id": "1"})),
            (
                "GET /topics/t/eventSubscriptions/b/deadLetters",
                200,
                json!({"value": [{"id": "1", "eventType": "T"}]}),
            ),
            (
                "GET /topics/t/eventSubscriptions ",
                200,
                json!({"value": [one("a"), one("gone"), one("b")]}),
            ),
            ("GET /topics/u/eventSubscriptions/a/", 409, refused("no bucket")),
            ("GET /topics/u/eventSubscriptions ", 200, json!({"value": [one("a")]})),
            ("GET /topics/w/eventSubscriptions/a/", 400, refused("from")),
            ("GET /topics/w/eventSubscriptions ", 200, json!({"value": [one("a"), one("b")]})),
            ("GET /topics ", 200, json!({"value": [{"name": "t"}]})),
        ])
        .await
    }

    #[tokio::test]
    async fn one_that_cant_be_read_keeps_no_count_of_the_others_back() {
        let fake = world().await;
        let api = ManageApi::connect(&fake.url()).await.expect("built");
        let Line { filter, sent } = Line::parse_from(["count"]);
        let now = Timestamp::from_millis(0);
        let (counted, unread) =
            dead_letter::count(&api, &filter, sent, now).await.expect("the others");
        assert_eq!((&counted["events"], &counted["openEvents"]), (&json!(3), &json!(2)));
        assert_eq!(counted["byEventSubscription"], json!({"t/b": 3}));
        let want = json!([{"whose": "t/a", "error": "Conflict (HTTP 409): no bucket"}]);
        assert_eq!(counted["failed"], want);
        let told = unread.ended().expect_err("not all").to_string();
        let want =
            "1 of 3 event subscriptions could not be read:\n  t/a: Conflict (HTTP 409): no bucket";
        assert_eq!(told, want);
        let (found, unread) =
            dead_letter::found(&api, &filter, sent, now, 9).await.expect("the others");
        assert_eq!((found.len(), &found[0]["eventSubscription"]), (1, &json!("b")));
        assert!(!unread.is_empty() && unread.nothing_found().ends_with("could be read."));
    }

    #[tokio::test]
    async fn each_command_fails_behind_what_it_printed() {
        let fake = world().await;
        let target = TargetArguments { manage_url: Some(fake.url()), ..TargetArguments::default() };
        let common = Common { target, output: Output::new(true) };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("letters.jsonl").display().to_string();
        let run = async |words: &[&str]| {
            let words = std::iter::once("dead-letter").chain(words.iter().copied());
            let Whole { command } = Whole::parse_from(words);
            dead_letter::run(command, &common).await
        };
        let commands: [&[&str]; 4] =
            [&["list"], &["count"], &["summary"], &["export", "--to-file", file.as_str()]];
        for words in commands {
            let told = run(words).await.expect_err("not all").to_string();
            assert!(told.contains("1 of 3") && told.contains("t/a: Conflict"), "{words:?} {told}");
        }
        let text = std::fs::read_to_string(&file).expect("what was exported");
        assert_eq!(text.lines().count(), 1, "{text}");
        run(&["count", "--topic", "t", "--subscription", "b"]).await.expect("it can be read");
        // The only one is the command's own failure, and what is named must be there; what is wrong with
        // the request is wrong for all of them.
        let refused: [(&[&str], u16); 4] = [
            (&["--topic", "t", "--subscription", "a"], 409),
            (&["--topic", "t", "--subscription", "gone"], 404),
            (&["--topic", "u"], 409),
            (&["--topic", "w"], 400),
        ];
        for (flags, status) in refused {
            let words: Vec<_> = std::iter::once("count").chain(flags.iter().copied()).collect();
            let error = run(&words).await.expect_err("refused");
            let refusal = error.downcast_ref::<Refusal>().expect("the server's");
            assert_eq!(refusal.status, status, "{words:?}");
            assert!(chain(&error).contains('/'), "{words:?} {error:#}");
        }
    }
}
