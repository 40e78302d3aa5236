//! Dead letters as files.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use gridpost_core::time::Timestamp;
use gridpost_ports::Listed;

/// What the names of files begin with that are not whole yet; lists pass them over.
const UNFINISHED: &str = ".unfinished-";

/// All buckets, as folders of one folder.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) root: PathBuf,
    /// Whether a write waits for the disk.
    pub(super) is_synced: bool,
}

impl Files {
    pub(super) fn has(&self, bucket: &Path) -> bool {
        self.root.join(bucket).is_dir()
    }

    pub(super) fn create(&self, bucket: &Path) -> io::Result<()> {
        let folder = self.root.join(bucket);
        fs::create_dir_all(&folder)?;
        self.sync_up_from(&folder)
    }

    /// Writes a file, whole or not at all: it gets its name when it is complete.
    pub(super) fn put(
        &self,
        bucket: &Path,
        name: &Path,
        body: &[u8],
        now: Timestamp,
    ) -> io::Result<()> {
        let path = self.root.join(bucket).join(name);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder)?;
        let own = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let unfinished = folder.join(format!("{UNFINISHED}{own}"));
        let mut file = File::create(&unfinished)?;
        file.write_all(body)?;
        file.set_modified(system_time(now))?;
        if self.is_synced {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(&unfinished, &path)?;
        self.sync_up_from(folder)
    }

    pub(super) fn get(&self, bucket: &Path, name: &Path) -> io::Result<Option<Vec<u8>>> {
        found(fs::read(self.root.join(bucket).join(name)))
    }

    pub(super) fn delete(&self, bucket: &Path, name: &Path) -> io::Result<()> {
        found(fs::remove_file(self.root.join(bucket).join(name))).map(drop)
    }

    /// The first files by name, as S3 orders names: by their bytes.
    pub(super) fn list(
        &self,
        bucket: &Path,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> io::Result<Vec<Listed>> {
        let mut list = List { prefix, after, most, found: Vec::new() };
        list.look_into(&self.root.join(bucket), "")?;
        Ok(list.found)
    }

    /// Makes sure that a folder's new entries, and it itself, are on the disk.
    fn sync_up_from(&self, folder: &Path) -> io::Result<()> {
        if !self.is_synced {
            return Ok(());
        }
        let above = self.root.parent();
        for folder in folder.ancestors().take_while(|folder| Some(*folder) != above) {
            File::open(folder)?.sync_all()?;
        }
        above.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

/// A list that is being made.
struct List<'l> {
    prefix: &'l str,
    after: Option<&'l str>,
    most: usize,
    found: Vec<Listed>,
}

impl List<'_> {
    /// Whether names that begin so can be in the list.
    fn may_have(&self, folder: &str) -> bool {
        let is_wanted = folder.starts_with(self.prefix) || self.prefix.starts_with(folder);
        is_wanted && self.after.is_none_or(|after| after < folder || after.starts_with(folder))
    }

    fn has(&self, name: &str) -> bool {
        name.starts_with(self.prefix) && self.after.is_none_or(|after| after < name)
    }

    /// Lists what is in a folder whose files' names begin so.
    fn look_into(&mut self, folder: &Path, beginning: &str) -> io::Result<()> {
        // It may have been deleted since it was seen.
        let Some(entries) = found(fs::read_dir(folder))? else { return Ok(()) };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            let is_folder = entry.file_type()?.is_dir();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            // A folder's slash counts when names are ordered.
            let slash = if is_folder { "/" } else { "" };
            all.push((format!("{beginning}{name}{slash}"), is_folder, entry.path()));
        }
        all.sort_unstable();
        for (name, is_folder, path) in all {
            if self.found.len() >= self.most {
                break;
            }
            if is_folder && self.may_have(&name) {
                self.look_into(&path, &name)?;
            } else if !is_folder && self.has(&name) {
                self.add(name, &path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, path: &Path) -> io::Result<()> {
        let Some(about) = found(fs::metadata(path))? else { return Ok(()) };
        let written = about.modified()?.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = written.unwrap_or_default().as_secs();
        let millis = i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
        let written_at = Timestamp::from_millis(millis);
        self.found.push(Listed { name, bytes: about.len(), written_at });
        Ok(())
    }
}

/// What is not there is no error.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    let millis = u64::try_from(at.as_millis()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}
