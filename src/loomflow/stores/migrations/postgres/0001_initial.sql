-- Every key begins with user_id, so that tables can be partitioned and sharded by it. '' is the anonymous scope; ids that
-- are too long for an index are digests here, with the id itself in users.full_id. Times are microseconds since 1970-01-01
-- UTC. Texts are ordered by code point everywhere. What may be long is indexed by its digest.
CREATE TABLE embedders (
    no   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX embedders_by_name ON embedders (md5(name));

CREATE TABLE users (
    user_id       text COLLATE "C" PRIMARY KEY,
    full_id       text COLLATE "C",
    next_turn     bigint  NOT NULL DEFAULT 0,
    block_floor   bigint  NOT NULL DEFAULT 0,      -- highest version of a deleted block: no version is given twice
    epoch         bigint  NOT NULL DEFAULT floor(random() * 1e15),  -- changes when segments change but by appending
    index_version integer NOT NULL DEFAULT 0       -- of another version: built anew on first use
) /* by user */;

CREATE TABLE blocks (
    user_id    text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    content    text    NOT NULL,
    updated_at bigint  NOT NULL,
    version    bigint  NOT NULL,
    position   bigint  NOT NULL
) /* by user */;
CREATE UNIQUE INDEX blocks_by_name ON blocks (user_id, md5(name));

CREATE TABLE block_versions (
    user_id    text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    content    text   NOT NULL,
    updated_at bigint NOT NULL,
    ended_at   bigint NOT NULL,
    position   bigint NOT NULL
) /* by user */;
CREATE UNIQUE INDEX block_versions_by_name ON block_versions (user_id, md5(name), version);

CREATE SEQUENCE episode_numbers;                   -- never reused: caches and indexes refer to them
CREATE TABLE episodes (
    user_id     text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    no          bigint NOT NULL DEFAULT nextval('episode_numbers'),
    id          text COLLATE "C" NOT NULL,
    session_id  text COLLATE "C" NOT NULL,
    turn        bigint NOT NULL,                   -- order within the user's memory; clocks may tie or jump
    occurred_at bigint NOT NULL,
    input       text   NOT NULL,
    output      text   NOT NULL,
    user_name   text COLLATE "C",
    agent_name  text COLLATE "C",
    metadata    text   NOT NULL,
    PRIMARY KEY (user_id, no)
) /* by user */;
CREATE UNIQUE INDEX episodes_by_id ON episodes (user_id, md5(id));
CREATE INDEX episodes_of_session ON episodes (user_id, md5(session_id), turn);
CREATE INDEX episodes_by_turn ON episodes (user_id, turn);

CREATE TABLE episode_messages (
    user_id    text COLLATE "C" NOT NULL,
    episode_no bigint NOT NULL,
    messages   text   NOT NULL,
    PRIMARY KEY (user_id, episode_no),
    FOREIGN KEY (user_id, episode_no) REFERENCES episodes ON DELETE CASCADE
) /* by user */;

CREATE TABLE open_runs (
    user_id    text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    run_id     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    turn       bigint  NOT NULL,
    started_at bigint  NOT NULL,
    prompt     text    NOT NULL,
    is_text    boolean NOT NULL,                   -- false if there were pictures or files with the prompt
    messages   text,
    error      text
) /* by user */;
CREATE UNIQUE INDEX open_runs_by_id ON open_runs (user_id, md5(session_id), md5(run_id));

CREATE SEQUENCE fact_numbers;
CREATE TABLE facts (
    user_id           text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    no                bigint NOT NULL DEFAULT nextval('fact_numbers'),
    id                text COLLATE "C" NOT NULL,
    subject           text   NOT NULL,
    predicate         text   NOT NULL,
    object            text   NOT NULL,
    subject_key       text COLLATE "C" NOT NULL,
    predicate_key     text COLLATE "C" NOT NULL,
    object_key        text COLLATE "C" NOT NULL,
    valid_from        bigint,
    valid_until       bigint,
    recorded_at       bigint NOT NULL,
    retired_at        bigint,
    confidence        double precision NOT NULL,
    source_episode_id text COLLATE "C",
    metadata          text   NOT NULL,
    origin            text   NOT NULL,
    quote             text,
    told_at           bigint,
    sources           text,                        -- every telling, as JSON; NULL: what the row says is the only one
    PRIMARY KEY (user_id, no)
) /* by user */;
CREATE INDEX facts_by_key ON facts (user_id, md5(subject_key), md5(predicate_key));
CREATE UNIQUE INDEX believed_facts ON facts (user_id, md5(id)) WHERE retired_at IS NULL;
CREATE INDEX believed_aliases ON facts (user_id) WHERE retired_at IS NULL AND predicate_key = 'same as';

CREATE SEQUENCE segment_numbers;                   -- never reused: what is indexed for large users refers to them
-- kind 0: episodes, 1: facts. embedder_no 0: the keyword index.
CREATE TABLE segments (
    user_id     text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    kind        smallint NOT NULL,
    embedder_no integer  NOT NULL,
    no          bigint   NOT NULL,
    items       integer  NOT NULL,
    data        bytea    NOT NULL,
    PRIMARY KEY (user_id, kind, embedder_no, no)
) /* by user */;
ALTER TABLE segments ALTER COLUMN data SET STORAGE EXTERNAL;  -- so that a header is read without the rest

CREATE TABLE names (
    user_id  text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    name     text COLLATE "C" NOT NULL,
    is_agent boolean NOT NULL
) /* by user */;
CREATE UNIQUE INDEX names_by_name ON names (user_id, md5(name), is_agent);

-- Episodes that facts are still to be learned from.
CREATE TABLE undistilled (
    user_id       text COLLATE "C" NOT NULL,
    episode_no    bigint  NOT NULL,
    attempts      integer NOT NULL DEFAULT 0,
    due_at        bigint  NOT NULL,
    claim         text COLLATE "C",                -- who is at it; nobody if NULL
    claimed_until bigint,                          -- after this moment the claim counts no more
    error         text COLLATE "C",
    is_parked     boolean NOT NULL DEFAULT false,  -- given up until somebody asks for it
    PRIMARY KEY (user_id, episode_no),
    FOREIGN KEY (user_id, episode_no) REFERENCES episodes ON DELETE CASCADE
) /* by user */;
CREATE INDEX undistilled_due ON undistilled (is_parked, due_at);

-- Large users only: what their segments of episodes say, an episode a row, so that the server can look for it. A term is
-- its digest after the user's, so that the index itself keeps users apart.
CREATE TABLE large_episodes (
    user_id    text COLLATE "C" NOT NULL,
    episode_no bigint  NOT NULL,
    session    bigint  NOT NULL,                   -- digest of the session's id
    time       bigint  NOT NULL,
    length     integer NOT NULL,                   -- telling terms
    terms      tsvector,                           -- NULL: too many for one
    segment    bytea   NOT NULL,
    PRIMARY KEY (user_id, episode_no),
    FOREIGN KEY (user_id, episode_no) REFERENCES episodes ON DELETE CASCADE
) /* by user */;
CREATE INDEX large_episodes_by_term ON large_episodes USING gin (terms) WITH (fastupdate = off);
CREATE INDEX large_episodes_of_session ON large_episodes (user_id, session, episode_no) INCLUDE (length);
CREATE INDEX large_episodes_without_terms ON large_episodes (user_id) WHERE terms IS NULL;

-- The vectors of each embedder, the codes as they are. Those of one embedder and length get an index of their own when
-- the first of them comes, see `stores/postgres_indexing.py`.
CREATE TABLE large_vectors (
    user_id     text COLLATE "C" NOT NULL,
    embedder_no integer NOT NULL,
    dimensions  integer NOT NULL,
    episode_no  bigint  NOT NULL,
    place       integer NOT NULL,
    vector      halfvec NOT NULL,
    PRIMARY KEY (user_id, embedder_no, dimensions, episode_no, place),
    FOREIGN KEY (user_id, episode_no) REFERENCES episodes ON DELETE CASCADE
) /* by user */;
CREATE INDEX large_vectors_of_episode ON large_vectors (user_id, episode_no);
ALTER TABLE large_vectors ALTER COLUMN vector SET STORAGE MAIN;

-- Up to which segment the tables above have the user's episodes (embedder_no 0) or an embedder's vectors of them.
CREATE TABLE large_up_to (
    user_id     text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    embedder_no integer NOT NULL,
    segment_no  bigint  NOT NULL,
    PRIMARY KEY (user_id, embedder_no)
) /* by user */;
