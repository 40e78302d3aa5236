//! Lambda's side of a function: sandboxes that run its real program, each with its own Runtime API
//! that hands it one invocation at a time.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
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
    process::Command,
    sync::{oneshot, watch},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    http::{Reply, Request, Service, serve},
    lock,
    process::Usage,
};

/// How long a function may take to ask for its first invocation.
const START_WAIT: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The function's name, e.g. `ingest`.
    pub name: &'static str,
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

type Answer = Result<Bytes, String>;

/// An invocation on its way into the function.
struct Invocation {
    payload: Bytes,
    reply: oneshot::Sender<Answer>,
    on_hand: Box<dyn FnOnce() + Send>,
}

/// The invocations that wait for a sandbox, or the sandboxes that wait for an invocation.
#[derive(Default)]
struct Work {
    waiting: VecDeque<Invocation>,
    idle: Vec<oneshot::Sender<Invocation>>,
}

/// The Runtime API of one sandbox.
struct RuntimeApi {
    program: Program,
    work: Arc<Mutex<Work>>,
    running: Mutex<Option<oneshot::Sender<Answer>>>,
    count: AtomicU64,
    first_next: watch::Sender<Option<Instant>>,
}

impl RuntimeApi {
    async fn next(&self) -> Option<Reply> {
        self.first_next.send_if_modified(|at| {
            let is_first = at.is_none();
            at.get_or_insert_with(Instant::now);
            is_first
        });
        let (asked, handed) = oneshot::channel();
        let waiting = {
            let mut work = lock(&self.work);
            let waiting = work.waiting.pop_front();
            if waiting.is_none() {
                work.idle.push(asked);
            }
            waiting
        };
        let Invocation { payload, reply, on_hand } = match waiting {
            Some(waiting) => waiting,
            None => handed.await.ok()?,
        };
        *lock(&self.running) = Some(reply);
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let name = self.program.name;
        let deadline = SystemClock.now() + self.program.timeout;
        let arn = format!("arn:aws:lambda:us-east-1:123456789012:function:gridpost-{name}");
        let request_id = uuid::Uuid::from_u128(u128::from(number)).to_string();
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("lambda-runtime-aws-request-id", request_id),
            ("lambda-runtime-deadline-ms", deadline.as_millis().to_string()),
            ("lambda-runtime-invoked-function-arn", arn),
            ("lambda-runtime-trace-id", format!("Root=1-65a2f0b5-{number:024x};Sampled=0")),
        ];
        on_hand();
        Some(Reply { status: 200, headers, body: payload })
    }

    fn answered(&self, answer: Answer) -> Reply {
        if let Some(reply) = lock(&self.running).take() {
            // The invoker may have given up.
            let _ = reply.send(answer);
        }
        Reply::new(202, r#"{"status":"OK"}"#)
    }
}

impl Service for RuntimeApi {
    async fn answer(&self, request: Request) -> Option<Reply> {
        match request.path.rsplit('/').next() {
            Some("next") if request.is_get => self.next().await,
            Some("response") => Some(self.answered(Ok(request.body))),
            Some("error") => {
                let said = String::from_utf8_lossy(&request.body).into_owned();
                Some(self.answered(Err(said)))
            }
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

/// A function: its sandboxes and their invocations. Dropping it kills its processes.
pub struct Function {
    work: Arc<Mutex<Work>>,
    processes: Vec<u32>,
    /// How long each process took from its start to its first question for work.
    pub started_in: Vec<Duration>,
    has_died: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Function {
    /// Starts this many sandboxes of a program. Their output goes to files in `logs`.
    pub async fn start(program: &Program, count: usize, logs: &Path) -> anyhow::Result<Self> {
        let mut function = Self {
            work: Arc::default(),
            processes: Vec::new(),
            started_in: Vec::new(),
            has_died: watch::Sender::default(),
            tasks: JoinSet::new(),
        };
        for number in 0..count {
            function.add(program, &logs.join(format!("{}-{number}.log", program.name))).await?;
        }
        Ok(function)
    }

    /// Starts a sandbox and waits for its first question for work.
    async fn add(&mut self, program: &Program, log: &Path) -> anyhow::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let mut command = command(program, &listener.local_addr()?.to_string(), log)?;
        let (first_next, mut asked) = watch::channel(None);
        let api = RuntimeApi {
            program: program.clone(),
            work: Arc::clone(&self.work),
            running: Mutex::default(),
            count: AtomicU64::default(),
            first_next,
        };
        self.tasks.spawn(serve(listener, None, Arc::new(api)));
        let began = Instant::now();
        let spawned = command.spawn();
        let mut child =
            spawned.with_context(|| format!("{} can't be started", program.path.display()))?;
        self.processes.push(child.id().context("the process has ended at once")?);
        let first = tokio::select! {
            asked = timeout(START_WAIT, asked.wait_for(Option::is_some)) => asked??.unwrap_or(began),
            _ = child.wait() => bail!("{} has ended: see {}", program.name, log.display()),
        };
        self.started_in.push(first - began);
        let has_died = self.has_died.clone();
        self.tasks.spawn(async move {
            let _ = child.wait().await;
            has_died.send_replace(true);
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
        let (reply, answer) = oneshot::channel();
        let mut left = Some(Invocation { payload, reply, on_hand: Box::new(on_hand) });
        {
            let mut work = lock(&self.work);
            while let Some(invocation) = left.take() {
                match work.idle.pop() {
                    // A process whose connection broke gives its invocation back.
                    Some(idle) => left = idle.send(invocation).err(),
                    None => work.waiting.push_back(invocation),
                }
            }
        }
        let mut has_died = self.has_died.subscribe();
        let answer = tokio::select! {
            answer = answer => answer.ok(),
            _ = has_died.wait_for(|has_died| *has_died) => None,
        };
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => bail!("the function has failed: {error}"),
            None => bail!("the function has died"),
        }
    }

    /// What the process of each sandbox has used so far.
    pub fn usages(&self) -> anyhow::Result<Vec<Usage>> {
        self.processes.iter().map(|process| Usage::of(*process)).collect()
    }
}
