//! Bugs in the rules of delivery, for the simulation to notice.

use super::Mutation;

const PLAN: &str = "shared/core/src/delivery/plan.rs";
const HEALTH: &str = "shared/core/src/retry/health.rs";
const RETRY: &str = "shared/core/src/retry.rs";

/// All of them.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "time-to-live not checked",
        file: PLAN,
        old: r#"    if now >= subscription.expires_at {
"#,
        new: r#"    if false && now >= subscription.expires_at {
"#,
    },
    Mutation {
        name: "events of one schema go out as they came",
        file: "shared/core/src/publish/pack.rs",
        old: "Body::new(event.in_schema(schema), data_version.to_owned(), event.trace_parent())",
        new: "Body::new(event.text.to_owned(), data_version.to_owned(), event.trace_parent())",
    },
    Mutation {
        name: "early wake attempts at once",
        file: PLAN,
        old: r#"    let early = due.map_or(Duration::ZERO, |due| due.since(now));
"#,
        new: r#"    let due = due.filter(|_| facts.lane == Lane::First);
    let early = due.map_or(Duration::ZERO, |due| due.since(now));
"#,
    },
    Mutation {
        name: "hidden beyond 12 hours",
        file: "shared/core/src/delivery/parking.rs",
        old: "    seconds_up(wait.min(most))",
        new: "    let _ = most;\n    seconds_up(wait)",
    },
    Mutation {
        name: "a mark is forgotten before the copy that waits comes back",
        file: "shared/core/src/delivery/state.rs",
        old: "        self.copies_until.max(due).max(self.resend.map(|resend| resend.was_due))",
        new: "        self.copies_until.filter(|_| due.is_none())",
    },
    Mutation {
        name: "messages wear out",
        file: "shared/core/src/delivery/parking.rs",
        old: "    if receives >= RECEIVES_MAX ||",
        new: "    if receives == u32::MAX ||",
    },
    Mutation {
        name: "batches by bytes alone",
        file: "shared/core/src/delivery/batch.rs",
        old: "            && sum.events + load.events <= batching.max_events as usize\n",
        new: "",
    },
    Mutation {
        name: "Retry-After ignored",
        file: RETRY,
        old: "    let least = Duration::from_secs(u64::from(min_s)).max(asked);",
        new: "    let _ = asked;\n    let least = Duration::from_secs(u64::from(min_s));",
    },
    Mutation {
        name: "one attempt too many",
        file: RETRY,
        old: "    if failure.attempts >= rules.policy.max_attempts {",
        new: "    if failure.attempts > rules.policy.max_attempts {",
    },
    Mutation {
        name: "a state is forgotten while its delivery waits",
        file: "shared/core/src/delivery/state.rs",
        old: "due.max(self.ttl_starts_at() + LIFE_MAX + PAUSE_MAX)",
        new: "due",
    },
    Mutation {
        name: "a failed probe does not lengthen the wait",
        file: "shared/core/src/retry/health/change.rs",
        old: "        Some(wait) if probed => wait.step.saturating_add(1),",
        new: "        Some(wait) if probed => wait.step,",
    },
    Mutation {
        name: "events end while delivery is only delayed",
        file: HEALTH,
        old: "        let Some(wait) = self.probation.filter(|wait| now < wait.until) else { return false };",
        new: "        let Some(wait) = self.probation.filter(|_| Some(now) < self.until()) else { return false };",
    },
    Mutation {
        name: "failures count beside successes of other copies",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let too_soon = success.is_some_and(|at| failed.ended_at < at + AS_FAR_AS_KNOWN);",
        new: "    let too_soon = success.is_some_and(|at| failed.ended_at < at + AS_FAR_AS_KNOWN / 1_000);",
    },
    Mutation {
        name: "a failed probe opens the gate",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let least = (probed && delayed.is_none()).then_some(FAILED_PROBE_WAIT);",
        new: "    let least = (probed && delayed.is_none()).then_some(FAILED_PROBE_WAIT).filter(|_| false);",
    },
    Mutation {
        name: "each failure lengthens the wait",
        file: "shared/core/src/retry/health/change.rs",
        old: "        Some(wait) if until < wait.until + EXTENDED_BY_MIN => current,",
        new: "        Some(wait) if until < wait.until + EXTENDED_BY_MIN / 1_000 => current,",
    },
    Mutation {
        name: "a backlog comes back at once",
        file: HEALTH,
        old: "        spread.mul_f64(self.dice",
        new: "        spread.min(SPREAD_MIN).mul_f64(self.dice",
    },
    Mutation {
        name: "another endpoint's backlog lengthens a wait",
        file: HEALTH,
        old: "spread.min(over.since(first))",
        new: "spread.max(over.since(first).min(spread))",
    },
    Mutation {
        name: "a success of a stale copy ends a wait",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let ends = health.until().is_some_and(|until| began_at >= until);\n",
        new: "    let ends = health.until().is_some();\n",
    },
    Mutation {
        name: "rate not honoured",
        file: "shared/core/src/delivery/rate.rs",
        old: "    if count <= rate {",
        new: "    if count > 0 {",
    },
    Mutation {
        name: "consent not waited for",
        file: PLAN,
        old: r#"    if let Some(until) = subscription.consent_until {
"#,
        new: r#"    if let Some(until) = subscription.consent_until.filter(|_| false) {
"#,
    },
    Mutation {
        name: "a first attempt that waits as long as it likes",
        file: HEALTH,
        old: "const PROBED_LOOK_AGAIN: Duration = Duration::from_secs(20);",
        new: "const PROBED_LOOK_AGAIN: Duration = Duration::from_secs(200);",
    },
    Mutation {
        name: "a redrive sends what an earlier one has sent",
        file: "shared/core/src/delivery/redrive.rs",
        old: "        } else if !self.send_again && earlier.iter()",
        new: "        } else if self.send_again && earlier.iter()",
    },
];
