//! Lambda's side of a function: sandboxes that run its real program, each with its own Runtime API
//! that hands it one invocation at a time.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use gridpost_testkit::server::{Server, response};
use http::{Method, Response, request::Parts};
use tokio::{
    process::Command,
    sync::{Semaphore, oneshot},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{lock, process::Measured};

/// How long a function may take to ask for its first invocation.
const START_WAIT: Duration = Duration::from_secs(30);

/// Lambda's id of an invocation, which no function keeps: a sandbox has one at a time.
const REQUEST_ID: &str = "8476a536-e9f4-11e8-9739-2dfe598c3fcd";

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The function's name, e.g. `ingest`.
    pub name: &'static str,
    pub path: PathBuf,
    /// Its environment, besides what Lambda sets.
    pub environment: BTreeMap<String, String>,
    /// How long an invocation may take.
    pub timeout: Duration,
    /// Its memory size in MB, as its environment says.
    pub memory_mb: u32,
}

type Answer = Result<Bytes, String>;

/// An invocation on its way into the function.
struct Invocation {
    payload: Bytes,
    reply: oneshot::Sender<Answer>,
    on_hand: Box<dyn FnOnce() + Send>,
}

/// The sandboxes that wait for an invocation: as many as the semaphore has permits, which is closed
/// once one has died.
struct Idle {
    sandboxes: Mutex<Vec<oneshot::Sender<Invocation>>>,
    permits: Semaphore,
}

/// The Runtime API of one sandbox.
struct RuntimeApi {
    name: &'static str,
    timeout: Duration,
    idle: Arc<Idle>,
    running: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl RuntimeApi {
    async fn answer(&self, parts: &Parts, body: Bytes) -> Option<Response<Bytes>> {
        let answer = match parts.uri.path().rsplit('/').next() {
            Some("next") if parts.method == Method::GET => return self.next().await,
            Some("response") => Ok(body),
            Some("error") => Err(String::from_utf8_lossy(&body).into_owned()),
            _ => return Some(response(404, "{}")),
        };
        if let Some(reply) = lock(&self.running).take() {
            // The invoker may have given up.
            let _ = reply.send(answer);
        }
        Some(response(202, r#"{"status":"OK"}"#))
    }

    async fn next(&self) -> Option<Response<Bytes>> {
        let (asked, handed) = oneshot::channel();
        lock(&self.idle.sandboxes).push(asked);
        self.idle.permits.add_permits(1);
        let Invocation { payload, reply, on_hand } = handed.await.ok()?;
        *lock(&self.running) = Some(reply);
        let deadline = SystemClock.now() + self.timeout;
        let arn = "arn:aws:lambda:us-east-1:123456789012:function:gridpost-";
        let next = Response::builder()
            .header("lambda-runtime-aws-request-id", REQUEST_ID)
            .header("lambda-runtime-deadline-ms", deadline.as_millis())
            .header("lambda-runtime-invoked-function-arn", format!("{arn}{}", self.name))
            .header(
                "lambda-runtime-trace-id",
                "Root=1-65a2f0b5-0123456789abcdef01234567;Sampled=0",
            );
        on_hand();
        next.body(payload).ok()
    }
}

/// The program in the environment that Lambda gives it.
fn command(program: &Program, api: &str, log: &Path) -> anyhow::Result<Command> {
    let log_file = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(&program.path);
    command
        .env_clear()
        .envs(&program.environment)
        .env("AWS_LAMBDA_RUNTIME_API", api)
        .env("AWS_LAMBDA_FUNCTION_NAME", format!("gridpost-{}", program.name))
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", program.memory_mb.to_string())
        .stdin(Stdio::null())
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .kill_on_drop(true);
    Ok(command)
}

/// A function: its sandboxes and their invocations. Dropping it kills its processes.
pub struct Function {
    idle: Arc<Idle>,
    /// The process of each sandbox; one is ready when it asks for work.
    pub measured: Measured,
    tasks: JoinSet<()>,
}

impl Function {
    /// Starts this many sandboxes of a program. Their output goes to files in `logs`.
    pub async fn start(program: &Program, count: usize, logs: &Path) -> anyhow::Result<Self> {
        let idle = Arc::new(Idle { sandboxes: Mutex::default(), permits: Semaphore::new(0) });
        let (name, processes, ready_after) = (program.name, Vec::new(), Duration::ZERO);
        let measured = Measured { name, processes, ready_after };
        let mut function = Self { idle, measured, tasks: JoinSet::new() };
        for number in 0..count {
            function.add(program, &logs.join(format!("{}-{number}.log", program.name))).await?;
        }
        Ok(function)
    }

    /// Starts a sandbox and waits for its first question for work.
    async fn add(&mut self, program: &Program, log: &Path) -> anyhow::Result<()> {
        let api = Arc::new(RuntimeApi {
            name: program.name,
            timeout: program.timeout,
            idle: Arc::clone(&self.idle),
            running: Mutex::default(),
        });
        let server = Server::start(move |parts, body| {
            let api = Arc::clone(&api);
            async move { api.answer(&parts, body).await }
        });
        let server = server.await?;
        let mut command = command(program, server.url().trim_start_matches("http://"), log)?;
        let began = Instant::now();
        let spawned = command.spawn();
        let mut child =
            spawned.with_context(|| format!("{} can't be started", program.path.display()))?;
        self.measured.processes.push(child.id().context("the process has ended at once")?);
        // The others are idle, too: nothing invokes them yet.
        let idle = self.idle.permits.acquire_many(self.measured.processes.len().try_into()?);
        tokio::select! {
            idle = timeout(START_WAIT, idle) => drop(idle??),
            _ = child.wait() => bail!("{} has ended: see {}", program.name, log.display()),
        }
        self.measured.ready_after = began.elapsed();
        let idle = Arc::clone(&self.idle);
        self.tasks.spawn(async move {
            let _ = child.wait().await;
            idle.permits.close();
            // Closes its connections, and so fails what it had in hand.
            drop(server);
        });
        Ok(())
    }

    /// Hands an invocation to the sandbox that was idle for the shortest time, as soon as one is idle,
    /// and waits for its answer. `on_hand` is called when the sandbox gets it.
    pub async fn invoke(
        &self,
        payload: Bytes,
        on_hand: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Bytes> {
        const DIED: &str = "the function has died";
        self.idle.permits.acquire().await.context(DIED)?.forget();
        let idle = lock(&self.idle.sandboxes).pop().context("a permit is an idle sandbox's")?;
        let (reply, answer) = oneshot::channel();
        let invocation = Invocation { payload, reply, on_hand: Box::new(on_hand) };
        idle.send(invocation).ok().context(DIED)?;
        let answer = answer.await.context(DIED)?;
        answer.map_err(|error| anyhow!("the function has failed: {error}"))
    }
}
