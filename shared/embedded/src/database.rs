//! The database. One connection writes, and commits waiting writes together; others read. One process
//! at a time holds its folder.
//!
//! On disk, a dedicated thread writes. While the disk is full, the writes of deliveries wait there, and others
//! fail. In memory, all calls share one connection on the caller's thread: there is no disk to wait for, and
//! tokio's paused clock stays still.

use std::{
    fs::{self, File, TryLockError},
    io, marker,
    panic::{self, AssertUnwindSafe},
    path::{self, Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use gridpost_core::time::Timestamp;
use gridpost_ports::{Clock, PortError, guard::said};
use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    expiry::{self, Sweeps},
    form::make_tables,
    journal::{Chores, JournalWriter, Limits},
    leases,
    named::{note_of, set_note},
    options::{OpenError, Options, Sync},
    seal::{SealError, seal_all},
};

const FILE: &str = "gridpost.sqlite";

/// The file whose lock marks the folder as open.
const LOCK: &str = "lock";
const TOGETHER_MAX: usize = 1_024;

/// How often writes that wait for room on the disk are tried again, and after how many failures in a row the
/// others are not tried this time.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(200);
const FAILURES_MAX: usize = 16;
const STATEMENTS: usize = 96;

/// How long to wait for another program's lock, such as an operator's.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// At most so many connections read on threads of their own, with two descriptors each; and how many idle ones
/// are kept, those of other threads included.
const READERS_MAX: usize = 8;
const READERS_KEPT: usize = 10;

const TIME: &str = "time";

/// How far the saved time may lag during writes, in milliseconds.
const TIME_LAG_MS: i64 = 1_000;
const OPENED: &str = "opened";

/// What each opening in memory adds to the number of the one before: as if it had lasted for a quarter of an hour.
const IN_MEMORY_STEP: i64 = 1 << 20;

pub(crate) struct Database {
    access: Access,
    /// When it was last used before this opening.
    pub(crate) last_seen: Option<Timestamp>,
    /// Numbers openings, this one included: by the machine's milliseconds, so that a copy of the folder that is
    /// restored later goes on behind all that the original has numbered meanwhile.
    pub(crate) opened: i64,
    pub(crate) journal: Arc<JournalWriter>,
    writer: Arc<Writer>,
    reads: Arc<Semaphore>,
}

/// A locked database without a clock yet.
pub(crate) struct Prepared {
    connection: Connection,
    file: Option<PathBuf>,
    /// The folder's lock, which the operating system releases with the process.
    lock: Option<File>,
    /// The latest time that the last process saved.
    pub(crate) last_seen: Option<Timestamp>,
}

enum Access {
    Memory(Mutex<Option<Connection>>),
    Disk {
        jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
        thread: Mutex<Option<thread::JoinHandle<()>>>,
        /// Is closed when the thread ends.
        ended: Mutex<Option<oneshot::Receiver<()>>>,
        readers: Mutex<Option<Vec<Connection>>>,
        file: PathBuf,
    },
}

struct Writer {
    /// Runs after each commit, when all its writes are settled.
    after: OnceLock<Box<dyn Fn() + Send + marker::Sync>>,
    clock: Arc<dyn Clock>,
    /// The last saved time.
    noted: AtomicI64,
    sweeps: Mutex<Sweeps>,
    journal: Arc<JournalWriter>,
    commits: AtomicU64,
    /// Writes that are not settled.
    pending: AtomicUsize,
    is_full: AtomicBool,
}

/// Locks a folder, creating it if necessary.
fn lock_folder(folder: &Path) -> Result<File, OpenError> {
    let failed = |error| OpenError::Folder(folder.to_owned(), error);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut options = File::options();
    let file = options.create(true).write(true).truncate(false).open(folder.join(LOCK));
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Syncs the names of the database's files and of its folder, which may be new, to the disk.
fn sync_names(folder: &Path) -> io::Result<()> {
    let sync = |folder: &Path| File::open(folder)?.sync_all();
    sync(folder)?;
    // Those that can't be synced, as of an automounter, were not made just now.
    path::absolute(folder)?.ancestors().skip(1).for_each(|above| _ = sync(above));
    Ok(())
}

impl Prepared {
    pub(crate) fn of(options: &Options) -> Result<Self, OpenError> {
        let (folder, sync) = (options.folder.as_deref(), options.sync);
        let lock = folder.map(lock_folder).transpose()?;
        let file = folder.map(|folder| folder.join(FILE));
        let connection = match &file {
            Some(file) => Connection::open(file)?,
            None => Connection::open_in_memory()?,
        };
        set_up(&connection, sync)?;
        let place = folder.unwrap_or(Path::new("memory"));
        make_tables(&connection, place)?;
        seal_all(&connection, &options.sealer).map_err(|error| match error {
            SealError::Sealed(sealed) => OpenError::Sealed(sealed),
            SealError::Database(error) => OpenError::Database(error),
        })?;
        if let Some(folder) = folder.filter(|_| sync == Sync::Full) {
            sync_names(folder).map_err(|error| OpenError::Folder(folder.to_owned(), error))?;
        }
        Self::with(connection, file, lock)
    }

    fn with(
        connection: Connection,
        file: Option<PathBuf>,
        lock: Option<File>,
    ) -> Result<Self, OpenError> {
        leases::end_all(&connection)?;
        let last_seen = note_of(&connection, TIME)?.map(Timestamp::from_millis);
        Ok(Self { connection, file, lock, last_seen })
    }
}

impl Database {
    pub(crate) fn open(
        prepared: Prepared,
        clock: Arc<dyn Clock>,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let journal = Arc::new(JournalWriter::new(Limits::of(options)));
        let Prepared { connection, file, lock, last_seen } = prepared;
        let before = note_of(&connection, OPENED)?.unwrap_or(0);
        let opened = match file {
            Some(_) => clock.machine().as_millis().max(before + 1),
            None => before + IN_MEMORY_STEP,
        };
        set_note(&connection, OPENED, opened)?;
        let noted = last_seen.map_or(i64::MIN, Timestamp::as_millis).min(clock.now().as_millis());
        if last_seen.is_some_and(|seen| seen.as_millis() > noted) {
            // The clock was put back on purpose: the next process must not go on from before.
            set_note(&connection, TIME, noted)?;
        }
        let writer = Arc::new(Writer {
            after: OnceLock::new(),
            clock,
            noted: AtomicI64::new(noted),
            sweeps: Mutex::default(),
            journal: Arc::clone(&journal),
            commits: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
        });
        let access = match (file, lock) {
            (Some(file), Some(lock)) => begin(connection, file, lock, Arc::clone(&writer))?,
            _ => Access::Memory(Mutex::new(Some(connection))),
        };
        let reads = Arc::new(Semaphore::new(READERS_MAX));
        Ok(Self { access, last_seen, opened, journal, writer, reads })
    }

    /// Closes a database in memory and returns it for the next process.
    pub(crate) fn hand_on(&self) -> Result<Prepared, OpenError> {
        let connection = match &self.access {
            Access::Memory(connection) => lock(connection).take(),
            Access::Disk { .. } => None,
        };
        Prepared::with(connection.ok_or(rusqlite::Error::InvalidQuery)?, None, None)
    }

    /// Sets the callback that runs after each commit. Only the first call counts.
    pub(crate) fn after_each_commit(&self, work: impl Fn() + Send + marker::Sync + 'static) {
        let _ = self.writer.after.set(Box::new(work));
    }

    /// Counts commits since it was opened.
    pub(crate) fn commits(&self) -> u64 {
        self.writer.commits.load(Ordering::Relaxed)
    }

    /// Returns how many writes are not settled.
    pub(crate) fn pending(&self) -> usize {
        self.writer.pending.load(Ordering::Relaxed)
    }

    /// Whether the latest write found no room on the disk.
    pub(crate) fn is_full(&self) -> bool {
        self.writer.is_full.load(Ordering::Relaxed)
    }

    /// Writes, and returns when committed. While the disk is full it waits, and is done again from the start:
    /// what was delivered must not be delivered again for that. [`whole`] unites several statements.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, PortError> {
        self.write_then(call, OnFullDisk::Wait, work, |worked| worked).await
    }

    /// [`Self::write`], with `then` run once it is committed, before any later write, even if the
    /// caller has gone.
    pub(crate) async fn write_then<T: Send + 'static, U: Send + 'static>(
        &self,
        call: &'static str,
        full_disk: OnFullDisk,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(T) -> U + Send + 'static,
    ) -> Result<U, PortError> {
        let (answer, answered) = oneshot::channel();
        let task =
            Task { call, full_disk, work, worked: None::<rusqlite::Result<T>>, then, answer };
        let task: Box<dyn Job> = Box::new(task);
        match &self.access {
            Access::Memory(connection) => {
                let connection = lock(connection);
                let connection = connection.as_ref().ok_or_else(|| closed(call))?;
                self.writer.pending.fetch_add(1, Ordering::Relaxed);
                let left = self.writer.commit(connection, vec![task], Chores::Now);
                self.writer.settle(left, Err(DISK_IS_FULL));
            }
            Access::Disk { jobs, .. } => {
                self.writer.pending.fetch_add(1, Ordering::Relaxed);
                let sent = lock(jobs).as_ref().map(|jobs| jobs.send(task).is_ok());
                if sent != Some(true) {
                    self.writer.pending.fetch_sub(1, Ordering::Relaxed);
                    return Err(closed(call));
                }
            }
        }
        answered.await.unwrap_or_else(|_| Err(closed(call)))
    }

    /// Reads a few committed rows by their keys, on the caller's thread.
    pub(crate) fn read<T>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, PortError> {
        let failed = |error| PortError::new(call, error);
        match &self.access {
            Access::Memory(connection) => {
                let connection = lock(connection);
                work(connection.as_ref().ok_or_else(|| closed(call))?).map_err(failed)
            }
            Access::Disk { readers, file, .. } => {
                let kept = lock(readers).as_mut().ok_or_else(|| closed(call))?.pop();
                let connection = kept.map_or_else(|| reader(file), Ok).map_err(failed)?;
                let found = work(&connection).map_err(failed);
                match &mut *lock(readers) {
                    Some(kept) if kept.len() < READERS_KEPT => kept.push(connection),
                    _ => drop(connection),
                }
                found
            }
        }
    }

    /// Reads many committed rows: from the disk on a thread that may block.
    pub(crate) async fn read_much<T: Send + 'static>(
        self: &Arc<Self>,
        call: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, PortError> {
        if matches!(self.access, Access::Memory(_)) {
            return self.read(call, work);
        }
        let one_of_few = Arc::clone(&self.reads).acquire_owned().await;
        let database = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            // Held for as long as it reads, which may be longer than for its caller.
            let _one_of_few = one_of_few;
            database.read(call, work)
        });
        read.await.unwrap_or_else(|error| Err(PortError::new(call, error)))
    }

    /// Reads while the stores are opened.
    pub(crate) fn look<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, OpenError> {
        match &self.access {
            Access::Memory(connection) => {
                let connection = lock(connection);
                Ok(work(connection.as_ref().ok_or(rusqlite::Error::InvalidQuery)?)?)
            }
            Access::Disk { file, .. } => Ok(work(&reader(file)?)?),
        }
    }

    /// Fails if the database is closed.
    pub(crate) fn check(&self, call: &'static str) -> Result<(), PortError> {
        let is_open = match &self.access {
            Access::Memory(connection) => lock(connection).is_some(),
            Access::Disk { jobs, .. } => lock(jobs).is_some(),
        };
        is_open.then_some(()).ok_or_else(|| closed(call))
    }

    /// Waits until the thread that writes has ended: without it, every later write fails.
    pub(crate) async fn writer_ended(&self) {
        let ended = match &self.access {
            Access::Memory(_) => None,
            Access::Disk { ended, .. } => lock(ended).take(),
        };
        match ended {
            Some(ended) => _ = ended.await,
            None => std::future::pending().await,
        }
    }

    /// Finishes pending writes and closes, blocking. Later calls fail.
    pub(crate) fn close(&self) {
        match &self.access {
            Access::Memory(connection) => drop(lock(connection).take()),
            Access::Disk { jobs, thread, readers, .. } => {
                drop(lock(jobs).take());
                drop(lock(readers).take());
                let thread = lock(thread).take();
                if thread.is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the thread that writes has panicked");
                }
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a write does on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFullDisk {
    /// Waits for room.
    Wait,
    /// Fails at once: a publisher asks again, and others wait for the room.
    Fail,
}

/// Why a transaction failed.
enum Failure {
    FullDisk,
    Other(String),
}

const DISK_IS_FULL: &str = "the disk is full";

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        if is_full_disk(&error) { Self::FullDisk } else { Self::Other(error.to_string()) }
    }
}

pub(crate) fn is_full_disk(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error();
    code.is_some_and(|code| {
        // The others are said where a quota is used up, and of the log's index, a file that grows with it.
        let others = [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE];
        code.code == ErrorCode::DiskFull || others.contains(&code.extended_code)
    })
}

/// A write that shares a transaction with others.
trait Job: Send {
    /// Writes without committing. Fails where the disk is full; other failures are reported on settling.
    fn run(&mut self, connection: &Connection) -> Result<(), Failure>;

    fn on_full_disk(&self) -> OnFullDisk;

    fn settle(self: Box<Self>, committed: Result<(), &str>);
}

struct Task<W, T, A, U> {
    call: &'static str,
    full_disk: OnFullDisk,
    work: W,
    worked: Option<rusqlite::Result<T>>,
    then: A,
    answer: oneshot::Sender<Result<U, PortError>>,
}

impl<W, T, A, U> Job for Task<W, T, A, U>
where
    W: FnMut(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
    A: FnOnce(T) -> U + Send,
    U: Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), Failure> {
        let worked = (self.work)(connection);
        let is_full = worked.as_ref().is_err_and(is_full_disk);
        self.worked = Some(worked).filter(|_| !is_full);
        if is_full { Err(Failure::FullDisk) } else { Ok(()) }
    }

    fn on_full_disk(&self) -> OnFullDisk {
        self.full_disk
    }

    fn settle(self: Box<Self>, committed: Result<(), &str>) {
        let Self { call, work, worked, then, answer, .. } = *self;
        // What it holds goes first: `then` may be its only owner.
        drop(work);
        let answered = match (committed, worked) {
            (Ok(()), Some(Ok(worked))) => Ok(then(worked)),
            (_, Some(Err(error))) => Err(PortError::new(call, error)),
            (Err(reason), _) => Err(PortError::new(call, reason)),
            (Ok(()), None) => Err(PortError::new(call, "it was not written")),
        };
        // The caller may have gone; the write is done.
        let _ = answer.send(answered);
    }
}

impl Writer {
    /// Commits writes together. Returns those that wait, if the disk is full.
    fn commit(
        &self,
        connection: &Connection,
        mut jobs: Vec<Box<dyn Job>>,
        chores: Chores,
    ) -> Vec<Box<dyn Job>> {
        // One that panics fails those that share its transaction, and no others.
        let all = AssertUnwindSafe(|| self.commit_all(connection, &mut jobs, chores));
        let committed = panic::catch_unwind(all).unwrap_or_else(|panic| {
            let reason = format!("a write panicked: {}", said(&*panic));
            tracing::error!("{reason}");
            Err(Failure::Other(reason))
        });
        if committed.is_err() && !connection.is_autocommit() {
            // Fails if SQLite has rolled back by itself.
            let _ = connection.execute_batch("ROLLBACK");
        }
        let (waiting, reason) = match committed {
            Ok(()) => (Vec::new(), None),
            Err(Failure::Other(reason)) => (Vec::new(), Some(reason)),
            Err(Failure::FullDisk) => {
                let waiting = jobs.extract_if(.., |job| job.on_full_disk() == OnFullDisk::Wait);
                (waiting.collect(), Some(DISK_IS_FULL.to_owned()))
            }
        };
        let again_at = (!waiting.is_empty()).then(|| self.clock.now());
        self.journal.settle(reason.is_none(), again_at);
        self.settle(jobs, reason.as_deref().map_or(Ok(()), Err));
        if let Some(after) = self.after.get() {
            after();
        }
        waiting
    }

    /// Commits writes one by one, as far as the disk has room: a large one must not hold up the small ones that
    /// make room. Returns those that wait.
    fn commit_each(&self, connection: &Connection, jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let (mut failed, mut failures) = (Vec::new(), 0);
        let mut jobs = jobs.into_iter();
        while failures < FAILURES_MAX
            && let Some(job) = jobs.next()
        {
            let left = self.commit(connection, vec![job], Chores::Later);
            failures = if left.is_empty() { 0 } else { failures + 1 };
            failed.extend(left);
        }
        // Those that were not tried come first the next time.
        jobs.chain(failed).collect()
    }

    fn settle(&self, jobs: Vec<Box<dyn Job>>, committed: Result<(), &str>) {
        self.pending.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs.into_iter().for_each(|job| job.settle(committed));
    }

    fn commit_all(
        &self,
        connection: &Connection,
        jobs: &mut [Box<dyn Job>],
        chores: Chores,
    ) -> Result<(), Failure> {
        let execute = |sql| {
            connection
                .prepare_cached(sql)
                .and_then(|mut sql| sql.execute([]))
                .map_err(Failure::from)
        };
        execute("BEGIN IMMEDIATE")?;
        for job in jobs {
            job.run(connection)?;
            // An error such as a failing disk rolls back the whole transaction.
            if connection.is_autocommit() {
                return Err(Failure::Other("the transaction was rolled back".to_owned()));
            }
        }
        let now = self.clock.now();
        let written = self.journal.write(connection, now, chores).map_err(Failure::from);
        written.map_err(|failure| match failure {
            Failure::Other(reason) => Failure::Other(format!("the journal: {reason}")),
            Failure::FullDisk => Failure::FullDisk,
        })?;
        self.note_time(connection)?;
        if chores == Chores::Now {
            self.forget(connection)?;
        }
        execute("COMMIT")?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn note_time(&self, connection: &Connection) -> rusqlite::Result<()> {
        let now = self.clock.now().as_millis();
        if now < self.noted.load(Ordering::Relaxed).saturating_add(TIME_LAG_MS) {
            return Ok(());
        }
        set_note(connection, TIME, now)?;
        self.noted.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Removes expired rows now and then. Failures are retried the next time; a full disk fails the transaction,
    /// which is then done without.
    fn forget(&self, connection: &Connection) -> Result<(), Failure> {
        let now = self.clock.now();
        let mut sweeps = lock(&self.sweeps);
        let Some(sweep) = sweeps.commit(now) else { return Ok(()) };
        let swept = expiry::forget(connection, now, sweep);
        sweeps.swept(now, matches!(swept, Ok(true)));
        match swept {
            Ok(_) => Ok(()),
            Err(error) if is_full_disk(&error) => Err(Failure::FullDisk),
            Err(error) => {
                tracing::warn!(%error, "failed to remove expired rows");
                Ok(())
            }
        }
    }

    fn work(&self, connection: &Connection, received: &mpsc::Receiver<Box<dyn Job>>) {
        // Some wait for room on the disk.
        let mut jobs = Vec::new();
        loop {
            let next = match jobs.is_empty() {
                true => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => received.recv_timeout(TRIED_AGAIN_AFTER),
            };
            match next {
                Ok(job) => jobs.push(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            jobs.extend(received.try_iter().take(TOGETHER_MAX.saturating_sub(jobs.len())));
            let waiting = self.commit(connection, jobs, Chores::Now);
            if !waiting.is_empty() {
                // The log is on the disk already: from its beginning it has room, if all of it is in the database.
                let _ = connection.execute_batch("PRAGMA wal_checkpoint(RESTART)");
            }
            jobs = self.commit_each(connection, waiting);
            let is_full = !jobs.is_empty();
            if self.is_full.swap(is_full, Ordering::Relaxed) != is_full {
                match is_full {
                    true => tracing::error!("the disk is full: deliveries wait for room"),
                    false => tracing::warn!("the disk has room again: deliveries go on"),
                }
            }
        }
        self.settle(jobs, Err(DISK_IS_FULL));
    }
}

/// Starts the writing thread, which holds the folder's lock.
fn begin(
    connection: Connection,
    file: PathBuf,
    lock: File,
    writer: Arc<Writer>,
) -> Result<Access, OpenError> {
    let (jobs, received) = mpsc::channel();
    let (ends, ended) = oneshot::channel();
    let folder = file.clone();
    let work = move || {
        // Dropped with this closure, after a panic, too.
        let _ends: oneshot::Sender<()> = ends;
        writer.work(&connection, &received);
        // Moves the log into the database file. A remainder is read at the next start.
        if let Err(error) = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::debug!(%error, "the log is left as it is");
        }
        drop(connection);
        drop(lock);
    };
    let thread = thread::Builder::new().name("gridpost-writer".to_owned()).spawn(work);
    let thread = thread.map_err(|error| OpenError::Folder(folder, error))?;
    Ok(Access::Disk {
        jobs: Mutex::new(Some(jobs)),
        thread: Mutex::new(Some(thread)),
        ended: Mutex::new(Some(ended)),
        readers: Mutex::new(Some(Vec::new())),
        file,
    })
}

fn set_up(connection: &Connection, sync: Sync) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Only so can free pages be given back. It counts in a new file alone, before anything is written to that.
    // Source: SQLite, "PRAGMA auto_vacuum".
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    // In memory there is no log; the answer says so, without an error.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // With a log, NORMAL loses the latest commits only on power loss, never with the process.
    // Source: SQLite, "PRAGMA synchronous".
    let synchronous = match sync {
        Sync::Normal => "NORMAL",
        Sync::Full => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    if sync == Sync::Full {
        // macOS answers fsync before the disk has it; elsewhere these two do nothing.
        // Source: SQLite, "PRAGMA fullfsync".
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    // 16 MB of log: what was sent and deleted meanwhile is never written to the database file.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 4_000, |_| Ok(()))?;
    // After a burst the log is cut to this.
    connection
        .pragma_update_and_check(None, "journal_size_limit", 64 * 1_024 * 1_024, |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", -8_000)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

fn reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Runs statements as one unit within the transaction, by a savepoint.
pub(crate) fn whole<T>(
    connection: &Connection,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.prepare_cached("SAVEPOINT whole")?.execute([])?;
    let worked = work();
    if worked.is_err() && !connection.is_autocommit() {
        connection.prepare_cached("ROLLBACK TO whole")?.execute([])?;
    }
    if !connection.is_autocommit() {
        connection.prepare_cached("RELEASE whole")?.execute([])?;
    }
    worked
}

fn closed(call: &'static str) -> PortError {
    PortError::new(call, "the stores are closed")
}

#[cfg(test)]
mod tests;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
