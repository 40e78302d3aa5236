//! The web console: pages over the manage API and the logs, served on this machine.
//!
//! [`guard`] decides which requests are answered at all, [`page`] is what all pages have in common,
//! [`failure`] is what they show when something did not work. Each other module is one page, or one
//! subject's pages. Everything is rendered here; the browser gets no data but what it shows. The pages
//! call what the commands call, with the caller's AWS identity, so the console may do what its user may.

// `println!` and `eprintln!` panic where the reader went away: `gridpost_ops::output` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod action;
mod annotated;
mod assets;
mod attempts;
mod below;
mod chart;
mod cost;
mod delete;
mod delivery;
mod edit;
mod event;
mod failure;
mod filter;
mod form;
mod guard;
mod handled;
mod keys;
mod kit;
mod ledger;
mod letters;
mod lists;
mod live;
mod made;
mod overview;
mod page;
mod publish;
mod purge;
mod redrive;
mod retry;
mod settings;
mod snippets;
mod sought;
mod standing;
mod subscription;
mod tail;
#[cfg(test)]
mod tests;
mod text;
mod tiles;
mod topics;
mod traffic;
mod urls;
mod waiting;

use std::sync::Arc;

use anyhow::Context;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use action::Action;
use edit::Page;
use filter::Trial;
use gridpost_api::client::Client;
use gridpost_ops::journal::Journal;
use gridpost_ops::manage_api::{ManageApi, Sender};
use gridpost_ops::target::Target;
use guard::Guard;

/// Live tails at the same time: each reads the log every two seconds, and CloudWatch Logs takes five
/// such calls in a second for a whole account.
const TAILS_MAX: usize = 4;

/// Pages that are live at the same time.
const LIVES_MAX: usize = 24;

/// The U.S. dollars that all answers of the journal to pages that are live may cost in an hour, together.
const DOLLARS_MAX: f64 = 0.03;

/// The same of live tails, which no other page may keep from going on.
const TAIL_DOLLARS_MAX: f64 = 0.02;

/// How a console runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The deployment that it shows.
    pub target: Target,
    /// The deployment's name on its pages.
    pub name: String,
    /// Flags that choose the deployment, for the commands that its pages name; with a space before
    /// each.
    pub flags: String,
    /// Whether it refuses every change.
    pub read_only: bool,
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
}

/// A console that listens and is not served yet.
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    shared: App,
    one_time: String,
}

/// The state that all pages need.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    api: Client<Sender>,
    guard: Guard,
    lives: Arc<Semaphore>,
    tails: Arc<Semaphore>,
    journal: Journal,
    tail_journal: Journal,
    answers: traffic::Answers,
    audits: ledger::Audits,
    looks: live::Looks,
}

type App = Arc<Shared>;

impl Shared {
    /// Returns the state, and the token that signs one browser in.
    fn new(settings: Settings, api: ManageApi) -> (Self, String) {
        let (guard, one_time) = Guard::new(settings.port, settings.read_only);
        let shared = Self {
            settings,
            guard,
            lives: Arc::new(Semaphore::new(LIVES_MAX)),
            tails: Arc::new(Semaphore::new(TAILS_MAX)),
            journal: Journal::hourly(api.clone(), DOLLARS_MAX),
            tail_journal: Journal::hourly(api.clone(), TAIL_DOLLARS_MAX),
            api: api.api,
            answers: traffic::Answers::default(),
            audits: ledger::Audits::default(),
            looks: live::Looks::default(),
        };
        (shared, one_time)
    }
}

impl Console {
    /// Takes the port.
    pub async fn bind(mut settings: Settings) -> anyhow::Result<Self> {
        let api = settings.target.manage_api().await?;
        let listener = TcpListener::bind(("127.0.0.1", settings.port)).await;
        let listener = listener.with_context(|| {
            format!(
                "port {} of 127.0.0.1 can't be used; choose another one by --port, or --port 0 for a free \
                 one",
                settings.port
            )
        })?;
        settings.port = listener.local_addr()?.port();
        let (shared, one_time) = Shared::new(settings, api);
        Ok(Self { listener, shared: Arc::new(shared), one_time })
    }

    /// Returns the console's URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.shared.settings.port)
    }

    /// The link that signs one browser in, once.
    pub fn sign_in_url(&self) -> String {
        format!("{}/sign-in?token={}", self.url(), self.one_time)
    }

    /// Serves it until it fails.
    pub async fn serve(self) -> anyhow::Result<()> {
        axum::serve(self.listener, router(self.shared)).await.context("the console has stopped")
    }
}

fn router(app: App) -> Router {
    pages()
        .route("/sign-in", get(guard::sign_in))
        .route("/assets/{name}", get(assets::file))
        .route("/live", get(live::stream))
        .fallback(failure::no_such_page)
        // The guard limits forms.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(&app), guard::protect))
        .with_state(app)
}

/// All pages, without the guard.
fn pages() -> Router<App> {
    Router::new()
        .route("/", get(overview::show))
        .route("/ledger", get(ledger::show))
        .route("/events", get(event::show).post(event::show))
        .route("/dead-letters", get(letters::all))
        .route("/waiting", get(waiting::show))
        .route("/waiting/parked/release", Action::Release.post())
        .route("/waiting/parked/cancel", Action::CancelParked.post())
        .route("/waiting/poison/resend", Action::ResendPoison.post())
        .route("/waiting/poison/purge", Action::PurgePoison.post())
        .route("/tail", get(tail::show))
        .route("/tail/stream", get(tail::stream))
        .route("/cost", get(cost::show))
        .route("/topics", get(topics::list))
        .route("/create-topic", get(edit::show).post(edit::save).layer(Extension(Page::NewTopic)))
        .route(
            "/topics/{topic}/edit",
            get(edit::show).post(edit::save).layer(Extension(Page::Topic)),
        )
        .route("/topics/{topic}/delete", get(delete::of_topic).merge(Action::DeleteTopic.post()))
        .route("/topics/{topic}", get(topics::show))
        .route("/topics/{topic}/keys", post(topics::reveal_keys))
        .route("/topics/{topic}/keys/rotate", post(topics::rotate_key))
        .route(
            "/topics/{topic}/subscribe",
            get(edit::show).post(edit::save).layer(Extension(Page::NewSubscription)),
        )
        .route("/topics/{topic}/publish/check", post(publish::answer).layer(Extension(false)))
        .route(
            "/topics/{topic}/publish",
            get(publish::show).post(publish::answer).layer(Extension(true)),
        )
        .nest("/topics/{topic}/subscriptions/{name}", of_subscription())
}

fn of_subscription() -> Router<App> {
    Router::new()
        .route("/", get(subscription::show))
        .route("/reset", Action::Reset.post())
        .route("/pause", Action::Pause.post())
        .route("/resume", Action::Resume.post())
        .route("/secrets", post(subscription::reveal_secrets))
        .route("/secrets/rotate", post(subscription::rotate_secret))
        .route("/edit", get(edit::show).post(edit::save).layer(Extension(Page::Subscription)))
        .route("/delete", get(delete::of_subscription).merge(Action::DeleteSubscription.post()))
        .route("/edit/json", get(edit::show).post(edit::save).layer(Extension(Page::Json)))
        .route("/retry", get(edit::show).post(edit::save).layer(Extension(Page::Retry)))
        .route("/retry/preview", post(edit::preview))
        .route("/filter", get(filter::show).post(filter::run).layer(Extension(Trial::Filter)))
        .route("/test-event", get(filter::show).post(filter::run).layer(Extension(Trial::Endpoint)))
        .route("/deliveries", get(delivery::list))
        .route("/deliveries/{id}", get(delivery::show))
        .route("/deliveries/{id}/resend", Action::Resend.post())
        .route("/dead-letters", get(letters::list))
        .route("/dead-letters/{id}", get(letters::show_one))
        .route("/redrive", get(redrive::form).post(redrive::begin))
        .route("/redrives/{id}", get(redrive::show))
        .route("/redrives/{id}/send", Action::Redrive.post())
        .route("/redrives/{id}/cancel", Action::CancelRedrive.post())
        .route("/redrives/{id}/resume", Action::ResumeRedrive.post())
        .route("/purge", get(purge::form).post(purge::run))
}
