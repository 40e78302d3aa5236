//! Topics, and one of them with its event subscriptions.

use axum::extract::{Path, Query, State};
use gridpost_api::{
    client::Page,
    health::NamedHealth,
    subscription::{EventSubscription, Filter},
    topic::{Keys, Topic},
};
use gridpost_core::journal::{By, Flow};
use gridpost_core::ledger::Account;
use gridpost_ops::{output::word, subscription::show};
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::chart::{self, Kind};
use super::failure::{self, Answer};
use super::form::Look;
use super::kit::{self, Icon, Tile};
use super::page::{Frame, Head, Tab, live_part};
use super::standing::{self, Standing};
use super::text::{self, number, visible};
use super::traffic::{Scope, Since, Totals, Traffic, came, charts, latency_tile, sum, undelivered};
use super::urls::{self, subscription_url, topic_url, with_query};
use super::{create_topic, edit_topic, publish, subscribe};

/// What a topic's URL asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TopicQuery {
    #[serde(flatten)]
    look: Look,
    since: Option<String>,
}

pub(super) async fn list(State(app): State<App>, Query(query): Query<TopicQuery>) -> Answer {
    let (look, since) = (query.look, Since::read(query.since.as_deref()));
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
        let mut cells = vec![html! {
            a href=(topic_url(&topic.name)) { (text::soft(&topic.name)) }
            span.cut.sm.m title=(topic.properties.endpoint) { (topic.properties.endpoint) }
        }];
        cells.push(html! { (kind(topic)) });
        cells.extend(match flow {
            None => [html! { "–" }, html! { "–" }, html! {}, html! { "–" }, html! { "–" }],
            Some(Flow { accepted, account, .. }) => [
                html! { (number(accepted)) },
                html! { (number(account.matched)) },
                share(&account),
                of_sum(sum(&account.dead_lettered)),
                of_sum(sum(&account.dropped)),
            ],
        });
        cells
    };
    let rows: Vec<_> = topics.items.iter().map(row).collect();
    let outcome = format!("Outcome, {}", since.name());
    let head = [
        ("Topic", "gr"),
        ("Kind", "nw"),
        ("Accepted", "n"),
        ("Matched", "n"),
        (&outcome, "share"),
        ("Dead letters", "n"),
        ("Lost", "n"),
    ];
    let body = html! {
        (kit::done(look.done.as_deref()))
        @if let Some(refused) = refused { (refused) }
        @if rows.is_empty() {
            (kit::flush("", &html! {}, &kit::nothing(Icon::Topic, "There is no topic yet", &html! {
                "A topic takes events from publishers."
            }, &html! {}, "topic create orders")))
        } @else { (kit::flush("", &html! {}, &kit::table("Topics", &head, &rows))) }
        (kit::next_page("/topics", &[("since", since.value())], topics.next.as_deref()))
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
fn counted(totals: anyhow::Result<Totals>) -> (Option<Totals>, Option<Markup>) {
    match totals {
        Ok(totals) => (Some(totals), None),
        Err(error) => {
            let told = failure::told(&error);
            let note =
                kit::note(Kind::Warn, "What was counted could not be read", &told, &html! {});
            (None, Some(note))
        }
    }
}

fn of_sum(count: u64) -> Markup {
    html! { @if count == 0 { "–" } @else { (number(count)) } }
}

/// Shows the parts of what came by what became of it.
fn share(account: &Account) -> Markup {
    let left = came(account).saturating_sub(account.delivered.saturating_add(undelivered(account)));
    chart::mini(&[
        (Kind::Ok, account.delivered, "delivered"),
        (Kind::Warn, left, "without an end"),
        (Kind::Dead, sum(&account.dead_lettered), "dead-lettered"),
        (Kind::Bad, sum(&account.dropped), "lost"),
    ])
}

pub(super) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    Query(query): Query<TopicQuery>,
) -> Answer {
    of_topic(&app, &topic, query, None).await
}

/// Shows a topic; with its keys, if given.
pub(super) async fn of_topic(
    app: &App,
    topic: &str,
    query: TopicQuery,
    keys: Option<&Keys>,
) -> Answer {
    let (look, since) = (query.look, Since::read(query.since.as_deref()));
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
            @if let Some(refused) = refused { (refused) }
            @if let Ok(traffic) = &traffic { (tiles(traffic, count, waiting)) }
        }))
        (live_part("charts", &html! { @if let Ok(traffic) = &traffic { (charts(&format!("of {topic}"), traffic)) } }))
        (live_part("subscriptions", &subscriptions(topic, page, healths, totals.as_ref(), since)))
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
            &[("since", since.value()), ("after", after.unwrap_or_default())],
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
    html! {
        div.g.gt {
            (kit::tile(&Tile {
                label: "Accepted",
                value: number(*accepted),
                unit: "events",
                note: traffic.last_hour(|flow| flow.accepted),
                spark: Some(chart::spark(&traffic.line(|flow| flow.accepted), Kind::Acc)),
                ..Tile::default()
            }))
            (kit::tile(&Tile {
                label: "For no event subscription",
                value: number(*unmatched),
                note: Some(html! { "of what was accepted" }),
                ..Tile::default()
            }))
            (kit::tile(&Tile {
                label: "Fan-out",
                value: if *accepted == 0 { "–".to_owned() } else { format!("{}.{:02}", hundredths / 100, hundredths % 100) },
                unit: "× an event",
                note: subscriptions.map(|count| html! { (text::counted(count as u64, "event subscription", "event subscriptions")) }),
                ..Tile::default()
            }))
            (kit::tile(&Tile {
                label: "Waiting",
                value: waiting.map_or_else(|| "not known".to_owned(), number),
                spark: Some(chart::spark(&traffic.waited(waiting), Kind::Warn)),
                kind: Some(Kind::Warn),
                ..Tile::default()
            }))
            (kit::tile(&Tile {
                label: "Dead-lettered",
                value: number(letters),
                note: (lost > 0).then(|| html! { span.t-bad { (number(lost)) " lost" } }),
                spark: Some(chart::spark(&traffic.line(|flow| sum(&flow.account.dead_lettered)), Kind::Dead)),
                kind: Some(Kind::Dead),
                ..Tile::default()
            }))
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
    kit::card(
        "Publish",
        &html! {},
        &html! {
            (kit::kv(&[
                ("Endpoint", html! { span.mono { (text::soft(endpoint)) } " " (kit::copy(endpoint, "the endpoint")) }),
                ("Delivery profile", html! { (profile) }),
                ("Idempotency", html! {
                    @match window {
                        Some(seconds) => { "repeats within " (text::millis(u64::from(seconds) * 1_000)) " are answered once" }
                        None => "off",
                    }
                }),
            ]))
            (key_section(app, topic, document, keys))
        },
    )
}

fn key_section(app: &App, topic: &str, document: &Topic, keys: Option<&Keys>) -> Markup {
    let is_shut = document.properties.settings.disable_local_auth == Some(true);
    let url = topic_url(topic);
    html! {
        h2 id="keys" { "Keys" }
        @if is_shut { p.warn { "Keys are refused: the topic has disableLocalAuth." } }
        @if let Some(keys) = keys {
            dl.kv {
                dt { "key1" } dd { code { (keys.key1.expose()) } " " (kit::copy(keys.key1.expose(), "key1")) }
                dt { "key2" } dd { code { (keys.key2.expose()) } " " (kit::copy(keys.key2.expose(), "key2")) }
            }
        }
        @if app.may_change() {
            @if keys.is_none() {
                form method="post" action={ (url) "/keys#keys" } {
                    (app.token())
                    button { "Show both keys" }
                }
            }
            @for key in ["key1", "key2"] {
                details {
                    summary { "Replace " (key) }
                    form method="post" action={ (url) "/keys/rotate#keys" } {
                        (app.token())
                        input type="hidden" name="key" value=(key);
                        label.check {
                            input type="checkbox" name="agreed" value="yes" required;
                            "Publishers that use " (key) " are refused from now on. The other key stays."
                        }
                        button.dng.pri { "Replace " (key) }
                    }
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
    kit::card(
        "From your code",
        &html! {},
        &html! {
            (kit::block("Publish with curl", &curl))
            details id="python" { summary { "Python" } (kit::block("Publish with Python", &python)) }
            p.sm.m { "Publishers written for Event Grid work unchanged: give them this endpoint and a key." }
        },
    )
}

fn subscriptions(
    topic: &str,
    page: Page<EventSubscription>,
    healths: anyhow::Result<Page<NamedHealth>>,
    totals: Option<&Totals>,
    since: Since,
) -> Markup {
    let Page { items, next } = page;
    if items.is_empty() {
        let command = format!(
            "subscription create --topic {topic} --subscription first --endpoint https://example.com/hook"
        );
        let told = html! { "No event subscription is on this page. Subscribe an endpoint:" };
        let nothing =
            kit::nothing(Icon::Topic, "No event subscription", &told, &html! {}, &command);
        return kit::flush("Event subscriptions", &html! {}, &nothing);
    }
    let (healths, refused) = match healths {
        Ok(page) => (page.items, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let row = |subscription: &EventSubscription| {
        let name = &subscription.name;
        let health = healths.iter().find(|one| one.name == *name).map(|one| &one.health);
        let counted = totals.map(|totals| totals.of(topic, name).cloned().unwrap_or_default());
        let account = counted.as_ref().map(|flow| &flow.account);
        let place = show::destination(subscription);
        let letters = account.map_or(0, |account| sum(&account.dead_lettered));
        vec![
            html! {
                a href=(subscription_url(topic, name, "")) id={ "to-" (name) } { (text::soft(name)) }
                span.cut.sm.m title=(visible(&place)) { (visible(&place)) }
            },
            html! {
                @match health {
                    None => "-",
                    Some(health) => {
                        (Standing::of(health, account).pill())
                        span.cut.sm.m { (standing::why(health, account)) }
                    }
                }
            },
            html! { span.cut { (filter(subscription.properties.settings.filter.as_ref())) } },
            html! { @if let Some(account) = account { (number(account.matched)) } @else { "–" } },
            html! { @if let Some(account) = account { (share(account)) } },
            html! { @if let Some([_, Some(p95), _]) = account.map(|it| text::bounds(&it.latencies)) { (p95) } @else { "–" } },
            html! { @match health.and_then(|it| it.waiting_events) { Some(events) => (of_sum(events)), None => "–" } },
            html! {
                @if letters == 0 { "–" }
                @else { a href=(subscription_url(topic, name, "/dead-letters")) { (number(letters)) } }
            },
        ]
    };
    let rows: Vec<_> = items.iter().map(row).collect();
    let outcome = format!("Outcome, {}", since.name());
    let head = [
        ("Event subscription", ""),
        ("State", ""),
        ("Filter", "gr"),
        ("Matched", "n"),
        (&outcome, "share"),
        ("p95", "n nw"),
        ("Waiting", "n"),
        ("Dead letters", "n"),
    ];
    html! {
        @if let Some(error) = &refused {
            (failure::problem("Their endpoints' health could not be read.", error))
        }
        (kit::flush("Event subscriptions", &html! {}, &kit::table("Event subscriptions", &head, &rows)))
        (kit::next_page(&topic_url(topic), &[("since", since.value())], next.as_deref()))
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
