//! The functions' log: lines of JSON, in a file or on standard output.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use gridpost_core::terminal::shown;
use gridpost_ports::Clock;
use gridpost_runtime::telemetry::without_libraries;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::{MakeWriter, format::Writer, layer, time::FormatTime},
    layer::SubscriberExt,
    util::{SubscriberInitExt, TryInitError},
};

use crate::clock::DevClock;

/// A larger file replaces the previous one, which has its name with `.1`.
const FILE_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

/// A log. Clones share it.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Sink>>);

enum Sink {
    Nowhere,
    Stdout,
    File { path: PathBuf, file: File, bytes: u64, most: u64, is_torn: bool },
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.path()).finish()
    }
}

impl Log {
    /// Makes a log that keeps nothing.
    pub fn nowhere() -> Self {
        Self::of(Sink::Nowhere)
    }

    /// Logs to standard output.
    pub fn stdout() -> Self {
        Self::of(Sink::Stdout)
    }

    /// Logs to a file, which is created if necessary, also after it was removed. At 256 MiB it becomes
    /// `{name}.1`, and a new one begins.
    pub fn file(path: &Path) -> io::Result<Self> {
        Self::file_of(path, FILE_BYTES_MAX)
    }

    fn file_of(path: &Path, most: u64) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        let is_torn = ends_within_a_line(path)?;
        Ok(Self::of(Sink::File { path: path.to_owned(), file, bytes, most, is_torn }))
    }

    fn of(sink: Sink) -> Self {
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Makes this the log of the whole process, filtered by level: `info`, or `filter`, such as
    /// `warn,gridpost_dispatch=debug`; libraries log no more than `info`. Times are by the clock, whose problems come first.
    pub fn start(&self, filter: Option<Targets>, clock: DevClock) -> Result<(), TryInitError> {
        let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
        let filter = without_libraries(filter);
        let lines = layer().json().flatten_event(true).with_current_span(false);
        let lines = lines.with_span_list(false).with_timer(ByClock(clock.clone()));
        let lines = lines.with_writer(self.clone());
        tracing_subscriber::registry().with(filter).with(lines).try_init()?;
        clock.report();
        Ok(())
    }

    /// Writes whole lines. If that fails they are lost: no event waits for the log.
    pub fn write(&self, lines: &str) {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sink.write(lines.as_bytes());
    }

    /// Whether it is written to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(&*self.0.lock().unwrap_or_else(PoisonError::into_inner), Sink::Stdout)
    }

    /// Returns its file, if any.
    fn path(&self) -> Option<PathBuf> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Sink::File { path, .. } => Some(path.clone()),
            Sink::Nowhere | Sink::Stdout => None,
        }
    }
}

impl Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout => {
                io::stdout().write_all(shown(&String::from_utf8_lossy(lines)).as_bytes())
            }
            Self::File { path, file, bytes, most, is_torn } => {
                let was_removed = file.metadata()?.nlink() == 0;
                let is_full = !was_removed && *bytes + lines.len() as u64 > *most;
                if is_full {
                    put_aside(path)?;
                }
                if was_removed || is_full {
                    (*file, *bytes) = open(path)?;
                    *is_torn = false;
                }
                if *is_torn {
                    // A full disk has taken half a line, or the process ended: the next one begins anew.
                    file.write_all(b"\n")?;
                }
                *is_torn = true;
                *bytes += lines.len() as u64;
                file.write_all(lines)?;
                *is_torn = false;
                Ok(())
            }
        }
    }
}

fn ends_within_a_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn put_aside(path: &Path) -> io::Result<()> {
    match fs::rename(path, aside(path)) {
        // It was moved by hand.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// Writes what `tracing` hands over: one whole line.
pub struct Lines(Log);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        Lines(self.clone())
    }
}

struct ByClock(DevClock);

impl FormatTime for ByClock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&self.0.now().to_iso_8601())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs").join("gridpost.log");
        let most = 16 * 1_024;
        let log = Log::file_of(&path, most).expect("a log");
        let line = format!("{}\n", "x".repeat(1_023));
        for _ in 0..=most / 1_024 {
            log.write(&line);
        }
        assert_eq!(fs::metadata(&path).expect("a file").len(), 1_024);
        assert_eq!(fs::metadata(aside(&path)).expect("a file").len(), most);
        let again = Log::file(&path).expect("a log");
        again.write("y\n");
        assert_eq!(fs::metadata(&path).expect("a file").len(), 1_026);
    }

    /// As a full disk does, or the end of the process.
    #[test]
    fn half_a_line_spoils_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gridpost.log");
        fs::write(&path, "one\n{\"half").expect("written");
        let log = Log::file(&path).expect("a log");
        for line in ["two\n", "three\n"] {
            log.write(line);
        }
        let read = fs::read_to_string(&path).expect("a file");
        assert_eq!(read, "one\n{\"half\ntwo\nthree\n");
    }

    #[test]
    fn a_file_that_is_taken_away_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gridpost.log");
        let log = Log::file_of(&path, 10).expect("a log");
        let read = || fs::read_to_string(&path).expect("a file");
        log.write("one\n");
        fs::remove_file(&path).expect("removed");
        log.write("two\n");
        assert_eq!(read(), "two\n");
        // What is moved gets its lines until it is full.
        fs::rename(&path, folder.path().join("elsewhere")).expect("moved");
        for line in ["three\n", "four\n", "five\n"] {
            log.write(line);
        }
        assert_eq!(read(), "four\nfive\n");
        assert!(!aside(&path).exists());
    }
}
