-- name: find_user
SELECT no, index_version FROM users WHERE user_id = :user_id;
-- name: hold_user
SELECT no, index_version FROM users WHERE user_id = :user_id;
-- name: hold_owner
SELECT no FROM users WHERE no = :owner;
-- name: user_id
SELECT user_id FROM users WHERE no = :owner;
-- name: add_user
INSERT INTO users (user_id, index_version) VALUES (:user_id, :version) RETURNING no, index_version;
-- name: drop_user
DELETE FROM users WHERE no = :owner;
-- name: list_users
SELECT user_id FROM users u
WHERE EXISTS (SELECT 1 FROM blocks WHERE user_no = u.no) OR EXISTS (SELECT 1 FROM facts WHERE user_no = u.no)
   OR EXISTS (SELECT 1 FROM episodes WHERE user_no = u.no) OR EXISTS (SELECT 1 FROM open_runs WHERE user_no = u.no)
   OR EXISTS (SELECT 1 FROM block_versions WHERE user_no = u.no)
ORDER BY user_id;
-- name: block_floor
SELECT block_floor, EXISTS (SELECT 1 FROM block_versions WHERE user_no = :owner AND name = :name)
FROM users WHERE no = :owner;
-- name: raise_block_floor
UPDATE users SET block_floor = max(block_floor, :version) WHERE no = :owner;
-- name: next_turn
UPDATE users SET next_turn = next_turn + 1 WHERE no = :owner RETURNING next_turn;
-- name: epoch
SELECT epoch FROM users WHERE no = :owner;
-- name: next_epoch
UPDATE users SET epoch = epoch + 1 WHERE no = :owner;
-- name: outdate_index
UPDATE users SET index_version = 0 WHERE no = :owner;
-- name: set_index_version
UPDATE users SET index_version = :version, epoch = epoch + 1 WHERE no = :owner;

-- name: blocks
SELECT name, content, updated_at, version FROM blocks WHERE user_no = :owner ORDER BY position, name;
-- name: blocks_at
SELECT name, content, updated_at, version FROM (
    SELECT name, content, updated_at, version, position FROM blocks WHERE user_no = :owner AND updated_at <= :at
    UNION ALL
    SELECT name, content, updated_at, version, position FROM block_versions
    WHERE user_no = :owner AND updated_at <= :at AND :at < ended_at
) ORDER BY position, name;
-- name: keep_block_version
INSERT OR REPLACE INTO block_versions (user_no, name, version, content, updated_at, ended_at, position)
SELECT user_no, name, version, content, updated_at, max(:ended_at, updated_at), position
FROM blocks WHERE user_no = :owner AND name = :name;
-- name: drop_old_block_versions
DELETE FROM block_versions
WHERE user_no = :owner AND name = :name AND version NOT IN (
    SELECT version FROM block_versions WHERE user_no = :owner AND name = :name ORDER BY version DESC LIMIT :keep);
-- name: delete_block_versions
DELETE FROM block_versions WHERE user_no = :owner;
-- name: block
SELECT name, content, updated_at, version FROM blocks WHERE user_no = :owner AND name = :name;
-- name: put_block
INSERT INTO blocks (user_no, name, content, updated_at, version, position)
VALUES (:owner, :name, :content, :updated_at, :version,
        (SELECT coalesce(max(position), 0) + 1 FROM blocks WHERE user_no = :owner))
ON CONFLICT (user_no, name) DO UPDATE
    SET content = excluded.content, updated_at = excluded.updated_at, version = excluded.version;
-- name: delete_block
DELETE FROM blocks WHERE user_no = :owner AND name = :name;
-- name: delete_blocks
DELETE FROM blocks WHERE user_no = :owner;

-- name: add_episode
INSERT INTO episodes (user_no, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata)
VALUES (:owner, :id, :session_id, :turn, :occurred_at, :input, :output, :user_name, :agent_name, :metadata)
ON CONFLICT (user_no, id) DO NOTHING
RETURNING no;
-- name: add_messages
INSERT INTO episode_messages (episode_no, messages) VALUES (:no, :messages);
-- name: episode_by_id
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_no = :owner AND id = :id;
-- name: list_episodes
SELECT * FROM (
    SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata, turn
    FROM episodes WHERE user_no = :owner AND (:session_id IS NULL OR session_id = :session_id)
    ORDER BY turn DESC, no DESC LIMIT :limit
) ORDER BY turn, no;
-- name: episodes_by_no
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes
WHERE +user_no = :owner AND no IN (SELECT value FROM json_each(:numbers))  -- by number, not by user
  AND (:session_id IS NULL OR session_id <> :session_id)
  AND (:ids IS NULL OR id NOT IN (SELECT value FROM json_each(:ids)))
  AND (:at IS NULL OR occurred_at <= :at);
-- name: delete_episodes
DELETE FROM episodes
WHERE user_no = :owner AND (:session_id IS NULL OR session_id = :session_id)
  AND (:before IS NULL OR occurred_at < :before);

-- name: session_turns
SELECT * FROM (
    SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata,
           m.messages, e.turn, NULL AS error, 1 AS is_text, 0 AS is_open
    FROM episodes e LEFT JOIN episode_messages m ON m.episode_no = e.no
    WHERE e.user_no = :owner AND e.session_id = :session_id
    UNION ALL
    SELECT 0, run_id, session_id, started_at, prompt, '', NULL, NULL, '{}', messages, turn, error, is_text, 1
    FROM open_runs WHERE user_no = :owner AND session_id = :session_id
    ORDER BY turn DESC, 1 DESC LIMIT :newest
) ORDER BY turn, no;
-- name: all_turns
SELECT * FROM (
    SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata,
           m.messages, e.turn, NULL AS error, 1 AS is_text, 0 AS is_open
    FROM episodes e LEFT JOIN episode_messages m ON m.episode_no = e.no
    WHERE e.user_no = :owner
    UNION ALL
    SELECT 0, run_id, session_id, started_at, prompt, '', NULL, NULL, '{}', messages, turn, error, is_text, 1
    FROM open_runs WHERE user_no = :owner
    ORDER BY turn DESC, 1 DESC LIMIT :newest
) ORDER BY turn, no;
-- name: open_run
INSERT INTO open_runs (user_no, run_id, session_id, turn, started_at, prompt, is_text)
VALUES (:owner, :run_id, :session_id, :turn, :started_at, :prompt, :is_text);
-- name: run_turn
SELECT turn FROM open_runs WHERE user_no = :owner AND session_id = :session_id AND run_id = :run_id;
-- name: close_run
DELETE FROM open_runs WHERE user_no = :owner AND session_id = :session_id AND run_id = :run_id;
-- name: interrupt_run
UPDATE open_runs SET messages = :messages, error = :error
WHERE user_no = :owner AND session_id = :session_id AND run_id = :run_id;
-- name: delete_open_runs
DELETE FROM open_runs
WHERE user_no = :owner AND (:session_id IS NULL OR session_id = :session_id)
  AND (:before IS NULL OR started_at < :before);

-- name: fact_by_id
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts WHERE user_no = :owner AND id = :id AND retired_at IS NULL;
-- name: add_fact
INSERT INTO facts (user_no, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from,
                   valid_until, recorded_at, retired_at, confidence, source_episode_id, metadata, origin, quote,
                   told_at, sources)
VALUES (:owner, :id, :subject, :predicate, :object, :subject_key, :predicate_key, :object_key, :valid_from,
        :valid_until, :recorded_at, :retired_at, :confidence, :source_episode_id, :metadata, :origin, :quote,
        :told_at, :sources)
RETURNING no;
-- name: retire_fact
UPDATE facts SET retired_at = :retired_at, sources = :sources
WHERE user_no = :owner AND id = :id AND retired_at IS NULL
RETURNING no;
-- name: believed_of_thing
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts
WHERE user_no = :owner AND subject_key = :subject_key AND predicate_key = :predicate_key
  AND (:object_key IS NULL OR object_key = :object_key) AND retired_at IS NULL
ORDER BY recorded_at, no;
-- name: list_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts
WHERE user_no = :owner
  AND (:id IS NULL OR id = :id)
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
       source_episode_id, metadata, origin, quote, told_at
FROM facts
WHERE +user_no = :owner AND no IN (SELECT value FROM json_each(:numbers))  -- by number, not by user
  AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
  AND ((:at IS NULL AND retired_at IS NULL)
       OR (recorded_at <= :at AND (retired_at IS NULL OR :at < retired_at)))
  AND (source_episode_id IS NULL
       OR ((:ids IS NULL OR source_episode_id NOT IN (SELECT value FROM json_each(:ids)))
           AND (:session_id IS NULL OR source_episode_id NOT IN (
               SELECT id FROM episodes WHERE user_no = :owner AND session_id = :session_id))));
-- name: facts_told
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts
WHERE user_no = :owner AND EXISTS (
    SELECT 1 FROM json_each(coalesce(
        facts.sources,
        json_array(json_array(facts.id, coalesce(facts.told_at, facts.recorded_at), 0, 0, 0, facts.source_episode_id))
    )) AS source
    WHERE (:before IS NULL OR json_extract(source.value, '$[1]') < :before)
      AND (:session_id IS NULL OR json_extract(source.value, '$[5]') IN (
          SELECT id FROM episodes WHERE user_no = :owner AND session_id = :session_id
          UNION SELECT run_id FROM open_runs WHERE user_no = :owner AND session_id = :session_id)))
ORDER BY no;
-- name: episode_ids
SELECT id FROM episodes WHERE user_no = :owner AND session_id = :session_id
UNION SELECT run_id FROM open_runs WHERE user_no = :owner AND session_id = :session_id;
-- name: delete_fact
DELETE FROM facts WHERE user_no = :owner AND no = :no;
-- name: set_sources
UPDATE facts
SET sources = :sources, source_episode_id = :source_episode_id, quote = :quote, origin = :origin, metadata = :metadata
WHERE user_no = :owner AND no = :no;
-- name: delete_facts
DELETE FROM facts WHERE user_no = :owner;

-- name: queue
INSERT INTO undistilled (episode_no, user_no, due_at) VALUES (:no, :owner, :due_at)
ON CONFLICT (episode_no) DO NOTHING;
-- name: claim
UPDATE undistilled SET claim = :claim, claimed_until = :until, attempts = attempts + 1
WHERE episode_no IN (
    SELECT episode_no FROM undistilled
    WHERE NOT is_parked AND due_at <= :now AND (claim IS NULL OR claimed_until <= :now)
      AND (:owner IS NULL OR user_no = :owner)
    ORDER BY due_at, episode_no LIMIT :limit)
RETURNING episode_no, user_no, attempts;
-- name: claimed_episode
SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata, m.messages,
       u.user_id
FROM episodes e JOIN users u ON u.no = e.user_no LEFT JOIN episode_messages m ON m.episode_no = e.no
WHERE e.user_no = :owner AND e.no = :no;
-- name: is_claimed
SELECT q.episode_no FROM undistilled q JOIN episodes e ON e.no = q.episode_no
WHERE e.user_no = :owner AND e.id = :id AND q.claim = :claim;
-- name: unqueue
DELETE FROM undistilled WHERE user_no = :owner AND episode_no = :no;
-- name: postpone
UPDATE undistilled SET claim = NULL, claimed_until = NULL, error = :error, due_at = :due_at, is_parked = :is_parked
WHERE user_no = :owner AND episode_no = :no;
-- name: release
UPDATE undistilled SET claim = NULL, claimed_until = NULL, attempts = attempts - NOT :was_tried WHERE claim = :claim;
-- name: claims
SELECT DISTINCT claim FROM undistilled WHERE claim IS NOT NULL;
-- name: unpark
UPDATE undistilled SET is_parked = 0, attempts = 0, due_at = :now
WHERE is_parked AND (:owner IS NULL OR user_no = :owner);
-- name: undistilled_counts
SELECT coalesce(sum(NOT is_parked), 0), coalesce(sum(is_parked), 0),
       coalesce(sum(NOT is_parked AND due_at <= :now AND (claim IS NULL OR claimed_until <= :now)), 0),
       min(CASE WHEN NOT is_parked THEN max(due_at, coalesce(claimed_until, 0)) END)
FROM undistilled WHERE :owner IS NULL OR user_no = :owner;
-- name: parked_errors
SELECT error, count(*) FROM undistilled
WHERE is_parked AND (:owner IS NULL OR user_no = :owner) GROUP BY error ORDER BY 2 DESC, 1 LIMIT 5;

-- name: embedder_no
SELECT no FROM embedders WHERE name = :name;
-- name: add_embedder
INSERT INTO embedders (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: size
SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size);
-- name: counts
SELECT
    (SELECT count(*) FROM users u WHERE (:owner IS NULL OR u.no = :owner)
        AND (EXISTS (SELECT 1 FROM blocks WHERE user_no = u.no) OR EXISTS (SELECT 1 FROM facts WHERE user_no = u.no)
          OR EXISTS (SELECT 1 FROM episodes WHERE user_no = u.no)
          OR EXISTS (SELECT 1 FROM open_runs WHERE user_no = u.no)
          OR EXISTS (SELECT 1 FROM block_versions WHERE user_no = u.no))),
    (SELECT count(*) FROM (SELECT DISTINCT user_no, session_id FROM episodes WHERE :owner IS NULL OR user_no = :owner)),
    (SELECT count(*) FROM blocks WHERE :owner IS NULL OR user_no = :owner),
    (SELECT count(*) FROM facts WHERE retired_at IS NULL AND (:owner IS NULL OR user_no = :owner)),
    (SELECT count(*) FROM facts WHERE :owner IS NULL OR user_no = :owner),
    (SELECT count(*) FROM episodes WHERE :owner IS NULL OR user_no = :owner);
-- name: vector_headers
SELECT user_no, kind, no, items, substr(data, 1, 12) FROM segments
WHERE embedder_no = :embedder_no AND (:owner IS NULL OR user_no = :owner) ORDER BY user_no, kind, no;
-- name: numbers_believed
SELECT no FROM facts WHERE retired_at IS NULL AND (:owner IS NULL OR user_no = :owner);
-- name: is_empty
SELECT NOT EXISTS (SELECT 1 FROM blocks WHERE user_no = :owner)
   AND NOT EXISTS (SELECT 1 FROM facts WHERE user_no = :owner)
   AND NOT EXISTS (SELECT 1 FROM episodes WHERE user_no = :owner)
   AND NOT EXISTS (SELECT 1 FROM open_runs WHERE user_no = :owner)
   AND (:everything OR (SELECT block_floor = 0 FROM users WHERE no = :owner));

-- name: next_segment
SELECT coalesce(max(no), 0) + 1 FROM segments WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no;
-- name: put_segment
INSERT INTO segments (user_no, kind, embedder_no, no, items, data)
VALUES (:owner, :kind, :embedder_no, :no, :items, :data);
-- name: segments_after
SELECT no, data FROM segments
WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no AND no > :after ORDER BY no;
-- name: segment
SELECT data FROM segments WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no AND no = :no;
-- name: segment_headers
SELECT no, substr(data, 1, 12) FROM segments
WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no ORDER BY no;
-- name: embedders_of
SELECT name, no FROM embedders e
WHERE EXISTS (SELECT 1 FROM segments WHERE user_no = :owner AND kind = :kind AND embedder_no = e.no);
-- name: segment_sizes
SELECT no, items FROM segments
WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no ORDER BY no;
-- name: segment_groups
SELECT DISTINCT kind, embedder_no FROM segments WHERE user_no = :owner;
-- name: delete_segment
DELETE FROM segments WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no AND no = :no;
-- name: delete_segments_after
DELETE FROM segments WHERE user_no = :owner AND kind = :kind AND embedder_no = :embedder_no AND no > :after;
-- name: drop_other_vectors
DELETE FROM segments WHERE user_no = :owner AND embedder_no NOT IN (0, :embedder_no);
-- name: numbers_of_episodes
SELECT no FROM episodes WHERE user_no = :owner ORDER BY no;
-- name: numbers_of_facts
SELECT no FROM facts WHERE user_no = :owner ORDER BY no;
-- name: episode_numbers
SELECT no FROM episodes WHERE user_no = :owner AND id IN (SELECT value FROM json_each(:ids));
-- name: episodes_of_numbers
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE +user_no = :owner AND no IN (SELECT value FROM json_each(:numbers)) ORDER BY no LIMIT :limit;
-- name: facts_of_numbers
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at
FROM facts
WHERE +user_no = :owner AND no IN (SELECT value FROM json_each(:numbers)) AND retired_at IS NULL ORDER BY no LIMIT :limit;
-- name: all_episodes
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_no = :owner ORDER BY no;
-- name: all_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts WHERE user_no = :owner ORDER BY no;

-- name: names
SELECT name, is_agent FROM names WHERE user_no = :owner;
-- name: names_at
SELECT user_name AS name, 0 AS is_agent FROM episodes
WHERE user_no = :owner AND user_name IS NOT NULL AND occurred_at <= :at
UNION SELECT agent_name, 1 FROM episodes
WHERE user_no = :owner AND agent_name IS NOT NULL AND occurred_at <= :at;
-- name: user_names
SELECT name FROM names WHERE user_no = :owner AND NOT is_agent ORDER BY name;
-- name: user_names_at
SELECT DISTINCT user_name FROM episodes
WHERE user_no = :owner AND user_name IS NOT NULL AND occurred_at <= :at ORDER BY user_name;
-- name: add_name
INSERT INTO names (user_no, name, is_agent) VALUES (:owner, :name, :is_agent) ON CONFLICT DO NOTHING;
-- name: drop_names
DELETE FROM names WHERE user_no = :owner;
-- name: collect_names
INSERT INTO names (user_no, name, is_agent)
SELECT DISTINCT user_no, user_name, 0 FROM episodes WHERE user_no = :owner AND user_name IS NOT NULL
UNION SELECT DISTINCT user_no, agent_name, 1 FROM episodes WHERE user_no = :owner AND agent_name IS NOT NULL;
-- name: aliases
SELECT subject, object FROM facts
WHERE user_no = :owner AND retired_at IS NULL AND predicate_key = 'same as' AND valid_until IS NULL
  AND origin = 'user' AND quote IS NULL
ORDER BY no;
-- name: aliases_at
SELECT subject, object FROM facts
WHERE user_no = :owner AND predicate_key = 'same as' AND valid_until IS NULL AND origin = 'user' AND quote IS NULL
  AND recorded_at <= :at AND (retired_at IS NULL OR :at < retired_at)
ORDER BY no;
