//! Dead letters as files.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use gridpost_core::time::Timestamp;
use gridpost_ports::Listed;
use percent_encoding::{percent_decode_str, percent_encode_byte};

/// The prefix of unfinished files' names, which lists skip.
const UNFINISHED: &str = ".unfinished-";

/// Characters that are percent-encoded, besides a leading dot.
const UNFIT: [char; 4] = ['%', '\\', ':', '\0'];

/// The file name of an empty part, as between two slashes. Encoding never produces it.
const NO_LETTER: &str = "%";

/// The suffix of a folder whose part continues below it. Encoding never produces it: it puts two digits
/// after each `%`.
const GOES_ON: char = '%';

/// Most bytes of a file name, without [`GOES_ON`]. File systems allow 255, with [`UNFINISHED`].
const NAME_BYTES_MAX: usize = 255 - UNFINISHED.len();

/// All buckets, as folders of one folder.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) root: PathBuf,
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

    /// Writes a file atomically: it is renamed when complete.
    pub(super) fn put(&self, path: &Path, body: &[u8], now: Timestamp) -> io::Result<()> {
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
        fs::rename(&unfinished, path)?;
        self.sync_up_from(folder)
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, bucket: &str, name: &str) -> PathBuf {
        self.root.join(path_of(bucket)).join(path_of(name))
    }

    /// Lists files in S3's order of names: by bytes.
    pub(super) fn list(
        &self,
        bucket: &Path,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> io::Result<Vec<Listed>> {
        let bucket = self.root.join(bucket);
        let mut list = List { bucket: &bucket, prefix, after, most, found: Vec::new() };
        list.look_into(&bucket, "")?;
        Ok(list.found)
    }

    /// Syncs a folder, with its new entries, to the disk.
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

struct List<'l> {
    bucket: &'l Path,
    prefix: &'l str,
    after: Option<&'l str>,
    most: usize,
    found: Vec<Listed>,
}

/// A file, or a folder with a trailing slash.
struct Entry {
    name: String,
    path: PathBuf,
    is_folder: bool,
}

impl List<'_> {
    fn may_have(&self, folder: &str) -> bool {
        let is_wanted = folder.starts_with(self.prefix) || self.prefix.starts_with(folder);
        is_wanted && self.after.is_none_or(|after| after < folder || after.starts_with(folder))
    }

    fn has(&self, name: &str) -> bool {
        name.starts_with(self.prefix) && self.after.is_none_or(|after| after < name)
    }

    fn look_into(&mut self, folder: &Path, beginning: &str) -> io::Result<()> {
        let mut all = Vec::new();
        self.gather(folder, beginning, &mut all)?;
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for Entry { name, path, is_folder } in all {
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

    /// Collects the entries of a folder and of subfolders that continue a part: they sort together.
    fn gather(&self, folder: &Path, beginning: &str, all: &mut Vec<Entry>) -> io::Result<()> {
        // It may have been deleted since it was listed.
        let Some(entries) = found(fs::read_dir(folder))? else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let (path, is_folder) = (entry.path(), entry.file_type()?.is_dir());
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            if let Some(part) = beginning_of(name).filter(|_| is_folder) {
                let beginning = format!("{beginning}{part}");
                if self.may_have(&beginning) {
                    self.gather(&path, &beginning, all)?;
                }
            } else if let Some(part) = part_of(name) {
                // A folder's slash counts in the order.
                let slash = if is_folder { "/" } else { "" };
                all.push(Entry { name: format!("{beginning}{part}{slash}"), path, is_folder });
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, path: &Path) -> io::Result<()> {
        // A foreign file, in a folder that only looks like a continuation.
        if self.bucket.join(path_of(&name)) != path {
            return Ok(());
        }
        let Some(about) = found(fs::metadata(path))? else { return Ok(()) };
        let written = about.modified()?.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = written.unwrap_or_default().as_secs();
        let millis = i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
        let written_at = Timestamp::from_millis(millis);
        self.found.push(Listed { name, bytes: about.len(), written_at });
        Ok(())
    }
}

/// Returns the path of an S3 name below its folder, with a file name for each part. Characters that
/// would lead out of the folder or hide the file are percent-encoded.
pub(super) fn path_of(name: &str) -> PathBuf {
    name.split('/').flat_map(file_names).collect()
}

/// Returns the file name of a part, preceded by nested folders if it is too long.
fn file_names(part: &str) -> Vec<String> {
    if part.is_empty() {
        return vec![NO_LETTER.to_owned()];
    }
    let mut folders = Vec::new();
    let mut name = String::with_capacity(part.len());
    for letter in part.chars() {
        let before = name.len();
        push_encoded(&mut name, letter);
        if name.len() > NAME_BYTES_MAX {
            name.truncate(before);
            name.push(GOES_ON);
            folders.push(mem::take(&mut name));
            push_encoded(&mut name, letter);
        }
    }
    folders.push(name);
    folders
}

fn push_encoded(name: &mut String, letter: char) {
    let is_unfit = UNFIT.contains(&letter) || (name.is_empty() && letter == '.');
    match u8::try_from(letter) {
        Ok(byte) if is_unfit => name.push_str(percent_encode_byte(byte)),
        _ => name.push(letter),
    }
}

/// Decodes a file's name to the part; `None` for a foreign file.
fn part_of(file: &str) -> Option<String> {
    if file == NO_LETTER {
        return Some(String::new());
    }
    let part = decoded(file)?;
    (file_names(&part) == [file]).then_some(part)
}

/// Decodes the beginning of a part that continues below a folder.
fn beginning_of(folder: &str) -> Option<String> {
    let name = folder.strip_suffix(GOES_ON).filter(|name| !name.is_empty())?;
    decoded(name)
}

fn decoded(name: &str) -> Option<String> {
    Some(percent_decode_str(name).decode_utf8().ok()?.into_owned())
}

/// Turns a missing file or folder into `None`.
pub(super) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_path_below_its_folder_and_is_found_by_it() {
        for (name, want) in [
            ("k", "k"),
            ("T/S/2026/1/2/3/id.json", "T/S/2026/1/2/3/id.json"),
            ("a b/ü", "a b/ü"),
            ("", "%"),
            ("/k", "%/k"),
            ("k/", "k/%"),
            ("a//b", "a/%/b"),
            ("..", "%2E."),
            ("a/../../k", "a/%2E./%2E./k"),
            (".k", "%2Ek"),
            ("a\\b", "a%5Cb"),
            ("c:k", "c%3Ak"),
            ("50%", "50%25"),
            ("%2E.", "%252E."),
        ] {
            let path = path_of(name);
            assert_eq!(path, Path::new(want), "{name}");
            let parts = path.iter().map(|part| part.to_str().and_then(part_of).expect("a part"));
            assert_eq!(parts.collect::<Vec<_>>().join("/"), name);
        }
        for foreign in ["50%", "%2e.", "a:b", "%ff"] {
            assert_eq!(part_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_part_that_is_too_long_for_a_name_is_cut() {
        let most = NAME_BYTES_MAX;
        for (part, want) in [
            ("p".repeat(most), vec!["p".repeat(most)]),
            ("p".repeat(most + 1), vec!["p".repeat(most) + "%", "p".to_owned()]),
            // Neither a character nor its encoding is cut.
            ("%".repeat(most / 3 + 1), vec!["%25".repeat(most / 3) + "%", "%25".to_owned()]),
            ("ü".repeat(most / 2 + 1), vec!["ü".repeat(most / 2) + "%", "ü".to_owned()]),
            // Nor does the text after a cut lead out of the folder.
            ("p".repeat(most) + "..", vec!["p".repeat(most) + "%", "%2E.".to_owned()]),
        ] {
            assert_eq!(file_names(&part), want, "{part}");
            let (last, folders) = want.split_last().expect("a name");
            let beginnings = folders.iter().map(|folder| beginning_of(folder).expect("a part"));
            let joined = beginnings.chain(part_of(last)).collect::<String>();
            assert_eq!(joined, part);
        }
        assert_eq!(beginning_of(NO_LETTER), None);
    }
}
