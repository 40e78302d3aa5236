//! Questions to the journal as documents.

use std::{fmt, time::Duration};

use gridpost_core::{
    journal::{AttemptsQuestion, By, LedgerQuestion, Question, SeriesQuestion, Step},
    retry::outcome::Outcome,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    document::{Code, Problem, Problems, quoted, read},
    schema::{Time, stand_in},
    subscription, topic,
};

/// The default of `maxDollars`.
pub const MAX_DOLLARS: f64 = 0.1;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The most steps of less than an hour: 3 days by the minute.
const STEPS_MAX: u64 = 3 * 24 * 60;

/// A question to the journal: exactly one of attempts, ledger and series.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JournalQueryInput {
    /// Attempts and ends of deliveries, the newest first.
    pub attempts: Option<AttemptsQuery>,
    /// Counts by the hour of publish.
    pub ledger: Option<LedgerQuery>,
    /// The same counts, and failed attempts, by the time at which they were counted.
    pub series: Option<SeriesQuery>,
    /// The most that the answer may cost, in U.S. dollars. On one machine all answers are free.
    #[schema(minimum = 0, default = 0.1)]
    pub max_dollars: Option<f64>,
}

/// The attempts and ends of deliveries to find.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttemptsQuery {
    /// Of this topic; of all by default.
    pub topic: Option<String>,
    /// Of event subscriptions of this name.
    pub event_subscription: Option<String>,
    /// Of deliveries that carry an event with this id, among their first hundred.
    #[schema(min_length = 1, max_length = 4_096)]
    pub event_id: Option<String>,
    /// An hour before `to` by default.
    pub from: Option<Time>,
    /// Before this time; now by default.
    pub to: Option<Time>,
    /// Leaves out successes, but late ones.
    #[schema(default = false)]
    pub failed: Option<bool>,
    /// With one of these outcomes.
    #[schema(value_type = Option<Vec<stand_in::Outcome>>, min_items = 1, max_items = 30)]
    pub outcomes: Option<Vec<Outcome>>,
}

/// The counts of events to find by the hour of their publish.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LedgerQuery {
    /// Of this topic; of all by default.
    pub topic: Option<String>,
    /// Of event subscriptions of this name.
    pub event_subscription: Option<String>,
    /// Of events published in the hour of this time, or later; a day before `to` by default.
    pub from: Option<Time>,
    /// Counted before this time; now by default. On one machine, published before the end of its hour.
    pub to: Option<Time>,
    /// Ascending times that divide the counts, by when they were made, into periods. On one machine, the
    /// first period has all counts.
    #[schema(max_items = 10)]
    pub cuts: Option<Vec<Time>>,
}

/// The counts of events to find by the time at which they were made.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeriesQuery {
    /// Of this topic; of all by default.
    pub topic: Option<String>,
    /// Of event subscriptions of this name.
    pub event_subscription: Option<String>,
    /// An hour before `to` by default; rounded down to the step, which begins at a multiple of its length, UTC.
    pub from: Option<Time>,
    /// Before this time; now by default. On one machine, the end of its minute, and by Hour or ThreeHours of
    /// its hour.
    pub to: Option<Time>,
    /// Without `total`, Minute goes with 3 days at most, FiveMinutes with 15, HalfHour with 90.
    #[schema(value_type = Option<stand_in::JournalStep>, default = "Hour")]
    pub step: Option<Step>,
    /// EventSubscription: an entry for each event subscription and, with other counts, for each topic.
    /// Topic: one for each topic, together with its event subscriptions. All: one for all together.
    #[schema(value_type = Option<stand_in::JournalBy>, default = "EventSubscription")]
    pub by: Option<By>,
    /// Sums all steps; the time of an entry is `from`.
    #[schema(default = false)]
    pub total: Option<bool>,
}

impl JournalQueryInput {
    /// Reads a question that is asked now.
    pub fn read(document: &Value, now: Timestamp) -> Result<(Self, Question), Problems> {
        let mut problems = Problems::default();
        let given: Self = read(document, &mut problems);
        let question = given.question(now, &mut problems);
        problems.or(question.map(|question| (given, question)))
    }

    /// Returns the question with its defaults; of attempts, as many as fit.
    fn question(&self, now: Timestamp, problems: &mut Problems) -> Option<Question> {
        match (&self.attempts, &self.ledger, &self.series) {
            (Some(asked), None, None) => {
                let span = (asked.from, asked.to, HOUR);
                let mut reading = Reading { member: "attempts", problems };
                reading.names(&asked.topic, &asked.event_subscription);
                let (from, to) = reading.span(span, now);
                Some(Question::Attempts(AttemptsQuestion {
                    topic: asked.topic.clone(),
                    subscription: asked.event_subscription.clone(),
                    event_id: asked.event_id.clone(),
                    from,
                    to,
                    failed: asked.failed.unwrap_or_default(),
                    outcomes: asked.outcomes.clone().unwrap_or_default(),
                    most: usize::MAX,
                }))
            }
            (None, Some(asked), None) => {
                let mut reading = Reading { member: "ledger", problems };
                reading.names(&asked.topic, &asked.event_subscription);
                let (from, to) = reading.span((asked.from, asked.to, DAY), now);
                let cuts: Vec<_> = asked.cuts.iter().flatten().map(|cut| cut.0).collect();
                reading.ascending(&cuts);
                Some(Question::Ledger(LedgerQuestion {
                    topic: asked.topic.clone(),
                    subscription: asked.event_subscription.clone(),
                    from: from.hour(),
                    to,
                    cuts,
                }))
            }
            (None, None, Some(asked)) => {
                let mut reading = Reading { member: "series", problems };
                reading.names(&asked.topic, &asked.event_subscription);
                let (from, to) = reading.span((asked.from, asked.to, HOUR), now);
                let (step, total) =
                    (asked.step.unwrap_or_default(), asked.total.unwrap_or_default());
                let (from, steps_max) = (step.begin(from), STEPS_MAX * u64::from(step.minutes()));
                let is_long = step.begin(to).since(from) > Duration::from_secs(60 * steps_max);
                if is_long && !total && step.minutes() < Step::Hour.minutes() {
                    let days = steps_max / 24 / 60;
                    let rule = format!(
                        "must be longer for a time of more than {days} days, but is {step}"
                    );
                    reading.add(Code::InvalidValue, "step", rule);
                }
                Some(Question::Series(SeriesQuestion {
                    topic: asked.topic.clone(),
                    subscription: asked.event_subscription.clone(),
                    from,
                    to,
                    step,
                    by: asked.by.unwrap_or_default(),
                    total,
                }))
            }
            _ => {
                if problems.is_empty() {
                    let rule = "must have exactly one of attempts, ledger and series";
                    problems.add(Code::InvalidValue, "$", rule);
                }
                None
            }
        }
    }
}

/// Reads one of the questions.
struct Reading<'p> {
    member: &'static str,
    problems: &'p mut Problems,
}

impl Reading<'_> {
    fn add(&mut self, code: Code, name: impl fmt::Display, rule: impl Into<String>) {
        self.problems.add(code, format!("{}.{name}", self.member), rule);
    }

    fn names(&mut self, topic: &Option<String>, subscription: &Option<String>) {
        let topic = topic.as_deref().map(topic::check_name);
        let subscription = subscription.as_deref().map(subscription::check_name);
        for (name, checked) in [("topic", topic), ("eventSubscription", subscription)] {
            if let Some(Err(Problem { code, rule, .. })) = checked {
                self.add(code, name, rule);
            }
        }
    }

    /// Returns the times from and to; the former is so long before the latter by default.
    fn span(
        &mut self,
        (from, to, long): (Option<Time>, Option<Time>, Duration),
        now: Timestamp,
    ) -> (Timestamp, Timestamp) {
        let to = to.map_or(now, |to| to.0);
        let long = i64::try_from(long.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(to.as_millis().saturating_sub(long));
        let from = from.map_or(before, |from| from.0);
        if from > to {
            let (from, to) = (Time(from), Time(to));
            let rule = format!("must not be after to, {to}, but is {}", quoted(&from.to_string()));
            self.add(Code::InvalidValue, "from", rule);
        }
        (from, to)
    }

    fn ascending(&mut self, cuts: &[Timestamp]) {
        if let Some(at) = cuts.windows(2).position(|pair| pair[0] > pair[1]) {
            let place = format!("cuts[{}]", at + 1);
            self.add(Code::InvalidValue, place, "must not be before the cut in front of it");
        }
    }
}

/// Writes a question with all that it means.
impl From<&Question> for JournalQueryInput {
    fn from(question: &Question) -> Self {
        let mut input = Self::default();
        match question.clone() {
            Question::Attempts(question) => {
                input.attempts = Some(AttemptsQuery {
                    topic: question.topic,
                    event_subscription: question.subscription,
                    event_id: question.event_id,
                    from: Some(question.from.into()),
                    to: Some(question.to.into()),
                    failed: question.failed.then_some(true),
                    outcomes: Some(question.outcomes).filter(|outcomes| !outcomes.is_empty()),
                });
            }
            Question::Ledger(question) => {
                let cuts: Vec<_> = question.cuts.into_iter().map(Time).collect();
                input.ledger = Some(LedgerQuery {
                    topic: question.topic,
                    event_subscription: question.subscription,
                    from: Some(question.from.into()),
                    to: Some(question.to.into()),
                    cuts: Some(cuts).filter(|cuts| !cuts.is_empty()),
                });
            }
            Question::Series(question) => {
                input.series = Some(SeriesQuery {
                    topic: question.topic,
                    event_subscription: question.subscription,
                    from: Some(question.from.into()),
                    to: Some(question.to.into()),
                    step: Some(question.step),
                    by: Some(question.by),
                    total: question.total.then_some(true),
                });
            }
        }
        input
    }
}
