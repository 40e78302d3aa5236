//! Asks a deployment's journal, for a price.

use std::time::Duration;

use gridpost_api::journal::{
    JournalQuery, JournalQueryStatus,
    query::{JournalQueryInput, MAX_DOLLARS},
};
use tokio::time::sleep;

use crate::{manage_api::ManageApi, progress::Progress, target::Target};

/// The pause before it looks again while an answer takes its time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The journal of a deployment, and what its answers may still cost.
#[derive(Clone, Debug)]
pub struct Journal {
    api: ManageApi,
    /// U.S. dollars.
    left: f64,
}

/// An answer that would cost more than is allowed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the answer reads about {gigabytes:.1} GB of logs and costs about ${dollars:.2}, more than the ${left:.2} \
     that it may: ask for less time, or allow more by --max-dollars"
)]
pub struct TooDear {
    gigabytes: f64,
    dollars: f64,
    left: f64,
}

impl Journal {
    /// Connects to the journal; all answers together may cost so much, or $0.10.
    pub async fn connect(target: &Target, max_dollars: Option<f64>) -> anyhow::Result<Self> {
        Ok(Self::of(target.manage_api().await?, max_dollars))
    }

    /// Returns the journal behind an API.
    pub fn of(api: ManageApi, max_dollars: Option<f64>) -> Self {
        Self { api, left: max_dollars.unwrap_or(MAX_DOLLARS) }
    }

    /// Asks for so many entries, about, or all that there are. Waits for the answer, and shows that on
    /// standard error. Fails with [`TooDear`].
    pub async fn ask(
        &mut self,
        question: JournalQueryInput,
        most: usize,
    ) -> anyhow::Result<JournalQuery> {
        let question = JournalQueryInput { max_dollars: Some(self.left), ..question };
        let mut step = None;
        let pause = |query: &JournalQuery| {
            step.get_or_insert_with(|| {
                let JournalQuery { gigabytes, dollars, .. } = query;
                let title = format!("reading about {gigabytes:.1} GB of logs (${dollars:.2})");
                Progress::on_stderr().step(&title)
            });
            sleep(LOOK_AGAIN)
        };
        let answer = self.api.ask_journal(&question, most, pause).await?;
        let JournalQuery { gigabytes, dollars, .. } = answer;
        if answer.status == JournalQueryStatus::TooDear {
            return Err(TooDear { gigabytes, dollars, left: self.left }.into());
        }
        self.left = (self.left - dollars).max(0.0);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use gridpost_api::journal::query::LedgerQuery;
    use serde_json::json;

    use super::*;
    use crate::{failure::Refusal, testkit::FakeApi};

    async fn asked(rows: &[(&str, u16, serde_json::Value)]) -> anyhow::Result<JournalQuery> {
        let api = FakeApi::answering(rows).await;
        let mut journal = Journal::of(ManageApi::connect(&api.url()).await?, Some(0.5));
        let question = JournalQueryInput {
            ledger: Some(LedgerQuery::default()),
            ..JournalQueryInput::default()
        };
        let answer = journal.ask(question, usize::MAX).await;
        if answer.is_ok() {
            assert_eq!(journal.left, 0.25);
        }
        answer
    }

    #[tokio::test]
    async fn an_answer_is_waited_for_and_paid() {
        let answer = |status: &str| json!({"id": "q_1", "status": status, "gigabytes": 50.0, "dollars": 0.25, "ledger": []});
        let done = ("GET /journalQueries/q_1 ", 200, answer("Succeeded"));
        let running = asked(&[("POST /journalQueries ", 202, answer("Running")), done]).await;
        assert_eq!(running.expect("an answer").dollars, 0.25);
        let dear = asked(&[("POST /journalQueries ", 202, answer("TooDear"))]).await;
        let told = dear.expect_err("too dear").to_string();
        for part in ["50.0 GB", "$0.25", "the $0.50 that", "--max-dollars"] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }

    #[tokio::test]
    async fn a_refusal_says_what_to_do() {
        let refused = |code: &str| json!({"error": {"code": code, "message": "M."}});
        // (status, code, the next step)
        for (status, code, want) in [
            (403, "JournalDenied", None),
            (403, "Forbidden", Some("execute-api:Invoke")),
            (429, "TooManyRequests", Some("repeat it in a few seconds")),
            (404, "ResourceNotFound", Some("gridpost topic list")),
            (503, "ServiceUnavailable", Some("repeat it in a few seconds")),
        ] {
            let error = asked(&[("POST /journalQueries ", status, refused(code))]).await;
            let error = error.expect_err("refused");
            let refusal = error.downcast_ref::<Refusal>().expect("a refusal");
            let step = refusal.next_step();
            assert_eq!(step.is_some(), want.is_some(), "{code}");
            assert!(
                want.is_none_or(|want| step.is_some_and(|step| step.contains(want))),
                "{step:?}"
            );
        }
    }
}
