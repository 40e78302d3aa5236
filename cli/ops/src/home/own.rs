//! Tells whose a folder is. `down` removes a stack's files by name, and must not take the
//! `terraform/` or `logs/` of another program for it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::Context;

use super::{FOLDER, Home, IGNORE, IGNORE_ALL, remove_file};
use crate::failure::Misuse;

/// Says that the folder is a local stack's, whatever its name is.
const MARK: &str = ".gridpost-home";

const MARK_TEXT: &str = "This folder is Gridpost's: `gridpost up` and `gridpost dev` use it, and `gridpost down` \
    removes what belongs to the local stack.\n";

impl Home {
    /// Whether the folder is a local stack's, so that what has a stack's names in it may be removed.
    pub fn is_own(&self) -> bool {
        let has_name = self.root.file_name() == Some(OsStr::new(FOLDER));
        self.root.is_dir() && (has_name || self.mark_file().is_file())
    }

    /// Refuses to take down what is not a stack's.
    pub fn check_own(&self) -> Result<(), Misuse> {
        if self.is_own() {
            return Ok(());
        }
        let inner = self.root.join(FOLDER);
        let which = match inner.is_dir() {
            true => format!("here {}", inner.display()),
            false => format!("mostly one named {FOLDER}"),
        };
        Err(Misuse(format!(
            "{} is not the folder of a local stack: neither `gridpost up` nor `gridpost dev` made it, and its \
             files may be another program's. Nothing was removed. Name the folder that one of them made, \
             {which}, by --home (GRIDPOST_HOME); without it, the nearest {FOLDER} is taken, here or above",
            self.root.display()
        )))
    }

    /// Refuses to bring a stack up where it would wipe what is not a stack's.
    pub fn check_free(&self) -> Result<(), Misuse> {
        let found = self.in_the_way();
        if found.is_empty() {
            return Ok(());
        }
        let names = found.iter().filter_map(|path| path.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        Err(Misuse(format!(
            "{} is not the folder of a local stack, and has what a stack would replace: {}. Nothing was changed. \
             Name a new or an empty folder by --home (GRIDPOST_HOME), or leave that out",
            self.root.display(),
            names.join(", ")
        )))
    }

    /// Returns what has one of a stack's names and is not a stack's.
    pub(super) fn in_the_way(&self) -> Vec<PathBuf> {
        if self.is_own() {
            return Vec::new();
        }
        // A link that leads nowhere is there, too.
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        self.of_stack().into_iter().filter(is_there).collect()
    }

    pub(super) fn mark(&self) -> anyhow::Result<()> {
        let path = self.mark_file();
        if path.is_file() {
            return Ok(());
        }
        fs::write(&path, MARK_TEXT).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Returns what `gridpost dev` keeps here and `down` leaves: events, dead letters and keys, and
    /// a CA that clients were told to trust.
    pub fn kept_by_dev(&self) -> Vec<PathBuf> {
        [self.dev(), self.dev_tls()].into_iter().filter(|path| path.exists()).collect()
    }

    /// Removes the folder itself once it holds nothing but what says whose it is.
    pub fn remove_unused(&self) -> anyhow::Result<()> {
        let rest = [self.dev_lock_file(), self.ignore_file(), self.mark_file()];
        let is_ignored = self.is_ignored();
        let is_listed = self.ignore_file().exists() && !is_ignored;
        if is_listed || self.is_held_by_dev() || !self.holds_only(&rest) {
            return Ok(());
        }
        rest.iter().try_for_each(|file| remove_file(file))?;
        // One that is mounted, or that a link leads to, stays a stack's.
        if fs::remove_dir(&self.root).is_err() {
            self.mark()?;
            if is_ignored {
                fs::write(self.ignore_file(), IGNORE_ALL)?;
            }
        }
        Ok(())
    }

    /// Returns what `up` and `down` replace and remove.
    fn of_stack(&self) -> Vec<PathBuf> {
        let mut paths = vec![
            // Not those of another stack.
            Self::at(&self.root).cache,
            self.emulator(),
            self.terraform(),
            self.logs(),
            self.samples(),
            self.state_file(),
            self.connection_file(),
            self.environment_file(),
            self.lock_file(),
        ];
        paths.extend(self.drafts());
        paths
    }

    pub(super) fn holds_only(&self, paths: &[PathBuf]) -> bool {
        let Ok(mut entries) = fs::read_dir(&self.root) else { return false };
        entries.all(|entry| entry.is_ok_and(|entry| paths.contains(&entry.path())))
    }

    /// Whether a process of `gridpost dev` runs here or starts.
    fn is_held_by_dev(&self) -> bool {
        File::open(self.dev_lock_file()).is_ok_and(|file| file.try_lock().is_err())
    }

    /// Whether Git passes over the folder, by the file that is made with it.
    pub(super) fn is_ignored(&self) -> bool {
        fs::read_to_string(self.ignore_file()).is_ok_and(|text| text == IGNORE_ALL)
    }

    pub(super) fn ignore_file(&self) -> PathBuf {
        self.root.join(IGNORE)
    }

    fn mark_file(&self) -> PathBuf {
        self.root.join(MARK)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A folder with files that say nothing, but for what hides it from Git.
    fn folder_with(folder: &Path, files: &[&str]) -> Home {
        fs::create_dir_all(folder).expect("folder");
        for name in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, IGNORE_ALL).expect("written");
        }
        Home::at(folder)
    }

    #[test]
    fn a_folder_is_known_by_what_is_in_it() {
        let table: [(&str, &[&str], bool); 9] = [
            // By its name: other tools put their caches there.
            (FOLDER, &[], true),
            (FOLDER, &["cache/nodejs/bin/node", "notes.txt"], true),
            // By its mark.
            ("home", &[MARK, "notes.txt", "logs/a.log"], true),
            // Another program's.
            ("empty", &[], false),
            ("project", &["terraform/main.tf", "logs/a.log", "cache/a"], false),
            ("project", &["state.json", "local.json", "lock"], false),
            ("project", &["dev/index.html", "logs/a.log"], false),
            ("project", &[IGNORE, "cache/a", "logs/a.log"], false),
            ("project", &["dev/gridpost.sqlite", "terraform/main.tf"], false),
        ];
        for (name, files, want) in table {
            let folder = tempfile::tempdir().expect("folder");
            let home = folder_with(&folder.path().join(name), files);
            assert_eq!(home.is_own(), want, "{name}: {files:?}");
            assert_eq!(home.check_own().is_ok(), want, "{name}: {files:?}");
        }
        let folder = tempfile::tempdir().expect("folder");
        assert!(!Home::at(&folder.path().join(FOLDER)).is_own(), "it is not there");
    }

    #[test]
    fn only_what_has_nothing_of_others_in_the_way_is_marked() {
        let table: [(&[&str], bool); 4] = [
            (&[], true),
            (&["topics.toml", "src/main.rs"], true),
            (&["terraform/main.tf"], false),
            (&["logs/a.log", "topics.toml"], false),
        ];
        for (files, want) in table {
            let folder = tempfile::tempdir().expect("folder");
            let home = folder_with(&folder.path().join("project"), files);
            assert_eq!(home.check_free().is_ok(), want, "{files:?}");
            home.create().expect("it is there");
            assert_eq!((home.mark_file().is_file(), home.is_own()), (want, want), "{files:?}");
        }
        // `gridpost dev` takes nothing over: what comes to lie there later is not its own.
        let folder = tempfile::tempdir().expect("folder");
        let project = folder_with(&folder.path().join("project"), &["src/main.rs"]);
        project.create_root().expect("it is there");
        folder_with(project.root(), &["terraform/main.tf"]);
        assert!(project.check_own().is_err() && project.check_free().is_err());
        let folder = tempfile::tempdir().expect("folder");
        // Completes a folder whose creation was interrupted.
        let begun = folder_with(&folder.path().join("begun"), &[IGNORE]);
        begun.create_root().expect("made");
        assert!(begun.is_own());
        let new = Home::at(&folder.path().join("a/home"));
        new.create().expect("made");
        new.create().expect("there");
        assert!(new.is_own() && new.check_free().is_ok());
    }

    #[test]
    fn who_names_the_wrong_folder_is_told_which_is_meant() {
        let folder = tempfile::tempdir().expect("folder");
        let home = folder_with(&folder.path().join("project"), &["src/main.rs"]);
        let told = || home.check_own().expect_err("not a stack's").to_string();
        assert!(told().contains("mostly one named .gridpost"), "{}", told());
        Home::at(&home.root().join(FOLDER)).create_root().expect("made");
        assert!(told().contains("project/.gridpost"), "{}", told());
    }

    #[test]
    fn a_folder_that_is_in_use_stays() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        home.create_root().expect("made");
        let held = File::create(home.dev_lock_file()).expect("made");
        held.lock().expect("locked");
        home.remove_unused().expect("left");
        assert!(home.is_own() && home.dev_lock_file().exists());
        drop(held);
        fs::write(home.ignore_file(), "own").expect("written");
        home.remove_unused().expect("left");
        assert!(home.is_own());
        fs::write(home.ignore_file(), IGNORE_ALL).expect("written");
        // A link can't be removed as a folder.
        let link = Home::at(&folder.path().join("link"));
        std::os::unix::fs::symlink(home.root(), link.root()).expect("linked");
        link.remove_unused().expect("emptied");
        assert!(home.is_own() && home.is_ignored());
        home.remove_unused().expect("removed");
        assert!(!home.root().exists());
    }
}
