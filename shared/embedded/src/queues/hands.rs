//! Which messages are in hand, in a file: what the process was at when it ended is known to the next.
//!
//! A message may end the process each time it is handed out: by a defect, or the memory that it
//! takes. A receive writes nothing to the database, so such a message would be handed out after each
//! start, for ever, and all queues would stand still. A batch is noted here instead, without waiting for
//! the disk: the file is for the end of a process, not of the machine.
//!
//! Where a process ends soon after its start, what it had in hand is *suspected*. The next one tries
//! that first, in at most [`PARTS`] parts, one after the other, and hands out nothing else meanwhile:
//! so the part that ends the process is all that it had in hand, and is divided by the next one. A
//! message that has done so [`DEATHS_MAX`] times, alone, goes to the poison queue. What has been tried
//! is handed out as ever.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

/// The name of the file in its folder.
const FILE: &str = "in-hand";

/// How often a message ends the process, alone, before it is taken for poison. A process that is
/// killed by others has rarely the same one alone in hand, and never so often.
pub(super) const DEATHS_MAX: u32 = 5;

/// In how many parts suspects are tried: so many times [`WATCHED_FOR`] all else waits at most.
const PARTS: usize = 10;

/// How long a part that is in hand is watched before the next one is shown. What ends the process later
/// than that is not found.
const WATCHED_FOR: Duration = Duration::from_secs(1);

/// How long a part is waited for in all: nothing else is in hand but what was tried before.
const WAITED_FOR: Duration = Duration::from_secs(10);

/// How often one looks whether it has been settled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process that has lived so long has not died of what it was handed at its start.
pub(super) const YOUNG_FOR: Duration = Duration::from_secs(60);

/// Bytes of a slot, which has the ids of one batch.
const SLOT_BYTES: usize = 2_048;

/// Ids of a slot, 19 characters each at most: 16 of the id, two of its deaths, and what parts them.
const SLOT_IDS: usize = 100;
const _: () = assert!(SLOT_IDS * 19 < SLOT_BYTES && DEATHS_MAX < 10);

/// What the first slot says of a process that is not young any more.
const OLD: &[u8] = b"old\n";

/// Messages by their ids, with how often each has ended the process alone.
pub(super) type Part = BTreeMap<i64, u32>;

/// What is in hand.
#[derive(Default)]
pub(crate) struct Hands(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    /// None in memory, where nothing outlives the process.
    file: Option<File>,
    free: Vec<usize>,
    slots: usize,
    /// The suspects that are shown now.
    shown: HashMap<i64, Suspect>,
}

struct Suspect {
    deaths: u32,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    Shown,
    InHand { slot: usize, since: Instant },
    Settled,
}

/// A batch that is in hand until this is dropped.
pub struct InHand {
    hands: Arc<Hands>,
    slots: Vec<(usize, Vec<i64>)>,
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut noted = self.hands.noted();
        for (slot, ids) in std::mem::take(&mut self.slots) {
            noted.write(slot, b"\n");
            noted.free.push(slot);
            for id in ids {
                if let Some(suspect) = noted.shown.get_mut(&id) {
                    suspect.stage = Stage::Settled;
                }
            }
        }
    }
}

impl Hands {
    /// Opens the file of a folder. Returns the suspects, if the process before has ended soon.
    pub(super) fn open(folder: Option<&Path>) -> io::Result<(Self, Vec<Part>)> {
        let Some(folder) = folder else { return Ok(Default::default()) };
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(folder.join(FILE))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // Until this one has noted something, it may end without a trace: then nobody is suspected.
        file.set_len(0)?;
        let noted = Noted { file: Some(file), ..Noted::default() };
        Ok((Self(Mutex::new(noted)), suspects(&bytes)))
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().expect("no panic while held")
    }

    /// Notes a batch.
    pub(super) fn hold(self: &Arc<Self>, ids: &[i64]) -> InHand {
        let mut noted = self.noted();
        let slots = if noted.file.is_none() { &[] } else { ids };
        let slots = slots.chunks(SLOT_IDS).map(|ids| (noted.take(ids), ids.to_vec())).collect();
        drop(noted);
        InHand { hands: Arc::clone(self), slots }
    }

    /// Watches suspects that were shown, until they are settled or have been in hand for a while.
    pub(super) async fn watch(&self, part: Part, show: impl FnOnce(&Part)) {
        let shown =
            |(id, deaths): (&i64, &u32)| (*id, Suspect { deaths: *deaths, stage: Stage::Shown });
        self.noted().shown = part.iter().map(shown).collect();
        show(&part);
        let until = Instant::now() + WAITED_FOR;
        while Instant::now() < until && self.noted().shown.values().any(Suspect::is_open) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.noted().acquit();
    }

    /// Notes that the process is not young any more: what it dies of now is nobody's fault.
    pub(super) fn grow_old(&self) {
        self.noted().write(0, OLD);
    }
}

impl Suspect {
    /// Whether it is not yet known what comes of it.
    fn is_open(&self) -> bool {
        match self.stage {
            Stage::Shown => true,
            Stage::InHand { since, .. } => since.elapsed() < WATCHED_FOR,
            Stage::Settled => false,
        }
    }
}

impl Noted {
    /// Writes the ids of a batch into a free slot.
    fn take(&mut self, ids: &[i64]) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            // The first one says how old the process is.
            self.slots
        });
        let is_alone = self.shown.len() == 1;
        let mut text = String::with_capacity(SLOT_BYTES);
        for id in ids {
            let deaths = self.shown.get_mut(id).map_or(0, |suspect| {
                suspect.stage = Stage::InHand { slot, since: Instant::now() };
                suspect.deaths + u32::from(is_alone)
            });
            text.push_str(&format!("{id:x}:{deaths} "));
        }
        text.push('\n');
        self.write(slot, text.as_bytes());
        slot
    }

    /// What has outlived its trial has not ended the process so far, be it still in hand.
    fn acquit(&mut self) {
        let mut slots: BTreeMap<usize, String> = BTreeMap::new();
        for (id, suspect) in std::mem::take(&mut self.shown) {
            if let Stage::InHand { slot, .. } = suspect.stage {
                slots.entry(slot).or_default().push_str(&format!("{id:x}:0 "));
            }
        }
        slots.into_iter().for_each(|(slot, ids)| self.write(slot, format!("{ids}\n").as_bytes()));
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let place = SeekFrom::Start((slot * SLOT_BYTES) as u64);
        let written = file.seek(place).and_then(|_| file.write_all(bytes));
        if let Err(error) = written {
            // Nothing depends on it but the suspicion.
            tracing::debug!(%error, "what is in hand was not noted");
        }
    }
}

/// The suspects of a file, in parts: none if its process was not young.
fn suspects(bytes: &[u8]) -> Vec<Part> {
    if bytes.starts_with(OLD) {
        return Vec::new();
    }
    let read = |entry: &str| {
        let (id, deaths) = entry.split_once(':')?;
        Some((i64::from_str_radix(id, 16).ok()?, deaths.parse().ok()?))
    };
    let mut all: Vec<(i64, u32)> = Vec::new();
    for slot in bytes.chunks(SLOT_BYTES).skip(1) {
        let line = slot.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line).unwrap_or_default();
        all.extend(line.split(' ').filter_map(read));
    }
    // Who is suspected most is tried first, alone.
    all.sort_by_key(|(_, deaths)| std::cmp::Reverse(*deaths));
    let (known, others) = all.split_at(all.partition_point(|(_, deaths)| *deaths > 0));
    let most = others.len().div_ceil(PARTS).max(1);
    let parts = known.chunks(1).chain(others.chunks(most));
    parts.map(|part| part.iter().copied().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hands(folder: &Path) -> (Arc<Hands>, Vec<Part>) {
        let (hands, suspects) = Hands::open(Some(folder)).expect("a file");
        (Arc::new(hands), suspects)
    }

    #[test]
    fn what_was_in_hand_at_the_end_is_suspected() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, none) = hands(folder.path());
        assert_eq!(none, []);
        let settled = first.hold(&[7, 8]);
        let ids: Vec<_> = (100..150).collect();
        std::mem::forget(first.hold(&ids));
        drop(settled);
        // Its slot is used again.
        std::mem::forget(first.hold(&[i64::MAX]));
        let (second, suspects) = hands(folder.path());
        let found: Vec<_> = suspects.iter().flat_map(|part| part.keys().copied()).collect();
        assert_eq!((suspects.len(), found.len()), (9, 1 + ids.len()), "six each");
        assert!(found.contains(&i64::MAX) && ids.iter().all(|id| found.contains(id)));
        std::mem::forget(second.hold(&[7]));
        second.grow_old();
        assert_eq!(hands(folder.path()).1, [], "it has lived for long");
    }

    #[test]
    fn whatever_the_file_says_something_is_read() {
        let mut slots = vec![0; 3 * SLOT_BYTES];
        slots[SLOT_BYTES..SLOT_BYTES + 21].copy_from_slice(b"1f:2 x:y 2: :3 zz 5:1");
        slots[2 * SLOT_BYTES] = 0xff;
        let want = [Part::from([(0x1f, 2)])];
        assert_eq!(suspects(&slots[..SLOT_BYTES + 9]), want);
        for cut in [0, 3, SLOT_BYTES] {
            assert_eq!(suspects(&slots[..cut]), []);
        }
        assert_eq!(suspects(&slots).len(), 1, "the last entry has no end");
    }
}
