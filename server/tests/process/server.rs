//! A server on a free port of loopback. What it answers follows from a state that tests read and change.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinHandle};

/// A status and a body.
pub(crate) type Answer = (u16, String);

/// What a state answers to a request.
pub(crate) type Answers<S> = fn(&mut S, &Parts, &[u8]) -> Answer;

/// It listens until it is dropped.
pub(crate) struct Server<S> {
    pub(crate) url: String,
    state: Arc<Mutex<S>>,
    accepting: JoinHandle<()>,
}

impl<S: Send + 'static> Server<S> {
    pub(crate) async fn listen(state: S, answers: Answers<S>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(state));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state), answers));
        Self { url, state, accepting }
    }
}

impl<S> Server<S> {
    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock().expect("no panic while held")
    }
}

impl<S> Drop for Server<S> {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<S: Send + 'static>(
    listener: TcpListener,
    state: Arc<Mutex<S>>,
    answers: Answers<S>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&state), answers));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer<S>(
    request: Request<Incoming>,
    state: Arc<Mutex<S>>,
    answers: Answers<S>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (status, answer) = answers(&mut state.lock().expect("no panic while held"), &parts, &body);
    let response = Response::builder().status(status).body(Full::from(answer));
    Ok(response.expect("a response"))
}
