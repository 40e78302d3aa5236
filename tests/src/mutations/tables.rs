//! Bugs in the core.

use super::Mutation;

const CORE_SUBSCRIPTION_FILTER_COMPILED: &str = "shared/core/src/subscription/filter/compiled.rs";

/// Those that a table of its own tests notices.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "a filter that can't be read is the stored one",
        file: "shared/core/src/subscription/resource/filter.rs",
        old: "existing != Some(&read) || !own.are_limits()",
        new: "existing != Some(&read)",
    },
    Mutation {
        name: "what a redrive could not read counts as sent",
        file: "shared/core/src/delivery/redrive.rs",
        old: "        if self.may_be_unread(position) {",
        new: "        if self.dry_run && self.may_be_unread(position) {",
    },
    Mutation {
        name: "a request from before a wait takes the probe its result",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let (delayed, probation) = if probing {\n",
        new: "    let (delayed, probation) = if probing && failed.delivery.is_nil() {\n",
    },
    Mutation {
        name: "a null hides the stamp from filters",
        file: "shared/core/src/subscription/filter/values.rs",
        old: "(json != \"null\" || self.stamp(place).is_none()).then_some(json)",
        new: "Some(json)",
    },
    Mutation {
        name: "an expiry of .NET with its offset is refused",
        file: "shared/core/src/publish/sas.rs",
        old: "offset.starts_with(['+', '-']).then_some(offset)?",
        new: "offset.starts_with('z').then_some(offset)?",
    },
    // Its slots bound it in the first lane, too, so the simulation does not notice.
    Mutation {
        name: "a slow endpoint keeps the first lane",
        file: "shared/core/src/delivery/plan.rs",
        old: "        (_, Lane::First) if subscription.is_slow => Plan::MoveLane,\n",
        new: "",
    },
    // The bound grows with each answer, and what never answers is soon in probation.
    Mutation {
        name: "a slow lane without a bound",
        file: "shared/core/src/retry/lane.rs",
        old: "wanted.min(slow.bound(settings).saturating_sub(others));",
        new: "wanted.max(others.min(0));",
    },
    // Its next slow answers mark it again at once.
    Mutation {
        name: "a mark ends while its requests are under way",
        file: "shared/core/src/retry/lane.rs",
        old: "now < until || self.under_way(now) > 0)",
        new: "now < until)",
    },
    Mutation {
        name: "a body in the order of receipt",
        file: "shared/core/src/delivery/request.rs",
        old: r#"    deliveries.sort_by_key(|delivery| (delivery.publish_time, delivery.id));
"#,
        new: "",
    },
    Mutation {
        name: "each filter walks an event by itself",
        file: CORE_SUBSCRIPTION_FILTER_COMPILED,
        old: "            if self.filters[*position].wants(&asked) {",
        new: "            if self.filters[*position].wants(&Evaluation::new(&self.keys, event)) {",
    },
    Mutation {
        name: "filters walk events that they ask nothing of",
        file: CORE_SUBSCRIPTION_FILTER_COMPILED,
        old: "        let of_type = self.by_type.get(&*event.event_type).map_or(&[][..], Vec::as_slice);",
        new: r#"        asked.values();
        let of_type = self.by_type.get(&*event.event_type).map_or(&[][..], Vec::as_slice);"#,
    },
    Mutation {
        name: "admission triples",
        file: "shared/core/src/retry/health.rs",
        old: "u64::MAX } else { 1 << seconds }",
        new: "u64::MAX } else { 3_u64.pow(u32::try_from(seconds).unwrap_or(9)) }",
    },
    Mutation {
        name: "a deletion that is not seen yet counts as seen",
        file: "shared/core/src/topic/changes.rs",
        old: "found(name).is_none_or(|revision| revision > *number)",
        new: "found(name).is_none_or(|revision| revision > 0 || *number > 0)",
    },
    Mutation {
        name: "arrays are looked into unasked",
        file: CORE_SUBSCRIPTION_FILTER_COMPILED,
        old: "            looks_into_arrays: filter.enable_advanced_filtering_on_arrays,",
        new: "            looks_into_arrays: true,",
    },
    Mutation {
        name: "what a queue gets is counted as it is in the event",
        file: "shared/core/src/delivery/resource_request.rs",
        old: "ResourceKind::SqsQueue | ResourceKind::SnsTopic => queue_text_bytes(&self.body),",
        new: "ResourceKind::SqsQueue | ResourceKind::SnsTopic => self.body.len(),",
    },
];

/// Those in the ledger, which the runtime's tests read from lines as its meter writes them.
pub(super) const LEDGER: &[Mutation] = &[
    Mutation {
        name: "a difference without redriven events",
        file: "shared/core/src/ledger.rs",
        old: "i128::from(matched.saturating_add(*redriven))",
        new: "i128::from(matched.saturating_add(*redriven - *redriven))",
    },
    Mutation {
        name: "the hour of `since` does not count",
        file: "shared/core/src/ledger.rs",
        old: "line.publish_hour >= since.hour()",
        new: "line.publish_hour > since.hour()",
    },
];

/// Those that a stored text notices.
pub(super) const STORED: &[Mutation] = &[
    Mutation {
        name: "a member of the queue form has another name",
        file: "shared/core/src/delivery.rs",
        old: r#"    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,"#,
        new: r#"    #[serde(default, skip_serializing_if = "Option::is_none", rename = "dueAt")]
    pub due: Option<Timestamp>,"#,
    },
    Mutation {
        name: "a state forgets what its events were",
        file: "shared/core/src/delivery/state.rs",
        old: r#"    #[serde(default, skip_serializing_if = "EventSet::is_empty")]
    pub done: EventSet,"#,
        new: r#"    #[serde(skip)]
    pub done: EventSet,"#,
    },
];
