//! Finds messages that crash the process.
//!
//! A bug or the memory it needs may make a message crash the process whenever it is received. Receives
//! are not in the database, so the receive limit never applies, and each new process would crash again.
//! To prevent that, every batch in flight is recorded in a file, without syncing: it must survive the
//! process, not a power failure.
//!
//! If a process crashes soon after its start, the messages it had in flight are *suspects*. The next one
//! receives only suspects at first, one group at a time, of up to [`GROUPS_MAX`]. A crash leaves one
//! group in the file, which the next process splits further. A message that crashes the process
//! [`CRASHES_MAX`] times while it is alone in flight moves to the poison queue. When every group has
//! been tried, receives continue as usual.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

const FILE: &str = "in-flight";

/// Crashes after which a message is poison. Other causes rarely hit a message while it is alone in
/// flight, and never this often.
pub(super) const CRASHES_MAX: u32 = 5;

/// The most groups. Other messages wait up to this many times [`GROUP_WATCHED_FOR`].
const GROUPS_MAX: usize = 10;

/// How long a group in flight is watched. Later crashes are not found.
const GROUP_WATCHED_FOR: Duration = Duration::from_secs(1);
const GROUP_WAIT_MAX: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A later crash is not due to the messages received first.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The size of a slot, which lists one batch.
const SLOT_BYTES: usize = 2_048;

/// The most ids in a slot. Each takes up to 19 bytes: 16 for the id, and `:0 `.
const SLOT_IDS_MAX: usize = 100;
const _: () = assert!(SLOT_IDS_MAX * 19 < SLOT_BYTES && CRASHES_MAX < 10);

/// The first slot of a stable process.
const STABLE: &[u8] = b"stable\n";

/// Suspects that are received together: message ids with the crashes each has caused.
pub(super) type Group = BTreeMap<i64, u32>;

/// Records the batches in flight.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    /// `None` for a database in memory.
    file: Option<File>,
    free: Vec<usize>,
    count: usize,
    trial: HashMap<i64, Suspect>,
}

struct Suspect {
    crashes: u32,
    progress: Progress,
}

#[derive(Clone, Copy)]
enum Progress {
    Released,
    InFlight { slot: usize, since: Instant },
    Settled,
}

/// A batch in flight, until this is dropped.
pub struct InFlightBatch {
    in_flight: Arc<InFlight>,
    slots: Vec<(usize, Vec<i64>)>,
}

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        let mut slots = self.in_flight.slots();
        for (slot, ids) in std::mem::take(&mut self.slots) {
            slots.write(slot, b"\n");
            slots.free.push(slot);
            for id in ids {
                if let Some(suspect) = slots.trial.get_mut(&id) {
                    suspect.progress = Progress::Settled;
                }
            }
        }
    }
}

impl InFlight {
    /// Opens the file. Returns the suspects that the previous process left.
    pub(super) fn open(folder: Option<&Path>) -> io::Result<(Self, Vec<Group>)> {
        let Some(folder) = folder else { return Ok(Default::default()) };
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(folder.join(FILE))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // If this process crashes before its first receive, the next one has no suspects.
        file.set_len(0)?;
        let slots = Slots { file: Some(file), ..Slots::default() };
        Ok((Self(Mutex::new(slots)), suspects(&bytes)))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().expect("no panic while held")
    }

    pub(super) fn record(self: &Arc<Self>, ids: &[i64]) -> InFlightBatch {
        let mut slots = self.slots();
        let ids = if slots.file.is_none() { &[] } else { ids };
        let used = ids.chunks(SLOT_IDS_MAX).map(|ids| (slots.take(ids), ids.to_vec())).collect();
        drop(slots);
        InFlightBatch { in_flight: Arc::clone(self), slots: used }
    }

    /// Releases a group, and waits until its messages are settled or were in flight for
    /// [`GROUP_WATCHED_FOR`].
    pub(super) async fn try_group(&self, group: Group, release: impl FnOnce(&Group)) {
        let suspect = |(id, crashes): (&i64, &u32)| {
            (*id, Suspect { crashes: *crashes, progress: Progress::Released })
        };
        self.slots().trial = group.iter().map(suspect).collect();
        release(&group);
        let until = Instant::now() + GROUP_WAIT_MAX;
        while Instant::now() < until && self.slots().trial.values().any(Suspect::is_pending) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.slots().end_trial();
    }

    /// Records that the process is stable: a later crash makes no suspects.
    pub(super) fn mark_stable(&self) {
        self.slots().write(0, STABLE);
    }
}

impl Suspect {
    fn is_pending(&self) -> bool {
        match self.progress {
            Progress::Released => true,
            Progress::InFlight { since, .. } => since.elapsed() < GROUP_WATCHED_FOR,
            Progress::Settled => false,
        }
    }
}

impl Slots {
    /// Writes the ids of a batch into a free slot, and returns its number.
    fn take(&mut self, ids: &[i64]) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            // Slot 0 says whether the process is stable.
            self.count += 1;
            self.count
        });
        let is_alone = self.trial.len() == 1;
        let mut text = String::with_capacity(SLOT_BYTES);
        for id in ids {
            // Counts the crash in advance. The slot is overwritten if none follows.
            let crashes = self.trial.get_mut(id).map_or(0, |suspect| {
                suspect.progress = Progress::InFlight { slot, since: Instant::now() };
                suspect.crashes + u32::from(is_alone)
            });
            text.push_str(&format!("{id:x}:{crashes} "));
        }
        text.push('\n');
        self.write(slot, text.as_bytes());
        slot
    }

    /// Resets the crashes of suspects still in flight: the process survived them.
    fn end_trial(&mut self) {
        let mut survived: BTreeMap<usize, String> = BTreeMap::new();
        for (id, suspect) in std::mem::take(&mut self.trial) {
            if let Progress::InFlight { slot, .. } = suspect.progress {
                survived.entry(slot).or_default().push_str(&format!("{id:x}:0 "));
            }
        }
        for (slot, ids) in survived {
            self.write(slot, format!("{ids}\n").as_bytes());
        }
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let start = SeekFrom::Start((slot * SLOT_BYTES) as u64);
        let written = file.seek(start).and_then(|_| file.write_all(bytes));
        if let Err(error) = written {
            // Delivery does not depend on this file.
            tracing::debug!(%error, "failed to record which messages are in flight");
        }
    }
}

/// Reads the suspects of the previous process, in groups; none if it was stable.
fn suspects(bytes: &[u8]) -> Vec<Group> {
    if bytes.starts_with(STABLE) {
        return Vec::new();
    }
    let read = |entry: &str| {
        let (id, crashes) = entry.split_once(':')?;
        Some((i64::from_str_radix(id, 16).ok()?, crashes.parse().ok()?))
    };
    let mut all: Vec<(i64, u32)> = Vec::new();
    for slot in bytes.chunks(SLOT_BYTES).skip(1) {
        let line = slot.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line).unwrap_or_default();
        all.extend(line.split(' ').filter_map(read));
    }
    // A message that has crashed the process while alone comes first, and alone again.
    all.sort_by_key(|(_, crashes)| std::cmp::Reverse(*crashes));
    let (crashed, others) = all.split_at(all.partition_point(|(_, crashes)| *crashes > 0));
    let size = others.len().div_ceil(GROUPS_MAX).max(1);
    let groups = crashed.chunks(1).chain(others.chunks(size));
    groups.map(|group| group.iter().copied().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> (Arc<InFlight>, Vec<Group>) {
        let (in_flight, suspects) = InFlight::open(Some(folder)).expect("a file");
        (Arc::new(in_flight), suspects)
    }

    #[test]
    fn messages_in_flight_at_a_crash_are_suspects() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, none) = open(folder.path());
        assert_eq!(none, []);
        let settled = first.record(&[7, 8]);
        let ids: Vec<_> = (100..150).collect();
        std::mem::forget(first.record(&ids));
        drop(settled);
        // This batch reuses the free slot.
        std::mem::forget(first.record(&[i64::MAX]));
        let (second, suspects) = open(folder.path());
        let found: Vec<_> = suspects.iter().flat_map(|group| group.keys().copied()).collect();
        assert_eq!((suspects.len(), found.len()), (9, 1 + ids.len()), "groups of six");
        assert!(found.contains(&i64::MAX) && ids.iter().all(|id| found.contains(id)));
        std::mem::forget(second.record(&[7]));
        second.mark_stable();
        assert_eq!(open(folder.path()).1, [], "a stable process leaves no suspects");
    }

    #[test]
    fn a_damaged_file_is_read_as_far_as_possible() {
        let mut slots = vec![0; 3 * SLOT_BYTES];
        slots[SLOT_BYTES..SLOT_BYTES + 21].copy_from_slice(b"1f:2 x:y 2: :3 zz 5:1");
        slots[2 * SLOT_BYTES] = 0xff;
        let want = [Group::from([(0x1f, 2)])];
        assert_eq!(suspects(&slots[..SLOT_BYTES + 9]), want);
        for cut in [0, 3, SLOT_BYTES] {
            assert_eq!(suspects(&slots[..cut]), []);
        }
        assert_eq!(suspects(&slots).len(), 1, "the last entry has no end");
    }
}
