//! What came of a request to an endpoint.

use futures::future::BoxFuture;
use gridpost_core::{
    delivery::{
        partial_results::ResponseBody,
        probe::{Failure, Stage},
    },
    retry::outcome::{Answer, Outcome},
};
use tokio::time::Instant;

/// The result of an attempt.
pub enum Attempted {
    Answered {
        answer: Answer,
        /// The beginning of a response that failed, or that says something about single events;
        /// escaped, if it is kept.
        response_text: Option<String>,
        /// The body of an accepted response, if its request asks for it.
        body: Option<Box<ResponseBody>>,
    },
    /// No response head within [`RESPONSE_WAIT`](gridpost_core::retry::outcome::RESPONSE_WAIT). The connection is kept: the future resolves to
    /// the late answer, or to `None` if none came within [`LATE_RESPONSE_WAIT`](gridpost_core::retry::outcome::LATE_RESPONSE_WAIT) of sending.
    TimedOut { late: BoxFuture<'static, Option<Answer>> },
}

impl From<Answer> for Attempted {
    fn from(answer: Answer) -> Self {
        Self::Answered { answer, response_text: None, body: None }
    }
}

/// The result of a request that is made to find out what fails.
pub struct Probed {
    pub attempted: Attempted,
    /// What failed on the way to an answer.
    pub failure: Option<Failure>,
}

impl From<Attempted> for Probed {
    fn from(attempted: Attempted) -> Self {
        Self { attempted, failure: None }
    }
}

impl Probed {
    /// Of a request that failed there.
    pub fn failed(answer: Answer, failure: Failure) -> Self {
        Self { attempted: answer.into(), failure: Some(failure) }
    }

    /// Of a request whose time was over in that stage.
    pub fn late(stage: Stage, began_at: Instant) -> Self {
        let answer = Answer::without_status(Outcome::TimedOut);
        Self::failed(answer, Failure::under_way(stage, began_at.elapsed()))
    }
}
