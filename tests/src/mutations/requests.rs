//! Bugs in dispatch, in the client for endpoints and in the runtime, for their own tests to notice.

use super::Mutation;

const DISPATCH_LOAD: &str = "functions/dispatch/src/load.rs";
const WEBHOOK_HTTP: &str = "shared/webhook/src/http.rs";

/// Those in dispatch.
pub(super) const DISPATCH: &[Mutation] = &[
    Mutation {
        name: "a count that hangs is asked for by each record",
        file: "functions/dispatch/src/in_flight.rs",
        old: "(now + began.elapsed(), count)",
        new: "(now, count)",
    },
    Mutation {
        name: "what ends without its event subscription counts what was delivered",
        file: "functions/dispatch/src/group.rs",
        old: "    if let Some(state) = &state {
        catch_up(&mut delivery, state);
    }
",
        new: "",
    },
    Mutation {
        name: "the state of a second receipt is not loaded",
        file: DISPATCH_LOAD,
        old: "record.receive_count <= 1 {",
        new: "record.receive_count <= 2 {",
    },
    Mutation {
        name: "deliveries of several revisions go by the oldest",
        file: DISPATCH_LOAD,
        old: "group.iter().map(|received| received.delivery.revision).max();",
        new: "group.iter().map(|received| received.delivery.revision).min();",
    },
    // A copy that decides otherwise comes back, finds what is stored and follows that: late, no more.
    Mutation {
        name: "what another copy wrote is not followed",
        file: "functions/dispatch/src/settle.rs",
        old: r#"        Ok(None) => follow_stored(context, hand).await,
        Err(error) => {
            not_written(&hand, &error, "its message carries it on");"#,
        new: r#"        Ok(None) => apply(context, hand, status).await,
        Err(error) => {
            not_written(&hand, &error, "its message carries it on");"#,
    },
    Mutation {
        name: "a requested attempt does not answer the request",
        file: "functions/dispatch/src/in_hand.rs",
        old: "        let is_answered = stored.resend.is_some() && stored.resend == self.resend;\n",
        new: "        let is_answered = stored.resend.is_some() && stored.revision == 0;\n",
    },
    Mutation {
        name: "a message is shown again beside a requested attempt",
        file: "functions/dispatch/src/settle.rs",
        old: "        Ok(Some(_)) if hand.resend.is_some() => hold::beside_another(context, hand, due).await,\n",
        new: "",
    },
    // A write that fails leaves a message that is tried again without a schedule: seeds excuse that.
    Mutation {
        name: "a failed write of state ends the schedule",
        file: "functions/dispatch/src/settle.rs",
        old: "            hold::in_message(context, hand, due).await\n",
        new: "            let _ = due;\n            Err(error)\n",
    },
    Mutation {
        name: "nothing is admitted bit by bit after a success",
        file: "functions/dispatch/src/planned.rs",
        old: "            Plan::Attempt { .. } => context.healths.note_admitted(&owner.subscription, now),",
        new: "            Plan::Attempt { .. } => {}",
    },
    Mutation {
        name: "the endpoint's URL is in a log line",
        file: "functions/dispatch/src/attempt_log.rs",
        old: r#"        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(began_at, ended_at),
        decision = what,"#,
        new: r#"        endpoint = ?match &hand.subscription().endpoint {
            gridpost_core::subscription::Endpoint::WebHook { url } => url.expose().to_owned(),
            other => format!("{other:?}"),
        },
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(began_at, ended_at),
        decision = what,"#,
    },
    Mutation {
        name: "an unknown count of messages is nought",
        file: "functions/dispatch/src/in_flight.rs",
        old: "last.map_or(0, |(_, count)| count)",
        new: "last.map_or(0, |(_, count)| count - count)",
    },
    Mutation {
        name: "a payload is let go before the end of its delivery is counted",
        file: "functions/dispatch/src/payload.rs",
        old: r#"    context.meter.flush(context.clock.now());
"#,
        new: "",
    },
    Mutation {
        name: "late responses are listened for in a busy lane",
        file: "functions/dispatch/src/late_response.rs",
        old: "visible.is_ok_and(|visible| visible <= QUIET_VISIBLE_MAX)",
        new: "visible.is_ok_and(|visible| visible < u64::MAX - QUIET_VISIBLE_MAX)",
    },
    Mutation {
        name: "what a part has delivered is told as all of it",
        file: "functions/dispatch/src/attempt_log.rs",
        old: "hand.delivery.event_ids_of(part)",
        new: "hand.delivery.event_ids()",
    },
];

/// Those in the client for endpoints.
pub(super) const WEBHOOK: &[Mutation] = &[
    Mutation {
        name: "connections to any number of hosts are kept",
        file: "shared/webhook/src/sockets.rs",
        old: "if open.load(Ordering::Relaxed) > OPEN_MAX {",
        new: "if open.load(Ordering::Relaxed) > usize::MAX - OPEN_MAX {",
    },
    Mutation {
        name: "connections of many requests at once are all kept",
        file: "shared/webhook/src/sockets.rs",
        old: "self.0.under_way.load(Ordering::Relaxed) > OPEN_MAX",
        new: "self.0.under_way.load(Ordering::Relaxed) > usize::MAX - OPEN_MAX",
    },
    Mutation {
        name: "having no descriptor is a failure of the endpoint",
        file: "shared/webhook/src/connect.rs",
        old: "OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];",
        new: "OUT_OF_DESCRIPTORS: [i32; 2] = [-24, -23];",
    },
    Mutation {
        name: "single values of a query are kept of a response",
        file: "shared/webhook/src/http/hidden.rs",
        old: "            for text in values.chain([query]) {\n",
        new: "            for text in values.filter(|_| false).chain([query]) {\n",
    },
    Mutation {
        name: "plain http to public addresses",
        file: "shared/webhook/src/guard.rs",
        old: "networks.permits(**address, public);",
        new: "networks.permits(**address, public || !public);",
    },
    Mutation {
        name: "a request whose connection died late is sent again",
        file: WEBHOOK_HTTP,
        old: "!exchange.is_fresh_or_answered() && began.elapsed() <= STALE_FOR",
        new: "!exchange.is_fresh_or_answered() && began.elapsed() > Duration::ZERO",
    },
    Mutation {
        name: "a refused stream is not sent again",
        file: WEBHOOK_HTTP,
        old: "error.is_remote() && (is_refused || error.is_go_away())",
        new: "error.is_remote() && is_refused && error.is_go_away()",
    },
    Mutation {
        name: "the thirty seconds begin with the name",
        file: "shared/webhook/src/http/attempt.rs",
        old: "sending.get().unwrap_or(&began).checked_add(RESPONSE_WAIT)",
        new: "sending.get().map_or(began, |_| began).checked_add(RESPONSE_WAIT)",
    },
];

/// Those in the runtime.
pub(super) const RUNTIME: &[Mutation] = &[
    Mutation {
        name: "any authorizer is one of IAM",
        file: "shared/runtime/src/gateway.rs",
        old: "iam.as_ref().map(|_| Authorizer::Iam).or(by_jwt)",
        new: "(iam.is_some() || by_jwt.is_some()).then_some(Authorizer::Iam)",
    },
    Mutation {
        name: "hours of publishes are one counter",
        file: "shared/runtime/src/telemetry.rs",
        old: "self.metric.cmp(metric).then_with(|| self.hour.cmp(&hour)).then_with(by_dimensions)",
        new: "self.metric.cmp(metric).then_with(|| hour.cmp(&hour)).then_with(by_dimensions)",
    },
    Mutation {
        name: "a setting that can't be read is its default",
        file: "shared/runtime/src/config.rs",
        old: "        Ok(value) => parsed(name, &value),",
        new: "        Ok(value) => Ok(value.parse().unwrap_or(default)),",
    },
];
