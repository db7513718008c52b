-- name: user_no
SELECT no, epoch, index_version FROM users WHERE user_id = :user_id;
-- name: add_user
INSERT INTO users (user_id, index_version) VALUES (:user_id, :version);
-- name: drop_user
DELETE FROM users WHERE no = :user_no;
-- name: list_users
SELECT user_id FROM users u
WHERE EXISTS (SELECT 1 FROM blocks WHERE user_no = u.no) OR EXISTS (SELECT 1 FROM facts WHERE user_no = u.no)
   OR EXISTS (SELECT 1 FROM episodes WHERE user_no = u.no) OR EXISTS (SELECT 1 FROM open_runs WHERE user_no = u.no)
ORDER BY user_id;
-- name: block_floor
SELECT block_floor FROM users WHERE no = :user_no;
-- name: raise_block_floor
UPDATE users SET block_floor = max(block_floor, :version) WHERE no = :user_no;
-- name: next_turn
UPDATE users SET next_turn = next_turn + 1 WHERE no = :user_no RETURNING next_turn;
-- name: epoch
SELECT epoch FROM users WHERE no = :user_no;
-- name: next_epoch
UPDATE users SET epoch = epoch + 1 WHERE no = :user_no;
-- name: outdate_index
UPDATE users SET index_version = 0 WHERE no = :user_no;
-- name: set_index_version
UPDATE users SET index_version = :version, epoch = epoch + 1 WHERE no = :user_no;

-- name: blocks
SELECT name, content, updated_at, version FROM blocks WHERE user_no = :user_no ORDER BY position, name;
-- name: block
SELECT name, content, updated_at, version FROM blocks WHERE user_no = :user_no AND name = :name;
-- name: put_block
INSERT INTO blocks (user_no, name, content, updated_at, version, position)
VALUES (:user_no, :name, :content, :updated_at, :version,
        (SELECT coalesce(max(position), 0) + 1 FROM blocks WHERE user_no = :user_no))
ON CONFLICT (user_no, name) DO UPDATE
    SET content = excluded.content, updated_at = excluded.updated_at, version = excluded.version;
-- name: delete_block
DELETE FROM blocks WHERE user_no = :user_no AND name = :name;
-- name: delete_blocks
DELETE FROM blocks WHERE user_no = :user_no;

-- name: add_episode
INSERT INTO episodes (user_no, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata)
VALUES (:user_no, :id, :session_id, :turn, :occurred_at, :input, :output, :user_name, :agent_name, :metadata)
ON CONFLICT (user_no, id) DO NOTHING
RETURNING no;
-- name: add_messages
INSERT INTO episode_messages (episode_no, messages) VALUES (:episode_no, :messages);
-- name: episode_by_id
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_no = :user_no AND id = :id;
-- name: list_episodes
SELECT * FROM (
    SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata, turn
    FROM episodes WHERE user_no = :user_no AND (:session_id IS NULL OR session_id = :session_id)
    ORDER BY turn DESC, no DESC LIMIT :limit
) ORDER BY turn, no;
-- name: episodes_by_no
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes
WHERE +user_no = :user_no AND no IN (SELECT value FROM json_each(:numbers))  -- by number, not by user
  AND (:session_id IS NULL OR session_id <> :session_id)
  AND (:ids IS NULL OR id NOT IN (SELECT value FROM json_each(:ids)))
  AND (:at IS NULL OR occurred_at <= :at);
-- name: delete_episodes
DELETE FROM episodes
WHERE user_no = :user_no AND (:session_id IS NULL OR session_id = :session_id)
  AND (:before IS NULL OR occurred_at < :before);

-- name: session_turns
SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata,
       m.messages, e.turn, NULL AS error, 1 AS is_text, 0 AS is_open
FROM episodes e LEFT JOIN episode_messages m ON m.episode_no = e.no
WHERE e.user_no = :user_no AND (:session_id IS NULL OR e.session_id = :session_id)
UNION ALL
SELECT 0, run_id, session_id, started_at, prompt, '', NULL, NULL, '{}', messages, turn, error, is_text, 1
FROM open_runs WHERE user_no = :user_no AND (:session_id IS NULL OR session_id = :session_id)
ORDER BY turn, 1;
-- name: open_run
INSERT INTO open_runs (user_no, run_id, session_id, turn, started_at, prompt, is_text)
VALUES (:user_no, :run_id, :session_id, :turn, :started_at, :prompt, :is_text);
-- name: run_turn
SELECT turn FROM open_runs WHERE user_no = :user_no AND session_id = :session_id AND run_id = :run_id;
-- name: close_run
DELETE FROM open_runs WHERE user_no = :user_no AND session_id = :session_id AND run_id = :run_id;
-- name: interrupt_run
UPDATE open_runs SET messages = :messages, error = :error
WHERE user_no = :user_no AND session_id = :session_id AND run_id = :run_id;
-- name: delete_open_runs
DELETE FROM open_runs
WHERE user_no = :user_no AND (:session_id IS NULL OR session_id = :session_id)
  AND (:before IS NULL OR started_at < :before);

-- name: believed_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata
FROM facts
WHERE user_no = :user_no AND retired_at IS NULL
  AND ((subject_key = :subject_key AND predicate_key = :predicate_key AND (NOT :gathers OR object_key = :object_key))
       OR id = :id)
ORDER BY no;
-- name: fact_by_id
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata
FROM facts WHERE user_no = :user_no AND id = :id AND retired_at IS NULL;
-- name: add_fact
INSERT INTO facts (user_no, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from,
                   valid_until, recorded_at, retired_at, confidence, source_episode_id, metadata)
VALUES (:user_no, :id, :subject, :predicate, :object, :subject_key, :predicate_key, :object_key, :valid_from,
        :valid_until, :recorded_at, :retired_at, :confidence, :source_episode_id, :metadata)
RETURNING no;
-- name: retire_fact
UPDATE facts SET retired_at = :retired_at WHERE user_no = :user_no AND id = :id AND retired_at IS NULL RETURNING no;
-- name: list_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata
FROM facts
WHERE user_no = :user_no
  AND (:subject_key IS NULL OR subject_key = :subject_key)
  AND (:predicate_key IS NULL OR predicate_key = :predicate_key)
  AND (:object_key IS NULL OR object_key = :object_key)
  AND (:valid_at IS NULL OR ((valid_from IS NULL OR valid_from <= :valid_at)
                             AND (valid_until IS NULL OR :valid_at < valid_until)))
  AND (:history
       OR (:known_at IS NULL AND retired_at IS NULL)
       OR (recorded_at <= :known_at AND (retired_at IS NULL OR :known_at < retired_at)))
ORDER BY recorded_at, no;
-- name: facts_by_no
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata
FROM facts
WHERE +user_no = :user_no AND no IN (SELECT value FROM json_each(:numbers))  -- by number, not by user
  AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
  AND ((:at IS NULL AND retired_at IS NULL)
       OR (recorded_at <= :at AND (retired_at IS NULL OR :at < retired_at)))
  AND (source_episode_id IS NULL
       OR ((:ids IS NULL OR source_episode_id NOT IN (SELECT value FROM json_each(:ids)))
           AND (:session_id IS NULL OR source_episode_id NOT IN (
               SELECT id FROM episodes WHERE user_no = :user_no AND session_id = :session_id))));
-- name: delete_facts
DELETE FROM facts
WHERE user_no = :user_no AND (:before IS NULL OR recorded_at < :before)
  AND (:session_id IS NULL
       OR source_episode_id IN (SELECT id FROM episodes WHERE user_no = :user_no AND session_id = :session_id));

-- name: embedder_no
SELECT no FROM embedders WHERE name = :name;
-- name: add_embedder
INSERT INTO embedders (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: counts
SELECT
    (SELECT count(*) FROM users u WHERE (:user_no IS NULL OR u.no = :user_no)
        AND (EXISTS (SELECT 1 FROM blocks WHERE user_no = u.no) OR EXISTS (SELECT 1 FROM facts WHERE user_no = u.no)
          OR EXISTS (SELECT 1 FROM episodes WHERE user_no = u.no)
          OR EXISTS (SELECT 1 FROM open_runs WHERE user_no = u.no))),
    (SELECT count(*) FROM (SELECT DISTINCT user_no, session_id FROM episodes WHERE :user_no IS NULL OR user_no = :user_no)),
    (SELECT count(*) FROM blocks WHERE :user_no IS NULL OR user_no = :user_no),
    (SELECT count(*) FROM facts WHERE retired_at IS NULL AND (:user_no IS NULL OR user_no = :user_no)),
    (SELECT count(*) FROM facts WHERE :user_no IS NULL OR user_no = :user_no),
    (SELECT count(*) FROM episodes WHERE :user_no IS NULL OR user_no = :user_no);
-- name: vector_headers
SELECT user_no, kind, no, items, substr(data, 1, 12) FROM segments
WHERE embedder_no = :embedder_no AND (:user_no IS NULL OR user_no = :user_no) ORDER BY user_no, kind, no;
-- name: numbers_believed
SELECT no FROM facts WHERE retired_at IS NULL AND (:user_no IS NULL OR user_no = :user_no);
-- name: is_empty
SELECT NOT EXISTS (SELECT 1 FROM blocks WHERE user_no = :user_no)
   AND NOT EXISTS (SELECT 1 FROM facts WHERE user_no = :user_no)
   AND NOT EXISTS (SELECT 1 FROM episodes WHERE user_no = :user_no)
   AND NOT EXISTS (SELECT 1 FROM open_runs WHERE user_no = :user_no)
   AND (:everything OR (SELECT block_floor = 0 FROM users WHERE no = :user_no));

-- name: next_segment
SELECT coalesce(max(no), 0) + 1 FROM segments WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no;
-- name: put_segment
INSERT INTO segments (user_no, kind, embedder_no, no, items, data)
VALUES (:user_no, :kind, :embedder_no, :no, :items, :data);
-- name: segments_after
SELECT no, data FROM segments
WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no AND no > :after ORDER BY no;
-- name: segment
SELECT data FROM segments WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no AND no = :no;
-- name: segment_headers
SELECT no, substr(data, 1, 12) FROM segments
WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no ORDER BY no;
-- name: embedders_of
SELECT name, no FROM embedders e
WHERE EXISTS (SELECT 1 FROM segments WHERE user_no = :user_no AND kind = :kind AND embedder_no = e.no);
-- name: segment_sizes
SELECT no, items FROM segments
WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no ORDER BY no;
-- name: segment_groups
SELECT DISTINCT kind, embedder_no FROM segments WHERE user_no = :user_no;
-- name: delete_segment
DELETE FROM segments WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no AND no = :no;
-- name: delete_segments_after
DELETE FROM segments WHERE user_no = :user_no AND kind = :kind AND embedder_no = :embedder_no AND no > :after;
-- name: drop_other_vectors
DELETE FROM segments WHERE user_no = :user_no AND embedder_no NOT IN (0, :embedder_no);
-- name: numbers_of_episodes
SELECT no FROM episodes WHERE user_no = :user_no ORDER BY no;
-- name: numbers_of_facts
SELECT no FROM facts WHERE user_no = :user_no ORDER BY no;
-- name: episode_numbers
SELECT no FROM episodes WHERE user_no = :user_no AND id IN (SELECT value FROM json_each(:ids));
-- name: episodes_of_numbers
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE +user_no = :user_no AND no IN (SELECT value FROM json_each(:numbers)) ORDER BY no LIMIT :limit;
-- name: facts_of_numbers
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata
FROM facts
WHERE +user_no = :user_no AND no IN (SELECT value FROM json_each(:numbers)) AND retired_at IS NULL ORDER BY no LIMIT :limit;
-- name: all_episodes
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_no = :user_no ORDER BY no;
-- name: all_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata
FROM facts WHERE user_no = :user_no ORDER BY no;

-- name: names
SELECT name FROM names WHERE user_no = :user_no ORDER BY name;
-- name: add_name
INSERT INTO names (user_no, name) VALUES (:user_no, :name) ON CONFLICT DO NOTHING;
-- name: drop_names
DELETE FROM names WHERE user_no = :user_no;
-- name: collect_names
INSERT INTO names (user_no, name)
SELECT DISTINCT user_no, user_name FROM episodes WHERE user_no = :user_no AND user_name IS NOT NULL
UNION SELECT DISTINCT user_no, agent_name FROM episodes WHERE user_no = :user_no AND agent_name IS NOT NULL;
