//! Room on the disk.

use std::path::Path;

/// The free room below which publishes are refused, unless another is named: this many bytes, or a 40th of a small
/// disk. What is under way needs it.
const FLOOR_BYTES: u64 = 32 * 1_048_576;
const FLOOR_SHARE: u64 = 40;

/// A disk, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    pub(crate) size: u64,
    pub(crate) free: u64,
}

impl Disk {
    /// Looks at the disk that has a folder.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        // Some file systems do not say.
        let disk = rustix::fs::statvfs(folder).ok().filter(|disk| disk.f_blocks > 0)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(Self { size: bytes(disk.f_blocks), free: bytes(disk.f_bavail) })
    }

    /// Returns the free bytes below which publishes are refused.
    pub(crate) fn floor(&self, named: Option<u64>) -> u64 {
        named.unwrap_or(FLOOR_BYTES.min(self.size / FLOOR_SHARE))
    }
}

/// Why no publish is taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// Less is free than the floor.
    #[error(
        "the disk has {free} free bytes, less than its floor of {floor}: deliveries go on, publishes are refused"
    )]
    OnDisk { free: u64, floor: u64 },
    /// The disk does not keep up.
    #[error("{0} writes wait for the disk: publishes are refused until there are fewer")]
    InQueue(usize),
}

/// Returns why no publish is taken, if none is: by the free bytes of the disk and its floor, and by the writes that
/// wait and how many may.
pub(crate) fn refusal(disk: Option<(u64, u64)>, (pending, most): (usize, usize)) -> Option<NoRoom> {
    match disk {
        Some((free, floor)) if free < floor => Some(NoRoom::OnDisk { free, floor }),
        _ if pending > most => Some(NoRoom::InQueue(pending)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_floors() {
        const MIB: u64 = 1_048_576;
        // (MiB of the disk, the named floor, the floor in KiB)
        let table = [
            (40, None, 1_024),
            (1_280, None, 32 * 1_024),
            (1_000_000, None, 32 * 1_024),
            (40, Some(5 * MIB), 5 * 1_024),
            (40, Some(0), 0),
        ];
        for (size, named, want) in table {
            let disk = Disk { size: size * MIB, free: 0 };
            assert_eq!(disk.floor(named), want * 1_024, "{size} {named:?}");
        }
    }

    #[test]
    fn table_of_refusals() {
        let on_disk = |free, floor| Some(NoRoom::OnDisk { free, floor });
        // (free bytes and the floor, writes that wait and how many may, why not)
        let table = [
            (None, (0, 9), None),
            (Some((10, 10)), (9, 9), None),
            (Some((9, 10)), (0, 9), on_disk(9, 10)),
            (Some((9, 10)), (10, 9), on_disk(9, 10)),
            (Some((0, 0)), (10, 9), Some(NoRoom::InQueue(10))),
            (None, (10, 9), Some(NoRoom::InQueue(10))),
        ];
        for (disk, writes, want) in table {
            assert_eq!(refusal(disk, writes), want, "{disk:?} {writes:?}");
        }
    }
}
