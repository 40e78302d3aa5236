//! Brings the local stack up, and takes it down.

use std::collections::BTreeMap;
use std::env;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use gridpost_api::topic::{Keys, TopicInput, TopicSettings};
use gridpost_core::topic::{InputSchema, Kind};
use tokio::time::{Instant, sleep};

use crate::{
    artefacts::Artefacts,
    build::{self, Functions, Profile},
    emulator::{self, Emulator},
    plan::{self, Observed, Plan},
    prerequisites::{self, Tools},
    providers,
    python::{self, Environment},
    samples,
    terraform::Terraform,
};
use gridpost_ops::{
    home::{
        FOLDER, Home,
        connection::{Connection, TopicConnection},
        remove_file, remove_folder,
        state::{Deployment, EmulatorRecord, Outputs, State},
    },
    lookup::if_there,
    manage_api::ManageApi,
    progress::Progress,
};

/// The topics that every local stack has, and their input schemas.
pub const TOPICS: [(&str, InputSchema); 3] = [
    ("demo", InputSchema::EventGridSchema),
    ("demo-cloud", InputSchema::CloudEventSchemaV1_0),
    (samples::TOPIC, InputSchema::EventGridSchema),
];

/// How long a deployment may take to answer after a restart of its emulator.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(200);

/// A stack's source and folder.
#[derive(Clone, Debug)]
pub struct Settings {
    pub source: Source,
    pub home: Home,
}

/// The source of the functions and the infrastructure.
#[derive(Clone, Debug)]
pub enum Source {
    /// A clone of the repository, and the profile that its functions are compiled by.
    Workspace(PathBuf, Profile),
    /// A release, already compiled.
    Release(Artefacts),
}

/// A running stack.
#[derive(Debug)]
pub struct Stack {
    pub connection: Connection,
    pub environment: Environment,
    pub terraform: Terraform,
    pub emulator: Emulator,
    /// Held until the command is done with the stack.
    _lock: File,
}

impl Settings {
    /// Returns the stack of this repository, or of the one that this program was built from.
    pub fn of_workspace(home: Option<&Path>, profile: Profile) -> anyhow::Result<Self> {
        let workspace = workspace()?;
        let home = match home {
            Some(home) => std::path::absolute(home)?,
            None => workspace.join(FOLDER),
        };
        Ok(Self { source: Source::Workspace(workspace, profile), home: Home::at(&home) })
    }

    /// Returns the stack of the release in `folder`, kept in the current folder.
    pub fn of_release(home: Option<&Path>, folder: &Path) -> anyhow::Result<Self> {
        let home = std::path::absolute(home.unwrap_or(Path::new(FOLDER)))?;
        Ok(Self { source: Source::Release(Artefacts::find(folder)?), home: Home::at(&home) })
    }

    fn infra(&self) -> PathBuf {
        match &self.source {
            Source::Workspace(root, _) => root.join("infra"),
            Source::Release(artefacts) => artefacts.infra.clone(),
        }
    }
}

/// Finds the root of this repository, or of the one that this program was built from.
pub fn workspace() -> anyhow::Result<PathBuf> {
    let here = env::current_dir().context("the current folder cannot be read")?;
    let is_workspace = |folder: &Path| {
        let parts = ["Cargo.toml", "infra/versions.tf", "functions"];
        parts.iter().all(|name| folder.join(name).exists())
    };
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let workspace = here.ancestors().chain(built_from).find(|folder| is_workspace(folder));
    let workspace = workspace.context(
        "the functions and infra/ of Gridpost are not here: run this in a clone of its repository, or name \
         the folder with a release's archives (gridpost up --artefacts FOLDER)",
    )?;
    Ok(workspace.to_owned())
}

/// Brings the stack up, whatever an earlier run left. Missing tools and providers are reported before
/// anything is compiled. A failed run leaves nothing that the next one would trust. Fails with
/// [`Misuse`](gridpost_ops::failure::Misuse) if it would wipe files of others.
pub async fn up(settings: &Settings, progress: &Progress) -> anyhow::Result<Stack> {
    let home = &settings.home;
    home.check_free()?;
    let compiles = matches!(settings.source, Source::Workspace(..));
    let tools = prerequisites::find(compiles).await?;
    home.create()?;
    let lock = lock(home)?;
    let cache_lock = lock_caches(home).await?;
    let environment = python::install(home, &tools.python, progress).await?;
    providers::get(&tools, &settings.infra(), home, progress).await?;
    let functions = match &settings.source {
        Source::Workspace(root, profile) => {
            build::build((root, *profile), home, &tools, &environment, progress).await?
        }
        Source::Release(artefacts) => artefacts.functions.clone(),
    };
    drop(cache_lock);
    let run = Run { settings, tools, environment, functions, progress };
    let (record, deployment) = run.reach_deployment().await?;
    let connection = run.connect(&record, deployment.outputs).await?;
    let terraform = run.terraform(record.port);
    let (environment, emulator) = (run.environment, Emulator::of(home));
    Ok(Stack { connection, environment, terraform, emulator, _lock: lock })
}

/// Takes the stack down and removes everything but its caches (with `purge` those too) and the data of
/// `gridpost dev`. Returns whether there was anything. Fails with
/// [`Misuse`](gridpost_ops::failure::Misuse) if the folder is not a local stack's.
pub async fn down(home: &Home, purge: bool) -> anyhow::Result<bool> {
    if !home.root().exists() {
        return Ok(false);
    }
    home.check_own()?;
    let lock = lock(home)?;
    let emulator = Emulator::of(home);
    let was_there = !emulator.processes().is_empty() || home.state_file().exists();
    // First, so that clients find no stack rather than a dying one.
    remove_file(&home.connection_file())?;
    State::remove(home)?;
    emulator.stop().await?;
    emulator.wipe()?;
    Terraform::wipe(home)?;
    remove_folder(&home.logs())?;
    remove_folder(&home.samples())?;
    remove_file(&home.environment_file())?;
    home.drafts().iter().try_for_each(|draft| remove_file(draft))?;
    if purge {
        remove_folder(home.cache())?;
    }
    remove_file(&home.lock_file())?;
    if purge {
        home.remove_unused()?;
    }
    drop(lock);
    Ok(was_there || purge)
}

/// Keeps other commands from changing the stack while the file is open.
fn lock(home: &Home) -> anyhow::Result<File> {
    let path = home.lock_file();
    let file = File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "another gridpost is changing the stack in {}; wait for it",
                home.root().display()
            )
        }
        Err(TryLockError::Error(err)) => {
            Err(err).with_context(|| format!("{} cannot be locked", path.display()))
        }
    }
}

/// Waits until no other stack changes the caches.
async fn lock_caches(home: &Home) -> anyhow::Result<File> {
    let path = home.cache_lock_file();
    let file = File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await?;
    locked.with_context(|| format!("{} cannot be locked", path.display()))
}

/// A run of `up` with its tools and functions.
struct Run<'a> {
    settings: &'a Settings,
    tools: Tools,
    environment: Environment,
    functions: Functions,
    progress: &'a Progress,
}

impl Run<'_> {
    fn home(&self) -> &Home {
        &self.settings.home
    }

    fn terraform(&self, port: u16) -> Terraform {
        Terraform::new(&self.tools, &self.settings.infra(), self.home(), &self.functions, port)
    }

    /// Gets an up-to-date deployment on a running emulator, kept as far as possible.
    async fn reach_deployment(&self) -> anyhow::Result<(EmulatorRecord, Deployment)> {
        let state = State::read(self.home());
        let plan = self.plan(&state).await?;
        if let (Plan::Keep { start, update }, Some(record), Some(deployment)) =
            (plan, state.emulator, state.deployment)
        {
            let kept = self.keep(record, deployment, start, update).await?;
            if let Some(kept) = kept {
                return Ok(kept);
            }
            self.progress.line("! What was deployed is lost; deploying afresh");
        }
        if let Plan::Afresh(Some(why)) = plan {
            self.progress.line(&format!(
                "! What an earlier run deployed is given up, with its topics and events: {why}"
            ));
        }
        let port = self.start_afresh().await?;
        self.deploy(port).await
    }

    async fn plan(&self, state: &State) -> anyhow::Result<Plan> {
        let Some(record) = &state.emulator else {
            let is_unread = self.home().state_file().exists();
            return Ok(Plan::Afresh(is_unread.then_some("its record can't be read")));
        };
        Ok(plan::decide(Observed {
            state,
            running: Emulator::of(self.home()).runs(record).await,
            // Our emulator, if it does not answer, is restarted on its port.
            port_free: emulator::is_free(record.port)
                || Emulator::of(self.home()).processes().iter().any(|it| it.is_emulator),
            emulator_version: &Emulator::version(),
            fingerprint: &self.terraform(record.port).fingerprint(&self.functions)?,
        }))
    }

    /// Starts and updates what was deployed; `None` if it is lost.
    async fn keep(
        &self,
        mut record: EmulatorRecord,
        deployment: Deployment,
        start: bool,
        update: bool,
    ) -> anyhow::Result<Option<(EmulatorRecord, Deployment)>> {
        if start {
            let step = self.progress.step("Starting the emulator again, with what was deployed");
            Emulator::of(self.home()).stop().await?;
            match Emulator::of(self.home()).start(&self.environment, record.port).await {
                Ok(started) => record = started,
                // Its saved state may be damaged. If it can't start at all, it fails again afresh.
                Err(err) => {
                    self.progress.line(&format!("! {err:#}"));
                    return Ok(None);
                }
            }
            let state =
                State { emulator: Some(record.clone()), deployment: Some(deployment.clone()) };
            state.write(self.home())?;
            step.done(&format!("Started the emulator again on port {}", record.port));
        }
        if wait_for_answer(&deployment.outputs).await.is_err() {
            return Ok(None);
        }
        if update {
            let updated = self.deploy(record.port).await;
            return updated.map(Some).with_context(|| self.not_updated());
        }
        self.progress.line("✓ Deployment is up to date");
        Ok(Some((record, deployment)))
    }

    /// Returns what to do about a failed update, by how far it came.
    fn not_updated(&self) -> &'static str {
        match State::read(self.home()).deployment.is_some() {
            true => {
                "what an earlier run deployed can't be brought up to date, and is as it was. If nothing is \
                 wrong with what is to be deployed, `gridpost down` and `gridpost up` deploy it afresh, \
                 without its topics and events"
            }
            false => {
                "what an earlier run deployed was being brought up to date, and is neither old nor new: the \
                 next `gridpost up` deploys afresh, without its topics and events"
            }
        }
    }

    /// Wipes what is there and starts an empty emulator.
    async fn start_afresh(&self) -> anyhow::Result<u16> {
        let step = self.progress.step("Starting the emulator");
        let emulator = Emulator::of(self.home());
        emulator.stop().await?;
        State::remove(self.home())?;
        remove_file(&self.home().connection_file())?;
        emulator.wipe()?;
        Terraform::wipe(self.home())?;
        self.home().create()?;
        let port = emulator::free_port()?;
        let record = emulator.start(&self.environment, port).await?;
        State { emulator: Some(record), deployment: None }.write(self.home())?;
        step.done(&format!("Started the AWS emulator on 127.0.0.1:{port}"));
        Ok(port)
    }

    async fn deploy(&self, port: u16) -> anyhow::Result<(EmulatorRecord, Deployment)> {
        let terraform = self.terraform(port);
        // Read before the apply, so that later changes count the next time.
        let fingerprint = terraform.fingerprint(&self.functions)?;
        let step = self.progress.step("Deploying with Terraform");
        terraform.prepare(&step).await?;
        let emulator = State::read(self.home()).emulator;
        State { emulator, deployment: None }.write(self.home())?;
        let outputs = terraform.apply(&step).await?;
        step.done("Deployed with Terraform");
        // The emulator only saves its state when stopped; a crash would lose the deployment.
        let step = self.progress.step("Saving the deployment");
        let emulator = Emulator::of(self.home());
        // After a kill its older state would be taken for this deployment.
        emulator.stop_saved().await?;
        let record = emulator.start(&self.environment, port).await?;
        wait_for_answer(&outputs).await?;
        let deployment = Deployment { fingerprint, outputs };
        State { emulator: Some(record.clone()), deployment: Some(deployment.clone()) }
            .write(self.home())?;
        step.done("Saved the deployment");
        Ok((record, deployment))
    }

    /// Creates the topics, and saves how to connect.
    async fn connect(
        &self,
        record: &EmulatorRecord,
        outputs: Outputs,
    ) -> anyhow::Result<Connection> {
        let api = ManageApi::connect(&outputs.manage_url).await?;
        let mut topics = BTreeMap::new();
        for (topic, schema) in TOPICS {
            let reached = reach_topic(&api, &outputs.publish_url, topic, schema).await?;
            topics.insert(topic.to_owned(), reached);
        }
        let connection = Connection {
            publish_url: outputs.publish_url,
            manage_url: outputs.manage_url,
            emulator_url: Emulator::url(record.port),
            dead_letter_bucket: outputs.dead_letter_bucket,
            ca_file: None,
            topics,
        };
        connection.write(self.home())?;
        // For `cargo lambda invoke`.
        if let Source::Workspace(root, _) = &self.settings.source {
            samples::write(root, self.home(), &api, &connection).await?;
        }
        Ok(connection)
    }
}

/// Creates a topic if necessary, and reads its keys.
pub async fn reach_topic(
    api: &ManageApi,
    publish_url: &str,
    topic: &str,
    schema: InputSchema,
) -> anyhow::Result<TopicConnection> {
    if if_there(api.topic(topic).await)?.is_none() {
        let settings = TopicSettings { input_schema: Some(schema), ..Default::default() };
        let document = TopicInput { kind: Some(Kind::Custom), properties: Some(settings) };
        let created = api.put_topic(topic, &document).await;
        created.with_context(|| format!("topic {topic} cannot be created"))?;
    }
    let Keys { key1, key2 } = api.keys(topic).await?;
    Ok(TopicConnection {
        endpoint: format!("{publish_url}/topics/{topic}/api/events"),
        keys: [key1, key2].map(|key| key.expose().to_owned()).into(),
    })
}

/// Waits until the manage API and its table answer, for [`ANSWER_MAX`] at most.
async fn wait_for_answer(outputs: &Outputs) -> anyhow::Result<()> {
    let api = ManageApi::connect(&outputs.manage_url).await?;
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        match api.topics().await {
            Ok(_) => return Ok(()),
            Err(_) if Instant::now() < deadline => sleep(POLL).await,
            Err(err) => {
                let url = &outputs.manage_url;
                return Err(err)
                    .with_context(|| format!("the deployed manage API at {url} does not answer"));
            }
        }
    }
}

/// Returns the running stack in `home`, if any, and how to connect.
pub async fn running(home: &Home) -> anyhow::Result<Option<(EmulatorRecord, Connection)>> {
    let (Some(record), Some(connection)) = (State::read(home).emulator, Connection::read(home)?)
    else {
        return Ok(None);
    };
    let runs = Emulator::of(home).runs(&record).await;
    Ok(runs.then_some((record, connection)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use gridpost_ops::failure::Misuse;

    /// Files below a folder, with what is in them.
    fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => found.extend(files(&path)),
                path => drop(found.insert(path.clone(), fs::read_to_string(path).expect("read"))),
            }
        }
        found
    }

    fn write(root: &Path, names: &[&str]) {
        for name in names {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, name).expect("written");
        }
    }

    #[tokio::test]
    async fn a_folder_of_others_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("project"));
        let of_others = ["terraform/main.tf", "logs/a.log", "samples/a.json", "emulator/a"];
        write(home.root(), &of_others);
        write(home.root(), &["src/main.rs", "state.json", "local.json", "local.env", "lock"]);
        let before = files(home.root());
        for purge in [false, true] {
            let refused = down(&home, purge).await.expect_err("not a stack's");
            assert!(refused.is::<Misuse>(), "{refused:#}");
            assert!(refused.to_string().contains("--home"), "{refused}");
            assert_eq!(files(home.root()), before, "{purge}");
        }
        let source = Source::Workspace(folder.path().to_owned(), Profile::Dev);
        let settings = Settings { source, home: home.clone() };
        let refused = up(&settings, &Progress::silent()).await.expect_err("it would be wiped");
        assert!(refused.is::<Misuse>(), "{refused:#}");
        assert!(refused.to_string().contains("terraform"), "{refused}");
        assert_eq!(files(home.root()), before);
        assert!(!home.cache().exists());
    }

    #[tokio::test]
    async fn no_folder_is_no_stack_and_stays_so() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        for purge in [false, true] {
            assert!(!down(&home, purge).await.expect("as good"), "{purge}");
            assert!(!home.root().exists(), "{purge}");
        }
    }

    #[tokio::test]
    async fn a_purge_keeps_what_dev_keeps() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        home.create().expect("made");
        let of_dev = ["dev/gridpost.sqlite", "dev/dead-letters/gridpost/a.json", "dev.lock"];
        write(home.root(), &of_dev);
        write(home.root(), &["cache/python/complete", "logs/a.log", "state.json", "local.draft"]);
        assert!(down(&home, true).await.expect("down"));
        let left: Vec<_> = files(home.root()).into_keys().collect();
        let of_home = [".gitignore", ".gridpost-home"];
        let want = of_home.iter().chain(&of_dev).map(|name| home.root().join(name));
        let mut want: Vec<_> = want.collect();
        want.sort();
        assert_eq!(left, want);
        assert!(!home.cache().exists() && !home.logs().exists());
    }

    #[tokio::test]
    async fn a_purged_folder_goes_unless_something_is_in_it() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        for own in [None, Some("notes.txt")] {
            home.create().expect("made");
            write(home.root(), &["dev.lock", "cache/lock"]);
            write(home.root(), own.as_slice());
            assert!(down(&home, true).await.expect("down"));
            assert_eq!(home.root().exists(), own.is_some(), "{own:?}");
        }
        assert!(home.root().join("notes.txt").exists());
    }

    #[tokio::test]
    async fn a_home_of_another_name_is_taken_down_and_purged() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        home.create().expect("made");
        write(home.root(), &["cache/lock"]);
        // The id is only recorded: processes are found by the folder.
        let emulator = EmulatorRecord { pid: u32::MAX, port: 1, version: "v".to_owned() };
        State { emulator: Some(emulator), deployment: None }.write(&home).expect("written");
        assert!(down(&home, false).await.expect("down"));
        assert!(home.cache().exists() && !home.state_file().exists());
        assert!(!down(&home, false).await.expect("its caches are there"));
        assert!(down(&home, true).await.expect("purged"));
        assert!(!home.root().exists());
    }
}
