//! Dead letters as files.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
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
use uuid::Uuid;

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

/// Characters of a UUID with hyphens.
const ID_LENGTH: usize = 36;

/// How often a file is created in a folder that others remove.
const CREATED_TRIES: usize = 4;

/// All buckets, as folders of one folder.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) root: PathBuf,
    pub(super) is_synced: bool,
}

impl Files {
    pub(super) fn has(&self, bucket: &str) -> bool {
        self.folder(bucket).is_dir()
    }

    pub(super) fn create(&self, bucket: &str) -> io::Result<()> {
        let folder = self.folder(bucket);
        fs::create_dir_all(&folder)?;
        self.sync_up_from(&folder)
    }

    /// Returns the buckets.
    pub(super) fn buckets(&self) -> io::Result<Vec<String>> {
        let mut buckets = Vec::new();
        for entry in found(fs::read_dir(&self.root))?.into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name().to_str().and_then(part_of);
            if let Some(bucket) = name.filter(|_| entry.path().is_dir()) {
                buckets.push(bucket);
            }
        }
        Ok(buckets)
    }

    /// Writes a file atomically: it is renamed when complete.
    pub(super) fn put(
        &self,
        bucket: &str,
        name: &str,
        body: &[u8],
        now: Timestamp,
    ) -> io::Result<()> {
        let path = self.path(bucket, name);
        let folder = path.parent().unwrap_or(&self.root);
        let own = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let unfinished = folder.join(format!("{UNFINISHED}{own}"));
        let mut file = create_in(folder, &unfinished)?;
        let mut write = || {
            file.write_all(body)?;
            file.set_modified(system_time(now))?;
            if self.is_synced {
                file.sync_all()?;
            }
            fs::rename(&unfinished, &path)
        };
        write().inspect_err(|_| {
            // On a full disk it would take the room of others.
            let _ = fs::remove_file(&unfinished);
        })?;
        // The file may be gone again, and its folder with it.
        found(self.sync_up_from(folder)).map(|_| ())
    }

    pub(super) fn get(&self, bucket: &str, name: &str) -> io::Result<Option<Vec<u8>>> {
        match found(fs::read(self.path(bucket, name)))? {
            None => found(fs::read(self.plain_path(bucket, name))),
            body => Ok(body),
        }
    }

    /// Returns whether a file is there.
    pub(super) fn has_file(&self, bucket: &str, name: &str) -> io::Result<bool> {
        Ok(self.path(bucket, name).try_exists()? || self.plain_path(bucket, name).try_exists()?)
    }

    /// Deletes a file if it is there, and the folders that it leaves empty.
    pub(super) fn delete(&self, bucket: &str, name: &str) -> io::Result<()> {
        let bucket_folder = self.folder(bucket);
        for path in [self.path(bucket, name), self.plain_path(bucket, name)] {
            if found(fs::remove_file(&path))?.is_none() {
                continue;
            }
            let folders = path.ancestors().skip(1).take_while(|folder| *folder != bucket_folder);
            // The first that is not empty can't be removed.
            let _ = folders.map(fs::remove_dir).take_while(Result::is_ok).count();
        }
        Ok(())
    }

    fn folder(&self, bucket: &str) -> PathBuf {
        self.root.join(path_of(bucket))
    }

    fn path(&self, bucket: &str, name: &str) -> PathBuf {
        self.folder(bucket).join(dead_letter_path(name))
    }

    /// Returns the path of a file that lies where its name says, as a user may have copied it.
    fn plain_path(&self, bucket: &str, name: &str) -> PathBuf {
        self.folder(bucket).join(path_of(name))
    }

    /// Lists files in S3's order of names: by bytes.
    pub(super) fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> io::Result<Vec<Listed>> {
        List::of(self, bucket, prefix, after).take(most).collect()
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

/// Returns the path of an object below the folder of its bucket, from its key in S3. Dead letters of an hour are
/// spread over folders.
pub fn dead_letter_path(key: &str) -> PathBuf {
    let mut path = path_of(key);
    let last = key.rsplit('/').next().unwrap_or_default();
    if let Some(first) = spread_by(last) {
        path.pop();
        path.extend([first, last]);
    }
    path
}

/// Creates a file, and its folder, which may have been empty and be removed meanwhile.
fn create_in(folder: &Path, path: &Path) -> io::Result<File> {
    let create = || fs::create_dir_all(folder).and_then(|()| File::create(path));
    let mut created = create();
    for _ in 1..CREATED_TRIES {
        match created {
            Err(error) if error.kind() == io::ErrorKind::NotFound => created = create(),
            _ => break,
        }
    }
    created
}

/// The files of a bucket in the order of their names. A folder is read when its names are next.
struct List<'l> {
    files: &'l Files,
    bucket: &'l str,
    prefix: &'l str,
    after: Option<&'l str>,
    /// Found and not yet looked at; the first is the next.
    found: BinaryHeap<Reverse<Entry>>,
}

/// A file, or a folder.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// Of a folder: with what all names in it begin.
    name: String,
    path: PathBuf,
    /// Of a folder: what is before the names of its entries, usually.
    before: Option<String>,
}

impl<'l> List<'l> {
    fn of(files: &'l Files, bucket: &'l str, prefix: &'l str, after: Option<&'l str>) -> Self {
        let all =
            Entry { name: String::new(), path: files.folder(bucket), before: Some(String::new()) };
        Self { files, bucket, prefix, after, found: BinaryHeap::from([Reverse(all)]) }
    }

    fn may_have(&self, folder: &str) -> bool {
        let is_wanted = folder.starts_with(self.prefix) || self.prefix.starts_with(folder);
        is_wanted && self.after.is_none_or(|after| after < folder || after.starts_with(folder))
    }

    fn has(&self, name: &str) -> bool {
        name.starts_with(self.prefix) && self.after.is_none_or(|after| after < name)
    }

    fn look_into(&mut self, folder: &Path, before: &str) -> io::Result<()> {
        // It may have been deleted since it was listed.
        for entry in found(fs::read_dir(folder))?.into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name();
            let Some(file) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let entry = match entry.file_type()?.is_dir() {
                true => folder_in(before, file).filter(|(name, _)| self.may_have(name)),
                false => file_in(before, file).filter(|name| self.has(name)).map(|n| (n, None)),
            };
            if let Some((name, before)) = entry {
                self.found.push(Reverse(Entry { name, path: folder.join(file), before }));
            }
        }
        Ok(())
    }

    /// Returns what a list says of a file; `None` if it is gone or no object.
    fn listed(&self, name: String, path: &Path) -> io::Result<Option<Listed>> {
        let own = self.files.path(self.bucket, &name);
        if own != path {
            let is_plain = self.files.plain_path(self.bucket, &name) == path;
            // A foreign file, in a folder that only looks like a continuation, or a second copy.
            if !is_plain || own.try_exists()? {
                return Ok(None);
            }
        }
        let Some(about) = found(fs::metadata(path))? else { return Ok(None) };
        let written = about.modified()?.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = written.unwrap_or_default().as_secs();
        let millis = i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
        let written_at = Timestamp::from_millis(millis);
        Ok(Some(Listed { name, bytes: about.len(), written_at }))
    }
}

impl Iterator for List<'_> {
    type Item = io::Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Reverse(Entry { name, path, before }) = self.found.pop()?;
            let listed = match before {
                Some(before) => self.look_into(&path, &before).map(|()| None),
                None => self.listed(name, &path),
            };
            if let Some(listed) = listed.transpose() {
                return Some(listed);
            }
        }
    }
}

/// Returns with what all names in a folder begin, and what is before the names of its entries.
fn folder_in(before: &str, folder: &str) -> Option<(String, Option<String>)> {
    if let Some(part) = beginning_of(folder) {
        let beginning = format!("{before}{part}");
        return Some((beginning.clone(), Some(beginning)));
    }
    let name = format!("{before}{}", part_of(folder)?);
    let before = format!("{name}/");
    Some((name, Some(before)))
}

/// Returns the name of a file in a folder.
fn file_in(before: &str, file: &str) -> Option<String> {
    let part = part_of(file)?;
    let above = spread_by(&part).and_then(|first| before.strip_suffix('/')?.strip_suffix(first));
    let above = above.filter(|above| above.is_empty() || above.ends_with('/'));
    Some(format!("{}{part}", above.unwrap_or(before)))
}

/// Returns the folder among the 256 below an hour's that has a dead letter: the first two digits of its id,
/// which is a hash. `None` for another file.
fn spread_by(part: &str) -> Option<&str> {
    let id = part.strip_suffix(".json").filter(|id| id.len() == ID_LENGTH)?;
    Uuid::try_parse(id).ok()?;
    id.get(..2)
}

/// Returns the path of an S3 name below its folder, with a file name for each part. Characters that
/// would lead out of the folder or hide the file are percent-encoded.
fn path_of(name: &str) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_no_folder_behind_it() {
        let root = tempfile::tempdir().expect("a folder");
        let files = Files { root: root.path().to_owned(), is_synced: false };
        let name = |number: u128| format!("T/S/8/{}.json", Uuid::from_u128(number << 112));
        for number in 0..=u16::MAX {
            if number % 32 == 0 {
                let path = files.path("b", &name(number.into()));
                fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                fs::write(path, "[]").expect("written");
            }
        }
        let after = name(0x8000);
        let mut list = List::of(&files, "b", "T/S/", Some(&after));
        let page: Vec<_> = list.by_ref().take(20).map(|one| one.expect("listed").name).collect();
        let want: Vec<_> = (1..=20).map(|number| name(0x8000 + number * 32)).collect();
        assert_eq!(page, want);
        // The rest of three folders with 8 files each, and the 125 behind them, unread.
        assert_eq!(list.found.len(), 3 + 125, "of {} files", list.count());
    }

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
