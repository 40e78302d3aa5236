//! Lambda's side of a function: sandboxes that run its real program, each with its own Runtime API
//! that hands it one invocation at a time.

use std::{
    collections::BTreeMap,
    fs::File,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use bytes::Bytes;
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    sync::{Semaphore, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    http::{Reply, Request, Service, serve},
    process::Usage,
};

/// How long a function may take to ask for its first invocation.
const START_WAIT: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The function's name, e.g. `ingest`.
    pub name: &'static str,
    /// Its program.
    pub path: PathBuf,
    /// The program's arguments: functions take none.
    pub arguments: Vec<String>,
    /// Its environment, besides what Lambda sets.
    pub environment: BTreeMap<String, String>,
    /// How long an invocation may take.
    pub timeout: Duration,
    /// Its memory size in MB, as its environment says.
    pub memory_mb: u32,
}

/// An invocation on its way into the function.
struct Invocation {
    payload: Bytes,
    reply: oneshot::Sender<Result<Bytes, String>>,
    on_hand: Option<Box<dyn FnOnce() + Send>>,
}

/// The Runtime API of one sandbox.
struct RuntimeApi {
    program: Program,
    invocations: tokio::sync::Mutex<mpsc::Receiver<Invocation>>,
    running: Mutex<Option<oneshot::Sender<Result<Bytes, String>>>>,
    count: AtomicU64,
    first_next: watch::Sender<Option<Instant>>,
}

impl RuntimeApi {
    fn running(&self) -> MutexGuard<'_, Option<oneshot::Sender<Result<Bytes, String>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> Option<Reply> {
        self.first_next.send_if_modified(|at| {
            let is_first = at.is_none();
            at.get_or_insert_with(Instant::now);
            is_first
        });
        let invocation = self.invocations.lock().await.recv().await?;
        *self.running() = Some(invocation.reply);
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let name = self.program.name;
        let deadline = SystemClock.now() + self.program.timeout;
        let arn = format!("arn:aws:lambda:us-east-1:123456789012:function:gridpost-{name}");
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("lambda-runtime-aws-request-id", request_id(number)),
            ("lambda-runtime-deadline-ms", deadline.as_millis().to_string()),
            ("lambda-runtime-invoked-function-arn", arn),
            ("lambda-runtime-trace-id", format!("Root=1-65a2f0b5-{number:024x};Sampled=0")),
        ];
        if let Some(on_hand) = invocation.on_hand {
            on_hand();
        }
        Some(Reply { status: 200, headers, body: invocation.payload })
    }

    fn answered(&self, answer: Result<Bytes, String>) -> Reply {
        if let Some(reply) = self.running().take() {
            // The invoker may have given up.
            let _ = reply.send(answer);
        }
        Reply::new(202, r#"{"status":"OK"}"#)
    }
}

fn request_id(number: u64) -> String {
    uuid::Uuid::from_u128(u128::from(number)).to_string()
}

impl Service for RuntimeApi {
    async fn answer(&self, request: Request) -> Option<Reply> {
        let path = request.path.strip_prefix("/2018-06-01/runtime/")?;
        let said = || String::from_utf8_lossy(&request.body).into_owned();
        match path.rsplit('/').next() {
            Some("next") if request.is_get => self.next().await,
            Some("response") => Some(self.answered(Ok(request.body))),
            Some("error") => Some(self.answered(Err(said()))),
            _ => Some(Reply::new(404, "{}")),
        }
    }
}

/// The program in the environment that Lambda gives it.
fn command(program: &Program, api: &str, log: &Path) -> anyhow::Result<Command> {
    let log_file = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .env_clear()
        .envs(&program.environment)
        .env("AWS_LAMBDA_RUNTIME_API", api)
        .env("AWS_LAMBDA_FUNCTION_NAME", format!("gridpost-{}", program.name))
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", program.memory_mb.to_string())
        .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/gridpost-{}", program.name))
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "2026/01/02/[$LATEST]0")
        .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
        .stdin(Stdio::null())
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .kill_on_drop(true);
    Ok(command)
}

/// Waits for a process's end, which is not expected.
async fn live(mut child: Child, dead: watch::Sender<bool>) {
    let _ = child.wait().await;
    let _ = dead.send(true);
}

/// A running copy of a function.
pub struct Sandbox {
    process: u32,
    served: JoinHandle<()>,
    /// Holds the process, which is killed with it.
    lives: JoinHandle<()>,
    died: watch::Receiver<bool>,
    invocations: mpsc::Sender<Invocation>,
    /// From the start of the process to its first question for work.
    pub started_in: Duration,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.served.abort();
        self.lives.abort();
    }
}

impl Sandbox {
    /// Starts a program and waits for its first question for work. Its output goes to `log`.
    pub async fn start(program: &Program, log: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (invocations, receiver) = mpsc::channel(1);
        let (first_next, mut asked) = watch::channel(None);
        let api = Arc::new(RuntimeApi {
            program: program.clone(),
            invocations: receiver.into(),
            running: Mutex::default(),
            count: AtomicU64::default(),
            first_next,
        });
        let served = tokio::spawn(serve(listener, None, api));
        let mut command = command(program, &address.to_string(), log)?;
        let began = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("{} can't be started", program.path.display()))?;
        let process = child.id().context("the process has ended at once")?;
        let asked = timeout(START_WAIT, asked.wait_for(Option::is_some));
        let first = tokio::select! {
            asked = asked => asked.ok().and_then(|asked| asked.ok().and_then(|at| *at)),
            _ = child.wait() => None,
        };
        let Some(first) = first else {
            bail!("{} does not ask for work: see {}", program.name, log.display());
        };
        let (dead, died) = watch::channel(false);
        let lives = tokio::spawn(live(child, dead));
        Ok(Self { process, served, lives, died, invocations, started_in: first - began })
    }

    /// Hands one invocation in and waits for its answer. `on_hand` is called just before.
    pub async fn invoke(
        &self,
        payload: Bytes,
        on_hand: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Bytes> {
        let (reply, answer) = oneshot::channel();
        let on_hand: Option<Box<dyn FnOnce() + Send>> = Some(Box::new(on_hand));
        let invocation = Invocation { payload, reply, on_hand };
        let sent = self.invocations.send(invocation).await;
        sent.map_err(|_| anyhow::anyhow!("the sandbox is gone"))?;
        let mut died = self.died.clone();
        let answer = tokio::select! {
            answer = answer => answer.ok(),
            _ = died.wait_for(|died| *died) => None,
        };
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => bail!("the function has failed: {error}"),
            None => bail!("the function has died"),
        }
    }

    /// What its process has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.process)
    }
}

/// A function with its sandboxes.
pub struct Function {
    all: Vec<Arc<Sandbox>>,
    idle: Mutex<Vec<Arc<Sandbox>>>,
    slots: Semaphore,
}

impl Function {
    /// Starts this many sandboxes of a program.
    pub async fn start(program: &Program, count: usize, logs: &Path) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for number in 0..count {
            let log = logs.join(format!("{}-{number}.log", program.name));
            all.push(Arc::new(Sandbox::start(program, &log).await?));
        }
        Ok(Self { idle: Mutex::new(all.clone()), slots: Semaphore::new(all.len()), all })
    }

    /// How long each sandbox's process took until it asked for work.
    pub fn started_in(&self) -> impl Iterator<Item = Duration> {
        self.all.iter().map(|sandbox| sandbox.started_in)
    }

    /// How many sandboxes it has.
    pub fn sandboxes(&self) -> usize {
        self.all.len()
    }

    /// Invokes it in the sandbox that was idle for the shortest time, as soon as one is idle.
    pub async fn invoke(
        &self,
        payload: Bytes,
        on_hand: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Bytes> {
        let _slot = self.slots.acquire().await.context("the function is gone")?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let sandbox = idle().pop().context("a slot without a sandbox")?;
        let answer = sandbox.invoke(payload, on_hand).await;
        idle().push(sandbox);
        answer
    }

    /// What its sandboxes have used so far: the sum of their times, and the highest peak.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for sandbox in &self.all {
            let usage = sandbox.usage()?;
            sum.cpu_ms += usage.cpu_ms;
            sum.user_ms += usage.user_ms;
            sum.system_ms += usage.system_ms;
            sum.peak_kib = sum.peak_kib.max(usage.peak_kib);
        }
        Ok(sum)
    }
}
