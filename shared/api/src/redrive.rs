//! Redrive jobs as documents.

use gridpost_core::delivery::redrive::{Counts, Job, JobPhase, JobStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema::{List, Time, stand_in};

/// A page of redrive jobs.
pub type RedriveList = List<Redrive>;

/// A job that sends dead letters again.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redrive {
    pub id: Uuid,
    pub topic: String,
    pub event_subscription: String,
    pub target: RedriveGoal,
    #[schema(value_type = stand_in::JobStatus)]
    pub status: JobStatus,
    #[schema(value_type = stand_in::JobPhase)]
    pub phase: JobPhase,
    pub dry_run: bool,
    pub send_again: bool,
    pub events_per_second: u32,
    pub max_redrives: u32,
    pub created_time: Time,
    pub updated_time: Time,
    /// Events that it will send, as far as they are counted.
    pub counted: u64,
    /// Events that it has sent.
    pub redriven: u64,
    /// Of the present phase.
    pub left_out: LeftOut,
    pub from: Option<Time>,
    /// When the job began, unless an earlier time was asked for: it never meets its own events.
    pub to: Option<Time>,
    pub reason: Option<String>,
    pub event_type: Option<String>,
    pub event_id: Option<String>,
    /// The problem that keeps it from going on.
    pub problem: Option<String>,
}

/// The event subscription that events are sent to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedriveGoal {
    pub topic: String,
    pub event_subscription: String,
}

/// Events that a job does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub redriven_too_often: u64,
    pub sent_before: u64,
    pub other_schema: u64,
    pub unreadable: u64,
}

impl From<&Job> for Redrive {
    fn from(job: &Job) -> Self {
        let Counts { sent, redriven_too_often, sent_before, other_schema, unreadable } = job.counts;
        let (counted, redriven) = match job.phase {
            // While it counts, these are what it will send.
            JobPhase::Counting => (sent, 0),
            JobPhase::Sending => (job.total.unwrap_or(sent), sent),
        };
        let wanted = job.wanted.clone();
        Self {
            id: job.id,
            topic: job.subscription.topic.clone(),
            event_subscription: job.subscription.name.clone(),
            target: RedriveGoal {
                topic: job.to.topic.clone(),
                event_subscription: job.to.name.clone(),
            },
            status: job.status,
            phase: job.phase,
            dry_run: job.dry_run,
            send_again: job.send_again,
            events_per_second: job.events_per_second,
            max_redrives: job.max_redrives,
            created_time: job.created_at.into(),
            updated_time: job.updated_at.into(),
            counted,
            redriven,
            left_out: LeftOut { redriven_too_often, sent_before, other_schema, unreadable },
            from: wanted.from.map(Into::into),
            to: wanted.to.map(Into::into),
            reason: wanted.reason,
            event_type: wanted.event_type,
            event_id: wanted.event_id,
            problem: job.problem.clone(),
        }
    }
}
