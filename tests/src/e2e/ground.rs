//! The ground that cases run on: a stack, or a process of `gridpost dev`. It is brought up before
//! the first case and taken down after the last.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use gridpost_ops::home::connection::Connection;
use gridpost_ops::home::{FOLDER, Home, remove_folder};
use gridpost_ops::progress::Progress;
use gridpost_stack::build::Profile;
use gridpost_stack::emulator::Emulator;
use gridpost_stack::python::Environment;
use gridpost_stack::stack::{Settings, Source};
use gridpost_stack::terraform::Terraform;
use gridpost_stack::{python, stack};
use serde_json::Value;

use super::configuration;
use crate::{
    dev::{Dev, Program},
    program,
};

/// Keeps the stack for the next run, which then starts in seconds. For work on the cases themselves.
const KEEP: &str = "GRIDPOST_E2E_KEEP";

/// The stack of this run, or the process.
#[derive(Debug)]
pub struct Ground {
    home: Home,
    /// How to connect.
    pub connection: Connection,
    environment: Option<Environment>,
    under: Under,
}

/// The deployment behind the connection.
#[derive(Debug)]
enum Under {
    /// Terraform over what is deployed, and what keeps another run out.
    Stack { terraform: Box<Terraform>, _lock: Lock },
    /// `gridpost dev`.
    Process(Box<Dev>),
}

/// Keeps another run of these tests out: they would share the folder.
pub type Lock = File;

impl Ground {
    /// Brings the stack up in a folder below `temporary`. Caches are those of `gridpost up`.
    pub async fn up(temporary: &Path) -> anyhow::Result<Self> {
        let workspace = workspace()?;
        let home = home_below(temporary)?;
        let lock = lock(temporary, "e2e.lock")?;
        if !is_kept() {
            // Removes what a killed run has left.
            take_down(&home).await?;
        }
        let source = Source::Workspace(workspace, Profile::Dev);
        let settings = Settings { source, home: home.clone() };
        let stack = stack::up(&settings, &Progress::on_stderr()).await?;
        let connection = stack.connection.clone();
        let environment = Some(stack.environment.clone());
        // The lock goes with the stack, and taking the stack down needs it too.
        let under = Under::Stack { terraform: Box::new(stack.terraform.clone()), _lock: lock };
        Ok(Self { home, connection, environment, under })
    }

    /// Starts a process of `gridpost dev` in a `folder` of its own.
    pub async fn on_dev(folder: &Path, environment: Option<Environment>) -> anyhow::Result<Self> {
        remove_folder(folder)?;
        let home = Home::at(folder).with_cache(&cache()?);
        // The log of tools that cases install.
        fs::create_dir_all(home.logs())?;
        let path = program::gridpost().await?.to_owned();
        // A stack counts latencies, too.
        let own = Program::new(&path, folder, &[]);
        let program = Program { home: home.clone(), counts_latencies: true, ..own };
        let process = program.start().await?;
        let connection = process.connection.clone();
        let under = Under::Process(Box::new(process));
        Ok(Self { home, connection, environment, under })
    }

    /// The Python environment with Azure's SDK.
    pub fn environment(&self) -> anyhow::Result<&Environment> {
        self.environment.as_ref().context("the list of cases must say that this one needs Python")
    }

    /// Terraform over what is deployed.
    pub fn terraform(&self) -> anyhow::Result<&Terraform> {
        match &self.under {
            Under::Stack { terraform, .. } => Ok(terraform),
            Under::Process(_) => bail!("the list of cases must say that this one needs Terraform"),
        }
    }

    /// The folder of a bucket of dead letters; `None` on a stack, whose S3 has it.
    pub fn bucket_folder(&self, name: &str) -> Option<PathBuf> {
        match &self.under {
            Under::Stack { .. } => None,
            Under::Process(process) => Some(process.bucket(name)),
        }
    }

    /// Takes the stack down, unless it is to be kept; ends the process, whose folder stays.
    pub async fn down(&self) -> anyhow::Result<()> {
        if let Under::Process(process) = &self.under {
            return process.stop().await;
        }
        if is_kept() {
            eprintln!("the stack in {} is kept ({KEEP})", self.home.root().display());
            return Ok(());
        }
        take_down(&self.home).await?;
        let left = Emulator::of(&self.home).processes();
        ensure!(left.is_empty(), "these processes are left: {left:?}");
        Ok(())
    }

    /// The folder of the stack or process.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Reads the resources of Terraform's state.
    pub fn terraform_resources(&self) -> anyhow::Result<Vec<Value>> {
        configuration::resources(&self.home.terraform().join("terraform.tfstate"))
    }

    /// Whether to keep the stack for the next run.
    pub fn is_kept(&self) -> bool {
        is_kept()
    }
}

/// Takes down what an interrupted run left behind.
pub async fn clean(temporary: &Path) -> anyhow::Result<()> {
    take_down(&home_below(temporary)?).await
}

/// Installs the Python environment, unless it is there.
pub async fn install_python(temporary: &Path) -> anyhow::Result<Environment> {
    let home = home_below(temporary)?;
    home.create()?;
    python::install(&home, Path::new("python3"), &Progress::on_stderr()).await
}

fn workspace() -> anyhow::Result<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    Ok(workspace.to_owned())
}

/// The caches of `gridpost up`.
fn cache() -> anyhow::Result<PathBuf> {
    Ok(workspace()?.join(FOLDER).join("cache"))
}

fn home_below(temporary: &Path) -> anyhow::Result<Home> {
    Ok(Home::at(&temporary.join("e2e")).with_cache(&cache()?))
}

/// Waits until no other run has that lock.
pub fn lock(temporary: &Path, name: &str) -> anyhow::Result<Lock> {
    fs::create_dir_all(temporary)?;
    let file = File::create(temporary.join(name))?;
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
