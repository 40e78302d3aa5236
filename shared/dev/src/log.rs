//! What the functions log: lines of JSON, to a file or to standard output.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use gridpost_ports::Clock;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::{MakeWriter, format::Writer, layer, time::FormatTime},
    layer::SubscriberExt,
    util::{SubscriberInitExt, TryInitError},
};

use crate::clock::DevClock;

/// A file of more bytes is put aside, in the place of the one before it.
const FILE_BYTES_MAX: u64 = 64 * 1_024 * 1_024;

/// Where lines go. Clones share it.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Sink>>);

enum Sink {
    Nowhere,
    Stdout,
    File { path: PathBuf, file: File, bytes: u64 },
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.path()).finish()
    }
}

impl Log {
    /// A log that keeps nothing.
    pub fn nowhere() -> Self {
        Self::of(Sink::Nowhere)
    }

    /// Standard output.
    pub fn stdout() -> Self {
        Self::of(Sink::Stdout)
    }

    /// A file, which is made or appended to. At 64 MiB it becomes `{name}.1`, and a new one begins.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn file(path: &Path) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        Ok(Self::of(Sink::File { path: path.to_owned(), file, bytes }))
    }

    fn of(sink: Sink) -> Self {
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Makes this the log of the whole process, filtered by level: `info`, or what `filter` says, such as
    /// `warn,gridpost_dispatch_handler=debug`. Times are those of the process's own clock.
    ///
    /// # Errors
    ///
    /// The process logs elsewhere already.
    pub fn start(&self, filter: Option<Targets>, clock: DevClock) -> Result<(), TryInitError> {
        let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
        let lines = layer().json().flatten_event(true).with_current_span(false);
        let lines = lines.with_span_list(false).with_timer(ByClock(clock));
        let lines = lines.with_writer(self.clone());
        tracing_subscriber::registry().with(filter).with(lines).try_init()
    }

    /// Writes whole lines. A log that can't be written loses them: no event waits for it.
    pub fn write(&self, lines: &str) {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sink.write(lines.as_bytes());
    }

    /// Its file, if it is one.
    pub fn path(&self) -> Option<PathBuf> {
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
            Self::Stdout => io::stdout().write_all(lines),
            Self::File { path, file, bytes } => {
                if *bytes + lines.len() as u64 > FILE_BYTES_MAX {
                    fs::rename(&*path, aside(path))?;
                    (*file, *bytes) = open(path)?;
                }
                *bytes += lines.len() as u64;
                file.write_all(lines)
            }
        }
    }
}

/// Where a full file goes.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// One line at a time: `tracing` hands over whole ones.
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
        let log = Log::file(&path).expect("a log");
        let line = format!("{}\n", "x".repeat(1_023));
        for _ in 0..=FILE_BYTES_MAX / 1_024 {
            log.write(&line);
        }
        assert_eq!(fs::metadata(&path).expect("a file").len(), 1_024);
        assert_eq!(fs::metadata(aside(&path)).expect("a file").len(), FILE_BYTES_MAX);
        let again = Log::file(&path).expect("a log");
        again.write("y\n");
        assert_eq!(fs::metadata(&path).expect("a file").len(), 1_026);
    }
}
