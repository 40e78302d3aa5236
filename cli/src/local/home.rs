//! The one folder that holds a local stack, `.gridpost`, and what stands where in it.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;

/// Name of the folder.
pub const FOLDER: &str = ".gridpost";

/// The folder of one local stack. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    cache: PathBuf,
}

impl Home {
    /// The stack in folder `root`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), cache: root.join("cache") }
    }

    /// The same, with the caches of another stack; for tests, which need not install everything again.
    pub fn with_cache(self, cache: &Path) -> Self {
        Self { cache: cache.to_owned(), ..self }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What survives `down`: it is costly to make and holds no state.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Python environment with the emulator, cargo-lambda and Azure's SDK.
    pub fn python(&self) -> PathBuf {
        self.cache.join("python")
    }

    /// Terraform's providers and modules.
    pub fn terraform_data(&self) -> PathBuf {
        self.cache.join("terraform")
    }

    /// Terraform's state and variables.
    pub fn terraform(&self) -> PathBuf {
        self.root.join("terraform")
    }

    /// The emulator's launcher, its state and its temporary files.
    pub fn emulator(&self) -> PathBuf {
        self.root.join("emulator")
    }

    /// What broke AWS's limits on this emulator; not there as long as nothing did.
    pub fn quota_log(&self) -> PathBuf {
        self.emulator().join("quotas.log")
    }

    /// Logs of every tool, one file each.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// What runs and what is deployed.
    pub fn state_file(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// How other programs connect.
    pub fn connection_file(&self) -> PathBuf {
        self.root.join("local.json")
    }

    /// For `cargo lambda watch`: what the functions read from their environment.
    pub fn environment_file(&self) -> PathBuf {
        self.root.join("local.env")
    }

    /// Sample payloads that fit the stack, a folder for each function.
    pub fn samples(&self) -> PathBuf {
        self.root.join("samples")
    }

    /// What `gridpost dev` keeps.
    pub fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// Held by the one command that may change the stack.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Held while the caches are changed; stacks may share them.
    pub fn cache_lock_file(&self) -> PathBuf {
        self.cache.join("lock")
    }

    /// Makes the folder itself, for the owner alone.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn create_root(&self) -> anyhow::Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        made.with_context(|| format!("{} cannot be made", self.root.display()))
    }

    /// Makes the folders, for the owner alone: keys and deployed state are in them.
    ///
    /// # Errors
    ///
    /// When a folder cannot be made.
    pub fn create(&self) -> anyhow::Result<()> {
        for folder in
            [self.root.clone(), self.cache.clone(), self.logs(), self.emulator(), self.terraform()]
        {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        Ok(())
    }
}

/// The nearest stack folder, in `folder` or above it.
pub fn find_upwards(folder: &Path) -> Option<Home> {
    let found = folder.ancestors().map(|folder| folder.join(FOLDER)).find(|home| home.is_dir());
    found.map(|root| Home::at(&root))
}

/// The stack folder of the repository that this program was built from, for use from other folders.
pub fn of_this_build() -> Option<Home> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join(FOLDER);
    root.is_dir().then(|| Home::at(&root))
}

/// Writes a file for the owner alone, whole or not at all.
///
/// # Errors
///
/// When the folder cannot be written to.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> io::Result<()> {
        remove_file(&draft)?;
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}

/// Removes a file; none there is as good.
///
/// # Errors
///
/// When it is there and cannot be removed.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it; none there is as good.
///
/// # Errors
///
/// When it is there and cannot be removed.
pub fn remove_folder(path: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            Err(err).with_context(|| format!("{} cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_nearest_folder_upwards_is_found() {
        let folder = tempfile::tempdir().expect("folder");
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).expect("folders");
        assert_eq!(find_upwards(&below), None);
        fs::create_dir(folder.path().join(FOLDER)).expect("folder");
        assert_eq!(find_upwards(&below), Some(Home::at(&folder.path().join(FOLDER))));
        fs::create_dir(folder.path().join("a").join(FOLDER)).expect("folder");
        assert_eq!(find_upwards(&below), Some(Home::at(&folder.path().join("a").join(FOLDER))));
    }

    #[test]
    fn a_private_file_is_replaced_and_the_owners_alone() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("local.json");
        fs::write(&path, "old").expect("written");
        write_private(&path, "new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        let mode = fs::metadata(&path).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
