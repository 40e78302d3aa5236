//! A server on a free port, whose answers follow from a state that tests read and change.

use std::{
    future::ready,
    sync::{Arc, Mutex, MutexGuard},
};

use gridpost_testkit::server;
use hyper::{Response, body::Bytes, http::request::Parts};

pub(crate) type Answers<S> = fn(&mut S, &Parts, &[u8]) -> Response<Bytes>;

pub(crate) struct Server<S> {
    pub(crate) url: String,
    state: Arc<Mutex<S>>,
    _listening: server::Server,
}

impl<S: Send + 'static> Server<S> {
    pub(crate) async fn listen(state: S, answers: Answers<S>) -> Self {
        let state = Arc::new(Mutex::new(state));
        let own = Arc::clone(&state);
        let listening = server::Server::start(move |parts, body| {
            ready(Some(answers(&mut own.lock().expect("no panic while held"), &parts, &body)))
        });
        let listening = listening.await.expect("a port");
        Self { url: listening.url(), state, _listening: listening }
    }
}

impl<S> Server<S> {
    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock().expect("no panic while held")
    }
}
