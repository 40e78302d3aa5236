-- The tables of form 2. What is a document is JSON, as DynamoDB has it on AWS.

-- A name with a number or a text: how often the folder was opened, the time, how far wake has come.
CREATE TABLE notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

-- Ids only grow, so that what is sent is written at the end. The body comes last: whoever reads the
-- columns before it reads none of its pages.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    visible_at INTEGER NOT NULL,
    receives INTEGER NOT NULL,
    moved_from TEXT,
    fair_group TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE states (
    id BLOB PRIMARY KEY,
    revision INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    waiting_for BLOB,
    place TEXT,
    document TEXT NOT NULL
);
CREATE INDEX waiting ON states (waiting_for, place) WHERE waiting_for IS NOT NULL;
CREATE INDEX expiring_states ON states (expires_at);

CREATE TABLE healths (
    subscription TEXT NOT NULL COLLATE NOCASE,
    uid BLOB NOT NULL,
    revision INTEGER NOT NULL,
    expires_at INTEGER,
    document TEXT NOT NULL,
    PRIMARY KEY (subscription, uid)
);

CREATE TABLE rates (
    uid BLOB NOT NULL,
    minute INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (uid, minute)
) WITHOUT ROWID;

CREATE TABLE parked (
    minute INTEGER NOT NULL,
    part INTEGER NOT NULL,
    id TEXT NOT NULL,
    document TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (minute, part, id)
);

-- Names of topics and event subscriptions are found in any spelling.
CREATE TABLE topics (
    name TEXT PRIMARY KEY COLLATE NOCASE,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changes TEXT NOT NULL,
    document TEXT NOT NULL
);
CREATE TABLE access_keys (
    topic TEXT PRIMARY KEY COLLATE NOCASE,
    revision INTEGER NOT NULL,
    document TEXT NOT NULL
);
CREATE TABLE subscriptions (
    topic TEXT NOT NULL COLLATE NOCASE,
    name TEXT NOT NULL COLLATE NOCASE,
    revision INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (topic, name)
);

CREATE TABLE redrives (
    subscription TEXT NOT NULL COLLATE NOCASE,
    id BLOB NOT NULL,
    revision INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (subscription, id)
);

-- Publishes that came with a key, by the hash of it.
CREATE TABLE publishes (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX expiring_publishes ON publishes (expires_at);

-- What S3 keeps beside an object; the objects are files.
CREATE TABLE labels (
    bucket TEXT NOT NULL,
    name TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (bucket, name)
) WITHOUT ROWID;

CREATE TABLE payloads (name TEXT PRIMARY KEY, written_at INTEGER NOT NULL, object BLOB NOT NULL);
CREATE INDEX old_payloads ON payloads (written_at);

PRAGMA user_version = 2;
