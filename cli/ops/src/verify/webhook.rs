//! The webhook: served by this program for a local stack, otherwise the function URL of `infra/modules/verify`,
//! which reports what it receives into a queue. Its URL says how each attempt is answered, so that the function
//! keeps nothing.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{anyhow, bail};
use serde::Deserialize;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use url::Url;

use super::queue::{Message, Queue};
use crate::{
    clock,
    failure::Misuse,
    receiver::{Answers, Arrival, Behaviour, Purpose, Receiver},
    target::Target,
    verify::{
        judge::{Filler, Received},
        step::{SCRIPTS, script},
    },
};

/// Receives of reports under way at once.
const READERS: usize = 4;

const AGAIN: Duration = Duration::from_secs(1);

const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Webhook {
    host: Host,
    run: String,
    seen: watch::Receiver<Vec<Received>>,
    /// The reason why reports can't be read, if so.
    trouble: watch::Receiver<Option<String>>,
    _tasks: JoinSet<()>,
}

enum Host {
    Here(Receiver),
    /// The function's URL, with its token.
    Deployed(Url),
}

impl Webhook {
    pub(super) async fn here(run: &str) -> anyhow::Result<Self> {
        let mut by_path = HashMap::new();
        for one in SCRIPTS {
            let answers: Answers = one.answers.parse().map_err(|problem| anyhow!("{problem}"))?;
            let delay = Duration::from_secs(one.delay_s);
            by_path.insert(format!("/{run}/{}", one.name), Behaviour { answers, delay });
        }
        let (sender, arrivals) = mpsc::unbounded_channel();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let otherwise = Behaviour::prompt(Answers::always(200));
        let receiver = Receiver::start(address, by_path, otherwise, sender).await?;
        let (seen, seen_by) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(arrivals, seen));
        let trouble = watch::channel(None).1;
        let run = run.to_owned();
        Ok(Self { host: Host::Here(receiver), run, seen: seen_by, trouble, _tasks: tasks })
    }

    /// Uses the webhook at that URL, which reports into that queue.
    pub(super) async fn deployed(
        target: &Target,
        given: &str,
        reports: Queue,
        run: &str,
    ) -> anyhow::Result<Self> {
        let url = Url::parse(given).ok().filter(|url| url.has_host());
        // The URL has a token: it is not repeated.
        let url = url.ok_or_else(|| {
            Misuse(
                "--webhook is not a URL: write the output webhook_url of infra/modules/verify"
                    .to_owned(),
            )
        })?;
        let ahead_ms = ahead_ms(target, &url).await?;
        let (seen, seen_by) = watch::channel(Vec::new());
        let (trouble, trouble_by) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for _ in 0..READERS {
            let (reports, run) = (reports.clone(), run.to_owned());
            tasks.spawn(read(reports, run, ahead_ms, seen.clone(), trouble.clone()));
        }
        let run = run.to_owned();
        let host = Host::Deployed(url);
        Ok(Self { host, run, seen: seen_by, trouble: trouble_by, _tasks: tasks })
    }

    pub(super) fn endpoint(&self, name: &str) -> String {
        let path = format!("/{}/{name}", self.run);
        match &self.host {
            Host::Here(receiver) => receiver.url(&path),
            Host::Deployed(url) => {
                let (answers, delay_s) = script(name);
                let mut url = url.clone();
                url.set_path(&path);
                url.query_pairs_mut()
                    .append_pair("answers", answers)
                    .append_pair("delay", &delay_s.to_string());
                url.into()
            }
        }
    }

    /// Waits until it has received enough, or the time is over. Returns all that it has received.
    pub(super) async fn until(
        &self,
        deadline: Instant,
        is_enough: impl Fn(&[Received]) -> bool,
    ) -> Vec<Received> {
        let mut changes = self.seen.clone();
        loop {
            let seen = changes.borrow_and_update().clone();
            if is_enough(&seen) {
                return seen;
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return self.seen.borrow().clone();
            }
            // Requests that come together are judged together.
            sleep(LOOK).await;
        }
    }

    /// Adds to a problem that reports can't be read, if so.
    pub(super) fn explain(&self, missing: String) -> String {
        match self.trouble.borrow().as_ref() {
            Some(trouble) => format!("{missing} (reports of the webhook can't be read: {trouble})"),
            None => missing,
        }
    }
}

/// The answer of the deployed webhook to a `GET`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookTime {
    now_ms: i64,
}

async fn listen(
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    seen: watch::Sender<Vec<Received>>,
) {
    while let Some(arrival) = arrivals.recv().await {
        if arrival.purpose == Purpose::Delivery {
            let one = of_arrival(&arrival, clock::now_ms());
            seen.send_modify(|all| all.push(one));
        }
    }
}

fn of_arrival(arrival: &Arrival, now_ms: i64) -> Received {
    let events = arrival.events();
    let ids = events.iter().filter_map(|event| event["id"].as_str()).map(str::to_owned).collect();
    let filler = events.first().and_then(|event| event["data"]["filler"].as_str());
    let ago = i64::try_from(arrival.at.elapsed().as_millis()).unwrap_or(0);
    Received {
        of: arrival.path.rsplit('/').next().unwrap_or_default().to_owned(),
        at_ms: now_ms - ago,
        count: arrival.delivery_count(),
        ids,
        filler: filler.map(Filler::of),
    }
}

/// Takes reports of this run out of the queue; those of others stay.
async fn read(
    reports: Queue,
    run: String,
    ahead_ms: i64,
    seen: watch::Sender<Vec<Received>>,
    trouble: watch::Sender<Option<String>>,
) {
    loop {
        let taken = async {
            let messages = reports.receive().await?;
            let read = |message: &Message| {
                Some((Received::of_report(&message.body, &run, ahead_ms)?, message.clone()))
            };
            let (own, messages): (Vec<_>, Vec<_>) = messages.iter().filter_map(read).unzip();
            if !own.is_empty() {
                seen.send_modify(|all| all.extend(own));
            }
            reports.delete(&messages).await
        };
        let taken: anyhow::Result<()> = taken.await;
        let told = taken.as_ref().err().map(|error| format!("{error:#}"));
        trouble.send_if_modified(|known| {
            let is_new = *known != told;
            known.clone_from(&told);
            is_new
        });
        if taken.is_err() {
            sleep(AGAIN).await;
        }
    }
}

/// Returns how far the webhook's clock is ahead of the local clock, in milliseconds, by the fastest of three
/// requests.
async fn ahead_ms(target: &Target, url: &Url) -> anyhow::Result<i64> {
    let http = target.http_client(url.as_str())?;
    let mut nearest: Option<(i64, i64)> = None;
    // The first request may have to start the function.
    for _ in 0..3 {
        let before_ms = clock::now_ms();
        let answer = http.get(url.clone()).send().await.map_err(reqwest::Error::without_url)?;
        let status = answer.status().as_u16();
        let time = answer.json().await;
        let after_ms = clock::now_ms();
        let Ok(WebhookTime { now_ms }) = time else {
            bail!(
                "the webhook answers {status} and no time: is --webhook the output webhook_url of \
                 infra/modules/verify?"
            );
        };
        let took_ms = after_ms - before_ms;
        if nearest.is_none_or(|(least, _)| took_ms < least) {
            nearest = Some((took_ms, now_ms - before_ms - took_ms / 2));
        }
    }
    Ok(nearest.map_or(0, |(_, ahead_ms)| ahead_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_arrives_here_is_seen_by_event_subscription() {
        let webhook = Webhook::here("run-1").await.expect("a port");
        let url = webhook.endpoint("retry");
        assert!(url.ends_with("/run-1/retry"), "{url}");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        for (count, want) in [("0", 500), ("1", 500)] {
            let body = r#"[{"id":"e-1","data":{"filler":"abc"}}]"#;
            let request = http.post(&url).header("aeg-delivery-count", count).body(body);
            assert_eq!(request.send().await.expect("answered").status(), want);
        }
        let soon = Instant::now() + Duration::from_secs(10);
        let seen = webhook.until(soon, |seen| seen.len() >= 2).await;
        let counts: Vec<_> = seen.iter().map(|one| (one.of.as_str(), one.count)).collect();
        assert_eq!(counts, [("retry", Some(0)), ("retry", Some(1))]);
        assert_eq!(
            (seen[0].ids.as_slice(), &seen[0].filler),
            (["e-1".to_owned()].as_slice(), &Some(Filler::of("abc")))
        );
        let none = webhook.until(Instant::now(), |seen| seen.len() > 2).await;
        assert_eq!(none.len(), 2, "what there is when the time is over");
    }

    #[tokio::test]
    async fn a_deployed_webhook_is_told_in_its_url_what_to_answer() {
        let webhook = Webhook {
            host: Host::Deployed(Url::parse("https://w.example/?token=t").expect("a URL")),
            run: "run-1".to_owned(),
            seen: watch::channel(Vec::new()).1,
            trouble: watch::channel(Some("denied".to_owned())).1,
            _tasks: JoinSet::new(),
        };
        let url = webhook.endpoint("late");
        assert_eq!(url, "https://w.example/run-1/late?token=t&answers=200&delay=35");
        let url = webhook.endpoint("fan-03");
        assert_eq!(url, "https://w.example/run-1/fan-03?token=t&answers=200&delay=0");
        assert!(webhook.explain("nothing".to_owned()).contains("denied"));
    }
}
