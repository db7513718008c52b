-- Times are microseconds since 1970-01-01 UTC. A user_id of '' is the anonymous scope: blank ids are refused outside.
CREATE TABLE users (
    no           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      TEXT    NOT NULL UNIQUE,
    next_turn    INTEGER NOT NULL DEFAULT 0,
    block_floor  INTEGER NOT NULL DEFAULT 0,     -- highest version of a deleted block: no version is given twice
    vector_epoch INTEGER NOT NULL DEFAULT 0      -- grows whenever vectors change in another way than by being appended
);

CREATE TABLE blocks (
    user_no    INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    content    TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    PRIMARY KEY (user_no, name)
) WITHOUT ROWID;

CREATE TABLE episodes (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: caches and indexes refer to it
    user_no     INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    id          TEXT    NOT NULL,
    session_id  TEXT    NOT NULL,
    turn        INTEGER NOT NULL,                   -- order within the user's memory; clocks may tie or jump
    occurred_at INTEGER NOT NULL,
    input       TEXT    NOT NULL,
    output      TEXT    NOT NULL,
    user_name   TEXT,
    agent_name  TEXT,
    metadata    TEXT    NOT NULL,
    index_text  TEXT,                               -- what the keyword index is given, where it is not the text itself
    UNIQUE (user_no, id)
);
CREATE INDEX episodes_of_session ON episodes (user_no, session_id, turn);

CREATE TABLE episode_messages (
    episode_no INTEGER PRIMARY KEY REFERENCES episodes (no) ON DELETE CASCADE,
    messages   TEXT NOT NULL
);

CREATE TABLE open_runs (
    user_no    INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    run_id     TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    turn       INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    prompt     TEXT    NOT NULL,
    is_text    INTEGER NOT NULL,                    -- 0 if there were pictures or files with the prompt
    messages   TEXT,
    error      TEXT,
    PRIMARY KEY (user_no, session_id, run_id)
) WITHOUT ROWID;

CREATE TABLE facts (
    no                INTEGER PRIMARY KEY AUTOINCREMENT,
    user_no           INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    id                TEXT    NOT NULL,
    subject           TEXT    NOT NULL,
    predicate         TEXT    NOT NULL,
    object            TEXT    NOT NULL,
    subject_key       TEXT    NOT NULL,
    predicate_key     TEXT    NOT NULL,
    object_key        TEXT    NOT NULL,
    valid_from        INTEGER,
    valid_until       INTEGER,
    recorded_at       INTEGER NOT NULL,
    retired_at        INTEGER,
    confidence        REAL    NOT NULL,
    source_episode_id TEXT,
    metadata          TEXT    NOT NULL,
    index_text        TEXT
);
CREATE INDEX facts_by_key ON facts (user_no, subject_key, predicate_key, object_key);
CREATE UNIQUE INDEX believed_facts ON facts (user_no, id) WHERE retired_at IS NULL;

CREATE TABLE embedders (
    no   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- kind 0: episodes, 1: facts. Clustered, so that a user's vectors are read in one sweep.
CREATE TABLE vectors (
    user_no     INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    embedder_no INTEGER NOT NULL REFERENCES embedders (no),
    item_no     INTEGER NOT NULL,
    vector      BLOB    NOT NULL,                   -- float16, unit length
    PRIMARY KEY (user_no, kind, embedder_no, item_no)
) WITHOUT ROWID;

CREATE VIEW episode_texts AS
    SELECT no, CAST(user_no AS TEXT) AS u, coalesce(index_text, input || char(10) || output) AS text FROM episodes;
CREATE VIEW fact_texts AS
    SELECT no, CAST(user_no AS TEXT) AS u, coalesce(index_text, subject || ' ' || predicate || ' ' || object) AS text
    FROM facts;

CREATE VIRTUAL TABLE episode_index USING fts5 (
    u, text, content = 'episode_texts', content_rowid = 'no', tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE fact_index USING fts5 (
    u, text, content = 'fact_texts', content_rowid = 'no', tokenize = 'porter unicode61 remove_diacritics 2');

-- The indexes follow the rows whatever changes them.
CREATE TRIGGER episode_added AFTER INSERT ON episodes BEGIN
    INSERT INTO episode_index (rowid, u, text)
    VALUES (new.no, CAST(new.user_no AS TEXT), coalesce(new.index_text, new.input || char(10) || new.output));
END;
CREATE TRIGGER episode_deleted AFTER DELETE ON episodes BEGIN
    INSERT INTO episode_index (episode_index, rowid, u, text)
    VALUES ('delete', old.no, CAST(old.user_no AS TEXT),
            coalesce(old.index_text, old.input || char(10) || old.output));
    DELETE FROM vectors WHERE user_no = old.user_no AND kind = 0
        AND embedder_no IN (SELECT no FROM embedders) AND item_no = old.no;
    UPDATE users SET vector_epoch = vector_epoch + 1 WHERE no = old.user_no;
END;
CREATE TRIGGER episode_changed AFTER UPDATE OF no, user_no, input, output, index_text ON episodes BEGIN
    INSERT INTO episode_index (episode_index, rowid, u, text)
    VALUES ('delete', old.no, CAST(old.user_no AS TEXT),
            coalesce(old.index_text, old.input || char(10) || old.output));
    INSERT INTO episode_index (rowid, u, text)
    VALUES (new.no, CAST(new.user_no AS TEXT), coalesce(new.index_text, new.input || char(10) || new.output));
END;
CREATE TRIGGER fact_added AFTER INSERT ON facts BEGIN
    INSERT INTO fact_index (rowid, u, text)
    VALUES (new.no, CAST(new.user_no AS TEXT),
            coalesce(new.index_text, new.subject || ' ' || new.predicate || ' ' || new.object));
END;
CREATE TRIGGER fact_deleted AFTER DELETE ON facts BEGIN
    INSERT INTO fact_index (fact_index, rowid, u, text)
    VALUES ('delete', old.no, CAST(old.user_no AS TEXT),
            coalesce(old.index_text, old.subject || ' ' || old.predicate || ' ' || old.object));
    DELETE FROM vectors WHERE user_no = old.user_no AND kind = 1
        AND embedder_no IN (SELECT no FROM embedders) AND item_no = old.no;
    UPDATE users SET vector_epoch = vector_epoch + 1 WHERE no = old.user_no;
END;
CREATE TRIGGER fact_changed AFTER UPDATE OF no, user_no, subject, predicate, object, index_text ON facts BEGIN
    INSERT INTO fact_index (fact_index, rowid, u, text)
    VALUES ('delete', old.no, CAST(old.user_no AS TEXT),
            coalesce(old.index_text, old.subject || ' ' || old.predicate || ' ' || old.object));
    INSERT INTO fact_index (rowid, u, text)
    VALUES (new.no, CAST(new.user_no AS TEXT),
            coalesce(new.index_text, new.subject || ' ' || new.predicate || ' ' || new.object));
END;
