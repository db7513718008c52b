-- The keyword index and the vectors become segments: opaque bytes that are searched in memory, a user at a time.
DROP TRIGGER episode_added;
DROP TRIGGER episode_deleted;
DROP TRIGGER episode_changed;
DROP TRIGGER fact_added;
DROP TRIGGER fact_deleted;
DROP TRIGGER fact_changed;
DROP TABLE episode_index;
DROP TABLE fact_index;
DROP VIEW episode_texts;
DROP VIEW fact_texts;
DROP TABLE vectors;
ALTER TABLE episodes DROP COLUMN index_text;
ALTER TABLE facts DROP COLUMN index_text;
ALTER TABLE users DROP COLUMN vector_epoch;
ALTER TABLE users ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;          -- grows when segments change but by appending
ALTER TABLE users ADD COLUMN index_version INTEGER NOT NULL DEFAULT 0;  -- of another version: built anew on first use

-- kind 0: episodes, 1: facts. embedder_no 0: the keyword index. Not WITHOUT ROWID: with large rows, every search for
-- the end of a user's segments would read some of them.
CREATE TABLE segments (
    user_no     INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    kind        INTEGER NOT NULL,
    embedder_no INTEGER NOT NULL,
    no          INTEGER NOT NULL,
    items       INTEGER NOT NULL,
    data        BLOB    NOT NULL,
    UNIQUE (user_no, kind, embedder_no, no)
);

CREATE TABLE names (
    user_no INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    name    TEXT    NOT NULL,
    PRIMARY KEY (user_no, name)
) WITHOUT ROWID;
INSERT OR IGNORE INTO names (user_no, name) SELECT user_no, user_name FROM episodes WHERE user_name IS NOT NULL;
INSERT OR IGNORE INTO names (user_no, name) SELECT user_no, agent_name FROM episodes WHERE agent_name IS NOT NULL;
