//! Dead letters: files on disk, or objects in memory.

mod files;
mod shelf;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::dead_letter::{Labels, Origin},
    time::Timestamp,
};
use gridpost_ports::{Bucket, BucketError, Clock, DeadLetters, Listed, PortError};
use rusqlite::{Connection, OptionalExtension};
use tokio::time::sleep;

use crate::{
    database::Database,
    options::{Options, Sync},
};
use files::Files;
pub use files::dead_letter_path;
use shelf::Shelf;

const FOLDER: &str = "dead-letters";
const LISTED_MAX: usize = 1_000;

/// The dead-letter buckets: folders in `dead-letters` of the deployment's folder, with a JSON file for
/// each object, which users may open, copy and delete. A file whose name is a UUID, as ours are, is in one of
/// 256 folders more than its key has, or, as users may copy it, where its key says. File times are by the
/// stores' clock. Labels are in the database.
pub struct Letters {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    storage: Storage,
    makes_buckets: bool,
}

enum Storage {
    Memory(Mutex<Shelf>),
    Disk(Files),
}

const WRITING: &str = "dead letters: writing";
const READING: &str = "dead letters: reading";
const LISTING: &str = "dead letters: listing";
const DELETING: &str = "dead letters: deleting";
const SWEEPING: &str = "dead letters: removing old ones";

/// The pause after each page of a sweep.
const PAUSE: Duration = Duration::from_secs(1);

/// A file is written within this time of its labels.
const WRITTEN_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

impl Letters {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>, options: &Options) -> Self {
        let storage = match &options.folder {
            None => Storage::Memory(Mutex::default()),
            Some(folder) => {
                let root = folder.join(FOLDER);
                Storage::Disk(Files { root, is_synced: options.sync == Sync::Full })
            }
        };
        Self { database, clock, storage, makes_buckets: options.makes_buckets }
    }

    /// Returns the folder of all buckets, if on disk.
    pub fn folder(&self) -> Option<&Path> {
        match &self.storage {
            Storage::Memory(_) => None,
            Storage::Disk(files) => Some(&files.root),
        }
    }

    /// Creates a bucket if necessary.
    pub async fn create(&self, bucket: &str) -> Result<(), PortError> {
        const CALL: &str = "dead letters: making a bucket";
        self.database.check(CALL)?;
        match &self.storage {
            Storage::Memory(shelf) => lock(shelf).create(bucket),
            Storage::Disk(files) => {
                let (files, bucket) = (files.clone(), bucket.to_owned());
                at_once(CALL, move || files.create(&bucket)).await?;
            }
        }
        Ok(())
    }

    /// Fails if the bucket is missing and not created automatically.
    async fn find(&self, call: &'static str, bucket: &str) -> Result<(), BucketError> {
        self.database.check(call)?;
        let is_there = match &self.storage {
            Storage::Memory(shelf) => lock(shelf).has(bucket),
            Storage::Disk(files) => files.has(bucket),
        };
        if !is_there && !self.makes_buckets {
            return Err(BucketError::NotFound);
        }
        if !is_there {
            self.create(bucket).await?;
        }
        Ok(())
    }

    /// Removes the dead letters that are older than `retention`, if any is given, and the labels of files that
    /// users have deleted. Takes a second for each thousand: requests go before.
    pub async fn sweep(&self, retention: Option<Duration>) -> Result<(), PortError> {
        let now = self.clock.now();
        if let Some(retention) = retention {
            let buckets = match &self.storage {
                Storage::Memory(shelf) => lock(shelf).buckets(),
                Storage::Disk(files) => {
                    let files = files.clone();
                    at_once(SWEEPING, move || files.buckets()).await?
                }
            };
            for bucket in buckets {
                self.remove_older(&bucket, before(now, retention)).await?;
            }
        }
        let Storage::Disk(files) = &self.storage else { return Ok(()) };
        self.remove_labels(files, before(now, WRITTEN_WITHIN)).await
    }

    /// Removes the dead letters of a bucket that were written before then.
    async fn remove_older(&self, bucket: &str, then: Timestamp) -> Result<(), PortError> {
        let failed = |error| PortError::new(SWEEPING, error);
        let mut after = None;
        loop {
            let page = self.list(bucket, "", after.as_deref()).await.map_err(failed)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.name.clone());
            let (mut objects, mut result) = (0, Ok(()));
            let old = page.iter().filter(|object| object.written_at < then);
            for object in old {
                // What users have put here is theirs.
                if !self.has_label(bucket, &object.name)? {
                    continue;
                }
                result = self.delete(bucket, &object.name).await.map_err(failed);
                if result.is_err() {
                    break;
                }
                objects += 1;
            }
            if objects > 0 {
                let before = then.to_iso_8601();
                let reason = "dead-letter-retention";
                tracing::info!(bucket, objects, before, reason, "dead letters removed");
            }
            result?;
            sleep(PAUSE).await;
        }
    }

    /// Removes labels that were written before then and whose file is gone.
    async fn remove_labels(&self, files: &Files, then: Timestamp) -> Result<(), PortError> {
        let mut after = (String::new(), String::new());
        loop {
            let page: Vec<(String, String)> = self.database.read(SWEEPING, |connection| {
                let select = "SELECT bucket, name FROM labels WHERE (bucket, name) > (?1, ?2) \
                              AND written_at < ?3 ORDER BY bucket, name LIMIT ?4";
                let mut select = connection.prepare_cached(select)?;
                let values = (&after.0, &after.1, then.as_millis(), LISTED_MAX as i64);
                select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.clone();
            let files = files.clone();
            let find = move || {
                let mut gone = Vec::new();
                for (bucket, name) in page {
                    // A bucket that is missing may be on its way back.
                    if files.has(&bucket) && !files.has_file(&bucket, &name)? {
                        gone.push((bucket, name));
                    }
                }
                Ok(gone)
            };
            let gone = at_once(SWEEPING, find).await?;
            if !gone.is_empty() {
                let write = move |connection: &Connection| {
                    gone.iter().try_for_each(|(bucket, name)| unlabel(connection, bucket, name))
                };
                self.database.write(SWEEPING, write).await?;
            }
            sleep(PAUSE).await;
        }
    }

    async fn label(&self, bucket: &str, name: &str, labels: &Labels) -> Result<(), PortError> {
        let document =
            serde_json::to_string(labels).map_err(|error| PortError::new(WRITING, error))?;
        let (bucket, name) = (bucket.to_owned(), name.to_owned());
        let now = self.clock.now().as_millis();
        let write = move |connection: &Connection| {
            let put = "INSERT OR REPLACE INTO labels (bucket, name, written_at, document) \
                       VALUES (?1, ?2, ?3, ?4)";
            connection.prepare_cached(put)?.execute((&bucket, &name, now, &document)).map(drop)
        };
        self.database.write(WRITING, write).await
    }

    fn has_label(&self, bucket: &str, name: &str) -> Result<bool, PortError> {
        self.database.read(SWEEPING, |connection| {
            let select = "SELECT EXISTS (SELECT 1 FROM labels WHERE bucket = ?1 AND name = ?2)";
            connection.prepare_cached(select)?.query_row((bucket, name), |row| row.get(0))
        })
    }

    fn origin(&self, bucket: &str, name: &str) -> Result<Option<Origin>, PortError> {
        let document: Option<String> = self.database.read(READING, |connection| {
            let select = "SELECT document FROM labels WHERE bucket = ?1 AND name = ?2";
            let mut select = connection.prepare_cached(select)?;
            select.query_row((bucket, name), |row| row.get(0)).optional()
        })?;
        let Some(document) = document else { return Ok(None) };
        let labels: Vec<(String, String)> =
            serde_json::from_str(&document).map_err(|error| PortError::new(READING, error))?;
        let label = |wanted: &str| labels.iter().find(|(name, _)| name == wanted);
        Ok(Origin::of(|wanted| label(wanted).map(|(_, value)| value.clone())))
    }
}

#[async_trait]
impl Bucket for Letters {
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError> {
        self.find(WRITING, bucket).await?;
        let now = self.clock.now();
        match &self.storage {
            Storage::Memory(shelf) => {
                self.label(bucket, key, labels).await?;
                lock(shelf).put(bucket, key, body, now);
            }
            Storage::Disk(files) => {
                // Labels come first, so that no file of ours lacks them.
                self.label(bucket, key, labels).await?;
                let (files, bucket, key) = (files.clone(), bucket.to_owned(), key.to_owned());
                at_once(WRITING, move || files.put(&bucket, &key, &body, now)).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl DeadLetters for Letters {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        self.find(LISTING, bucket).await?;
        match &self.storage {
            Storage::Memory(shelf) => Ok(lock(shelf).list(bucket, prefix, after, LISTED_MAX)),
            Storage::Disk(files) => {
                let (files, bucket) = (files.clone(), bucket.to_owned());
                let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
                let list = move || files.list(&bucket, &prefix, after.as_deref(), LISTED_MAX);
                Ok(at_once(LISTING, list).await?)
            }
        }
    }

    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        self.find(READING, bucket).await?;
        let body = match &self.storage {
            Storage::Memory(shelf) => lock(shelf).get(bucket, name),
            Storage::Disk(files) => {
                let (files, bucket, name) = (files.clone(), bucket.to_owned(), name.to_owned());
                at_once(READING, move || files.get(&bucket, &name)).await?
            }
        };
        let Some(body) = body else { return Ok(None) };
        Ok(Some((body, self.origin(bucket, name)?)))
    }

    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError> {
        self.find(DELETING, bucket).await?;
        match &self.storage {
            Storage::Memory(shelf) => lock(shelf).delete(bucket, name),
            Storage::Disk(files) => {
                let (files, bucket, name) = (files.clone(), bucket.to_owned(), name.to_owned());
                at_once(DELETING, move || files.delete(&bucket, &name)).await?;
            }
        }
        let (bucket, name) = (bucket.to_owned(), name.to_owned());
        let write = move |connection: &Connection| unlabel(connection, &bucket, &name);
        Ok(self.database.write(DELETING, write).await?)
    }
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age))
}

fn unlabel(connection: &Connection, bucket: &str, name: &str) -> rusqlite::Result<()> {
    let delete = "DELETE FROM labels WHERE bucket = ?1 AND name = ?2";
    connection.prepare_cached(delete)?.execute((bucket, name)).map(drop)
}

async fn at_once<T: Send + 'static>(
    call: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, PortError> {
    let worked = tokio::task::spawn_blocking(work).await;
    let worked = worked.map_err(|error| PortError::new(call, error))?;
    worked.map_err(|error| PortError::new(call, error))
}

fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().expect("no panic while held")
}
