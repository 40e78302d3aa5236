//! The stack that the cases run on: brought up before the first and taken down after the last.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use gridpost_cli::{
    local::{
        build::Profile,
        connection::Connection,
        emulator::Emulator,
        home::{FOLDER, Home},
        python::Environment,
        stack::{self, Settings},
        terraform::Terraform,
    },
    progress::Progress,
};
use serde_json::Value;

/// Keeps the stack for the next run, which then starts in seconds. For work on the cases themselves.
const KEEP: &str = "GRIDPOST_E2E_KEEP";

/// The stack of this run.
#[derive(Debug)]
pub struct Ground {
    home: Home,
    /// How to connect.
    pub connection: Connection,
    /// The Python environment with Azure's SDK.
    pub environment: Environment,
    /// Terraform over what is deployed.
    pub terraform: Terraform,
    /// Keeps another run of these tests out: they would share the folder.
    _lock: File,
}

impl Ground {
    /// Brings the stack up in a folder below `temporary`. Caches are those of `gridpost up`.
    ///
    /// # Errors
    ///
    /// What is missing on this machine and how to install it, or the step that failed.
    pub async fn up(temporary: &Path) -> anyhow::Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
        let home = home_below(temporary, workspace);
        let lock = lock(temporary)?;
        if !is_kept() {
            // What an earlier run was killed over.
            take_down(&home).await?;
        }
        let workspace = workspace.to_owned();
        let settings = Settings { workspace, home: home.clone(), profile: Profile::Local };
        let stack = stack::up(&settings, &Progress::on_stderr()).await?;
        let (connection, environment) = (stack.connection.clone(), stack.environment.clone());
        // With the stack goes its lock, which taking it down wants too.
        let terraform = stack.terraform.clone();
        Ok(Self { home, connection, environment, terraform, _lock: lock })
    }

    /// Takes the stack down, unless it is to be kept.
    ///
    /// # Errors
    ///
    /// When something of it cannot be removed.
    pub async fn down(&self) -> anyhow::Result<()> {
        if is_kept() {
            eprintln!("the stack in {} is kept ({KEEP})", self.home.root().display());
            return Ok(());
        }
        take_down(&self.home).await?;
        let left = Emulator::of(&self.home).processes();
        ensure!(left.is_empty(), "these processes are left: {left:?}");
        Ok(())
    }

    /// The stack's folder.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// What Terraform's state holds.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn terraform_resources(&self) -> anyhow::Result<Vec<Value>> {
        let path = self.home.terraform().join("terraform.tfstate");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let state: Value = serde_json::from_str(&text)?;
        Ok(state["resources"].as_array().cloned().unwrap_or_default())
    }

    /// Whether the next run is to find the stack as it is.
    pub fn is_kept(&self) -> bool {
        is_kept()
    }
}

/// Takes down what a run that was interrupted left behind.
///
/// # Errors
///
/// When something of it cannot be removed.
pub async fn clean(temporary: &Path) -> anyhow::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    take_down(&home_below(temporary, workspace)).await
}

fn home_below(temporary: &Path, workspace: &Path) -> Home {
    let cache: PathBuf = workspace.join(FOLDER).join("cache");
    Home::at(&temporary.join("e2e")).with_cache(&cache)
}

fn lock(temporary: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(temporary)?;
    let file = File::create(temporary.join("e2e.lock"))?;
    if file.try_lock().is_err() {
        eprintln!("another run of the end-to-end tests is under way; waiting for its end");
        file.lock()?;
    }
    Ok(file)
}

fn is_kept() -> bool {
    std::env::var_os(KEEP).is_some()
}

async fn take_down(home: &Home) -> anyhow::Result<()> {
    stack::down(home, false).await.map(drop)
}
