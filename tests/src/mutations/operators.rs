//! Bugs in manage, for its own tests to notice.

use super::Mutation;

const MANAGE_ROUTES_PARKED: &str = "functions/manage/src/routes/parked.rs";
const MANAGE_ROUTES_POISON: &str = "functions/manage/src/routes/poison.rs";
const MANAGE_ROUTES_POISON_PURGED: &str = "functions/manage/src/routes/poison/purged.rs";
const MANAGE_ROUTES_DEAD_LETTERS: &str = "functions/manage/src/routes/dead_letters.rs";
const MANAGE_ROUTES_GATE: &str = "functions/manage/src/routes/gate.rs";
const MANAGE_ROUTES_SUBSCRIPTIONS: &str = "functions/manage/src/routes/subscriptions.rs";

/// All of them.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "a purge that fails midway says that nothing was deleted",
        file: "functions/manage/src/routes/dead_letters.rs",
        old: "(Err(error), Some(given)) if purged.objects > 0 => {",
        new: "(Err(error), Some(given)) if purged.objects > 1_000_000 => {",
    },
    Mutation {
        name: "released while its parked copy says so, its state does not",
        file: MANAGE_ROUTES_PARKED,
        old: r#"            let standing = stand(context, delivery, wanted).await?;
"#,
        new: r#"            let _ = stand;
            let standing = wanted;
"#,
    },
    Mutation {
        name: "a parked delivery is removed before it is sent",
        file: MANAGE_ROUTES_PARKED,
        old: r#"    send_back(context, super::retry_queue(context, &one.parked)?, outgoing).await?;
    context.parking.remove(&one.parked).await?;
"#,
        new: r#"    context.parking.remove(&one.parked).await?;
    send_back(context, super::retry_queue(context, &one.parked)?, outgoing).await?;
"#,
    },
    Mutation {
        name: "a cancellation overrides what has ended",
        file: MANAGE_ROUTES_PARKED,
        old: "            Some(state) if matches!(state.standing, DeliveryStatus::Waiting { .. }) => {",
        new: "            Some(state) if state.revision > 0 => {",
    },
    Mutation {
        name: "a resend forgets that it was asked for",
        file: "functions/manage/src/routes/resend.rs",
        old: "resend: Some(Resend { at: now, was_due }),",
        new: "resend: Some(Resend { at: now, was_due }).filter(|_| false),",
    },
    Mutation {
        name: "poison is removed before it is sent back",
        file: MANAGE_ROUTES_POISON,
        old: r#"    send_back(context, queue, outgoing).await?;
"#,
        new: r#"    let _ = context.receiver.delete(Queue::Poison, vec![message.receipt.clone()]).await;
    send_back(context, queue, outgoing).await?;
"#,
    },
    Mutation {
        name: "purged poison is not counted",
        file: MANAGE_ROUTES_POISON_PURGED,
        old: r#"            if events > 0 {
                context.meter.count_events(metric, &[reason, topic, name], at, events);
            }
            events"#,
        new: r#"            let _ = (metric, reason, topic, name, at);
            events"#,
    },
    Mutation {
        name: "a purge counts what is done, too",
        file: MANAGE_ROUTES_POISON_PURGED,
        old: "    state.iter().for_each(|state| done.add_all(&state.done));\n",
        new: "    let _ = state;\n",
    },
    Mutation {
        name: "a purge of what is about to end",
        file: MANAGE_ROUTES_POISON_PURGED,
        old: "    if let Some(DeliveryStatus::Ending { reason, .. }) = status {",
        new: "    if let Some(DeliveryStatus::Ending { reason, .. }) = status.filter(|_| false) {",
    },
    Mutation {
        name: "a purge notes the end before it counts",
        file: MANAGE_ROUTES_POISON_PURGED,
        old: "    let dropped = match (&content, has_ended) {",
        new: r#"    if let Content::Delivery(delivery) = &content {
        note_end(context, delivery, state.clone()).await;
    }
    let dropped = match (&content, has_ended) {"#,
    },
    Mutation {
        name: "a purge deletes objects that have others, too",
        file: MANAGE_ROUTES_DEAD_LETTERS,
        old: "        if others == 0 {",
        new: "        if meant > 0 {",
    },
    Mutation {
        name: "a purge beside a redrive",
        file: MANAGE_ROUTES_DEAD_LETTERS,
        old: "choice.jobs.iter().find(|job| job.status == Status::Running)",
        new: "choice.jobs.iter().find(|job| job.status == Status::Running && job.total == Some(0))",
    },
    Mutation {
        name: "any route is carried out",
        file: MANAGE_ROUTES_GATE,
        old: "(Some(matched), _) => *matched == route.key,",
        new: "(Some(_), _) => true,",
    },
    Mutation {
        name: "an unsigned request is carried out",
        file: MANAGE_ROUTES_GATE,
        old: "if is_open || request.authorizer == Some(Authorizer::Iam) {",
        new: "if is_open || request.authorizer.is_none() || request.authorizer == Some(Authorizer::Iam) {",
    },
    Mutation {
        name: "a change is answered before the data plane has seen it",
        file: MANAGE_ROUTES_SUBSCRIPTIONS,
        old: r#"    log(&subscription.key, if is_new { "created" } else { "replaced" });
    context.until_seen().await;
"#,
        new: r#"    log(&subscription.key, if is_new { "created" } else { "replaced" });
"#,
    },
    Mutation {
        name: "another destination keeps its health",
        file: MANAGE_ROUTES_SUBSCRIPTIONS,
        old: "        false => Some(context.dice.id()),",
        new: "        false => existing.endpoint_uid,",
    },
    Mutation {
        name: "If-Match is not looked at",
        file: "functions/manage/src/precondition.rs",
        old: "if self.if_match.as_ref().is_some_and(|tags| !among(tags)) {",
        new: "if self.if_match.as_ref().is_some_and(|tags| !among(tags) && tag.is_none()) {",
    },
    Mutation {
        name: "a log line shows where an event subscription leads",
        file: MANAGE_ROUTES_SUBSCRIPTIONS,
        old: "    log(&subscription.key, if is_new",
        new: r#"    if let Endpoint::WebHook { url } = &subscription.endpoint {
        tracing::debug!(url = url.expose(), "written");
    }
    log(&subscription.key, if is_new"#,
    },
    Mutation {
        name: "the next page forgets what was chosen",
        file: "functions/manage/src/page.rs",
        old: r#"        query.extend_pairs(&self.filters);
"#,
        new: "",
    },
    Mutation {
        name: "a redrive begins before all that it is to send can be seen",
        file: "shared/core/src/delivery/redrive.rs",
        old: "SEEN_AFTER: Duration = Duration::from_secs(5)",
        new: "SEEN_AFTER: Duration = Duration::ZERO",
    },
];
