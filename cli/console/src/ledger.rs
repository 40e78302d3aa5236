//! Whether the ledger balances, and what was published and became of it, hour by hour. What `gridpost
//! audit` reads.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use gridpost_api::schema::Time;
use gridpost_core::{
    ledger::{Account, Intake},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::chart::{self, Bars, Kind, Row, Series, Source};
use super::failure::{self, Answer};
use super::form::given;
use super::kit;
use super::page::{self, Frame, Head, Tab};
use super::text::{self, counted, number, visible};
use super::urls::{self, subscription_url, with_query};
use gridpost_ops::{
    audit::{
        self, Effort,
        document::total,
        verdict::{Audit, Cell, OPEN_FOR_MS, Standing, Verdict},
    },
    failure::Misuse,
    given::TimeSpan,
    output,
};

/// How far back it looks, unless said otherwise.
const SINCE: &str = "6h";

const SPANS: [(&str, &str); 4] = [("1 h", "1h"), ("6 h", SINCE), ("24 h", "24h"), ("7 d", "7d")];

const HOUR: Duration = Duration::from_secs(3_600);

/// Topics that have a place of their own in the picture.
const TOPICS_DRAWN: usize = 6;

/// Hours whose verdicts are all told; of more, those that are not balanced.
const HOURS_TOLD: usize = 25;

#[derive(Deserialize)]
pub(super) struct LedgerQuery {
    since: Option<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    Query(asked): Query<LedgerQuery>,
) -> Answer<Response> {
    let since = given(asked.since.as_ref()).unwrap_or_else(|| SINCE.to_owned());
    let span: TimeSpan =
        since.parse().map_err(|error| Misuse(format!("Events published since: {error}")))?;
    let body = html! {
        div {
            div.card.in.late {
                "Reading the journal, and counting what waits, up to a limit. On AWS that may take some seconds."
            }
            (page::late())
        }
    };
    let command = format!("audit --since {}", output::word(&since));
    let frame = Frame { tab: Tab::Ledger, title: "Ledger", above: Vec::new(), command };
    let on = SPANS.iter().find(|(_, span)| *span == since).map_or("", |(name, _)| name);
    let back = |span| with_query("/ledger", &[("since", span)]);
    let actions = kit::choice("Published since", on, &SPANS.map(|(name, span)| (name, back(span))));
    let head = Head { actions: Some(actions), ..Head::default() };
    Ok(page::streamed(app.page_of(&frame, &head, &body), async move {
        match audit::look_back(&app.settings.target, span, Effort::OF_A_PAGE).await {
            Ok(audit) => told(&audit),
            Err(error) => failure::problem("", &error),
        }
    }))
}

fn told(audit: &Audit) -> Markup {
    let cells = audit.cells();
    let (mut all, mut hours, mut keys) = (Sum::default(), BTreeMap::new(), BTreeMap::new());
    for cell in &cells {
        all.add_cell(cell);
        hours.entry(cell.hour).or_insert_with(Sum::default).add_cell(cell);
        keys.entry(cell.key).or_insert_with(Sum::default).add_cell(cell);
    }
    html! {
        (verdict(audit, &hours, &all))
        @if cells.is_empty() {
            @let none = "No event was published in this time that an event subscription wanted.";
            (kit::flush("", "", kit::empty(none, "publish --topic demo --type Sample.Greeting")))
        } @else {
            (equation(&all))
            (picture(audit, &keys, &all))
            (by_hour(audit, &hours, &all))
            (by_subscription(&keys))
        }
        div.g.g11 { (why_ended(&keys)) (by_topic(audit)) }
    }
}

/// What became of the events of some accounts: matched + redriven = delivered + waiting + dead-lettered + lost +
/// the difference.
#[derive(Clone, Debug, Default)]
struct Sum {
    account: Account,
    /// Without an end, and not called missing: attempted before or not.
    waiting: u64,
    /// No queue has room for them.
    missing: u64,
    ends_too_many: u64,
    difference: i128,
    is_open: bool,
}

impl Sum {
    fn add_cell(&mut self, Cell { account, standing, is_open, .. }: &Cell<'_>) {
        self.add(account, *standing);
        self.is_open |= is_open;
    }

    fn add(&mut self, account: &Account, standing: Standing) {
        let (missing, many) = match standing {
            Standing::Missing { events } => (events, 0),
            Standing::TooMany { ends } => (0, ends),
            Standing::Balanced | Standing::UnderWay { .. } => (0, 0),
        };
        // The account knows of what waits after an attempt alone.
        let open = i128::from(account.difference()) + i128::from(account.waiting);
        let waiting = u64::try_from(open - i128::from(missing) + i128::from(many)).unwrap_or(0);
        self.account.add(account);
        self.waiting = self.waiting.saturating_add(waiting);
        self.missing = self.missing.saturating_add(missing);
        self.ends_too_many = self.ends_too_many.saturating_add(many);
        self.difference += open - i128::from(waiting);
    }

    fn dead(&self) -> u64 {
        total(&self.account.dead_lettered)
    }

    fn lost(&self) -> u64 {
        total(&self.account.dropped)
    }

    fn ends(&self) -> [(Kind, u64, &'static str); 4] {
        [
            (Kind::Ok, self.account.delivered, "Delivered"),
            (Kind::Warn, self.waiting, "Waiting"),
            (Kind::Dead, self.dead(), "Dead-lettered"),
            (Kind::Bad, self.lost(), "Lost"),
        ]
    }

    fn pill(&self) -> Markup {
        match (self.missing, self.ends_too_many, self.is_open) {
            (0, 0, true) => kit::pill(Kind::Mute, "open"),
            (0, 0, false) => kit::pill(Kind::Ok, "0"),
            (0, many, _) => kit::pill(Kind::Warn, &format!("−{}", number(many))),
            (missing, ..) => kit::pill(Kind::Bad, &number(missing)),
        }
    }
}

fn signed(number: i128) -> String {
    let digits = text::number(u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX));
    if number < 0 { format!("−{digits}") } else { digits }
}

/// Says in sentences what the counts come to, and what they do not have.
fn verdict(audit: &Audit, hours: &BTreeMap<Timestamp, Sum>, all: &Sum) -> Markup {
    let events = |count: u64| counted(count, "event", "events");
    let has_all = audit.partial.is_empty() && audit.parked_is_whole;
    let (kind, title) = match audit.verdict() {
        Verdict::Missing { events: missing } => {
            (Kind::Bad, format!("{} without a known end", events(missing)))
        }
        Verdict::UnderWay { .. } => (Kind::Warn, "Nothing is missing so far".to_owned()),
        Verdict::Balances if all.ends_too_many > 0 || !audit.is_complete() => {
            (Kind::Warn, "Nothing is missing, as far as it was counted".to_owned())
        }
        Verdict::Balances => (Kind::Ok, "Every event has a known end, or waits".to_owned()),
    };
    let (kind, title) = match (kind, all.lost()) {
        (Kind::Ok | Kind::Warn, lost) if lost > 0 => {
            (Kind::Bad, format!("{} lost for good; nothing else is missing so far", events(lost)))
        }
        _ => (kind, title),
    };
    let is_many = hours.len() > HOURS_TOLD;
    let open: Vec<_> = hours.iter().filter(|(_, sum)| sum.is_open).map(|(hour, _)| *hour).collect();
    let closed = (hours.len() - open.len()) as u64;
    let text = html! {
        @if all.lost() > 0 {
            p {
                (events(all.lost())) " lost for good: the event subscription had no place for dead letters, or it \
                 could not be written."
            }
        @match audit.verdict() {
            Verdict::Missing { .. } => p {
                "No queue holds as many messages. It may be a function that was killed between the end of a delivery \
                 and the write of its counts (look for Task timed out, signal: killed and Runtime exited in the \
                 functions' logs of that hour), or a delivery that was parked before its first attempt, or a message \
                 that lay in a queue for 14 days. If it is none of these, it is a loss, which must not happen: please \
                 report it."
            },
            Verdict::UnderWay { events: under_way } => p {
                (events(under_way)) " without a known end may be in the queues, waiting for a first attempt or on the \
                 way to a dead letter, or in an hour that is open. Look again later."
            },
            Verdict::Balances => {},
        }
        @if closed > 0 && all.missing == 0 && all.ends_too_many == 0 {
            p { (counted(closed, "closed hour", "closed hours")) " without a difference." }
        }
        @if let (Some(first), Some(last)) = (open.first(), open.last()) {
            @let judged = Timestamp::from_millis(last.as_millis() + OPEN_FOR_MS);
            p {
                "What was published from " (chart::hour(*first, is_many)) " on is not judged before "
                (chart::hour(judged, is_many)) "."
            }
        }
        }
        @if all.ends_too_many > 0 {
            p {
                (counted(all.ends_too_many, "end", "ends")) " more than events: events delivered twice, publishes that were \
                 sent again after a 503, or an ingest that was killed before it wrote its counts. In the same hour \
                 they may hide others that are missing."
            }
        }
        @if audit.ended_since() > 0 {
            p { (events(audit.ended_since())) " of what waits ended while this was counted." }
        }
        @if audit.asked < audit.since {
            p {
                "The journal keeps less than was asked for: nothing is known of what was published before "
                (text::time(Time(audit.since))) "."
            }
        }
        @if !has_all {
            p {
                "More waits than was counted for this page, so nothing is called missing, and less is shown as \
                 waiting after an attempt"
                @if let Some(first) = audit.partial.first() {
                    ": of " (counted(audit.partial.len() as u64, "event subscription", "event subscriptions")) ", such as " (first)
                }
                ". The command counts all of it."
            }
        }
        @match &audit.queues {
            Err(reason) => p { "What the queues hold is not known, so nothing is called missing: " (visible(reason)) "." },
            Ok(queues) if queues.poison > 0 => p {
                (counted(queues.poison, "message", "messages")) " in the poison queue: they have no end before they are sent again."
            },
            Ok(_) => {},
        }
        @for left_out in &audit.left_out { p { "The journal: " (text::sentence(left_out)) "." } }
    };
    let actions = html! {
        @if matches!(&audit.queues, Ok(queues) if queues.poison > 0) {
            (kit::button("/waiting", None, "Open the poison queue"))
        }
    };
    kit::note(kind, &title, text, actions)
}

/// Matched + redriven = delivered + waiting + dead-lettered + lost, and the difference.
fn equation(all: &Sum) -> Markup {
    let attempted = all.account.waiting.min(all.waiting);
    let [retrying, queued] = [attempted, all.waiting - attempted].map(number);
    let waiting = format!("{retrying} retrying or parked, {queued} in queues");
    let difference = match (all.missing, all.ends_too_many) {
        (0, 0) => String::new(),
        (missing, many) => format!("{} missing, {} too many", number(missing), number(many)),
    };
    let [delivered, wait, dead, lost] =
        all.ends().map(|(kind, count, name)| (Some(kind), name, number(count)));
    let bad = (all.missing > 0).then_some(Kind::Bad);
    let terms = [
        ((None, "Matched", number(all.account.matched)), "+", ""),
        ((None, "Redriven", number(all.account.redriven)), "=", ""),
        (delivered, "+", ""),
        (wait, "+", if all.waiting > 0 { &waiting } else { "" }),
        (dead, "+", ""),
        (lost, "", ""),
        ((bad, "Difference", signed(all.difference)), "", &difference),
    ];
    html! {
        section.card { div.row.eq {
            @for ((kind, label, value), sign, note) in terms {
                div.tile {
                    span.l { @if let Some(kind) = kind { (chart::dot(kind)) } (label) }
                    span.big { (value) }
                    @if !note.is_empty() { span.sm.m { (note) } }
                }
                @if !sign.is_empty() { span.big.m { (sign) } }
            }
        } }
    }
}

/// From the topics to the ends.
fn picture(audit: &Audit, keys: &BTreeMap<&SubscriptionKey, Sum>, all: &Sum) -> Markup {
    let intakes = audit.topics();
    let mut topics: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, sum) in keys {
        *topics.entry(&key.topic).or_default() += sum.account.matched;
    }
    let mut topics: Vec<_> = topics.into_iter().collect();
    topics.sort_by_key(|(_, matched)| std::cmp::Reverse(*matched));
    let accepted = |name: &str| intakes.get(name).map_or(0, |intake| intake.accepted);
    let source = |name: String, accepted: u64, count| Source {
        name,
        told: format!("{} accepted", number(accepted)),
        count,
    };
    let (drawn, others) = topics.split_at(topics.len().min(TOPICS_DRAWN));
    let drawn =
        drawn.iter().map(|(name, count)| source((*name).to_owned(), accepted(name), *count));
    let mut sources: Vec<_> = drawn.collect();
    if !others.is_empty() {
        let name = counted(others.len() as u64, "other topic", "other topics");
        let accepted = others.iter().map(|(name, _)| accepted(name)).sum();
        sources.push(source(name, accepted, others.iter().map(|(_, matched)| matched).sum()));
    }
    let told = "dead letters sent again".to_owned();
    sources.push(Source { name: "Redriven".to_owned(), told, count: all.account.redriven });
    let of_all: u64 = intakes.values().map(|intake| intake.accepted).sum();
    let beside = html! { span.sm.m { (counted(of_all, "event", "events")) " accepted; small ends are drawn larger" } };
    kit::card("From publish to end", beside, chart::flow(&sources, &all.ends()))
}

fn by_hour(audit: &Audit, hours: &BTreeMap<Timestamp, Sum>, all: &Sum) -> Markup {
    let steps = audit.until.since(audit.since).as_secs().div_ceil(HOUR.as_secs()).max(1);
    let hour = |step: u64| audit.since + HOUR * u32::try_from(step).unwrap_or(u32::MAX);
    let none = Sum::default();
    let ends: Vec<_> =
        (0..steps).map(|step| hours.get(&hour(step)).unwrap_or(&none).ends()).collect();
    let values = |at: usize| ends.iter().map(|ends| ends[at].1).collect();
    let series = all.ends().into_iter().enumerate();
    let series: Vec<_> =
        series.map(|(at, (kind, _, name))| Series::of(kind, name, values(at))).collect();
    let bars = Bars::of("Events by the hour of their publish", &series, audit.since, HOUR);
    let legend = all.ends().map(|(kind, count, name)| (kind, name, Some(count)));
    let is_many = hours.len() > HOURS_TOLD;
    let is_balanced = |sum: &Sum| !sum.is_open && sum.missing == 0 && sum.ends_too_many == 0;
    let hours_told: Vec<_> =
        hours.iter().filter(|(_, sum)| !is_many || !is_balanced(sum)).collect();
    let differences = html! {
        ul.key aria-label="The difference of each hour" {
            @for (hour, sum) in hours_told { li { (chart::hour(*hour, is_many)) " " (sum.pill()) } }
            @if is_many { li { "all other hours " (none.pill()) } }
        }
    };
    let body = html! { (bars.picture()) (bars.table()) };
    kit::figure("By the hour of the publish", chart::legend(&legend), body, differences)
}

fn by_subscription(keys: &BTreeMap<&SubscriptionKey, Sum>) -> Markup {
    let row = |(key, sum): (&&SubscriptionKey, &Sum)| {
        let Account { matched, redriven, delivered, latencies, .. } = &sum.account;
        let [_, p95, _] = text::bounds(latencies);
        let counts = [*matched, *redriven, *delivered, sum.waiting, sum.dead(), sum.lost()];
        let count = |count| html! { @if count == 0 { span.m { "0" } } @else { (number(count)) } };
        let url = subscription_url(&key.topic, &key.name, "");
        let mut cells = vec![
            html! { a href=(url) { (text::soft(&key.name)) } },
            html! { span.m { (text::soft(&key.topic)) } },
        ];
        cells.extend(counts.map(count));
        cells.extend([
            html! { (signed(sum.difference)) },
            html! { (p95) },
            chart::mini(&sum.ends()),
        ]);
        cells
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    html! {
        @let head = [("Event subscription", "nw"), ("Topic", ""), ("Matched", "n"), ("Redriven", "n"),
            ("Delivered", "n"), ("Waiting", "n"), ("Dead-lettered", "n"), ("Lost", "n"), ("Difference", "n"),
            ("p95", "n nw"), ("Outcome", "gr")];
        (kit::listed("By event subscription", "", &head, &rows))
    }
}

fn why_ended(keys: &BTreeMap<&SubscriptionKey, Sum>) -> Markup {
    let mut rows: Vec<Row> = Vec::new();
    for (key, Sum { account, .. }) in keys {
        let url = subscription_url(&key.topic, &key.name, "/dead-letters");
        for (reason, count) in &account.dead_lettered {
            let name = format!("{} · {}", key.name, text::reason(reason));
            let letters = with_query(&url, &[("reason", reason)]);
            rows.push((Kind::Dead, name, *count, Some(letters)));
        }
        for (reason, count) in &account.dropped {
            let name = format!("{} · {}, lost", key.name, text::reason(reason));
            rows.push((Kind::Bad, name, *count, None));
        }
    }
    rows.sort_by_key(|(_, _, count, _)| std::cmp::Reverse(*count));
    html! { @if !rows.is_empty() { (kit::card("Why events ended", "", chart::breakdown(&rows))) } }
}

fn by_topic(audit: &Audit) -> Markup {
    let row = |(name, Intake { accepted, unmatched }): (&str, Intake)| {
        vec![
            html! { a href=(urls::topic_url(name)) { (text::soft(name)) } },
            html! { (counted(accepted, "event", "events")) },
            html! { (number(unmatched)) },
        ]
    };
    let rows: Vec<_> = audit.topics().into_iter().map(row).collect();
    let head = [("Topic", "gr"), ("Accepted", "n nw"), ("For no event subscription", "n")];
    kit::listed("By topic", "", &head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_holds_whatever_is_known() {
        let account = Account {
            matched: 10,
            delivered: 4,
            waiting: 2,
            dead_lettered: [("R".to_owned(), 1)].into(),
            ..Account::default()
        };
        // How it stands, what waits, what differs.
        for (standing, delivered, waiting, difference) in [
            (Standing::Balanced, 4, 5, 0),
            (Standing::UnderWay { events: 3 }, 4, 5, 0),
            (Standing::Missing { events: 2 }, 4, 3, 2),
            (Standing::TooMany { ends: 1 }, 8, 2, -1),
            (Standing::Balanced, 12, 0, -3),
        ] {
            let account = Account { delivered, ..account.clone() };
            let mut sum = Sum::default();
            sum.add(&account, standing);
            assert_eq!((sum.waiting, sum.difference), (waiting, difference), "{standing:?}");
            let whole = account.matched + account.redriven;
            let ends: u64 = sum.ends().iter().map(|(_, count, _)| count).sum();
            assert_eq!(i128::from(whole), i128::from(ends) + sum.difference);
        }
        assert_eq!((signed(-1_200), signed(3)), ("−1\u{202f}200".to_owned(), "3".to_owned()));
    }

    #[test]
    fn an_hour_says_whether_it_differs() {
        for (missing, ends_too_many, is_open, want) in [
            (0, 0, false, "pill ok"),
            (0, 0, true, "open"),
            (2, 1, true, "pill bad"),
            (0, 1, false, "−1"),
        ] {
            let sum = Sum { missing, ends_too_many, is_open, ..Sum::default() };
            let pill = sum.pill().into_string();
            assert!(pill.contains(want), "{pill}");
        }
    }
}
