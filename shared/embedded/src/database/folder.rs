//! A deployment's folder, held by one process at a time.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

use crate::options::OpenError;

/// The file whose lock marks the folder as open.
const LOCK: &str = "lock";

/// A folder locked by this process. The operating system releases the lock when the process ends,
/// in whatever way.
pub(super) struct Held {
    _file: File,
}

impl Held {
    /// Creates the folder if necessary, and locks it.
    pub(super) fn of(folder: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Folder(folder.to_owned(), error);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = File::options();
        let file = options.create(true).write(true).truncate(false).open(folder.join(LOCK));
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
