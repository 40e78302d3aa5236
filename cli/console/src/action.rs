//! Changes that a button makes at once: the URL of each, the consent that it takes, its call, and the page that
//! says that it is done.

use std::collections::BTreeSet;

use axum::Form;
use axum::extract::{Path, State};
use axum::response::Redirect;
use axum::routing::{self, MethodRouter};
use gridpost_api::{
    redrive::Redrive,
    requests::{RedriveInput, RedriveTarget, ResumeInput},
    waiting::HandledResult::{Purged, Resent},
    waiting::ParkedResult::{Canceled, Released},
};
use gridpost_core::delivery::redrive::JobStatus;
use maud::{Markup, Render, html};
use serde::Deserialize;

use super::failure::Answer;
use super::handled::{change_parked, change_poison};
use super::urls::{part, subscription_url, topic_url};
use super::{App, Shared};
use gridpost_ops::{failure::Misuse, manage_api::dead_letters::refusal_by_probation};

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    DeleteTopic,
    DeleteSubscription,
    Pause,
    Resume,
    Reset,
    Resend,
    /// Sends what a dry run has counted.
    Redrive,
    CancelRedrive,
    ResumeRedrive,
    Release,
    CancelParked,
    ResendPoison,
    PurgePoison,
}

/// How one says that an action is meant: by its button alone, by the typed name of the thing, or by a tick.
#[derive(Clone, Copy, Debug)]
enum Consent {
    Button,
    Name,
    Tick,
}

/// The thing that an action changes, by what its path has of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Thing {
    topic: String,
    name: String,
    id: String,
}

/// The fields of a form or a query, in which a name may come several times.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    /// Returns the texts of a field as they are.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Returns the text of a field without space around it; empty where it has none.
    pub(super) fn first<'a>(&'a self, name: &'a str) -> &'a str {
        self.all(name).next().unwrap_or_default().trim()
    }

    /// Refuses a deletion without the name that was to be typed.
    pub(super) fn confirmed(&self, wanted: &str) -> Result<(), Misuse> {
        let told =
            || Misuse(format!("Nothing was deleted: type {wanted} to say that it is meant."));
        (self.first("typed") == wanted).then_some(()).ok_or_else(told)
    }

    /// Refuses what was not agreed to: a browser does, too, as long as it runs the page's form.
    pub(super) fn agreed(&self) -> Result<(), Misuse> {
        let told = "Nothing was done: tick the box beside the button to say that it is meant.";
        (self.first("agreed") == "yes").then_some(()).ok_or_else(|| Misuse(told.to_owned()))
    }

    /// Returns what becomes of the time-to-live of events during a pause.
    fn is_life_running(&self) -> Result<bool, Misuse> {
        match self.first("life") {
            "runs" => Ok(true),
            "stops" => Ok(false),
            _ => {
                Err(Misuse("Nothing was done: choose what becomes of the time-to-live.".to_owned()))
            }
        }
    }

    /// Returns the ids chosen in a table. There is no "all": that is for the command line.
    fn ids(&self) -> Result<BTreeSet<String>, Misuse> {
        let given = self.all("id").filter(|id| !id.is_empty());
        let ids: BTreeSet<_> = given.map(str::to_owned).collect();
        let told = || Misuse("Nothing was done: choose what is meant in the table.".to_owned());
        (!ids.is_empty()).then_some(ids).ok_or_else(told)
    }
}

impl Action {
    /// Returns the end of its URL, below that of the thing; the consent that it takes; and the page that says that it
    /// is done, below that of the event subscription, if it is of one.
    fn row(self) -> (&'static str, Consent, &'static str) {
        use Consent::{Button, Name, Tick};
        match self {
            Self::DeleteTopic => ("/delete", Name, "/topics?done=deleted"),
            Self::DeleteSubscription => ("/delete", Name, ""),
            Self::Pause => ("/pause", Button, "?done=paused"),
            Self::Resume => ("/resume", Button, "?done=unpaused"),
            Self::Reset => ("/reset", Button, "?done=reset"),
            Self::Resend => ("/resend", Button, "/deliveries/{id}?done=resent"),
            Self::Redrive => ("/send", Button, ""),
            Self::CancelRedrive => ("/cancel", Button, "/redrives/{id}?done=canceled"),
            Self::ResumeRedrive => ("/resume", Button, "/redrives/{id}?done=resumed"),
            Self::Release => ("/parked/release", Button, "/waiting?done=released"),
            Self::CancelParked => ("/parked/cancel", Tick, "/waiting?done=ended"),
            Self::ResendPoison => ("/poison/resend", Button, "/waiting?done=poison#poison"),
            Self::PurgePoison => ("/poison/purge", Tick, "/waiting?done=poison#poison"),
        }
    }

    /// Returns its URL below that of the thing.
    pub(super) fn url(self, of: &str) -> String {
        format!("{of}{}", self.row().0)
    }

    /// Shows the form that does it; a read-only console has none.
    pub(super) fn form(self, app: &Shared, of: &str, fields: impl Render) -> Markup {
        html! { @if app.may_change() { (app.act(&self.url(of), fields)) } }
    }

    /// Returns the route that does it, if it is meant, and leads to the page that says so.
    pub(super) fn post(self) -> MethodRouter<App> {
        routing::post(async move |State(app): State<App>, Path(of), Form(fields)| {
            Answer::Ok(Redirect::to(&self.call(&app, of, fields).await?))
        })
    }

    /// Calls the API. Returns the URL that it leads to.
    async fn call(self, app: &Shared, of: Thing, fields: Fields) -> anyhow::Result<String> {
        let (api, Thing { topic, name, id }) = (&app.api, &of);
        let (_, consent, done) = self.row();
        let job_url = |id: &str| subscription_url(topic, name, &format!("/redrives/{}", part(id)));
        match consent {
            Consent::Button => {}
            Consent::Tick => fields.agreed()?,
            Consent::Name if name.is_empty() => fields.confirmed(topic)?,
            Consent::Name => fields.confirmed(&format!("{topic}/{name}"))?,
        }
        match self {
            Self::DeleteTopic => drop(api.delete_topic(topic).await?),
            Self::DeleteSubscription => {
                api.delete_subscription(topic, name).await?;
                return Ok(topic_url(topic, "?done=deleted"));
            }
            Self::Pause => drop(api.pause(topic, name, fields.is_life_running()?).await?),
            Self::Resume => drop(api.resume(topic, name).await?),
            Self::Reset => drop(api.reset_health(topic, name).await?),
            Self::Resend => drop(api.resend(topic, name, id).await?),
            Self::Redrive => {
                let counted = api.redrive_job(topic, name, id).await?;
                app.check_probation(&counted, &fields).await?;
                let job = api.redrive(topic, name, &sending(counted)).await?;
                return Ok(job_url(&job.id.to_string()));
            }
            Self::CancelRedrive => {
                let job = api.cancel_redrive(topic, name, id).await?;
                // A job that was over stays as it is.
                if job.status != JobStatus::Canceled {
                    return Ok(job_url(id));
                }
            }
            Self::ResumeRedrive => {
                let job = api.redrive_job(topic, name, id).await?;
                if !job.dry_run {
                    app.check_probation(&job, &fields).await?;
                }
                api.resume_redrive(topic, name, id, &ResumeInput::default()).await?;
            }
            Self::Release => change_parked(app, "release", fields.ids()?, Released).await?,
            Self::CancelParked => change_parked(app, "cancel", fields.ids()?, Canceled).await?,
            Self::ResendPoison => change_poison(app, fields.ids()?, Resent).await?,
            Self::PurgePoison => change_poison(app, fields.ids()?, Purged).await?,
        }
        let page = done.replace("{id}", &part(id));
        Ok(if name.is_empty() { page } else { subscription_url(topic, name, &page) })
    }
}

impl Shared {
    /// Returns why events that a job sends would end at once. `None` also if the health can't be read: a redrive may
    /// be allowed where reading health is not.
    pub(super) async fn probation(&self, job: &Redrive) -> Option<String> {
        let (topic, name) = (&job.target.topic, &job.target.event_subscription);
        let health = self.api.health(topic, name).await.ok()?;
        refusal_by_probation(topic, name, &health)
    }

    /// Refuses to send what would end at once, unless that is meant.
    async fn check_probation(&self, job: &Redrive, fields: &Fields) -> Result<(), Misuse> {
        let refused = self.probation(job).await.filter(|_| fields.first("on_probation").is_empty());
        refused.map_or(Ok(()), |refused| Err(Misuse(format!("Nothing was begun.\n{refused}"))))
    }
}

/// Returns the input that sends what a dry run has counted: the same choice, until the time that it counted to.
fn sending(counted: Redrive) -> RedriveInput {
    RedriveInput {
        from: counted.from,
        to: counted.to,
        reason: counted.reason,
        event_type: counted.event_type,
        event_id: counted.event_id,
        target: Some(RedriveTarget {
            event_subscription: Some(counted.target.event_subscription),
            topic: Some(counted.target.topic),
        }),
        events_per_second: Some(counted.events_per_second),
        max_redrives: Some(counted.max_redrives),
        send_again: Some(counted.send_again),
        dry_run: Some(false),
    }
}

/// Asks for a name to be typed, to say what `means` says.
pub(super) fn typed(wanted: &str, means: &str) -> Markup {
    html! {
        label { "Type " code { (wanted) } " to say that " (means) ": "
            input.code name="typed" required autocomplete="off"; }
    }
}
