//! The first page: is everything delivered, what fails, since when, why, how much waits, what to do.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures::{StreamExt, stream};
use gridpost_api::{
    client::Page, requests::ParkedInput, subscription::EventSubscription, waiting::Parked,
};
use gridpost_core::{ledger::Account, time::Timestamp};
use gridpost_ops::{attempt_lines::AttemptLine, journal::Late, subscription::show};
use maud::{Markup, html};

use super::App;
use super::chart::{self, Kind};
use super::failure::{self, Answer};
use super::kit::{self, Icon};
use super::lists::{AT_ONCE, One, ones};
use super::live::{self, AGAIN};
use super::page::{self, Frame, Head, Tab, live_part};
use super::standing::{self, Standing};
use super::subscription::remedy;
use super::text::{self, number, visible};
use super::tiles;
use super::traffic::{Scope, Since, SinceQuery, Traffic, came, ended, total};
use super::urls::with_query;

/// Rows of those that need attention, and healthy ones that are named: a page has a size.
const ATTENTION_MAX: usize = 16;
const HEALTHY_MAX: usize = 20;

/// Rows of which more is read than the health: the endpoint, its last answer, its traffic.
const DETAILED_MAX: usize = 10;

/// Names of what could not be read that are told, and of the worst.
const WHOSE_TOLD: usize = 5;
const WORST_TOLD: usize = 3;

/// Bars in a row.
const ROW_BARS: usize = 24;

/// What could be read of all topics.
struct Seen {
    topics: usize,
    all: Vec<One>,
    is_complete: bool,
    unread: Vec<Unread>,
}

/// A request that failed, and why.
struct Unread {
    what: &'static str,
    whose: String,
    error: anyhow::Error,
}

const TOPICS: &str = "GET /topics";
const HEALTHS: &str = "GET /topics/*/healths";
const JOURNAL: &str = "POST /journalQueries";

pub(super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Query(query): Query<SinceQuery>,
) -> Answer<Response> {
    let now = app.settings.target.now().await?;
    let since = query.since();
    let head = Head { actions: Some(since.choice("/")), is_live: true, ..Head::default() };
    let command = format!("subscription health --since {}", since.value);
    let frame = Frame { tab: Tab::Overview, title: "Overview", above: Vec::new(), command };
    let page = app.page_of(&frame, &head, &page::late());
    let is_again = headers.contains_key(AGAIN);
    Ok(page::streamed(page, async move { body(&app, since, now, is_again).await }))
}

/// Renders the parts. Those that read a table and a queue are for whom the page is opened, not looked at again.
async fn body(app: &App, since: Since, now: Timestamp, is_again: bool) -> Markup {
    let under_way = async {
        let is_dear = is_again && !app.settings.target.is_dev();
        if is_dear { None } else { Some(under_way(app).await) }
    };
    let looked = async {
        let (names, is_whole) = app.topic_names().await?;
        Ok::<_, anyhow::Error>((names.len(), is_whole, app.healths(names).await))
    };
    let (looked, traffic, totals, under_way) = tokio::join!(
        looked,
        app.traffic(Scope::default(), since, now),
        app.totals(None, since, now),
        under_way,
    );
    let mut seen = Seen { topics: 0, all: Vec::new(), is_complete: true, unread: Vec::new() };
    let mut note = |what, whose: &str, error| {
        seen.unread.push(Unread { what, whose: whose.to_owned(), error });
    };
    let traffic = traffic.map_err(|error| note(JOURNAL, "", error)).ok();
    let totals = totals.map_err(|error| note(JOURNAL, "", error)).ok();
    match looked {
        Err(error) => note(TOPICS, "", error),
        Ok((topics, is_whole, lists)) => {
            lists.unread.into_iter().for_each(|(topic, error)| note(HEALTHS, &topic, error));
            seen.topics = topics;
            seen.is_complete = is_whole && lists.left.is_empty();
            seen.all = ones(lists.read, totals.as_ref());
        }
    }
    let is_empty = seen.all.is_empty() && seen.unread.is_empty();
    let unwell = seen.all.iter().filter(|one| one.standing() != Standing::Healthy);
    let worst: Vec<_> = unwell.collect();
    let of_one = async |one: One| detail(app, &one, since, now).await;
    let detailed: Vec<One> = worst.iter().take(DETAILED_MAX).copied().cloned().collect();
    let details: Vec<_> = stream::iter(detailed).map(of_one).buffered(AT_ONCE).collect().await;
    let traffic = traffic.filter(|_| !is_empty);
    let gaps = totals.map(|totals| totals.gaps).unwrap_or_default();
    let is_whole = seen.is_complete && seen.unread.is_empty() && gaps.is_empty();
    html! {
        (live::read(seen.topics, seen.all.iter().map(|one| &one.health)))
        (live_part("verdict", &html! {
            @if is_empty { (first_steps(seen.topics)) }
            @else {
                (unread(&seen))
                (verdict(&worst, since, is_whole, elsewhere(&seen, traffic.as_ref())))
            }
        }))
        (live_part("tiles", &html! { @if !is_empty { (numbers(traffic.as_ref(), since, &seen)) } }))
        (live_part("charts", &html! { @if let Some(traffic) = &traffic { (tiles::charts("of all topics", traffic)) } }))
        (live_part("attention", &html! {
            (tiles::gaps(&gaps))
            @if !worst.is_empty() { (needs_attention(app, &worst, &details, seen.all.len(), since)) }
            (healthy(&seen, since))
        }))
        div.g.g11 {
            @if let Some(under_way) = under_way {
                (live_part("under-way", &html! { @if !is_empty { (kit::card("Under way", "", under_way)) } }))
            }
            (live_part("equation", &html! { @if let Some(traffic) = &traffic { (equation(traffic, since)) } }))
        }
    }
}

/// What is parked, and what is poison.
async fn under_way(app: &App) -> Markup {
    let every = ParkedInput::default();
    let (parked, poison) = tokio::join!(app.api.parked_page(&every, None), app.api.poison(1));
    let poison = poison.map(|list| list.approximate_count);
    kit::kv(&[("Parked", parked_told(&parked)), ("Poison queue", poison_told(poison))])
}

/// Lists each reason once, with the topics that it concerns. Late answers are not listed.
fn unread(seen: &Seen) -> Markup {
    let mut groups: BTreeMap<_, Vec<&Unread>> = BTreeMap::new();
    let is_late = |one: &&Unread| one.error.is::<Late>();
    for one in seen.unread.iter().filter(|one| !is_late(one)) {
        groups.entry((one.what, one.error.to_string())).or_default().push(one);
    }
    let late = seen.unread.iter().find(is_late).map(|one| failure::problem("", &one.error));
    let late = late.unwrap_or_default();
    if groups.is_empty() {
        return late;
    }
    let told = html! {
        @for ((what, _), all) in &groups {
            @let whose: Vec<_> = all.iter().map(|one| one.whose.as_str()).take(WHOSE_TOLD).collect();
            p {
                code { (what) } " was refused"
                @if !all[0].whose.is_empty() { " for " (all.len()) ": " (whose.join(", ")) }
                @if all.len() > whose.len() { ", …" }
                "."
            }
            (failure::told(&all[0].error))
        }
    };
    let title = "Not everything could be read: what is below is not all";
    html! { (late) (kit::note(Kind::Bad, title, told, "")) }
}

/// Returns how many events were lost, and became dead letters, beside those of the event subscriptions that were read.
fn elsewhere(seen: &Seen, traffic: Option<&Traffic>) -> [u64; 2] {
    let sums = |account: &Account| [total(&account.dropped), total(&account.dead_lettered)];
    let Some(traffic) = traffic else { return [0; 2] };
    // Without the counts of each, there is nothing to compare with.
    let own: Option<Vec<_>> = seen.all.iter().map(|one| one.counted.as_ref().map(sums)).collect();
    let Some(own) = own else { return [0; 2] };
    own.iter().fold(sums(&traffic.total.account), |[lost, letters], own| {
        [lost.saturating_sub(own[0]), letters.saturating_sub(own[1])]
    })
}

/// Says in a sentence whether everything is delivered, with what to look at.
fn verdict(worst: &[&One], since: Since, is_whole: bool, [lost, letters]: [u64; 2]) -> Markup {
    let gone = html! {
        @for (count, what) in [(lost, "lost"), (letters, "dead-lettered")].iter().filter(|(count, _)| *count > 0) {
            (text::counted(*count, "event was ", "events were ")) (what)
            " at event subscriptions that are gone, or not listed here. "
        }
    };
    let Some(first) = worst.first() else {
        if lost + letters > 0 {
            let kind = if lost > 0 { Kind::Bad } else { Kind::Warn };
            let ledger = with_query("/ledger", &[("since", since.value)]);
            let look = html! { a.btn.pri href=(ledger) { "Open the ledger" } };
            return kit::note(kind, "Not everything was delivered", gone, look);
        }
        let title = "Everything is being delivered";
        let told = is_whole.then(|| kit::note(Kind::Ok, title, "No endpoint is in trouble.", ""));
        return told.unwrap_or_default();
    };
    let kind = match first.standing().kind() {
        _ if first.lost() + lost > 0 => Kind::Bad,
        Kind::Bad => Kind::Bad,
        _ if letters > 0 => Kind::Warn,
        kind => kind,
    };
    let (kind, title) = match kind {
        Kind::Bad => (Kind::Bad, "Not everything is being delivered"),
        Kind::Warn | Kind::Dead => (Kind::Warn, "Not everything is being delivered"),
        other if is_whole => (other, "What is not held back is being delivered"),
        other => (other, "Not everything is known so far"),
    };
    let sentence = |one: &One| {
        let (held, lost) = (one.held(), one.lost());
        html! {
            a href=(one.url_since(since.value)) { b { (text::soft(&one.name)) } } " "
            @match one.standing() {
                Standing::EndsEvents => "ends every new event at once",
                Standing::LosesSome => "loses events for good",
                Standing::NotValidated => "is not validated and gets no events",
                Standing::Expired => "has expired and gets no events",
                Standing::Probation | Standing::DelayedDelivery => { "holds " (held) " back" }
                Standing::Paused => { "is paused and holds " (held) }
                Standing::RefusesSome => "refuses some events for good",
                Standing::Recovering => "recovers",
                Standing::Slow => "answers slowly",
                Standing::Healthy => "is healthy",
            }
            @if lost > 0 && one.standing() != Standing::LosesSome {
                ", and lost " (text::counted(lost, "event", "events"))
            }
            @let why = standing::why(&one.health, one.counted.as_ref());
            @if !why.0.is_empty() { " (" (why) ")" }
            @let since = standing::since(&one.health);
            @if !since.0.is_empty() { ", since " (since) }
            ". "
        }
    };
    let told = html! {
        @for one in worst.iter().take(WORST_TOLD) { (sentence(one)) }
        @if worst.len() > WORST_TOLD { (worst.len() - WORST_TOLD) " more below. " }
        (gone)
    };
    let look =
        html! { a.btn.pri href=(first.url_since(since.value)) { "Open " (visible(&first.name)) } };
    kit::note(kind, title, told, look)
}

fn numbers(traffic: Option<&Traffic>, since: Since, seen: &Seen) -> Markup {
    let ledger = with_query("/ledger", &[("since", since.value)]);
    let is_whole = seen.is_complete && seen.unread.iter().all(|one| one.what == JOURNAL);
    let healths: Vec<_> = seen.all.iter().map(|one| &one.health).collect();
    html! {
        div.g.gt {
            @if let Some(traffic) = traffic {
                (tiles::counted_tile(&ledger, None, "Accepted", traffic, |flow| flow.accepted))
                (tiles::delivered_tile(traffic))
            }
            (tiles::waiting_tile("/waiting", &healths, is_whole, traffic))
            @if let Some(traffic) = traffic {
                (tiles::ended_tiles("/dead-letters", &ledger, traffic))
                (tiles::latency_tile(traffic))
            }
        }
    }
}

/// What is read of those at the top besides their healths.
struct Detail {
    subscription: Option<EventSubscription>,
    traffic: Option<Traffic>,
    last: Option<AttemptLine>,
}

async fn detail(app: &App, one: &One, since: Since, now: Timestamp) -> Detail {
    let One { topic, name, .. } = one;
    let scope = Scope { topic: Some(topic), name: Some(name) };
    // On AWS each of these questions has a price.
    let is_free = app.settings.target.is_dev();
    let traffic = async { if is_free { app.traffic(scope, since, now).await.ok() } else { None } };
    let last = async {
        let newest = app.newest((topic, name), true, 1, now);
        let newest = if is_free { newest.await.ok() } else { None };
        newest?.attempts.iter().flatten().next().cloned().map(AttemptLine)
    };
    let (subscription, traffic, last) =
        tokio::join!(app.api.subscription(topic, name), traffic, last);
    Detail { subscription: subscription.ok().map(|tagged| tagged.document), traffic, last }
}

fn needs_attention(
    app: &App,
    worst: &[&One],
    details: &[Detail],
    of: usize,
    since: Since,
) -> Markup {
    let row = |(at, one): (usize, &&One)| attention_row(app, one, details.get(at), since);
    let rows = worst.iter().take(ATTENTION_MAX).enumerate().map(row);
    let beside = html! { span.sm.m { (worst.len()) " of " (number(of as u64)) ", those that lose events first" } };
    let body = html! {
        @let head = [("Event subscription", ""), ("State", ""), ("Why", "gr"), ("New events", "nw"),
            ("Waiting", "n"), ("Dead letters", "n"), (since.name, "hide"), ("", "")];
        // A console that only reads has no actions.
        @let head = if app.may_change() { &head[..] } else { &head[..head.len() - 1] };
        (kit::table("Event subscriptions that need attention", head, rows))
        @if worst.len() > ATTENTION_MAX {
            @let topics = with_query("/topics", &[("since", since.value)]);
            p.in.m { (worst.len() - ATTENTION_MAX) " more: " a href=(topics) { "topics" } " list them." }
        }
    };
    kit::flush("Needs attention", beside, body)
}

fn attention_row(app: &App, one: &One, detail: Option<&Detail>, since: Since) -> Vec<Markup> {
    let One { topic, name, health, counted } = one;
    let place = detail.and_then(|detail| detail.subscription.as_ref()).map(show::destination);
    let said = detail.and_then(|detail| detail.last.as_ref()?.response.clone());
    let traffic = detail.and_then(|detail| detail.traffic.as_ref());
    let cut = |class: &str, text: Option<String>| {
        html! {
            @if let Some(text) = text.as_deref().map(text::short) {
                span class={ "cut sm m " (class) } title=(text) { (text) }
            }
        }
    };
    let mut row = vec![
        html! { (one.link(since.value)) (cut("", place)) },
        html! { (one.pill()) span.cut.sm.m { (standing::since(health)) } },
        html! { (standing::why(health, counted.as_ref())) (cut("mono", said)) },
        standing::effect(health),
        tiles::waiting(one),
        tiles::undelivered(&one.url(), counted.as_ref()),
        html! { @if let Some(traffic) = traffic { (chart::minibars(&traffic.coarser(ROW_BARS).fates())) } },
    ];
    if app.may_change() {
        let whose = format!("{topic}/{name}");
        let open = html! { a.btn href=(one.url_since(since.value)) aria-label={ "Open: " (whose) } { "Open" } };
        // What else helps is on its page, with the reason to do it.
        let resume = health.pause.as_ref();
        let resume = resume.and_then(|_| remedy(app, &one.url(), health, Some(&whose)));
        row.push(html! { div.acts { (resume.unwrap_or(open)) } });
    }
    row
}

fn healthy(seen: &Seen, since: Since) -> Markup {
    let healthy: Vec<_> =
        seen.all.iter().filter(|one| one.standing() == Standing::Healthy).collect();
    html! {
        @if !healthy.is_empty() {
            section.card {
                details.in id="healthy" {
                    summary { (Standing::Healthy.pill(healthy.iter().all(|one| one.counted.is_some()))) " " (text::counted(healthy.len() as u64, "event subscription", "event subscriptions")) }
                    ul.links {
                        @for one in healthy.iter().take(HEALTHY_MAX) {
                            li { (one.link(since.value)) }
                        }
                        @if healthy.len() > HEALTHY_MAX { li.m { "and more: topics list them." } }
                    }
                }
            }
        }
        @if !seen.is_complete {
            p.m { "Only the first " (number(seen.all.len() as u64)) " event subscriptions were looked at: topics list "
                "the others." }
        }
    }
}

fn equation(traffic: &Traffic, since: Since) -> Markup {
    let account = &traffic.total.account;
    let (letters, lost) = (total(&account.dead_lettered), total(&account.dropped));
    let (came, ended) = (came(account), ended(account));
    let url = with_query("/ledger", &[("since", since.value)]);
    let body = html! {
        p.m2 {
            "Matched " (number(account.matched)) ", redriven " (number(account.redriven)) "; delivered "
            (number(account.delivered)) ", dead-lettered " (number(letters)) ", lost " (number(lost))
            ", waiting " (number(came.saturating_sub(ended)))
            // Counts are of the time at which they were made.
            @if ended > came { "; " (number(ended - came)) " of these came before" }
            "."
        }
        (tiles::share(account))
    };
    kit::card("The ledger", html! { a.sm href=(url) { "Open the ledger" } }, body)
}

fn parked_told(parked: &anyhow::Result<Page<Parked>>) -> Markup {
    match parked {
        Err(error) => failure::told(error),
        Ok(page) if page.items.is_empty() => kit::pill(Kind::Ok, "nothing"),
        Ok(page) => html! {
            a href="/waiting" {
                @if page.next.is_some() { "at least " }
                (text::counted(page.items.len() as u64, "delivery", "deliveries"))
            }
            "; they come back by themselves"
        },
    }
}

fn poison_told(poison: anyhow::Result<u64>) -> Markup {
    match poison {
        Err(error) => failure::told(&error),
        Ok(0) => kit::pill(Kind::Ok, "empty"),
        Ok(count) => {
            let told = text::counted(count, "message", "messages");
            html! { a href="/waiting#poison" { (kit::pill(Kind::Bad, &told)) } }
        }
    }
}

/// What a deployment without event subscriptions shows.
fn first_steps(topics: usize) -> Markup {
    let (url, label, command) = match topics {
        0 => ("/create-topic", "Create a topic", "topic create orders"),
        _ => (
            "/topics",
            "Create event subscription",
            "subscription create --topic orders --subscription first --endpoint http://127.0.0.1:9000/hook",
        ),
    };
    let action = html! { a.btn.pri href=(url) { (kit::icon(Icon::PLUS)) (label) } };
    let told = "A topic takes events, an event subscription sends them to an endpoint. There is no event \
                subscription yet.";
    kit::flush("", "", kit::nothing(Icon::TOPIC, "Deliver your first event", told, action, command))
}

#[cfg(test)]
mod tests {
    use gridpost_core::journal::Flow;
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    fn one(name: &str, patch: &Value, dropped: u64) -> One {
        let counted = Account { dropped: [("R".to_owned(), dropped)].into(), ..Account::default() };
        let health = serde_json::from_value(documents::health(patch)).expect("a health");
        One { topic: "t".to_owned(), name: name.to_owned(), health, counted: Some(counted) }
    }

    fn waits(count: u64) -> Value {
        json!({"state": "Probation", "newEvents": "Waits", "cause": {"outcome": "Busy"},
            "waitingDeliveries": {"count": 1}, "waitingEvents": count})
    }

    fn paused() -> Value {
        let pause = json!({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z",
            "timeToLiveRuns": true});
        json!({"newEvents": "Held", "pause": pause, "waitingEvents": 1})
    }

    /// Event subscriptions that have lost events come first, whatever their standing.
    #[test]
    fn those_that_lose_events_stand_first_then_the_largest_backlogs() {
        let ends = json!({"state": "Probation", "newEvents": "Ends", "cause": {"outcome": "<b>"}});
        let mut all = [
            one("fine", &json!({}), 0),
            one("few", &waits(1), 0),
            one("many", &waits(9), 0),
            one("loses", &json!({}), 3),
            one("paused", &paused(), 0),
            one("paused-and-lost", &paused(), 2),
            one("ends", &ends, 0),
        ];
        all.sort_by_key(One::rank);
        let (_, worst) = all.split_last().expect("the healthy one is the last");
        let worst: Vec<_> = worst.iter().collect();
        let names: Vec<_> = worst.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["loses", "paused-and-lost", "ends", "many", "few", "paused"]);
        let shown = verdict(&worst, Since::QUARTER_HOUR, true, [0; 2]).into_string();
        for part in [
            "note bad",
            "Not everything is being delivered",
            "loses</b></a> loses events for good (R)",
            "lost</b></a> is paused and holds 1 event, and lost 2 events (time-to-live runs)",
            "ends</b></a> ends every new event at once (&lt;b&gt;)",
            "3 more below",
            "href=\"/topics/t/subscriptions/loses?since=15m\">Open loses",
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        let fine = verdict(&[], Since::QUARTER_HOUR, true, [0; 2]).into_string();
        assert!(fine.contains("Everything is being delivered"), "{fine}");
        assert_eq!(
            verdict(&[], Since::QUARTER_HOUR, false, [0; 2]).into_string(),
            "",
            "not all is known"
        );
    }

    #[test]
    fn what_a_deleted_one_lost_is_in_the_verdict() {
        let account =
            |lost| Account { dropped: [("R".to_owned(), lost)].into(), ..Account::default() };
        let traffic =
            Traffic { total: Flow { account: account(1_003), ..Flow::default() }, ..no_traffic() };
        let seen = |all| Seen { topics: 1, all, is_complete: true, unread: Vec::new() };
        let of = |all: Vec<One>| elsewhere(&seen(all), Some(&traffic));
        let uncounted = One { counted: None, ..one("a", &json!({}), 0) };
        let found = [of(vec![one("a", &json!({}), 3)]), of(vec![uncounted])];
        assert_eq!(found, [[1_000, 0], [0, 0]]);
        let recovers = one("a", &json!({"state": "Recovering"}), 0);
        for (worst, gone, kind) in [
            (vec![], [1_000, 0], "note bad"),
            (vec![], [0, 1_000], "note warn"),
            (vec![&recovers], [1_000, 0], "note bad"),
            (vec![&recovers], [0, 1_000], "note warn"),
        ] {
            let shown = verdict(&worst, Since::QUARTER_HOUR, true, gone).into_string();
            assert!(shown.contains(kind) && shown.contains("that are gone"), "{shown}");
        }
    }

    fn no_traffic() -> Traffic {
        Traffic {
            begins: Timestamp::from_millis(0),
            step: std::time::Duration::from_secs(60),
            steps: Vec::new(),
            total: Flow::default(),
            gaps: Vec::new(),
            kept_from: None,
        }
    }

    #[test]
    fn the_worst_gives_the_verdict_its_colour() {
        for (patch, dropped, kind, told) in [
            (paused(), 1, "note bad", "Not everything is being delivered"),
            (paused(), 0, "note \"", "What is not held back is being delivered"),
            (waits(9), 0, "note warn", "holds 9 events back (Busy)"),
            (waits(9), 3, "note bad", "holds 9 events back, and lost 3 events (Busy)"),
        ] {
            let one = one("a", &patch, dropped);
            let shown = verdict(&[&one], Since::QUARTER_HOUR, true, [0; 2]).into_string();
            assert!(shown.contains(kind) && shown.contains(told), "{told} is not in {shown}");
            let shown = verdict(&[&one], Since::QUARTER_HOUR, false, [0; 2]).into_string();
            assert!(!shown.contains("What is not held back"), "{shown}");
        }
    }

    #[test]
    fn the_equation_closes() {
        let told = |matched, delivered, dropped: u64| {
            let account = Account { matched, delivered, redriven: 1, ..Account::default() };
            let account = Account { dropped: [("R".to_owned(), dropped)].into(), ..account };
            let total = Flow { account, ..Flow::default() };
            equation(&Traffic { total, ..no_traffic() }, Since::QUARTER_HOUR).into_string()
        };
        for (matched, delivered, dropped, want) in [
            (9, 4, 2, "Matched 9, redriven 1; delivered 4, dead-lettered 0, lost 2, waiting 4."),
            (9, 12, 0, "delivered 12, dead-lettered 0, lost 0, waiting 0; 2 of these came before."),
        ] {
            let shown = told(matched, delivered, dropped);
            assert!(shown.contains(want), "{want} is not in {shown}");
        }
    }

    #[test]
    fn a_reason_is_told_once_however_many_it_meets() {
        let one = |number: u32| Unread {
            what: HEALTHS,
            whose: format!("t-{number}"),
            error: gridpost_ops::failure::Refusal::from_answer(429, "{}").into(),
        };
        let unread = (0..7).map(one).collect();
        let seen = Seen { topics: 1, all: Vec::new(), is_complete: true, unread };
        let shown = self::unread(&seen).into_string();
        assert_eq!(shown.matches("slow down").count(), 1, "{shown}");
        assert!(!shown.contains("still being read"), "{shown}");
        assert!(shown.contains("for 7: t-0") && shown.contains("t-4, …"), "{shown}");
        let late = || Unread { what: JOURNAL, whose: String::new(), error: Late.into() };
        let seen = Seen { unread: vec![late(), late()], ..seen };
        let shown = self::unread(&seen).into_string();
        assert_eq!(shown.matches("still being read").count(), 1, "{shown}");
        assert!(shown.contains("role=\"status\"") && !shown.contains("refused"), "{shown}");
    }
}
