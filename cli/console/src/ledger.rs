//! Whether the ledger balances, and what was published and became of it, hour by hour. What `gridpost
//! audit` reads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use gridpost_core::{
    ledger::{Account, Intake},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use maud::{Markup, html};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::App;
use super::chart::{self, Bars, Kind, Row, Series, Source};
use super::failure::{self, Answer};
use super::kit;
use super::page::{self, Frame, Head, Tab};
use super::text::{self, counted, number};
use super::traffic::{KEPT_ON_ONE_MACHINE, SinceQuery};
use super::urls::{self, subscription_url, with_query};
use gridpost_ops::{
    audit::{
        self, Effort,
        document::total,
        verdict::{Audit, Standing, Verdict},
    },
    failure::Misuse,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// Event subscriptions on a page, and rows of the lists below them. A page weighs 100 KB at most.
const ROWS: usize = 30;
const ROWS_BELOW: usize = 15;

/// Topics that have a place of their own in the picture.
const TOPICS_DRAWN: usize = 6;

/// The most bars: of more hours, some go together.
const BARS_MAX: u64 = 30;

/// Hours whose verdicts are all told; of more, those that are not balanced, and the last ones of these.
const HOURS_TOLD: usize = 25;
const UNBALANCED_TOLD: usize = 10;

/// How long an audit is shared on AWS.
const SHARED_ON_AWS: Duration = Duration::from_secs(5);

/// The last audit of each range, in whose order the next pages go on, or one under way, which all wait for.
#[derive(Debug, Default)]
pub(super) struct Audits(Mutex<BTreeMap<&'static str, AuditCell>>);

type AuditCell = Arc<OnceCell<(Instant, Arc<Audit>)>>;

impl Audits {
    /// Returns that of a range; a new one, where it is older than that, and not the one to go on in.
    fn of(&self, range: &'static str, age: Duration, until_ms: Option<i64>) -> AuditCell {
        let mut audits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = audits.entry(range).or_default();
        if let Some((at, audit)) = one.get()
            && at.elapsed() >= age
            && until_ms != Some(audit.until.as_millis())
        {
            *one = AuditCell::default();
        }
        Arc::clone(one)
    }
}

/// Where a page begins: the time of an audit, and the rows before the page in its order.
type Place = (i64, usize);

fn place(text: &str) -> Option<Place> {
    let (audit_ms, rows) = text.split_once('.')?;
    Some((audit_ms.parse().ok()?, rows.parse().ok()?))
}

/// The sums of each event subscription.
type Sums<'a> = Vec<(&'a SubscriptionKey, Sum)>;

pub(super) async fn show(
    State(app): State<App>,
    Query(query): Query<SinceQuery>,
) -> Answer<Response> {
    let since = query.since();
    let span = since.value.parse().map_err(Misuse)?;
    let body = html! {
        div {
            div.card.in.late {
                "Reading the journal, and counting what waits, up to a limit. On AWS that may take some seconds."
            }
            (page::late())
        }
    };
    let command = format!("audit --since {}", since.value);
    let frame = Frame { tab: Tab::Ledger, title: "Ledger", above: Vec::new(), command };
    let head = Head { actions: Some(since.choice("/ledger")), ..Head::default() };
    let after = query.look.after.as_deref().and_then(place);
    Ok(page::streamed(app.page_of(&frame, &head, &body), async move {
        let target = &app.settings.target;
        let age = if target.is_dev() { KEPT_ON_ONE_MACHINE } else { SHARED_ON_AWS };
        let cell = app.audits.of(since.value, age, after.map(|it| it.0));
        let look = async || {
            let audit = audit::look_back(target, span, Effort::OF_A_PAGE).await?;
            anyhow::Ok((Instant::now(), Arc::new(audit)))
        };
        let audit = cell.get_or_try_init(look).await;
        failure::or_problem("", &audit, |(_, audit)| told(audit, since.value, after))
    }))
}

fn told(audit: &Audit, since: &str, after: Option<Place>) -> Markup {
    let (mut all, mut hours, mut keys) = (Sum::default(), BTreeMap::new(), BTreeMap::new());
    for cell in audit.cells() {
        let (of_hour, of_key) =
            (hours.entry(cell.hour).or_default(), keys.entry(cell.key).or_default());
        for sum in [&mut all, of_hour, of_key] {
            sum.add(cell.account, cell.standing);
            sum.is_open |= cell.is_open;
        }
    }
    let mut keys: Sums<'_> = keys.into_iter().collect();
    keys.sort_by_key(|(_, sum)| Reverse(sum.rank()));
    let audit_ms = audit.until.as_millis();
    let is_there = |(of, rows): &Place| *of == audit_ms && *rows < keys.len();
    let first = after.filter(is_there).map_or(0, |(_, rows)| rows);
    let shown = &keys[first..keys.len().min(first + ROWS)];
    let end = first + shown.len();
    let next = (end < keys.len()).then(|| format!("{audit_ms}.{end}"));
    html! {
        @if after.is_some() && first == 0 {
            @let told = "The ledger was counted anew meanwhile, or has no further page.";
            @let url = with_query("/ledger", &[("since", since)]);
            (kit::note(Kind::Warn, "This is the first page again", told, kit::button(&url, None, "First page")))
        }
        (verdict(audit, &all))
        @if keys.is_empty() {
            @let none = "No event was published in this time that an event subscription wanted.";
            (kit::flush("", "", kit::empty(none, "publish --topic demo --type Sample.Greeting")))
        } @else {
            (equation(&all))
            (picture(audit, &keys, &all))
            (by_hour(audit, &hours, &all))
            (by_subscription(shown, first, keys.len(), since))
            (kit::next_page("/ledger", &[("since", since)], next.as_deref()))
        }
        div.g.g11 { (why_ended(&keys)) (by_topic(audit)) }
    }
}

/// What became of the events of some accounts: matched + redriven = delivered + waiting + dead-lettered + lost +
/// the difference.
#[derive(Clone, Debug, Default)]
struct Sum {
    account: Account,
    /// No queue has room for them.
    missing: u64,
    ends_too_many: u64,
    is_open: bool,
}

impl Sum {
    fn add(&mut self, account: &Account, standing: Standing) {
        self.account.add(account);
        match standing {
            Standing::Missing { events } => self.missing = self.missing.saturating_add(events),
            Standing::TooMany { ends } => {
                self.ends_too_many = self.ends_too_many.saturating_add(ends);
            }
            Standing::Balanced | Standing::UnderWay { .. } => {}
        }
    }

    /// Returns how many have no end: those that waited after an attempt, of which the account knows, and others.
    fn open(&self) -> i128 {
        i128::from(self.account.difference()) + i128::from(self.account.waiting)
    }

    /// Returns those that are not called missing.
    fn waiting(&self) -> u64 {
        let missing = i128::from(self.missing) - i128::from(self.ends_too_many);
        u64::try_from(self.open() - missing).unwrap_or(0)
    }

    fn difference(&self) -> i128 {
        self.open() - i128::from(self.waiting())
    }

    fn ends(&self) -> [(Kind, u64, &'static str); 4] {
        let Account { delivered, dead_lettered, dropped, .. } = &self.account;
        [
            (Kind::Ok, *delivered, "Delivered"),
            (Kind::Warn, self.waiting(), "Waiting"),
            (Kind::Dead, total(dead_lettered), "Dead-lettered"),
            (Kind::Bad, total(dropped), "Lost"),
        ]
    }

    /// Returns what puts it before others in a list: a difference, else what ended badly, else its size.
    fn rank(&self) -> (u128, [u64; 4]) {
        let [_, waiting, dead, lost] = self.ends().map(|(_, count, _)| count);
        (self.difference().unsigned_abs(), [lost, dead, waiting, self.account.matched])
    }

    fn is_balanced(&self) -> bool {
        !self.is_open && self.missing == 0 && self.ends_too_many == 0
    }

    fn pill(&self) -> Markup {
        match (self.missing, self.ends_too_many) {
            (0, 0) if self.is_open => kit::pill(Kind::Mute, "open"),
            (0, many) if many > 0 => kit::pill(Kind::Warn, &format!("−{}", number(many))),
            (0, _) => kit::pill(Kind::Ok, "0"),
            (missing, _) => kit::pill(Kind::Bad, &number(missing)),
        }
    }
}

/// Shows a difference: less is more ends than events.
fn signed(number: i128) -> Markup {
    let digits = text::number(u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX));
    html! {
        @match number {
            0 => span.t-ok { "0" },
            1.. => span.t-bad { (digits) },
            _ => span.t-warn { "−" (digits) },
        }
    }
}

/// Shows how many events ended so.
fn toned(kind: Kind, count: u64) -> Markup {
    html! { @if kind == Kind::Bad && count > 0 { span.t-bad { (number(count)) } } @else { (kit::count(count)) } }
}

/// Says in sentences what the counts come to, and what they do not have.
fn verdict(audit: &Audit, all: &Sum) -> Markup {
    let events = |count: u64| counted(count, "event", "events");
    let poison = audit.queues.as_ref().map_or(0, |queues| queues.poison);
    let (kind, title) = match (audit.verdict(), total(&all.account.dropped)) {
        (Verdict::Missing { events: missing }, _) => {
            (Kind::Bad, format!("{} without a known end", events(missing)))
        }
        (_, lost) if lost > 0 => {
            (Kind::Bad, format!("{} lost for good; nothing else is missing so far", events(lost)))
        }
        (Verdict::UnderWay { .. }, _) => (Kind::Warn, "Nothing is missing so far".to_owned()),
        (Verdict::Balances, _) if all.ends_too_many > 0 || !audit.is_complete() => {
            (Kind::Warn, "Nothing is missing, as far as it was counted".to_owned())
        }
        (Verdict::Balances, _) if poison > 0 => {
            (Kind::Warn, "Nothing is missing, but not every event has an end".to_owned())
        }
        (Verdict::Balances, _) => (Kind::Ok, "Every event has a known end, or waits".to_owned()),
    };
    let sentence = |told: &str| {
        let mut rest = told.chars();
        let first = rest.next().into_iter().flat_map(char::to_uppercase);
        text::sentence(&(first.collect::<String>() + rest.as_str()))
    };
    let text = html! {
        @for (_, remark) in audit.remarks() { p { (sentence(&remark)) "." } }
        @for left_out in &audit.left_out { p { "The journal: " (text::sentence(left_out)) "." } }
    };
    let actions = html! {
        @if poison > 0 {
            (kit::button("/waiting", None, "Open the poison queue"))
        }
    };
    kit::note(kind, &title, text, actions)
}

/// Matched + redriven = delivered + waiting + dead-lettered + lost, and the difference.
fn equation(all: &Sum) -> Markup {
    let (waits, attempted) = (all.waiting(), all.account.waiting);
    let [retrying, queued] = [attempted.min(waits), waits.saturating_sub(attempted)].map(number);
    let waiting = format!("{retrying} retrying or parked, {queued} in queues");
    let [missing, many] = [all.missing, all.ends_too_many].map(number);
    let difference = format!("{missing} missing, {many} too many");
    let term = |kind: Option<Kind>, label: &str, value: Markup, note: &str, sign: &str| {
        html! {
            div.tile {
                span.l { @if let Some(kind) = kind { (chart::dot(kind)) } (label) }
                span.big { (value) }
                @if !note.is_empty() { span.sm.m { (note) } }
            }
            span.big.m { (sign) }
        }
    };
    let differs = all.missing > 0 || all.ends_too_many > 0;
    let bad = (all.missing > 0).then_some(Kind::Bad);
    html! {
        section.card { div.row.eq {
            (term(None, "Matched", kit::count(all.account.matched), "", "+"))
            (term(None, "Redriven", kit::count(all.account.redriven), "", "="))
            @for (kind, count, name) in all.ends() {
                @let note = if kind == Kind::Warn && count > 0 { &waiting } else { "" };
                (term(Some(kind), name, toned(kind, count), note, if kind == Kind::Bad { "" } else { "+" }))
            }
            (term(bad, "Difference", signed(all.difference()), if differs { &difference } else { "" }, ""))
        } }
    }
}

/// From the topics to the ends.
fn picture(audit: &Audit, keys: &Sums<'_>, all: &Sum) -> Markup {
    let intakes = audit.topics();
    let mut topics: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, sum) in keys {
        *topics.entry(&key.topic).or_default() += sum.account.matched;
    }
    let mut topics: Vec<_> = topics.into_iter().collect();
    topics.sort_by_key(|(_, matched)| Reverse(*matched));
    let source = |name: String, topics: &[(&str, u64)]| {
        let intakes = topics.iter().filter_map(|(name, _)| intakes.get(name));
        let accepted = number(intakes.map(|intake| intake.accepted).sum());
        let count = topics.iter().map(|(_, matched)| matched).sum();
        Source { name, told: format!("{accepted} accepted"), count }
    };
    let (drawn, others) = topics.split_at(topics.len().min(TOPICS_DRAWN));
    let drawn = drawn.iter().map(|one| source(one.0.to_owned(), &[*one]));
    let mut sources: Vec<_> = drawn.collect();
    // Without events, it is not drawn.
    sources.push(source(counted(others.len() as u64, "other topic", "other topics"), others));
    let told = "dead letters sent again".to_owned();
    sources.push(Source { name: "Redriven".to_owned(), told, count: all.account.redriven });
    let of_all: u64 = intakes.values().map(|intake| intake.accepted).sum();
    let beside = html! { span.sm.m { (counted(of_all, "event", "events")) " accepted; small ends are drawn larger" } };
    kit::card("From publish to end", beside, chart::flow(&sources, &all.ends()))
}

fn by_hour(audit: &Audit, hours: &BTreeMap<Timestamp, Sum>, all: &Sum) -> Markup {
    let count = audit.until.since(audit.since).as_secs().div_ceil(HOUR.as_secs()).max(1);
    let together = count.div_ceil(BARS_MAX);
    let step = HOUR.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX));
    let none = vec![0; count.div_ceil(together) as usize];
    let mut series = all.ends().map(|(kind, _, name)| Series::of(kind, name, none.clone()));
    for (hour, sum) in hours {
        let at = (hour.since(audit.since).as_secs() / step.as_secs()) as usize;
        for (one, (_, events, _)) in series.iter_mut().zip(sum.ends()) {
            one.values.get_mut(at).into_iter().for_each(|value| *value += events);
        }
    }
    let bars = Bars::of("Events by the time of their publish", &series, audit.since, step);
    let legend = all.ends().map(|(kind, count, name)| (kind, name, Some(count)));
    let is_many = hours.len() > HOURS_TOLD;
    let told: Vec<_> = hours.iter().filter(|(_, sum)| !is_many || !sum.is_balanced()).collect();
    let most = if is_many { UNBALANCED_TOLD } else { HOURS_TOLD };
    let (earlier, told) = told.split_at(told.len().saturating_sub(most));
    let differences = html! {
        ul.key aria-label="The difference of each hour" {
            @if !earlier.is_empty() { li { (earlier.len()) " earlier hours that are not balanced" } }
            @for (hour, sum) in told { li { (chart::hour(**hour, is_many)) " " (sum.pill()) } }
            @if is_many { li { "all other hours " (Sum::default().pill()) } }
        }
    };
    let body = html! { (bars.picture()) (bars.table()) };
    kit::figure("By the hour of the publish", chart::legend(&legend), body, differences)
}

fn by_subscription(
    shown: &[(&SubscriptionKey, Sum)],
    after: usize,
    all: usize,
    since: &str,
) -> Markup {
    let row = |(key, sum): &(&SubscriptionKey, Sum)| {
        let Account { matched, redriven, latencies, .. } = &sum.account;
        let [_, p95, _] = text::bounds(latencies);
        let ends = sum.ends();
        let counts = [*matched, *redriven].map(kit::count);
        let ended = ends.map(|(kind, count, _)| toned(kind, count));
        let url = with_query(&subscription_url(&key.topic, &key.name, ""), &[("since", since)]);
        let name = html! { a href=(url) { (text::soft(&key.name)) } " " span.m { (text::soft(&key.topic)) } };
        let more = [signed(sum.difference()), html! { (p95) }, chart::mini(&ends)];
        [name].into_iter().chain(counts).chain(ended).chain(more).collect()
    };
    let rows: Vec<_> = shown.iter().map(row).collect();
    let ends = Sum::default().ends().map(|(_, _, name)| name);
    let numbers = ["Matched", "Redriven"].into_iter().chain(ends).chain(["Difference", "p95"]);
    let mut head = vec![("Event subscription", "nw")];
    head.extend(numbers.map(|name| (name, "n nw")).chain([("Outcome", "gr")]));
    let part = html! {
        @if rows.len() < all {
            span.sm.m {
                (after + 1) " to " (after + rows.len()) " of " (number(all as u64))
                ": first what differs, was lost or dead-lettered, or waits"
            }
        }
    };
    kit::listed("By event subscription", part, &head, &rows)
}

/// Lists the reasons for which events ended, the most frequent ones.
fn why_ended(keys: &Sums<'_>) -> Markup {
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
    rows.sort_by_key(|(_, _, count, _)| Reverse(*count));
    let less = rows.split_off(rows.len().min(ROWS_BELOW));
    let of_less: u64 = less.iter().map(|(_, _, count, _)| count).sum();
    let less = html! {
        @if of_less > 0 { span.sm.m { "and " (less.len()) " more, of " (counted(of_less, "event", "events")) } }
    };
    html! { @if !rows.is_empty() { (kit::card("Why events ended", less, chart::breakdown(&rows))) } }
}

/// Lists the topics that accepted the most events; the page of topics has all.
fn by_topic(audit: &Audit) -> Markup {
    let row = |(name, Intake { accepted, unmatched }): &(&str, Intake)| {
        vec![
            html! { a href=(urls::topic_url(name, "")) { (text::soft(name)) } },
            kit::count(*accepted),
            kit::count(*unmatched),
        ]
    };
    let mut topics: Vec<_> = audit.topics().into_iter().collect();
    topics.sort_by_key(|(_, intake)| Reverse(intake.accepted));
    let rows: Vec<_> = topics.iter().take(ROWS_BELOW).map(row).collect();
    let all = html! {
        @if rows.len() < topics.len() { a.sm href="/topics" { "All " (topics.len()) " topics" } }
    };
    let head = [("Topic", "gr"), ("Accepted", "n nw"), ("For no event subscription", "n")];
    kit::listed("By topic", all, &head, &rows)
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
            let mut sum = Sum::default();
            sum.add(&Account { delivered, ..account.clone() }, standing);
            assert_eq!((sum.waiting(), sum.difference()), (waiting, difference), "{standing:?}");
            let ends: u64 = sum.ends().iter().map(|(_, count, _)| count).sum();
            assert_eq!(10, i128::from(ends) + sum.difference());
        }
        let signed = [-1_200, 0, 3].map(|difference| signed(difference).into_string());
        let want = ["t-warn\">−1\u{202f}200", "t-ok\">0", "t-bad\">3"];
        assert_eq!(signed, want.map(|want| format!("<span class=\"{want}</span>")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_audit_is_shared_for_some_seconds_and_with_its_next_pages() {
        let (audits, now) = (Audits::default(), Timestamp::from_millis(9));
        let of = |until_ms| audits.of("6h", SHARED_ON_AWS, until_ms);
        let first = of(None);
        assert!(Arc::ptr_eq(&first, &of(None)), "all wait for the one under way");
        let audit = Arc::new(Audit::begun(now, now, Ok(Default::default())));
        first.set((Instant::now(), audit)).expect("the first");
        assert!(of(None).get().is_some());
        tokio::time::advance(SHARED_ON_AWS).await;
        assert!(of(Some(9)).get().is_some() && of(Some(8)).get().is_none());
    }

    #[test]
    fn what_is_poison_is_no_all_clear() {
        let now = Timestamp::from_millis(1_767_225_600_000);
        for (poison, kind) in [(0, "note ok"), (1, "note warn")] {
            let queues = Ok(audit::verdict::Queues { poison, ..Default::default() });
            let shown = verdict(&Audit::begun(now, now, queues), &Sum::default()).into_string();
            assert!(shown.contains(kind), "{shown}");
        }
    }

    /// 501 event subscriptions, some of which lose events, in the hours of a week.
    #[test]
    fn a_page_of_many_event_subscriptions_is_light() {
        let since = Timestamp::from_millis(1_767_225_600_000);
        let mut ledger = gridpost_core::ledger::Ledger::default();
        for at in 0..501_u64 {
            let (topic, name) = (format!("topic-{}", at % 50), format!("subscription-{at}"));
            let key = SubscriptionKey { topic: topic.clone(), name };
            for hour in [at % 168, (at + 50) % 168] {
                let hour = since + HOUR * hour as u32;
                let account = Account {
                    matched: 2_000,
                    delivered: 1_900,
                    dropped: [("UndeliverableDueToHttpBadRequest".to_owned(), at % 7)].into(),
                    ..Account::default()
                };
                ledger.accounts.insert((key.clone(), hour), account);
                let intake = Intake { accepted: 2_000, unmatched: 0 };
                ledger.intakes.insert((topic.clone(), hour), intake);
            }
        }
        let audit =
            Audit { ledger, ..Audit::begun(since, since + HOUR * 168, Ok(Default::default())) };
        let until = audit.until.as_millis();
        let [first, last] = [ROWS, 21];
        // Whether it says that it is no later page.
        for (after, rows, is_again) in [
            (String::new(), first, false),
            (format!("{until}.480"), last, false),
            (format!("{until}.501"), first, true),
            (format!("{}.480", until - 1), first, true),
            ("480".to_owned(), first, false),
        ] {
            let after = place(&after);
            let page = told(&audit, "7d", after).into_string();
            assert_eq!(page.contains("This is the first page again"), is_again, "{after:?}");
            assert_eq!(page.matches("?since=7d\">").count() - usize::from(is_again), rows);
            let files: usize = crate::assets::FILES.iter().map(|(.., text)| text.len()).sum();
            assert!(page.len() + files < 88_000, "{} and {files}", page.len());
            assert_eq!(page.matches("/subscriptions/").count(), rows, "{page}");
        }
    }
}
