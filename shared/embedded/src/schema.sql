-- The tables of form 8. What is a document is JSON, as DynamoDB has it on AWS.

-- A name with a number or a text: the number of its latest opening, the time, how far wake has come.
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
    document TEXT NOT NULL,
    -- In the index, so that counting reads no document.
    events INTEGER AS (json_extract(document, '$.events'))
);
CREATE INDEX waiting ON states (waiting_for, place, events) WHERE waiting_for IS NOT NULL;
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
    -- They are not in the document.
    secrets TEXT,
    PRIMARY KEY (topic, name)
);

-- By SHA-256 of the token.
CREATE TABLE tokens (name TEXT PRIMARY KEY COLLATE NOCASE, document TEXT NOT NULL);

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
    written_at INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (bucket, name)
) WITHOUT ROWID;

CREATE TABLE payloads (name TEXT PRIMARY KEY, written_at INTEGER NOT NULL, object BLOB NOT NULL);
CREATE INDEX old_payloads ON payloads (written_at);

-- The journal. Its rows have numbers for texts: names, kinds, outcomes, reasons, and what is counted.
CREATE TABLE words (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);

-- In the order of their writing. The newest row is never removed, so that ids only grow. The delivery's
-- id is two numbers. An event id by itself is a text, or 16 bytes if it is a UUID; several are JSON.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    publish_time INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    delivery_rest INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    part INTEGER NOT NULL,
    outcome INTEGER,
    status INTEGER,
    took_ms INTEGER,
    due INTEGER,
    because INTEGER,
    reason INTEGER,
    receives INTEGER,
    events INTEGER NOT NULL,
    event_ids NOT NULL,
    trace_parent TEXT,
    response TEXT
);
-- Begins with the time, so that a row is written near the end.
CREATE UNIQUE INDEX entries_once ON entries (publish_time, delivery, attempt, kind, part);

-- Entries from `first` to `last`, and lists that find them by event id and event subscription.
CREATE TABLE segments (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    earliest INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE TABLE segment_lists (
    first INTEGER NOT NULL,
    list INTEGER NOT NULL,
    items BLOB NOT NULL,
    PRIMARY KEY (first, list)
) WITHOUT ROWID;

-- By hour of publish, and by minute and hour of the counting; recent ones are in rows of their commits. By
-- counting, owner 0 has the sums of all, and a topic's number, negative, those of it and its event subscriptions.
CREATE TABLE counts (
    series INTEGER NOT NULL,
    step INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (series, step, owner, counted)
) WITHOUT ROWID;

CREATE TABLE recent_counts (id INTEGER PRIMARY KEY, sums TEXT NOT NULL);

-- Events that were matched or redriven and have not ended, by hour of publish. Like counts they lack recent
-- ones. Without a row: none. Less than none where repeated work has counted ends again.
CREATE TABLE waiting_events (
    owner INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (owner, hour)
) WITHOUT ROWID;

-- Counts of work that may be repeated.
CREATE TABLE counted_once (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    work BLOB NOT NULL,
    owner INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    UNIQUE (work, owner, counted)
);

PRAGMA user_version = 8;
