//! Bugs in batches that end in parts, for the tests of the packages that they are in to notice.

use super::Mutation;

const BISECT: &str = "shared/core/src/delivery/bisect.rs";
const RESULTS: &str = "shared/core/src/delivery/partial_results.rs";
const DISPATCH_BISECT: &str = "functions/dispatch/src/bisect.rs";

/// Those in the rules.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "a batch is split for the endpoint's own failure",
        file: BISECT,
        old: "    matches!(outcome, Outcome::BadRequest | Outcome::PayloadTooLarge | Outcome::ServerError)",
        new: "    outcome != Outcome::Delivered",
    },
    Mutation {
        name: "halves are sent beyond the attempts of their events",
        file: BISECT,
        old: "        if is_separable && self.made + requests < self.rules.policy.max_attempts {",
        new: "        if is_separable {",
    },
    Mutation {
        name: "what was not separated ends together",
        file: "shared/core/src/delivery/partial.rs",
        old: "        Rule::End if is_spent || !met.is_separable =>",
        new: "        Rule::End =>",
    },
    Mutation {
        name: "the right half of a refused batch is forgotten",
        file: BISECT,
        old: "let mut halves = [half(events.start..middle), half(middle..events.end)];",
        new: "let mut halves = [half(events.start..middle), half(events.start..middle)];",
    },
    Mutation {
        name: "each visit begins with the same half of a batch",
        file: BISECT,
        old: "from_right: !visited.is_multiple_of(2),",
        new: "from_right: false,",
    },
    Mutation {
        name: "a compressed answer says that all are delivered",
        file: RESULTS,
        old: "bytes[begin] != b'[' && is_text(&bytes[begin..]);",
        new: "bytes[begin] != b'[';",
    },
    Mutation {
        name: "an endpoint that fails altogether is asked for each half",
        file: BISECT,
        old: "        if self.is_over || self.refused_in_row >= self.refused_in_row_max {",
        new: "        if self.is_over {",
    },
    Mutation {
        name: "halves of a delivery have one id for their receiver",
        file: "shared/core/src/delivery/request.rs",
        old: "        && only.done.is_empty()\n",
        new: "",
    },
    Mutation {
        name: "an unknown event in an answer changes nothing",
        file: RESULTS,
        old: "        is_understood &= !places.is_empty();\n",
        new: "        is_understood &= true;\n",
    },
    Mutation {
        name: "a cut body counts as far as it goes",
        file: RESULTS,
        old: "    if !body.is_whole {\n        return all_again(events.len());",
        new: "    if false {\n        return all_again(events.len());",
    },
    Mutation {
        name: "an id of two sources ends both",
        file: RESULTS,
        old: "if is_ambiguous && *wish == Wish::End { Wish::Retry } else { *wish };",
        new: "*wish;",
    },
    Mutation {
        name: "what is over is sent in a half",
        file: BISECT,
        old: "                .filter(|(delivery, _)| !is_over(*delivery))\n",
        new: "",
    },
];

/// Those in dispatch.
pub(super) const DISPATCH: &[Mutation] = &[
    Mutation {
        name: "first attempts are split as long as later ones",
        file: DISPATCH_BISECT,
        old: "if is_first { FIRST_BISECTS_FOR } else { BISECTS_FOR }",
        new: "if is_first { BISECTS_FOR } else { BISECTS_FOR }",
    },
    Mutation {
        name: "what the endpoint refused hides its own failure",
        file: DISPATCH_BISECT,
        old: "own.or(run.failed.first())",
        new: "run.failed.first().or(own)",
    },
    Mutation {
        name: "parts outlive the claim of the probe",
        file: DISPATCH_BISECT,
        old: "if !self.held_until.is_none_or(is_left) {",
        new: "if !self.held_until.is_none_or(|until| is_left(until) || true) {",
    },
    Mutation {
        name: "events that can't be ended alone are attempted again",
        file: "functions/dispatch/src/settle.rs",
        old: "        if next_step == NextStep::Delivered {\n            // There",
        new: "        if let NextStep::End(_) = next_step {
            let due = times.1 + std::time::Duration::from_secs(60);
            let because = gridpost_core::retry::DelayReason::MinimumDelay;
            next_step = NextStep::Retry { due, because };
        }
        if next_step == NextStep::Delivered {\n            // There",
    },
    Mutation {
        name: "a success takes the payload from the dead letter of another attempt",
        file: "functions/dispatch/src/settle.rs",
        old: "Ok(Marked::HasEnded) => return Ok(Disposition::Delete),",
        new: "Ok(Marked::HasEnded) => {}",
    },
    Mutation {
        name: "every event subscription's batches are split",
        file: DISPATCH_BISECT,
        old: "    if !subscription.batch_failure.bisects {",
        new: "    if false {",
    },
    Mutation {
        name: "one delivery whose time is over stops the split of all",
        file: DISPATCH_BISECT,
        old: "            bisection.leave_out(|delivery| now >= self.hands[delivery].expires_at());\n",
        new: "            if self.hands.iter().any(|hand| now >= hand.expires_at()) {\n                break;\n            }\n",
    },
    Mutation {
        name: "a half takes no slot of its endpoint's rate",
        file: DISPATCH_BISECT,
        old: "        match rate::turn(context, subscription, None).await {",
        new: "        match rate::turn(context, subscription, Some(now)).await {",
    },
    Mutation {
        name: "refused halves are kept from the endpoint's health",
        file: DISPATCH_BISECT,
        old: "        if let Some(Try { answer, times, .. }) = own.or(run.failed.first()) {",
        new: "        if let Some(Try { answer, times, .. }) = own.and(None::<&Try>) {",
    },
    Mutation {
        name: "a half says that it is the batch's attempt again",
        file: DISPATCH_BISECT,
        old: "            part.delivery.attempts.made += group.requests();\n",
        new: "",
    },
    Mutation {
        name: "a late answer is heard that may name events",
        file: "functions/dispatch/src/attempt.rs",
        old: "    let is_heard_late = !request.reads_results;",
        new: "    let is_heard_late = true;",
    },
    Mutation {
        name: "the attempts of a part count as one",
        file: "functions/dispatch/src/settle.rs",
        old: "attempts.with_requests(began_at, answer, requests);",
        new: "attempts.with_requests(began_at, answer, 1);",
    },
];

/// Those that a world of bad events shows.
pub(super) const SIMULATION: &[Mutation] = &[
    Mutation {
        name: "ends of parts of a delivery share what is stored of them",
        file: "functions/dispatch/src/settle/end.rs",
        old: "delivery.rest()",
        new: "delivery.clone()",
    },
    Mutation {
        name: "a dead letter tells of the request of the whole batch",
        file: "functions/dispatch/src/settle/end.rs",
        old: "    let began_at = (began_at, last_at.unwrap_or(began_at));",
        new: "    let began_at = (began_at, last_at.map_or(began_at, |_| began_at));",
    },
    Mutation {
        name: "the halves of a batch repeat the number of its attempt",
        file: DISPATCH_BISECT,
        old: "            part.delivery.attempts.made += group.requests();\n",
        new: "            part.delivery.attempts.made += group.requests() - 1;\n",
    },
];

/// Those in the client.
pub(super) const WEBHOOK: &[Mutation] = &[
    Mutation {
        name: "a body that breaks off is whole",
        file: "shared/webhook/src/http/body.rs",
        old: "            Ok(Some(Err(_))) | Err(_) => return read,",
        new: "            Ok(Some(Err(_))) | Err(_) => return ResponseBody { is_whole: true, ..read },",
    },
    Mutation {
        name: "an encoded body is read as it is",
        file: "shared/webhook/src/http/attempt.rs",
        old: "let is_encoded = is_encoded(&head.headers) && !body.is_end_stream();",
        new: "let is_encoded = is_encoded(&head.headers) && false;",
    },
];
