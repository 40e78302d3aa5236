//! Topics, and one of them with its event subscriptions.

use std::collections::HashMap;
use std::time::Duration;

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use gridpost_api::{
    health::NamedHealth,
    subscription::EventSubscription,
    topic::{AccessKey, Keys, Topic},
};
use gridpost_core::journal::Flow;
use gridpost_core::ledger::Account;
use gridpost_ops::{failure::Misuse, output::word, subscription::show, target::replace_key};
use maud::{Markup, html};

use super::App;
use super::action::Fields;
use super::chart::{self, Kind};
use super::failure::{self, Answer};
use super::keys::{self, Section};
use super::kit::{self, Icon};
use super::lists::{Lists, One, ones};
use super::live;
use super::page::{self, Frame, Head, Tab, live_part};
use super::standing::{self, Standing};
use super::text::{self, number};
use super::tiles::{self, charts, counted_tile, ended_tiles, latency_tile, share, waiting_tile};
use super::traffic::{Scope, Since, SinceQuery, Totals, Traffic, came, total};
use super::urls::{self, subscription_url, topic_url, with_query};
use super::{edit, settings, snippets};

const NOT_COUNTED: &str = "What was counted could not be read.";

/// Event subscriptions of a topic on a page.
const ROWS: usize = 20;

pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<SinceQuery>,
) -> Answer<Response> {
    let (since, look) = (query.since(), query.look);
    let topics = app.api.topics_page(look.after.as_deref()).await?;
    let body = html! {
        (kit::done(look.done.as_deref()))
        (page::late())
        (kit::next_page("/topics", &[("since", since.value)], topics.next.as_deref()))
    };
    let actions = html! {
        (since.choice("/topics"))
        @if app.may_change() { a.btn.pri href=(edit::NEW_TOPIC) { (kit::icon(Icon::PLUS)) "Create topic" } }
    };
    let command = "topic list".to_owned();
    let frame = Frame { tab: Tab::Topics, title: "Topics", above: Vec::new(), command };
    let head = Head { actions: Some(actions), is_live: true, ..Head::default() };
    let page = app.page_of(&frame, &head, &body);
    Ok(page::streamed(page, async move {
        live_part("topics", &table(&app, &topics.items, since).await)
    }))
}

/// Lists topics with their traffic and the worst of their event subscriptions.
async fn table(app: &App, topics: &[Topic], since: Since) -> Markup {
    if topics.is_empty() {
        let told = "A topic takes events from publishers.";
        let nothing =
            kit::nothing(Icon::TOPIC, "There is no topic yet", told, "", "topic create orders");
        return kit::flush("", "", nothing);
    }
    let totals = async { app.totals(None, since, app.settings.target.now().await?).await };
    let names = topics.iter().map(|topic| topic.name.clone()).collect();
    let (Lists { read, unread, left }, totals) = tokio::join!(app.healths(names), totals);
    let counts = totals.as_ref().ok();
    let problem = unread.first().map(|(_, error)| failure::told(error));
    let problem = problem.unwrap_or_else(|| html! { "There are too many event subscriptions." });
    let unread: Vec<_> = unread.into_iter().map(|(topic, _)| topic).chain(left).collect();
    let ones = ones(read, counts);
    let row = |topic: &Topic| {
        let own: Vec<_> = ones.iter().filter(|one| one.topic == topic.name).collect();
        let flow = counts.map(|totals| totals.of_topic(&topic.name));
        let account = flow.as_ref().map(|flow| &flow.account);
        let waiting: Option<u64> = own.iter().map(|one| one.health.waiting_events).sum();
        let is_read = !unread.contains(&topic.name);
        let url = with_query(&topic_url(&topic.name, ""), &[("since", since.value)]);
        vec![
            html! {
                a href=(url) { (text::soft(&topic.name)) }
                span.cut.sm.m { (text::short(&topic.properties.endpoint)) }
            },
            html! { @if is_read { (worst(&own)) } @else { "not known" } },
            html! { @if let Some(flow) = &flow { (number(flow.accepted)) } },
            html! { @if let Some(account) = account { (share(account)) } },
            kit::count(waiting.filter(|_| is_read)),
            kit::count(account.map(|account| total(&account.dead_lettered))),
            kit::count(account.map(|account| total(&account.dropped))),
        ]
    };
    let outcome = format!("Outcome, {}", since.name);
    html! {
        (live::read(topics.len(), ones.iter().map(|one| &one.health)))
        @if let Err(error) = &totals { (failure::problem(NOT_COUNTED, error)) }
        @if !unread.is_empty() {
            @let title = format!("The health of {} of these topics was not read", unread.len());
            (kit::note(Kind::Warn, &title, problem, ""))
        }
        @let head = [("Topic", ""), ("State", ""), ("Accepted", "n"), (&outcome, "share"), ("Waiting", "n"),
            ("Dead letters", "n"), ("Lost", "n")];
        (kit::flush("", "", kit::table("Topics", &head, topics.iter().map(row))))
    }
}

/// Says how many of a topic's event subscriptions need attention, and how the worst is.
fn worst(own: &[&One]) -> Markup {
    let troubled = own.iter().filter(|one| one.standing() != Standing::Healthy).count();
    let all = text::counted(own.len() as u64, "event subscription", "event subscriptions");
    let is_counted = own.iter().all(|one| one.counted.is_some());
    html! {
        @if let Some(worst) = own.iter().min_by_key(|one| one.standing()) { (worst.pill()) }
        span.cut.sm.m {
            @if own.is_empty() { "no event subscription" }
            @else if troubled == 0 { (all) } @else { @if !is_counted { "at least " } (troubled) " of " (all) " need attention" }
        }
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    Query(query): Query<SinceQuery>,
) -> Answer {
    of_topic(&app, &topic, query, None).await
}

/// Shows a topic; with its keys, if given.
async fn of_topic(app: &App, topic: &str, query: SinceQuery, keys: Option<&Keys>) -> Answer {
    let (since, look) = (query.since(), query.look);
    let now = app.settings.target.now().await?;
    let scope = Scope { topic: Some(topic), name: None };
    // A topic has 500 event subscriptions at most: a few requests read all of them.
    let (document, all, healths, traffic, totals) = tokio::join!(
        app.api.topic(topic),
        app.api.subscriptions(topic),
        app.api.healths(topic),
        app.traffic(scope, since, now),
        app.totals(Some(topic), since, now)
    );
    let (document, all) = (document?, all?);
    let count = all.len();
    let uncounted = traffic.as_ref().err().or(totals.as_ref().err());
    let totals = totals.as_ref().ok();
    let first = look.after.as_deref().and_then(|after| after.parse().ok()).unwrap_or(0);
    let counts = (totals, since);
    let body = html! {
        (kit::done(look.done.as_deref()))
        (live::read(1, healths.iter().flatten().map(|one| &one.health)))
        (live_part("tiles", &html! {
            @if let Some(error) = uncounted { (failure::problem(NOT_COUNTED, error)) }
            @if let Ok(traffic) = &traffic { (tiles(traffic, count, &healths)) }
        }))
        (live_part("charts", &html! {
            @if let Ok(traffic) = &traffic && (count > 0 || came(&traffic.total.account) > 0) {
                (charts(&format!("of {topic}"), traffic))
            }
        }))
        (live_part("subscriptions", &html! {
            @if let Err(error) = &healths { (failure::problem("The health of the endpoints could not be read.", error)) }
            (tiles::gaps(totals.map_or(&[], |totals| &totals.gaps)))
            (subscriptions(topic, all, first, &healths, counts))
        }))
        div.g.g11.up {
            (publishing(app, topic, &document, keys))
            (snippets::card(&document))
        }
        @if app.may_change() {
            p { a.btn.dng href=(topic_url(topic, "/delete")) { "Delete topic" } }
        }
    };
    let url = topic_url(topic, "");
    let actions = html! {
        (since.choice(&url))
        (kit::button(&topic_url(topic, "/publish"), Some(Icon::SEND), "Publish test event"))
        (kit::button(&topic_url(topic, "/edit"), None, "Settings"))
        @if app.may_change() {
            a.btn.pri href=(topic_url(topic, "/subscribe")) { (kit::icon(Icon::PLUS)) "New event subscription" }
        }
    };
    let schema: &str = document.properties.settings.input_schema.map_or("-", Into::into);
    let kind: &str = document.kind.into();
    let head = Head {
        beside: Some(html! { (state(&document)) span.m.sm { (kind) " · " (schema) } }),
        actions: Some(actions),
        // The address of a page with keys is not one to read again.
        is_live: keys.is_none(),
        ..Head::default()
    };
    let command = format!("topic show {}", word(topic));
    let frame = Frame { tab: Tab::Topics, title: topic, above: urls::above(&[]), command };
    Ok(app.page_of(&frame, &head, &body))
}

fn state(topic: &Topic) -> Markup {
    match topic.properties.provisioning_state.as_str() {
        "Succeeded" => kit::pill(Kind::Ok, "Accepting"),
        other => kit::pill(Kind::Warn, other),
    }
}

fn tiles(
    traffic: &Traffic,
    subscriptions: usize,
    healths: &anyhow::Result<Vec<NamedHealth>>,
) -> Markup {
    let Flow { accepted, unmatched, account, .. } = &traffic.total;
    let hundredths = u128::from(account.matched) * 100 / u128::from((*accepted).max(1));
    let fan_out = match accepted {
        0 => "–".to_owned(),
        _ => format!("{}.{:02}", hundredths / 100, hundredths % 100),
    };
    let all = text::counted(subscriptions as u64, "event subscription", "event subscriptions");
    let healths = healths.as_ref().map(|all| all.iter().map(|one| &one.health).collect::<Vec<_>>());
    html! {
        div.g.gt {
            (counted_tile("", None, "Accepted", traffic, |flow| flow.accepted))
            (kit::tile("", None, "For no event subscription", number(*unmatched), "of what was accepted", ""))
            (kit::tile("", None, "Fan-out", kit::unit(fan_out, "× an event"), all, ""))
            @if let Ok(healths) = &healths { (waiting_tile("", healths, true, Some(traffic))) }
            (ended_tiles("", "", traffic))
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
    let section = Section {
        title: "Keys",
        url: &topic_url(topic, "/keys"),
        rows: key_rows(keys),
        is_shown: keys.is_some(),
        rotate: &ROTATIONS,
    };
    let body = html! {
        (kit::kv(&[
            ("Endpoint", html! { span.mono { (text::soft(endpoint)) } " " (kit::copy(endpoint, "the endpoint")) }),
            ("Delivery profile", html! { (profile) }),
            ("Idempotency", html! {
                @if let Some(window) = window { "repeats within " (window) " are answered once" } @else { "off" }
            }),
        ]))
        @if settings.disable_local_auth == Some(true) { p.warn { "Keys are refused: the topic has disableLocalAuth." } }
        (section.show(app))
    };
    kit::card("Publish", "", body)
}

const ROTATIONS: [(&str, &str); 2] = [
    ("key1", "Publishers that use key1 are refused from now on. The other key stays."),
    ("key2", "Publishers that use key2 are refused from now on. The other key stays."),
];

fn key_rows(keys: Option<&Keys>) -> keys::Rows {
    let row = |name, of: fn(&Keys) -> &_| (name, keys::shown(name, keys.map(of)));
    vec![row("key1", |keys| &keys.key1), row("key2", |keys| &keys.key2)]
}

pub(super) async fn reveal_keys(State(app): State<App>, Path(topic): Path<String>) -> Answer {
    let keys = app.api.keys(&topic).await?;
    of_topic(&app, &topic, SinceQuery::default(), Some(&keys)).await
}

pub(super) async fn rotate_key(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(fields): Form<Fields>,
) -> Answer {
    fields.agreed()?;
    let key = match fields.first("key") {
        "key1" => AccessKey::Key1,
        "key2" => AccessKey::Key2,
        _ => return Err(Misuse("There are two keys: key1 and key2.".to_owned()).into()),
    };
    let keys = replace_key(&app.api, &app.settings.target, &topic, key).await?;
    let page = of_topic(&app, &topic, SinceQuery::default(), Some(&keys)).await;
    keys::or_alone(page, &key_rows(Some(&keys)))
}

/// Lists the event subscriptions of a topic, those that need attention first; `first` is the number of those on
/// earlier pages.
fn subscriptions(
    topic: &str,
    mut all: Vec<EventSubscription>,
    first: usize,
    healths: &anyhow::Result<Vec<NamedHealth>>,
    (totals, since): (Option<&Totals>, Since),
) -> Markup {
    let title = "Event subscriptions";
    if all.is_empty() {
        let command = format!(
            "subscription create --topic {topic} --subscription first --endpoint https://example.com/hook"
        );
        let told = "An event subscription sends this topic's events to an endpoint.";
        let none = kit::nothing(Icon::TOPIC, "No event subscription", told, "", &command);
        return kit::flush(title, "", none);
    }
    let read: Vec<_> = healths.as_ref().map_or(Vec::new(), Clone::clone);
    let ones = ones(vec![(topic.to_owned(), read)], totals);
    let named = ones.iter().enumerate().map(|(at, one)| (one.name.as_str(), (at, one)));
    let known: HashMap<_, _> = named.collect();
    all.sort_by_key(|one| known.get(one.name.as_str()).map_or(ones.len(), |(at, _)| *at));
    let troubled = ones.iter().filter(|one| one.standing() != Standing::Healthy).count();
    let (count, first) = (all.len(), first.min(all.len()));
    let last = count.min(first + ROWS);
    let row = |one: &EventSubscription| {
        let account = totals.map(|totals| totals.account(topic, &one.name));
        let url = subscription_url(topic, &one.name, "");
        row((&url, since), one, known.get(one.name.as_str()).map(|(_, one)| *one), account.as_ref())
    };
    let outcome = format!("Outcome, {}", since.name);
    let beside = html! {
        span.sm.m {
            @if count > ROWS { (first + 1) " to " (last) " of " (count) "; " }
            @if healths.is_err() || totals.is_none() && troubled == 0 { "how many need attention is not known" }
            @else { @if totals.is_none() { "at least " } (troubled) " of " (count) " need attention" }
        }
    };
    let next = (last < count).then(|| last.to_string());
    html! {
        @let head = [("Event subscription", ""), ("State", ""), ("Filter", "gr"), ("Matched", "n"),
            (&outcome, "share"), ("p95", "n nw"), ("Waiting", "n"), ("Dead letters", "n")];
        (kit::flush(title, beside, kit::table(title, &head, all[first..last].iter().map(row))))
        (kit::next_page(&topic_url(topic, ""), &[("since", since.value)], next.as_deref()))
    }
}

fn row(
    (url, since): (&str, Since),
    subscription: &EventSubscription,
    known: Option<&One>,
    account: Option<&Account>,
) -> Vec<Markup> {
    let name = &subscription.name;
    let p95 = account.map(|account| text::bounds(&account.latencies));
    let why = known.map(|one| standing::why(&one.health, account)).unwrap_or_default();
    vec![
        html! {
            a href=(with_query(url, &[("since", since.value)])) { (text::soft(name)) }
            span.cut.sm.m { (text::short(&show::destination(subscription))) }
        },
        html! {
            @if let Some(one) = known { (one.pill()) } @else { "not known" }
            @if !why.0.is_empty() { span.cut.sm.m { (why) } }
        },
        html! { span.cut { (text::short(&settings::filter(subscription))) } },
        html! { @if let Some(account) = account { (number(account.matched)) } },
        html! { @if let Some(account) = account { (share(account)) } },
        html! { @if let Some([_, p95, _]) = &p95 { (p95) } },
        known.map(tiles::waiting).unwrap_or_default(),
        tiles::undelivered(url, account),
    ]
}
