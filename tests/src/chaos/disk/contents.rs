//! What is on a disk, and what of that is still there after a loss of power.
//!
//! A sync of a file keeps its bytes, and a sync of a folder keeps the names in it, each by itself: what file systems
//! promise, where ext4 keeps more. What was not synced may be lost or not: a file's blocks of 4 KiB and its length one by
//! one, a folder's changes from the last one back. A rename within a folder is one change. Modes and times are never lost.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::{OsStr, OsString},
    mem,
    time::SystemTime,
};

use fastrand::Rng;

/// The number of a file or folder.
pub type Number = u64;

/// The folder that has all others.
pub const ROOT: Number = 1;

/// Bytes that a disk writes as a whole.
pub const BLOCK: usize = 4_096;

/// All files and folders, with what was there before the changes that are not synced.
#[derive(Debug)]
pub struct Contents {
    nodes: BTreeMap<Number, Node>,
    last: Number,
    used: u64,
}

/// A file or a folder.
#[derive(Debug)]
pub struct Node {
    pub kind: Kind,
    /// Its permissions.
    pub mode: u16,
    pub modified: SystemTime,
    has_name: bool,
    opened: u32,
}

#[derive(Debug)]
pub enum Kind {
    File(File),
    Folder(Folder),
}

impl Kind {
    /// Returns an empty file.
    pub fn file() -> Self {
        Self::File(File { bytes: Vec::new(), before: [Before::default()].into(), dropped: 0 })
    }

    /// Returns an empty folder.
    pub fn folder() -> Self {
        Self::Folder(Folder::default())
    }
}

/// A file.
#[derive(Debug)]
pub struct File {
    pub bytes: Vec<u8>,
    /// What was there: after the last sync, and then as each sync began that has not ended. Never empty.
    before: VecDeque<Before>,
    /// How many are no longer in `before`.
    dropped: u64,
}

/// What a file was before changes.
#[derive(Debug, Default)]
struct Before {
    length: usize,
    /// The blocks that were changed, by their place.
    blocks: BTreeMap<usize, Vec<u8>>,
}

/// A folder.
#[derive(Debug, Default)]
pub struct Folder {
    pub names: BTreeMap<OsString, Number>,
    /// What the names of each change stood for, since the last sync.
    before: VecDeque<Vec<(OsString, Option<Number>)>>,
    /// How many are no longer in `before`.
    dropped: u64,
}

impl File {
    fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        self.note(at, end);
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(data);
    }

    fn set_length(&mut self, length: usize) {
        self.note(length, self.bytes.len());
        self.bytes.resize(length, 0);
    }

    /// Notes what is there before a change.
    fn note(&mut self, from: usize, to: usize) {
        let Some(before) = self.before.back_mut() else { return };
        for block in from / BLOCK..to.div_ceil(BLOCK) {
            before.blocks.entry(block).or_insert_with(|| {
                let bytes = self.bytes.chunks(BLOCK).nth(block);
                bytes.unwrap_or_default().to_vec()
            });
        }
    }

    fn lose(&mut self, dice: Option<&mut Rng>) {
        let mut dice = dice;
        let mut is_kept = || dice.as_mut().is_some_and(|dice| dice.bool());
        for Before { length, blocks } in mem::take(&mut self.before).into_iter().rev() {
            let written = self.bytes.len();
            for (block, bytes) in blocks {
                let at = block * BLOCK;
                if at < written && is_kept() {
                    continue;
                }
                if self.bytes.len() < at + BLOCK {
                    self.bytes.resize(at + BLOCK, 0);
                }
                self.bytes[at..at + BLOCK].fill(0);
                self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            self.bytes.resize(if is_kept() { written } else { length }, 0);
        }
        self.before = [Before { length: self.bytes.len(), ..Before::default() }].into();
    }
}

impl Folder {
    /// Makes names stand for something else, or for nothing, all at once.
    fn change(&mut self, names: &[(&OsStr, Option<Number>)]) {
        let mut before = Vec::new();
        for &(name, number) in names {
            let was = match number {
                Some(number) => self.names.insert(name.to_owned(), number),
                None => self.names.remove(name),
            };
            before.push((name.to_owned(), was));
        }
        self.before.push_back(before);
    }

    fn lose(&mut self, dice: Option<&mut Rng>) {
        let kept = dice.map_or(0, |dice| dice.usize(..=self.before.len()));
        for (name, was) in
            self.before.drain(kept..).rev().flat_map(|change| change.into_iter().rev())
        {
            match was {
                Some(number) => self.names.insert(name, number),
                None => self.names.remove(&name),
            };
        }
        self.before.clear();
    }
}

impl Default for Contents {
    fn default() -> Self {
        let mut all = Self { nodes: BTreeMap::new(), last: 0, used: 0 };
        all.add(Kind::folder(), 0o700, SystemTime::UNIX_EPOCH);
        all
    }
}

impl Contents {
    /// Returns the bytes of all files.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn node(&self, number: Number) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub fn node_mut(&mut self, number: Number) -> Option<&mut Node> {
        self.nodes.get_mut(&number)
    }

    pub fn file(&self, number: Number) -> Option<&File> {
        match &self.nodes.get(&number)?.kind {
            Kind::File(file) => Some(file),
            Kind::Folder(_) => None,
        }
    }

    pub fn folder(&self, number: Number) -> Option<&Folder> {
        match &self.nodes.get(&number)?.kind {
            Kind::Folder(folder) => Some(folder),
            Kind::File(_) => None,
        }
    }

    fn file_mut(&mut self, number: Number) -> Option<&mut File> {
        match &mut self.nodes.get_mut(&number)?.kind {
            Kind::File(file) => Some(file),
            Kind::Folder(_) => None,
        }
    }

    fn add(&mut self, kind: Kind, mode: u16, modified: SystemTime) -> Number {
        self.last += 1;
        let node = Node { kind, mode, modified, has_name: true, opened: 0 };
        self.nodes.insert(self.last, node);
        self.last
    }

    /// Makes a file or folder.
    pub fn create(
        &mut self,
        folder: Number,
        name: &OsStr,
        kind: Kind,
        mode: u16,
        now: SystemTime,
    ) -> Number {
        let number = self.add(kind, mode, now);
        self.change(folder, &[(name, Some(number))]);
        number
    }

    /// Takes a name away.
    pub fn remove(&mut self, folder: Number, name: &OsStr) {
        self.change(folder, &[(name, None)]);
    }

    /// Gives something another name.
    pub fn rename(&mut self, (from, name): (Number, &OsStr), (to, new): (Number, &OsStr)) {
        let number = self.folder(from).and_then(|folder| folder.names.get(name).copied());
        let Some(number) = number else { return };
        if from == to {
            return self.change(from, &[(name, None), (new, Some(number))]);
        }
        // It has a name all the time.
        self.open(number);
        self.change(to, &[(new, Some(number))]);
        self.change(from, &[(name, None)]);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.has_name = true;
        }
        self.close(number);
    }

    fn change(&mut self, folder: Number, names: &[(&OsStr, Option<Number>)]) {
        let Some(Node { kind: Kind::Folder(folder), .. }) = self.nodes.get_mut(&folder) else {
            return;
        };
        let were: Vec<_> =
            names.iter().filter_map(|(name, _)| folder.names.get(*name).copied()).collect();
        folder.change(names);
        let are: Vec<_> = names.iter().filter_map(|(_, number)| *number).collect();
        for number in were.into_iter().filter(|number| !are.contains(number)) {
            if let Some(node) = self.nodes.get_mut(&number) {
                node.has_name = false;
            }
            self.free(number);
        }
    }

    /// Counts one more that has it open; returns whether it has a name.
    pub fn open(&mut self, number: Number) -> bool {
        let node = self.nodes.get_mut(&number).filter(|node| node.has_name);
        node.map(|node| node.opened += 1).is_some()
    }

    /// Counts one less.
    pub fn close(&mut self, number: Number) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.opened -= 1;
        }
        self.free(number);
    }

    /// Takes the room of a file that has no name and is open nowhere. After a loss of power its name may be back, with
    /// what was synced of it.
    fn free(&mut self, number: Number) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let Kind::File(file) = &mut node.kind else { return };
        if node.has_name || node.opened > 0 {
            return;
        }
        self.used = self.used.saturating_sub(file.bytes.len() as u64);
        file.lose(None);
    }

    /// Writes to a file.
    pub fn write(&mut self, number: Number, at: usize, data: &[u8]) {
        self.change_length(number, |file| file.write(at, data));
    }

    /// Cuts a file, or adds zeros to it.
    pub fn set_length(&mut self, number: Number, length: usize) {
        self.change_length(number, |file| file.set_length(length));
    }

    fn change_length(&mut self, number: Number, change: impl FnOnce(&mut File)) {
        if let Some(file) = self.file_mut(number) {
            let before = file.bytes.len() as u64;
            change(file);
            let after = file.bytes.len() as u64;
            self.used = (self.used + after).saturating_sub(before);
        }
    }

    /// Begins a sync, of what was changed until now; returns what ends it.
    pub fn begin_sync(&mut self, number: Number) -> u64 {
        match self.nodes.get_mut(&number).map(|node| &mut node.kind) {
            Some(Kind::File(file)) => {
                let now = Before { length: file.bytes.len(), ..Before::default() };
                file.before.push_back(now);
                file.dropped + file.before.len() as u64 - 1
            }
            Some(Kind::Folder(folder)) => folder.dropped + folder.before.len() as u64,
            None => 0,
        }
    }

    /// Ends a sync: what was changed before it began stays.
    pub fn end_sync(&mut self, number: Number, until: u64) {
        match self.nodes.get_mut(&number).map(|node| &mut node.kind) {
            Some(Kind::File(File { before, dropped, .. })) => drop_until(before, dropped, until),
            Some(Kind::Folder(Folder { before, dropped, .. })) => {
                drop_until(before, dropped, until)
            }
            None => {}
        }
    }

    /// Loses what was not synced: all of it, or with dice a random part.
    pub fn lose(&mut self, mut dice: Option<&mut Rng>) {
        for node in self.nodes.values_mut() {
            match &mut node.kind {
                Kind::File(file) => file.lose(dice.as_deref_mut()),
                Kind::Folder(folder) => folder.lose(dice.as_deref_mut()),
            }
            node.opened = 0;
        }
        let mut reached = BTreeSet::new();
        let mut next = vec![ROOT];
        while let Some(number) = next.pop() {
            if reached.insert(number) {
                next.extend(self.folder(number).into_iter().flat_map(|it| it.names.values()));
            }
        }
        self.nodes.retain(|number, _| reached.contains(number));
        self.nodes.values_mut().for_each(|node| node.has_name = true);
        let bytes = self.nodes.keys().filter_map(|number| self.file(*number));
        self.used = bytes.map(|file| file.bytes.len() as u64).sum();
    }
}

fn drop_until<T>(before: &mut VecDeque<T>, dropped: &mut u64, until: u64) {
    while *dropped < until && before.pop_front().is_some() {
        *dropped += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn name(name: &str) -> &OsStr {
        OsStr::new(name)
    }

    fn file_in(disk: &mut Contents, folder: Number, own: &str, data: &[u8]) -> Number {
        let number = disk.create(folder, name(own), Kind::file(), 0o600, NOW);
        disk.write(number, 0, data);
        number
    }

    fn sync(disk: &mut Contents, number: Number) {
        let until = disk.begin_sync(number);
        disk.end_sync(number, until);
    }

    fn bytes(disk: &Contents, number: Number) -> &[u8] {
        &disk.file(number).expect("a file").bytes
    }

    fn names(disk: &Contents, folder: Number) -> Vec<&str> {
        let names = disk.folder(folder).expect("a folder").names.keys();
        names.map(|name| name.to_str().expect("text")).collect()
    }

    #[test]
    fn what_was_synced_stays() {
        let mut disk = Contents::default();
        let file = file_in(&mut disk, ROOT, "f", &[1; 10_000]);
        sync(&mut disk, file);
        sync(&mut disk, ROOT);
        disk.write(file, 5_000, &[2; 10_000]);
        disk.set_length(file, 100);
        disk.write(file, 200, &[3; 9_000]);
        assert_eq!(disk.used(), 9_200);
        disk.lose(None);
        assert_eq!((bytes(&disk, file), disk.used()), (&[1; 10_000][..], 10_000));
    }

    #[test]
    fn a_file_and_its_name_are_synced_each_by_itself() {
        let mut disk = Contents::default();
        let unnamed = file_in(&mut disk, ROOT, "unnamed", b"synced");
        sync(&mut disk, unnamed);
        disk.lose(None);
        assert!(names(&disk, ROOT).is_empty() && disk.node(unnamed).is_none());

        let empty = file_in(&mut disk, ROOT, "empty", b"not synced");
        sync(&mut disk, ROOT);
        disk.lose(None);
        assert_eq!((names(&disk, ROOT), bytes(&disk, empty)), (vec!["empty"], &[][..]));
    }

    #[test]
    fn a_folder_whose_name_is_lost_loses_all_in_it() {
        let mut disk = Contents::default();
        let folder = disk.create(ROOT, name("d"), Kind::folder(), 0o700, NOW);
        let file = file_in(&mut disk, folder, "f", b"synced");
        sync(&mut disk, file);
        sync(&mut disk, folder);
        disk.lose(None);
        assert!(disk.node(folder).is_none() && disk.node(file).is_none() && disk.used() == 0);
    }

    #[test]
    fn a_rename_or_a_removal_that_was_not_synced_is_undone() {
        let mut disk = Contents::default();
        let (old, new) =
            (file_in(&mut disk, ROOT, "f", b"old"), file_in(&mut disk, ROOT, "g", b"new"));
        let other = file_in(&mut disk, ROOT, "h", b"other");
        let folder = disk.create(ROOT, name("d"), Kind::folder(), 0o700, NOW);
        for number in [old, new, other, ROOT] {
            sync(&mut disk, number);
        }
        disk.rename((ROOT, name("g")), (ROOT, name("f")));
        assert_eq!((names(&disk, ROOT), disk.used()), (vec!["d", "f", "h"], 8));
        disk.rename((ROOT, name("h")), (folder, name("h")));
        assert_eq!((names(&disk, folder), disk.used()), (vec!["h"], 8));
        disk.remove(ROOT, name("f"));
        assert_eq!(disk.used(), 5);
        disk.lose(None);
        assert_eq!(names(&disk, ROOT), ["d", "f", "g", "h"]);
        let found = disk.folder(ROOT).expect("a folder").names[name("f")];
        assert_eq!((bytes(&disk, found), disk.used()), (&b"old"[..], 11));
    }

    #[test]
    fn a_sync_covers_what_was_there_as_it_began() {
        let mut disk = Contents::default();
        let file = file_in(&mut disk, ROOT, "f", &[1; 5_000]);
        let begun = [file, ROOT].map(|number| (number, disk.begin_sync(number)));
        disk.write(file, 4_900, &[2; 200]);
        file_in(&mut disk, ROOT, "late", b"");
        for (number, until) in begun {
            disk.end_sync(number, until);
        }
        disk.lose(None);
        assert_eq!((names(&disk, ROOT), bytes(&disk, file)), (vec!["f"], &[1; 5_000][..]));

        disk.write(file, 0, &[3; 5_000]);
        disk.begin_sync(file);
        disk.lose(None);
        assert_eq!(
            bytes(&disk, file),
            [1; 5_000],
            "a sync that has not ended keeps nothing for sure"
        );
    }

    #[test]
    fn a_file_that_is_open_is_there_without_a_name() {
        let mut disk = Contents::default();
        let file = file_in(&mut disk, ROOT, "f", b"text");
        assert!(disk.open(file));
        disk.remove(ROOT, name("f"));
        assert_eq!((bytes(&disk, file), disk.used()), (&b"text"[..], 4));
        disk.close(file);
        assert_eq!((disk.used(), disk.open(file)), (0, false));
    }

    #[test]
    fn dice_keep_some_blocks_and_the_first_changes_of_names() {
        let mut dice = Rng::with_seed(1);
        let (mut seen, mut lengths) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..500 {
            let mut disk = Contents::default();
            let file = file_in(&mut disk, ROOT, "a", &[1; 2 * BLOCK]);
            for number in [file, ROOT] {
                sync(&mut disk, number);
            }
            disk.write(file, 0, &[2; 3 * BLOCK]);
            for own in ["b", "c"] {
                file_in(&mut disk, ROOT, own, b"");
            }
            disk.lose(Some(&mut dice));
            let blocks: Vec<_> = bytes(&disk, file).chunks(BLOCK).map(|block| block[0]).collect();
            lengths.insert(names(&disk, ROOT).len());
            assert!(names(&disk, ROOT) != ["a", "c"]);
            seen.insert(blocks);
        }
        // Each of two blocks old or new, and the third missing, zero or new.
        assert_eq!((seen.len(), lengths), (12, BTreeSet::from([1, 2, 3])));
    }
}
