-- Tables of form 1 that folders of earlier versions lack. What an earlier version does with such a
-- folder is the same with and without them.

-- Publishes that came with a key, by the hash of it.
CREATE TABLE IF NOT EXISTS publishes (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS expiring_publishes ON publishes (expires_at);
