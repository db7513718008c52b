-- Facts know every telling of them; NULL: what the row itself says is the only one.
ALTER TABLE facts ADD COLUMN origin TEXT NOT NULL DEFAULT 'user';
ALTER TABLE facts ADD COLUMN quote TEXT;
ALTER TABLE facts ADD COLUMN told_at INTEGER;
ALTER TABLE facts ADD COLUMN sources TEXT;
CREATE INDEX believed_aliases ON facts (user_no) WHERE retired_at IS NULL AND predicate_key = 'same as';

-- What a block said before, so that a moment can be shown as it was.
CREATE TABLE block_versions (
    user_no    INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    PRIMARY KEY (user_no, name, version)
) WITHOUT ROWID;

-- Episodes that facts are still to be learned from.
CREATE TABLE undistilled (
    episode_no    INTEGER PRIMARY KEY REFERENCES episodes (no) ON DELETE CASCADE,
    user_no       INTEGER NOT NULL,
    attempts      INTEGER NOT NULL DEFAULT 0,
    due_at        INTEGER NOT NULL,
    claim         TEXT,                             -- who is at it; nobody if NULL
    claimed_until INTEGER,                          -- after this moment the claim counts no more
    error         TEXT,
    is_parked     INTEGER NOT NULL DEFAULT 0        -- given up until somebody asks for it
);
CREATE INDEX undistilled_due ON undistilled (is_parked, due_at);
CREATE INDEX undistilled_of_user ON undistilled (user_no);

-- Predicates that say the same are compared as one from now on.
UPDATE facts SET predicate_key = 'lives in' WHERE predicate_key IN (
    'live in', 'living in', 'is living in', 'resides in', 'residence', 'moved to', 'has moved to',
    'current residence', 'current city', 'based in', 'is based in');
UPDATE facts SET predicate_key = 'works at' WHERE predicate_key IN (
    'work at', 'works for', 'work for', 'employer', 'employed by', 'employed at', 'is employed by',
    'is employed at', 'current employer', 'workplace');
UPDATE facts SET predicate_key = 'job' WHERE predicate_key IN (
    'job title', 'occupation', 'profession', 'works as', 'current job', 'employed as');
UPDATE facts SET predicate_key = 'married to' WHERE predicate_key IN (
    'is married to', 'spouse', 'husband', 'wife');
UPDATE facts SET predicate_key = 'birthday' WHERE predicate_key IN (
    'born on', 'date of birth', 'birth date', 'birthdate');
UPDATE facts SET predicate_key = 'email' WHERE predicate_key IN (
    'email address', 'e mail', 'e mail address', 'mail address');
UPDATE facts SET predicate_key = 'phone' WHERE predicate_key IN (
    'phone number', 'telephone', 'telephone number');
UPDATE facts SET predicate_key = 'timezone' WHERE predicate_key IN (
    'time zone');
UPDATE facts SET predicate_key = 'reports to' WHERE predicate_key IN (
    'manager', 'boss');
UPDATE facts SET predicate_key = replace(predicate_key, 'favourite', 'favorite')
WHERE predicate_key LIKE '%favourite%';

-- Whose name it is, the user's or an agent's.
DROP TABLE names;
CREATE TABLE names (
    user_no  INTEGER NOT NULL REFERENCES users (no) ON DELETE CASCADE,
    name     TEXT    NOT NULL,
    is_agent INTEGER NOT NULL,
    PRIMARY KEY (user_no, name, is_agent)
) WITHOUT ROWID;
INSERT OR IGNORE INTO names (user_no, name, is_agent)
SELECT user_no, user_name, 0 FROM episodes WHERE user_name IS NOT NULL;
INSERT OR IGNORE INTO names (user_no, name, is_agent)
SELECT user_no, agent_name, 1 FROM episodes WHERE agent_name IS NOT NULL;
