//! The disk as the kernel's FUSE sees it.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, SystemTime},
};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::process::{getegid, geteuid};

use super::{
    Drive,
    contents::{BLOCK, Contents, Folder, Kind, Number},
};

pub(super) type Session = BackgroundSession;

/// How long the kernel may remember names and sizes: nothing changes them but itself.
const REMEMBERED: Duration = Duration::from_secs(3_600);

const NO_GENERATION: Generation = Generation(0);
const NO_HANDLE: FileHandle = FileHandle(0);

/// What the kernel has read stays valid until it writes itself.
const KEPT: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

pub(super) fn mount(at: &Path, drive: Arc<Drive>) -> anyhow::Result<Session> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("chaos".to_owned()), MountOption::NoAtime];
    Ok(fuser::spawn_mount(Mounted { drive, lists: Mutex::default() }, at, &config)?)
}

pub(super) fn unmount(session: Session) -> anyhow::Result<()> {
    match session.umount_and_join() {
        // It was still answering a process that had ended.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        ended => Ok(ended?),
    }
}

/// An entry of a folder.
type Entry = (OsString, Number, FileType);

struct Mounted {
    drive: Arc<Drive>,
    /// The entries of folders that are being read, by handle: they must not move meanwhile.
    lists: Mutex<HashMap<u64, Vec<Entry>>>,
}

type Result<T> = std::result::Result<T, Errno>;

impl Mounted {
    /// Returns the contents for a change, which needs power.
    fn change(&self) -> Result<MutexGuard<'_, Contents>> {
        let contents = self.drive.contents();
        self.drive.has_power.load(Relaxed).then_some(contents).ok_or(Errno::EIO)
    }

    fn lists(&self) -> MutexGuard<'_, HashMap<u64, Vec<Entry>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, folder: INodeNo, name: &OsStr, kind: Kind, mode: u32) -> Result<FileAttr> {
        let mut contents = self.change()?;
        contents.folder(folder.0).ok_or(Errno::ENOENT)?;
        let number = contents.create(folder.0, name, kind, permissions(mode), now());
        about(&contents, number)
    }

    /// Makes the file have that length, if there is room for it.
    fn make_room(&self, contents: &Contents, number: Number, length: u64) -> Result<()> {
        let file = contents.file(number).ok_or(Errno::EISDIR)?;
        let more = length.saturating_sub(file.bytes.len() as u64);
        (contents.used() + more <= self.drive.bytes).then_some(()).ok_or(Errno::ENOSPC)
    }

    fn remove(&self, folder: INodeNo, name: &OsStr) -> Result<()> {
        let mut contents = self.change()?;
        let number = number_of(&contents, folder, name)?;
        check_empty(contents.folder(number))?;
        contents.remove(folder.0, name);
        Ok(())
    }

    fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Result<()> {
        let mut contents = self.change()?;
        number_of(&contents, from.0, from.1)?;
        if let Ok(replaced) = number_of(&contents, to.0, to.1) {
            check_empty(contents.folder(replaced))?;
        }
        contents.rename((from.0.0, from.1), (to.0.0, to.1));
        Ok(())
    }

    fn set(
        &self,
        INodeNo(number): INodeNo,
        mode: Option<u32>,
        length: Option<u64>,
        modified: Option<TimeOrNow>,
    ) -> Result<FileAttr> {
        let mut contents = self.change()?;
        if let Some(length) = length {
            self.make_room(&contents, number, length)?;
            contents.set_length(number, index(length)?);
        }
        let node = contents.node_mut(number).ok_or(Errno::ENOENT)?;
        node.mode = mode.map_or(node.mode, permissions);
        node.modified = match modified {
            Some(TimeOrNow::SpecificTime(time)) => time,
            Some(TimeOrNow::Now) => now(),
            None if length.is_some() => now(),
            None => node.modified,
        };
        about(&contents, number)
    }

    fn write(&self, INodeNo(number): INodeNo, at: u64, data: &[u8]) -> Result<()> {
        let mut contents = self.change()?;
        self.make_room(&contents, number, at + data.len() as u64)?;
        contents.write(number, index(at)?, data);
        if let Some(node) = contents.node_mut(number) {
            node.modified = now();
        }
        Ok(())
    }

    /// Syncs a file or folder; others are served meanwhile.
    fn sync(&self, INodeNo(number): INodeNo, reply: ReplyEmpty) {
        let until = match self.change() {
            Ok(mut contents) => contents.begin_sync(number),
            Err(error) => return reply.error(error),
        };
        let drive = Arc::clone(&self.drive);
        let end = move || {
            thread::sleep(drive.sync_takes);
            let mut contents = drive.contents();
            if !drive.has_power.load(Relaxed) {
                return reply.error(Errno::EIO);
            }
            contents.end_sync(number, until);
            drive.syncs.fetch_add(1, Relaxed);
            reply.ok();
        };
        if self.drive.sync_takes.is_zero() {
            end();
        } else {
            thread::spawn(end);
        }
    }
}

fn number_of(contents: &Contents, INodeNo(folder): INodeNo, name: &OsStr) -> Result<Number> {
    let folder = contents.folder(folder).ok_or(Errno::ENOTDIR)?;
    folder.names.get(name).copied().ok_or(Errno::ENOENT)
}

/// Fails for a folder with something in it.
fn check_empty(folder: Option<&Folder>) -> Result<()> {
    let is_empty = folder.is_none_or(|folder| folder.names.is_empty());
    is_empty.then_some(()).ok_or(Errno::ENOTEMPTY)
}

fn kind_of(kind: &Kind) -> FileType {
    match kind {
        Kind::File(_) => FileType::RegularFile,
        Kind::Folder(_) => FileType::Directory,
    }
}

fn about(contents: &Contents, number: Number) -> Result<FileAttr> {
    let node = contents.node(number).ok_or(Errno::ENOENT)?;
    let size = contents.file(number).map_or(0, |file| file.bytes.len() as u64);
    Ok(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: node.modified,
        mtime: node.modified,
        ctime: node.modified,
        crtime: node.modified,
        kind: kind_of(&node.kind),
        perm: node.mode,
        nlink: 1,
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        rdev: 0,
        blksize: BLOCK as u32,
        flags: 0,
    })
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn index(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Errno::EINVAL)
}

#[expect(clippy::disallowed_methods, reason = "the times of files are the machine's")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn end(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn tell(about: Result<FileAttr>, reply: ReplyEntry) {
    match about {
        Ok(about) => reply.entry(&REMEMBERED, &about, NO_GENERATION),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let contents = self.drive.contents();
        let found = number_of(&contents, parent, name);
        tell(found.and_then(|number| about(&contents, number)), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match about(&self.drive.contents(), ino.0) {
            Ok(about) => reply.attr(&REMEMBERED, &about),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.set(ino, mode, size, modified) {
            Ok(about) => reply.attr(&REMEMBERED, &about),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        tell(self.make(parent, name, Kind::folder(), mode & !umask), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        end(self.remove(parent, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        end(self.remove(parent, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = match flags.is_empty() {
            true => self.rename((parent, name), (new_parent, new_name)),
            false => Err(Errno::EINVAL),
        };
        end(done, reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, Kind::file(), mode & !umask) {
            Ok(about) => {
                self.drive.contents().open(about.ino.0);
                reply.created(&REMEMBERED, &about, NO_GENERATION, NO_HANDLE, KEPT);
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.drive.contents().open(ino.0) {
            true => reply.opened(NO_HANDLE, KEPT),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.drive.contents().close(ino.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let contents = self.drive.contents();
        let Some(file) = contents.file(ino.0) else { return reply.error(Errno::ENOENT) };
        let length = file.bytes.len() as u64;
        let (from, to) = (offset.min(length), (offset + u64::from(size)).min(length));
        reply.data(&file.bytes[from as usize..to as usize]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write(ino, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino, reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let contents = self.drive.contents();
        let Some(folder) = contents.folder(ino.0) else { return reply.error(Errno::ENOTDIR) };
        let kind = |number| contents.node(number).map(|node| kind_of(&node.kind));
        let entries = folder
            .names
            .iter()
            .filter_map(|(name, number)| Some((name.clone(), *number, kind(*number)?)));
        // The number of a request is never used again.
        let handle = request.unique().0;
        self.lists().insert(handle, entries.collect());
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        FileHandle(handle): FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let lists = self.lists();
        let entries = lists.get(&handle).into_iter().flatten();
        for ((name, number, kind), next) in entries.zip(1..).skip(offset as usize) {
            if reply.add(INodeNo(*number), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        FileHandle(handle): FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.lists().remove(&handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let block = BLOCK as u64;
        let all = self.drive.bytes / block;
        let free = all.saturating_sub(self.drive.contents().used().div_ceil(block));
        let (files, block) = (u64::from(u32::MAX), BLOCK as u32);
        reply.statfs(all, free, free, files, files, block, 255, block);
    }
}
