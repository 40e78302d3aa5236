//! Asks a deployment's journal, for a price.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gridpost_api::journal::{
    JournalQuery, JournalQueryStatus,
    query::{JournalQueryInput, MAX_DOLLARS},
};
use tokio::time::{Instant, sleep};

use crate::{
    failure::{Misuse, Refusal},
    manage_api::ManageApi,
    progress::Progress,
    target::Target,
};

/// The pause before it looks again while an answer takes its time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3_600);

/// The journal of a deployment, and what its answers may cost, those to its clones included.
#[derive(Clone, Debug)]
pub struct Journal {
    api: ManageApi,
    purse: Arc<Mutex<Purse>>,
    /// One asks at a time until its price is known, so that no two spend the same money.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The U.S. dollars that answers may cost together.
#[derive(Clone, Debug)]
struct Purse {
    dollars: f64,
    /// Whether it has so much in any hour, and not in all.
    is_hourly: bool,
    /// What was spent, and when.
    spent: Vec<(Instant, f64)>,
}

impl Purse {
    /// Returns what is left. Forgets what no longer counts.
    fn left(&mut self, now: Instant) -> f64 {
        let is_hourly = self.is_hourly;
        self.spent.retain(|(at, _)| !is_hourly || now.duration_since(*at) < HOUR);
        let spent: f64 = self.spent.iter().map(|(_, dollars)| dollars).sum();
        (self.dollars - spent).max(0.0)
    }

    fn spend(&mut self, now: Instant, dollars: f64) {
        if dollars > 0.0 {
            self.spent.push((now, dollars));
        }
    }
}

/// An answer that would cost more than is allowed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the answer reads about {gigabytes:.1} GB of logs and costs about {}, more than the {} that it may: {}",
    price(*dollars),
    price(*left),
    match is_hourly {
        true => "ask again later, or a command that takes --max-dollars",
        false => "ask for less time, or allow more by --max-dollars",
    }
)]
pub struct TooDear {
    gigabytes: f64,
    dollars: f64,
    left: f64,
    is_hourly: bool,
}

/// An answer that takes longer than was waited for.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the journal is still being read")]
pub struct Late;

/// Writes dollars with the cents, or with as many digits as they need.
fn price(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.01 {
        format!("${dollars:.4}")
    } else {
        format!("${dollars:.2}")
    }
}

impl Journal {
    /// Connects to the journal; all answers together may cost so much, or $0.10.
    pub async fn connect(target: &Target, max_dollars: Option<f64>) -> anyhow::Result<Self> {
        Ok(Self::of(target.manage_api().await?, max_dollars))
    }

    /// Returns the journal behind an API.
    pub fn of(api: ManageApi, max_dollars: Option<f64>) -> Self {
        Self::paid(api, max_dollars.unwrap_or(MAX_DOLLARS), false)
    }

    /// Returns the journal behind an API, whose answers may cost so much in any hour.
    pub fn hourly(api: ManageApi, dollars: f64) -> Self {
        Self::paid(api, dollars, true)
    }

    fn paid(api: ManageApi, dollars: f64, is_hourly: bool) -> Self {
        let purse = Purse { dollars, is_hourly, spent: Vec::new() };
        Self { api, purse: Arc::new(Mutex::new(purse)), turn: Arc::default() }
    }

    fn purse(&self) -> MutexGuard<'_, Purse> {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for so many entries, about, or all that there are. Waits for the answer, and shows that
    /// on standard error. Fails with [`TooDear`], or with [`Misuse`] if the question is refused.
    pub async fn ask(
        &self,
        question: JournalQueryInput,
        most: usize,
    ) -> anyhow::Result<JournalQuery> {
        let mut turn = Some(self.turn.lock().await);
        let left = self.purse().left(Instant::now());
        let question = JournalQueryInput { max_dollars: Some(left), ..question };
        let (mut step, mut paid) = (None, 0.0);
        let pause = |query: &JournalQuery| {
            let JournalQuery { gigabytes, dollars, .. } = query;
            // A query that runs costs its price, even if its answer is not read. It may grow.
            self.purse().spend(Instant::now(), *dollars - paid);
            turn = None;
            paid = dollars.max(paid);
            step.get_or_insert_with(|| {
                let title =
                    format!("reading about {gigabytes:.1} GB of logs ({})", price(*dollars));
                Progress::on_stderr().step(&title)
            });
            sleep(LOOK_AGAIN)
        };
        let answer = self.api.ask_journal(&question, most, pause).await;
        let answer = answer.map_err(|error| match error.downcast_ref::<Refusal>() {
            Some(refusal) if refusal.status == 400 => Misuse(refusal.explain()).into(),
            _ => error,
        })?;
        let JournalQuery { gigabytes, dollars, .. } = answer;
        if answer.status == JournalQueryStatus::TooDear {
            let is_hourly = self.purse().is_hourly;
            return Err(TooDear { gigabytes, dollars, left, is_hourly }.into());
        }
        self.purse().spend(Instant::now(), dollars - paid);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use gridpost_api::journal::query::LedgerQuery;
    use serde_json::json;

    use super::*;
    use crate::testkit::FakeApi;

    async fn asked(rows: &[(&str, u16, serde_json::Value)]) -> anyhow::Result<JournalQuery> {
        let api = FakeApi::answering(rows).await;
        let journal = Journal::of(ManageApi::connect(&api.url()).await?, Some(0.5));
        let question = JournalQueryInput {
            ledger: Some(LedgerQuery::default()),
            ..JournalQueryInput::default()
        };
        let answer = journal.ask(question, usize::MAX).await;
        let left = journal.purse().left(Instant::now());
        assert_eq!(left, if answer.is_ok() { 0.25 } else { 0.5 });
        answer
    }

    #[tokio::test]
    async fn what_runs_is_paid_for_though_its_answer_is_lost() {
        let running = |id: &str, dollars: f64| json!({"id": id, "status": "Running", "gigabytes": 1.0, "dollars": dollars});
        let rows = [
            ("POST /journalQueries ", 202, running("q_1", 0.25)),
            ("GET /journalQueries/q_1 ", 202, running("q_2", 0.375)),
            ("GET /journalQueries/q_2 ", 500, json!({})),
        ];
        let api = FakeApi::answering(&rows).await;
        let manage = ManageApi::connect(&api.url()).await.expect("a client");
        let journal = Journal::of(manage, Some(0.5));
        assert!(journal.ask(JournalQueryInput::default(), usize::MAX).await.is_err());
        assert_eq!(journal.purse().left(Instant::now()), 0.125);
    }

    #[tokio::test]
    async fn a_question_that_runs_keeps_no_other_waiting() {
        let running = json!({"id": "q_1", "status": "Running", "gigabytes": 1.0, "dollars": 0.5});
        let api = FakeApi::answering(&[("POST /journalQueries ", 202, running)]).await;
        let manage = ManageApi::connect(&api.url()).await.expect("a client");
        let journal = Journal::of(manage, Some(0.5));
        let slow = journal.ask(JournalQueryInput::default(), usize::MAX);
        let paid = async {
            while journal.purse().left(Instant::now()) > 0.0 {
                sleep(Duration::from_millis(1)).await;
            }
            assert!(journal.turn.try_lock().is_ok());
        };
        tokio::select! { _ = slow => unreachable!(), () = paid => {} }
    }

    #[test]
    fn a_purse_is_filled_again_hour_by_hour() {
        let start = Instant::now();
        let after = |minutes: u64| start + Duration::from_secs(60 * minutes);
        // (minutes after the start, what is left, what is spent then)
        let table = [
            (0, 0.5, 0.125),
            (30, 0.375, 0.25),
            (59, 0.125, 0.125),
            (59, 0.0, 0.0),
            (60, 0.125, 0.0),
            (89, 0.125, 0.5),
            (90, 0.0, 0.0),
            (120, 0.0, 0.0),
            (149, 0.5, 0.0),
        ];
        let mut hourly = Purse { dollars: 0.5, is_hourly: true, spent: Vec::new() };
        let mut once = Purse { is_hourly: false, ..hourly.clone() };
        let mut in_all: f64 = 0.0;
        for (minutes, left, spent) in table {
            assert_eq!(hourly.left(after(minutes)), left, "{minutes}");
            assert_eq!(once.left(after(minutes)), (0.5 - in_all).max(0.0), "{minutes}");
            hourly.spend(after(minutes), spent);
            once.spend(after(minutes), spent);
            in_all += spent;
        }
    }

    #[test]
    fn a_price_is_never_nothing() {
        let table = [(0.0, "$0.00"), (0.004, "$0.0040"), (0.25, "$0.25"), (12.0, "$12.00")];
        for (dollars, want) in table {
            assert_eq!(price(dollars), want);
        }
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
    async fn a_question_that_is_refused_as_it_is_was_misused() {
        let refused = json!({"error": {"code": "InvalidRequest", "message": "ledger.topic must"}});
        let error = asked(&[("POST /journalQueries ", 400, refused)]).await.expect_err("refused");
        assert!(error.is::<Misuse>() && error.to_string().contains("ledger.topic must"), "{error}");
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
