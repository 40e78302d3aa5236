//! Dead letters: files on disk, or objects in memory.

mod files;
mod shelf;

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use gridpost_core::delivery::dead_letter::{Labels, Origin};
use gridpost_ports::{Bucket, BucketError, Clock, DeadLetters, Listed, PortError};
use rusqlite::{Connection, OptionalExtension};

use crate::{
    database::Database,
    options::{Options, Sync},
};
use files::{Files, found, path_of};
use shelf::Shelf;

const FOLDER: &str = "dead-letters";
const LISTED_MAX: usize = 1_000;

/// The dead-letter buckets: folders in `dead-letters` of the deployment's folder, with a JSON file for
/// each object, which users may open, copy and delete. File times are by the stores' clock. Labels are in
/// the database.
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
                let bucket = path_of(bucket);
                let files = files.clone();
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
            Storage::Disk(files) => files.has(&path_of(bucket)),
        };
        if !is_there && !self.makes_buckets {
            return Err(BucketError::NotFound);
        }
        if !is_there {
            self.create(bucket).await?;
        }
        Ok(())
    }

    async fn label(&self, bucket: &str, name: &str, labels: &Labels) -> Result<(), PortError> {
        let document =
            serde_json::to_string(labels).map_err(|error| PortError::new(WRITING, error))?;
        let (bucket, name) = (bucket.to_owned(), name.to_owned());
        let write = move |connection: &Connection| {
            let put = "INSERT OR REPLACE INTO labels (bucket, name, document) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(put)?.execute((&bucket, &name, &document)).map(drop)
        };
        self.database.write(WRITING, write).await
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
                let (files, path) = (files.clone(), files.path(bucket, key));
                at_once(WRITING, move || files.put(&path, &body, now)).await?;
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
                let (files, bucket) = (files.clone(), path_of(bucket));
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
                let path = files.path(bucket, name);
                at_once(READING, move || found(fs::read(path))).await?
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
                let path = files.path(bucket, name);
                at_once(DELETING, move || found(fs::remove_file(path))).await?;
            }
        }
        let (bucket, name) = (bucket.to_owned(), name.to_owned());
        let write = move |connection: &Connection| {
            let delete = "DELETE FROM labels WHERE bucket = ?1 AND name = ?2";
            connection.prepare_cached(delete)?.execute((&bucket, &name)).map(drop)
        };
        Ok(self.database.write(DELETING, write).await?)
    }
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
