//! Topics, and one of them with its event subscriptions.

use std::time::Duration;

use axum::extract::{Path, Query, State};
use gridpost_api::{
    client::Page,
    health::NamedHealth,
    subscription::{EventSubscription, Filter},
    topic::{Keys, Topic},
};
use gridpost_core::journal::{By, Flow};
use gridpost_ops::{output::word, subscription::show};
use maud::{Markup, html};

use super::App;
use super::chart::{self, Kind};
use super::failure::{self, Answer};
use super::kit::{self, Icon};
use super::page::{Frame, Head, Tab, live_part};
use super::standing::{self, Standing};
use super::text::{self, number, visible};
use super::traffic::{
    Scope, Since, SinceQuery, Totals, Traffic, charts, counted_tile, latency_tile, share, sum,
};
use super::urls::{self, subscription_url, topic_url, with_query};
use super::{create_topic, edit_topic, publish, subscribe};

pub(super) async fn list(State(app): State<App>, Query(query): Query<SinceQuery>) -> Answer {
    let (since, look) = (query.since(), query.look);
    let now = app.settings.target.now().await?;
    let (topics, totals) = tokio::join!(
        app.api.topics_page(look.after.as_deref()),
        app.totals(None, By::Topic, since, now)
    );
    let topics = topics?;
    let (totals, refused) = counted(totals);
    let row = |topic: &Topic| {
        let flow =
            totals.as_ref().map(|totals| totals.of(&topic.name, "").cloned().unwrap_or_default());
        let count = |count: fn(&Flow) -> u64| html! { @if let Some(flow) = &flow { (number(count(flow))) } @else { "–" } };
        let ended = |count: fn(&Flow) -> u64| of_sum(flow.as_ref().map_or(0, count));
        vec![
            html! {
                a href=(topic_url(&topic.name)) { (text::soft(&topic.name)) }
                span.cut.sm.m title=(topic.properties.endpoint) { (topic.properties.endpoint) }
            },
            text::soft(&kind(topic)),
            count(|flow| flow.accepted),
            count(|flow| flow.account.matched),
            html! { @if let Some(flow) = &flow { (share(&flow.account)) } },
            ended(|flow| sum(&flow.account.dead_lettered)),
            ended(|flow| sum(&flow.account.dropped)),
        ]
    };
    let rows: Vec<_> = topics.items.iter().map(row).collect();
    let outcome = format!("Outcome, {}", since.name);
    let body = html! {
        (kit::done(look.done.as_deref()))
        (refused)
        @if rows.is_empty() {
            @let told = "A topic takes events from publishers.";
            (kit::flush("", "", kit::nothing(Icon::Topic, "There is no topic yet", told, "", "topic create orders")))
        } @else {
            @let head = [("Topic", "gr"), ("Kind", "nw"), ("Accepted", "n"), ("Matched", "n"),
                (&outcome, "share"), ("Dead letters", "n"), ("Lost", "n")];
            (kit::flush("", "", kit::table("Topics", &head, &rows)))
        }
        (kit::next_page("/topics", &[("since", since.value)], topics.next.as_deref()))
    };
    let actions = html! {
        (since.choice("/topics"))
        @if app.may_change() { a.btn.pri href=(create_topic::URL) { (kit::icon(Icon::Plus)) "Create topic" } }
    };
    let command = "topic list".to_owned();
    let frame = Frame { tab: Tab::Topics, title: "Topics", above: Vec::new(), command };
    let head = Head { actions: Some(actions), ..Head::default() };
    Ok(app.page_of(&frame, &head, &body))
}

/// Returns counts; or none, and a note that says why.
fn counted(totals: anyhow::Result<Totals>) -> (Option<Totals>, Markup) {
    let title = "What was counted could not be read";
    match totals {
        Ok(totals) => (Some(totals), html! {}),
        Err(error) => (None, kit::note(Kind::Warn, title, failure::told(&error), "")),
    }
}

fn of_sum(count: u64) -> Markup {
    html! { @if count == 0 { "–" } @else { (number(count)) } }
}

pub(super) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    Query(query): Query<SinceQuery>,
) -> Answer {
    of_topic(&app, &topic, query, None).await
}

/// Shows a topic; with its keys, if given.
pub(super) async fn of_topic(
    app: &App,
    topic: &str,
    query: SinceQuery,
    keys: Option<&Keys>,
) -> Answer {
    let (since, look) = (query.since(), query.look);
    let after = look.after.as_deref();
    let now = app.settings.target.now().await?;
    let scope = Scope { topic: Some(topic), name: None };
    let (document, page, healths, traffic, totals) = tokio::join!(
        app.api.topic(topic),
        app.api.subscriptions_page(topic, after),
        app.api.healths_page(topic, after),
        app.traffic(scope, since, now),
        app.totals(Some(topic), By::EventSubscription, since, now)
    );
    let (document, page) = (document?, page?);
    let (totals, refused) = counted(totals);
    let count = Some(page.items.len()).filter(|_| after.is_none() && page.next.is_none());
    let waiting = healths.as_ref().ok().and_then(|healths| {
        healths.items.iter().map(|one| one.health.waiting_events).sum::<Option<u64>>()
    });
    let waiting = waiting.filter(|_| after.is_none() && page.next.is_none());
    let body = html! {
        (kit::done(look.done.as_deref()))
        (live_part("tiles", &html! {
            (refused)
            @if let Ok(traffic) = &traffic { (tiles(traffic, count, waiting)) }
        }))
        (live_part("charts", &html! { @if let Ok(traffic) = &traffic { (charts(&format!("of {topic}"), traffic)) } }))
        (live_part("subscriptions", &subscriptions(topic, page, &healths, totals.as_ref(), since)))
        div.g.g11 {
            (publishing(app, topic, &document, keys))
            (code(&document))
        }
        @if app.may_change() {
            p { a.btn.dng href={ (topic_url(topic)) "/delete" } { "Delete topic" } }
        }
    };
    let url = topic_url(topic);
    let actions = html! {
        (since.choice(&url))
        (kit::button(&publish::url(topic), Some(Icon::Send), "Publish test event"))
        (kit::button(&edit_topic::url(topic), None, "Settings"))
        @if app.may_change() {
            a.btn.pri href=(subscribe::url(topic)) { (kit::icon(Icon::Plus)) "New event subscription" }
        }
    };
    let head = Head {
        beside: Some(html! { (state(&document)) span.m.sm { (kind(&document)) } }),
        actions: Some(actions),
        live: Some(with_query(
            &url,
            &[("since", since.value), ("after", after.unwrap_or_default())],
        )),
        ..Head::default()
    };
    let command = format!("topic show {}", word(topic));
    let frame = Frame { tab: Tab::Topics, title: topic, above: urls::above_topic(), command };
    Ok(app.page_of(&frame, &head, &body))
}

fn state(topic: &Topic) -> Markup {
    match topic.properties.provisioning_state.as_str() {
        "Succeeded" => kit::pill(Kind::Ok, "Accepting"),
        other => kit::pill(Kind::Warn, other),
    }
}

fn kind(topic: &Topic) -> String {
    let schema: &str = topic.properties.settings.input_schema.map_or("-", Into::into);
    let kind: &str = topic.kind.into();
    format!("{kind} · {schema}")
}

fn tiles(traffic: &Traffic, subscriptions: Option<usize>, waiting: Option<u64>) -> Markup {
    let Flow { accepted, unmatched, account, .. } = &traffic.total;
    let (letters, lost) = (sum(&account.dead_lettered), sum(&account.dropped));
    let hundredths = u128::from(account.matched) * 100 / u128::from((*accepted).max(1));
    let fan_out = match accepted {
        0 => "–".to_owned(),
        _ => format!("{}.{:02}", hundredths / 100, hundredths % 100),
    };
    let all = |count| text::counted(count as u64, "event subscription", "event subscriptions");
    let all = subscriptions.map(all).unwrap_or_default();
    let waits = waiting.map_or_else(|| "not known".to_owned(), number);
    let lost = html! { @if lost > 0 { span.t-bad { (number(lost)) " lost" } } };
    let dead = traffic.spark(Kind::Dead, |flow| sum(&flow.account.dead_lettered));
    html! {
        div.g.gt {
            (counted_tile("", None, "Accepted", traffic, |flow| flow.accepted))
            (kit::tile(None, "For no event subscription", number(*unmatched), "of what was accepted", ""))
            (kit::tile(None, "Fan-out", kit::unit(fan_out, "× an event"), all, ""))
            (kit::tile(Kind::Warn, "Waiting", waits, "", traffic.waiting_spark(waiting)))
            (kit::tile(Kind::Dead, "Dead-lettered", number(letters), lost, dead))
            (latency_tile(traffic))
        }
    }
}

/// The endpoint, the keys and what publishers have to know.
fn publishing(app: &App, topic: &str, document: &Topic, keys: Option<&Keys>) -> Markup {
    let settings = &document.properties.settings;
    let endpoint = &document.properties.endpoint;
    let window = settings.idempotency.as_ref().and_then(|one| one.window_in_seconds);
    let profile = settings.delivery_profile.map_or("-", Into::into);
    let window = window.map(|seconds| chart::duration(Duration::from_secs(seconds.into())));
    let body = html! {
        (kit::kv(&[
            ("Endpoint", html! { span.mono { (text::soft(endpoint)) } " " (kit::copy(endpoint, "the endpoint")) }),
            ("Delivery profile", html! { (profile) }),
            ("Idempotency", html! {
                @if let Some(window) = window { "repeats within " (window) " are answered once" } @else { "off" }
            }),
        ]))
        (key_section(app, topic, document, keys))
    };
    kit::card("Publish", "", body)
}

fn key_section(app: &App, topic: &str, document: &Topic, keys: Option<&Keys>) -> Markup {
    let is_shut = document.properties.settings.disable_local_auth == Some(true);
    let url = topic_url(topic);
    html! {
        h2 id="keys" { "Keys" }
        @if is_shut { p.warn { "Keys are refused: the topic has disableLocalAuth." } }
        @if let Some(keys) = keys {
            (kit::kv(&[("key1", &keys.key1), ("key2", &keys.key2)].map(|(name, key)| {
                (name, html! { code { (key.expose()) } " " (kit::copy(key.expose(), name)) })
            })))
        }
        @if app.may_change() {
            @if keys.is_none() {
                (app.act(&format!("{url}/keys#keys"), html! { button { "Show both keys" } }))
            }
            @for key in ["key1", "key2"] {
                details {
                    summary { "Replace " (key) }
                    (app.act(&format!("{url}/keys/rotate#keys"), html! {
                        input type="hidden" name="key" value=(key);
                        label.check {
                            input type="checkbox" name="agreed" value="yes" required;
                            "Publishers that use " (key) " are refused from now on. The other key stays."
                        }
                        button.dng.pri { "Replace " (key) }
                    }))
                }
            }
        } @else {
            p.m { "This console is read-only: it shows no keys." }
        }
    }
}

/// A publish as a command, with a sample event of the topic's schema.
fn code(document: &Topic) -> Markup {
    let curl = format!(
        "curl {} -H \"aeg-sas-key: $KEY\" -H \"content-type: application/json\" \\\n  -d '{}'",
        word(&document.properties.endpoint),
        publish::sample(document)
    );
    let python = format!(
        "from azure.core.credentials import AzureKeyCredential\n\
         from azure.eventgrid import EventGridPublisherClient\n\n\
         client = EventGridPublisherClient(\n    {:?}, AzureKeyCredential(KEY))\n\
         client.send(EVENT)",
        document.properties.endpoint
    );
    let body = html! {
        (kit::block("Publish with curl", &curl))
        details id="python" { summary { "Python" } (kit::block("Publish with Python", &python)) }
        p.sm.m { "Publishers written for Event Grid work unchanged: give them this endpoint and a key." }
    };
    kit::card("From your code", "", body)
}

fn subscriptions(
    topic: &str,
    page: Page<EventSubscription>,
    healths: &anyhow::Result<Page<NamedHealth>>,
    totals: Option<&Totals>,
    since: Since,
) -> Markup {
    let Page { items, next } = page;
    if items.is_empty() {
        let command = format!(
            "subscription create --topic {topic} --subscription first --endpoint https://example.com/hook"
        );
        let told = "No event subscription is on this page. Subscribe an endpoint:";
        let nothing = kit::nothing(Icon::Topic, "No event subscription", told, "", &command);
        return kit::flush("Event subscriptions", "", nothing);
    }
    let refused = healths.as_ref().err();
    let healths = healths.as_ref().map_or(&[][..], |page| &page.items);
    let row = |subscription: &EventSubscription| {
        let name = &subscription.name;
        let health = healths.iter().find(|one| one.name == *name).map(|one| &one.health);
        let counted = totals.map(|totals| totals.of(topic, name).cloned().unwrap_or_default());
        let account = counted.as_ref().map(|flow| &flow.account);
        let p95 =
            account.map(|it| text::bounds(&it.latencies)).map_or("–".into(), |[_, p95, _]| p95);
        let place = show::destination(subscription);
        let letters = account.map_or(0, |account| sum(&account.dead_lettered));
        vec![
            html! {
                a href=(subscription_url(topic, name, "")) id={ "to-" (name) } { (text::soft(name)) }
                span.cut.sm.m title=(visible(&place)) { (visible(&place)) }
            },
            html! {
                @if let Some(health) = health {
                    (Standing::of(health, account).pill()) span.cut.sm.m { (standing::why(health, account)) }
                } @else { "-" }
            },
            html! { span.cut { (filter(subscription.properties.settings.filter.as_ref())) } },
            html! { @if let Some(account) = account { (number(account.matched)) } @else { "–" } },
            html! { @if let Some(account) = account { (share(account)) } },
            html! { (p95) },
            of_sum(health.and_then(|it| it.waiting_events).unwrap_or(0)),
            html! {
                @if letters == 0 { "–" }
                @else { a href=(subscription_url(topic, name, "/dead-letters")) { (number(letters)) } }
            },
        ]
    };
    let rows: Vec<_> = items.iter().map(row).collect();
    let outcome = format!("Outcome, {}", since.name);
    html! {
        @if let Some(error) = refused {
            (failure::problem("Their endpoints' health could not be read.", error))
        }
        @let head = [("Event subscription", ""), ("State", ""), ("Filter", "gr"), ("Matched", "n"),
            (&outcome, "share"), ("p95", "n nw"), ("Waiting", "n"), ("Dead letters", "n")];
        (kit::listed("Event subscriptions", "", &head, &rows))
        (kit::next_page(&topic_url(topic), &[("since", since.value)], next.as_deref()))
    }
}

/// Says in a few words which events it wants.
pub(super) fn filter(filter: Option<&Filter>) -> Markup {
    let Some(filter) = filter else { return html! { "all" } };
    let types = filter.included_event_types.as_deref().unwrap_or_default();
    let types = if matches!(types, [all] if all == "All") { &[] } else { types };
    let conditions = filter.advanced_filters.as_ref().map_or(0, Vec::len);
    let given =
        |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(visible);
    let (begins, ends) = (given(&filter.subject_begins_with), given(&filter.subject_ends_with));
    let mut parts = Vec::new();
    match types {
        [] => {}
        [one] => parts.push(visible(one)),
        more => parts.push(text::counted(more.len() as u64, "type", "types")),
    }
    parts.extend(begins.map(|begins| format!("subject {begins}…")));
    parts.extend(ends.map(|ends| format!("subject …{ends}")));
    parts.extend(
        (conditions > 0).then(|| text::counted(conditions as u64, "condition", "conditions")),
    );
    html! { @if parts.is_empty() { "all" } @else { (parts.join(", ")) } }
}

/// Returns the names of the first topics, about `most` of them, and whether these are all.
pub(super) async fn names(app: &App, most: usize) -> anyhow::Result<(Vec<String>, bool)> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = app.api.topics_page(after.as_deref()).await?;
        names.extend(page.items.into_iter().map(|topic| topic.name));
        after = page.next;
        if after.is_none() || names.len() >= most {
            return Ok((names, after.is_none()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_is_told_in_a_few_words() {
        for (document, want) in [
            (json!({}), "all"),
            (json!({"includedEventTypes": ["All"]}), "all"),
            (json!({"includedEventTypes": ["<A>"]}), "&lt;A&gt;"),
            (
                json!({"includedEventTypes": ["A", "B"], "subjectBeginsWith": "x", "subjectEndsWith": ""}),
                "2 types, subject x…",
            ),
            (
                json!({"advancedFilters": [{"operatorType": "IsNotNull", "key": "data.a"}]}),
                "1 condition",
            ),
        ] {
            let given: Filter = serde_json::from_value(document).expect("a filter");
            assert_eq!(filter(Some(&given)).into_string(), want);
        }
        assert_eq!(filter(None).into_string(), "all");
    }
}
