//! The one folder that holds a local stack, `.gridpost`, and what stands where in it.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{fs, io};

use anyhow::Context;
use rustix::process::geteuid;

use crate::progress::Progress;

pub mod connection;
mod own;
pub mod state;

/// Name of the folder.
pub const FOLDER: &str = ".gridpost";

/// Git's list of what it passes over.
const IGNORE: &str = ".gitignore";

const IGNORE_ALL: &str = "*\n";

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

    /// Uses the caches of another stack; for tests, which need not install everything again.
    pub fn with_cache(self, cache: &Path) -> Self {
        Self { cache: cache.to_owned(), ..self }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder that survives `down`: it is costly to make and holds no state.
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

    /// Returns the log of broken AWS limits on this emulator; it does not exist as long as none was
    /// broken.
    pub fn quota_log(&self) -> PathBuf {
        self.emulator().join("quotas.log")
    }

    /// Logs of every tool, one file each.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Returns the file that says what runs and what is deployed.
    pub fn state_file(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// How other programs connect.
    pub fn connection_file(&self) -> PathBuf {
        self.root.join("local.json")
    }

    /// Returns the functions' environment for `cargo lambda watch`.
    pub fn environment_file(&self) -> PathBuf {
        self.root.join("local.env")
    }

    /// Sample payloads that fit the stack, a folder for each function.
    pub fn samples(&self) -> PathBuf {
        self.root.join("samples")
    }

    /// Returns the data folder of `gridpost dev`.
    pub fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// The CA of `gridpost dev --tls --memory`; with data it is beside the data.
    pub fn dev_tls(&self) -> PathBuf {
        self.root.join("tls")
    }

    /// Held by `gridpost dev` as long as it runs.
    pub fn dev_lock_file(&self) -> PathBuf {
        self.root.join("dev.lock")
    }

    /// Held by the one command that may change the stack.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Held while the caches are changed; stacks may share them.
    pub fn cache_lock_file(&self) -> PathBuf {
        self.cache.join("lock")
    }

    /// Files that were being written when a command was killed; keys may be in them.
    pub fn drafts(&self) -> [PathBuf; 2] {
        [self.connection_file(), self.state_file()].map(|path| draft_of(&path))
    }

    /// Makes the folder itself, for the owner alone, and marks it as a stack's. One in which others have
    /// something gets no mark: `down` would take for the stack's what has a stack's names.
    pub fn create_root(&self) -> anyhow::Result<()> {
        // What others have there may get a stack's names later.
        let is_begun = self.is_ignored() && self.holds_only(&[self.ignore_file()]);
        let is_made = !self.root.exists() || self.holds_only(&[]) || is_begun;
        create_ignored(&self.root)?;
        if is_made { self.mark() } else { Ok(()) }
    }

    /// Makes the folders, for the owner alone: keys and deployed state are in them.
    pub fn create(&self) -> anyhow::Result<()> {
        let is_free = self.in_the_way().is_empty();
        self.create_root()?;
        if is_free {
            self.mark()?;
        }
        for folder in [self.cache.clone(), self.logs(), self.emulator(), self.terraform()] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        Ok(())
    }
}

/// Makes a folder for the owner alone that Git passes over, wherever it is: keys and events are in
/// it. One that is there stays as it is.
pub fn create_ignored(folder: &Path) -> anyhow::Result<()> {
    let is_new = !folder.exists();
    let make = || -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        if is_new { fs::write(folder.join(IGNORE), IGNORE_ALL) } else { Ok(()) }
    };
    make().with_context(|| format!("{} cannot be made", folder.display()))
}

/// The nearest stack folder, in `folder` or above it. Those of other users are passed over, which
/// standard error is told once: what is in one says where keys and events are sent.
pub fn find_upwards(folder: &Path) -> Option<Home> {
    static TOLD: Once = Once::new();
    let (found, passed) = nearest(folder, is_trusted);
    if let Some(passed) = passed.first() {
        TOLD.call_once(|| {
            Progress::on_stderr().line(&format!(
                "! {} belongs to another user and is passed over (--home takes it all the same)",
                passed.display()
            ));
        });
    }
    found
}

/// The nearest stack folder that is trusted, and those that are nearer and are not.
fn nearest(folder: &Path, is_trusted: impl Fn(&Path) -> bool) -> (Option<Home>, Vec<PathBuf>) {
    let mut passed = Vec::new();
    for root in folder.ancestors().map(|folder| folder.join(FOLDER)).filter(|it| it.is_dir()) {
        if is_trusted(&root) {
            return (Some(Home::at(&root)), passed);
        }
        passed.push(root);
    }
    (None, passed)
}

/// Whether a folder, and the link to it if it is one, belong to this user or to root.
fn is_trusted(folder: &Path) -> bool {
    let user = geteuid().as_raw();
    [fs::metadata(folder), fs::symlink_metadata(folder)]
        .iter()
        .all(|about| about.as_ref().is_ok_and(|about| is_trusted_owner(about.uid(), user)))
}

/// Root can do what it likes anyway.
fn is_trusted_owner(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// The stack folder of the repository that this program was built from, for use from other folders.
pub fn of_this_build() -> Option<Home> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?.join(FOLDER);
    root.is_dir().then(|| Home::at(&root))
}

/// Writes a file for the owner alone, whole or not at all.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let draft = draft_of(path);
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

/// Returns the place where a file is written before it takes its own.
fn draft_of(path: &Path) -> PathBuf {
    path.with_extension("draft")
}

/// Removes a file; none there is as good.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it; none there is as good.
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
    fn a_folder_of_another_user_is_passed_over() {
        for (owner, user, want) in [
            (1000, 1000, true),
            (0, 1000, true),
            (1001, 1000, false),
            (1001, 0, false),
            (0, 0, true),
        ] {
            assert_eq!(is_trusted_owner(owner, user), want, "{owner} {user}");
        }
        let folder = tempfile::tempdir().expect("folder");
        let near = folder.path().join("a").join(FOLDER);
        let far = folder.path().join(FOLDER);
        for root in [&near, &far] {
            fs::create_dir_all(root).expect("folders");
        }
        let below = folder.path().join("a");
        let of_others = |others: Vec<&Path>| nearest(&below, |root| !others.contains(&root));
        assert_eq!(of_others(vec![]), (Some(Home::at(&near)), vec![]));
        assert_eq!(of_others(vec![near.as_path()]), (Some(Home::at(&far)), vec![near.clone()]));
        let (found, passed) = of_others(vec![near.as_path(), far.as_path()]);
        assert_eq!((found, passed.len()), (None, 2));
        assert!(is_trusted(&near), "made by this user");
        assert!(!is_trusted(&folder.path().join("none")));
    }

    #[test]
    fn git_passes_over_what_is_made_and_what_is_there_stays() {
        let folder = tempfile::tempdir().expect("folder");
        let ignored = |root: &Path| fs::read_to_string(root.join(".gitignore")).ok();
        let home = Home::at(&folder.path().join("a").join(FOLDER));
        home.create_root().expect("made");
        assert_eq!(ignored(home.root()).as_deref(), Some("*\n"));
        let mode = fs::metadata(home.root()).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(ignored(&folder.path().join("a")), None);
        let stack = Home::at(&folder.path().join("stack"));
        stack.create().expect("made");
        assert_eq!(ignored(stack.root()).as_deref(), Some("*\n"));
        // A folder of the user's own is not hidden from Git.
        create_ignored(folder.path()).expect("there");
        assert_eq!(ignored(folder.path()), None);
        fs::write(home.root().join(".gitignore"), "own").expect("written");
        home.create_root().expect("there");
        assert_eq!(ignored(home.root()).as_deref(), Some("own"));
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
