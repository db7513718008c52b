-- name: find_user
SELECT user_id, index_version FROM users WHERE user_id = %(user_id)s;
-- name: hold_user
SELECT user_id, index_version FROM users WHERE user_id = %(user_id)s FOR UPDATE;
-- name: hold_owner
SELECT user_id FROM users WHERE user_id = %(owner)s FOR UPDATE;
-- name: user_id
SELECT coalesce(full_id, user_id) FROM users WHERE user_id = %(owner)s;
-- name: add_user
INSERT INTO users (user_id, full_id, index_version)
VALUES (%(user_id)s, nullif(%(full_id)s::text, %(user_id)s), %(version)s)
ON CONFLICT (user_id) DO UPDATE SET user_id = excluded.user_id  -- to hold it
RETURNING user_id, index_version;
-- name: drop_user
DELETE FROM users WHERE user_id = %(owner)s;
-- name: list_users
SELECT coalesce(full_id, user_id) COLLATE "C" FROM users u
WHERE EXISTS (SELECT 1 FROM blocks WHERE user_id = u.user_id) OR EXISTS (SELECT 1 FROM facts WHERE user_id = u.user_id)
   OR EXISTS (SELECT 1 FROM episodes WHERE user_id = u.user_id) OR EXISTS (SELECT 1 FROM open_runs WHERE user_id = u.user_id)
   OR EXISTS (SELECT 1 FROM block_versions WHERE user_id = u.user_id)
ORDER BY 1;
-- name: block_floor
SELECT block_floor, EXISTS (SELECT 1 FROM block_versions WHERE user_id = %(owner)s AND md5(name) = md5(%(name)s) AND name = %(name)s)
FROM users WHERE user_id = %(owner)s;
-- name: raise_block_floor
UPDATE users SET block_floor = greatest(block_floor, %(version)s) WHERE user_id = %(owner)s;
-- name: next_turn
UPDATE users SET next_turn = next_turn + 1 WHERE user_id = %(owner)s RETURNING next_turn;
-- name: epoch
SELECT epoch FROM users WHERE user_id = %(owner)s;
-- name: next_epoch
UPDATE users SET epoch = epoch + 1 WHERE user_id = %(owner)s;
-- name: outdate_index
UPDATE users SET index_version = 0 WHERE user_id = %(owner)s;
-- name: set_index_version
WITH outdated AS (DELETE FROM large_episodes WHERE user_id = %(owner)s),
     unread AS (DELETE FROM large_up_to WHERE user_id = %(owner)s AND embedder_no = 0)
UPDATE users SET index_version = %(version)s, epoch = epoch + 1 WHERE user_id = %(owner)s;

-- name: blocks
SELECT name, content, updated_at, version FROM blocks WHERE user_id = %(owner)s ORDER BY position, name;
-- name: blocks_at
SELECT name, content, updated_at, version FROM (
    SELECT name, content, updated_at, version, position FROM blocks WHERE user_id = %(owner)s AND updated_at <= %(at)s
    UNION ALL
    SELECT name, content, updated_at, version, position FROM block_versions
    WHERE user_id = %(owner)s AND updated_at <= %(at)s AND %(at)s < ended_at
) AS versions ORDER BY position, name;
-- name: keep_block_version
INSERT INTO block_versions (user_id, name, version, content, updated_at, ended_at, position)
SELECT user_id, name, version, content, updated_at, greatest(%(ended_at)s, updated_at), position
FROM blocks WHERE user_id = %(owner)s AND md5(name) = md5(%(name)s) AND name = %(name)s
ON CONFLICT (user_id, md5(name), version) DO UPDATE
    SET content = excluded.content, updated_at = excluded.updated_at, ended_at = excluded.ended_at;
-- name: drop_old_block_versions
DELETE FROM block_versions
WHERE user_id = %(owner)s AND md5(name) = md5(%(name)s) AND name = %(name)s AND version NOT IN (
    SELECT version FROM block_versions WHERE user_id = %(owner)s AND md5(name) = md5(%(name)s) AND name = %(name)s ORDER BY version DESC LIMIT %(keep)s);
-- name: delete_block_versions
DELETE FROM block_versions WHERE user_id = %(owner)s;
-- name: block
SELECT name, content, updated_at, version FROM blocks WHERE user_id = %(owner)s AND md5(name) = md5(%(name)s) AND name = %(name)s;
-- name: put_block
INSERT INTO blocks (user_id, name, content, updated_at, version, position)
VALUES (%(owner)s, %(name)s, %(content)s, %(updated_at)s, %(version)s,
        (SELECT coalesce(max(position), 0) + 1 FROM blocks WHERE user_id = %(owner)s))
ON CONFLICT (user_id, md5(name)) DO UPDATE
    SET content = excluded.content, updated_at = excluded.updated_at, version = excluded.version;
-- name: delete_block
DELETE FROM blocks WHERE user_id = %(owner)s AND md5(name) = md5(%(name)s) AND name = %(name)s;
-- name: delete_blocks
DELETE FROM blocks WHERE user_id = %(owner)s;

-- name: add_episode
INSERT INTO episodes (user_id, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata)
VALUES (%(owner)s, %(id)s, %(session_id)s, %(turn)s, %(occurred_at)s, %(input)s, %(output)s, %(user_name)s, %(agent_name)s, %(metadata)s)
ON CONFLICT (user_id, md5(id)) DO NOTHING
RETURNING no;
-- name: add_messages
INSERT INTO episode_messages (user_id, episode_no, messages) VALUES (%(owner)s, %(no)s, %(messages)s);
-- name: episode_by_id
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_id = %(owner)s AND md5(id) = md5(%(id)s) AND id = %(id)s;
-- name: list_episodes
SELECT * FROM (
    SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata, turn
    FROM episodes WHERE user_id = %(owner)s AND (%(session_id)s::text IS NULL
       OR (md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s))
    ORDER BY turn DESC, no DESC LIMIT nullif(%(limit)s::bigint, -1)
) AS newest ORDER BY turn, no;
-- name: episodes_by_no
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes
WHERE user_id = %(owner)s AND no IN (SELECT json_array_elements_text(%(numbers)s::json)::bigint)  
  AND (%(session_id)s::text IS NULL OR session_id <> %(session_id)s)
  AND (%(ids)s::text IS NULL OR id NOT IN (SELECT json_array_elements_text(%(ids)s::json)))
  AND (%(at)s::bigint IS NULL OR occurred_at <= %(at)s);
-- name: delete_episodes
DELETE FROM episodes
WHERE user_id = %(owner)s AND (%(session_id)s::text IS NULL
       OR (md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s))
  AND (%(before)s::bigint IS NULL OR occurred_at < %(before)s);

-- name: session_turns
SELECT * FROM (
    SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata,
           m.messages, e.turn, NULL::text AS error, true AS is_text, 0 AS is_open
    FROM episodes e LEFT JOIN episode_messages m ON m.user_id = e.user_id AND m.episode_no = e.no
    WHERE e.user_id = %(owner)s AND md5(e.session_id) = md5(%(session_id)s) AND e.session_id = %(session_id)s
    UNION ALL
    SELECT 0::bigint, run_id, session_id, started_at, prompt, '', NULL::text, NULL::text, '{}', messages, turn, error, is_text, 1
    FROM open_runs WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s
    ORDER BY turn DESC, 1 DESC LIMIT nullif(%(newest)s::bigint, -1)
) AS newest ORDER BY turn, no;
-- name: all_turns
SELECT * FROM (
    SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata,
           m.messages, e.turn, NULL::text AS error, true AS is_text, 0 AS is_open
    FROM episodes e LEFT JOIN episode_messages m ON m.user_id = e.user_id AND m.episode_no = e.no
    WHERE e.user_id = %(owner)s
    UNION ALL
    SELECT 0::bigint, run_id, session_id, started_at, prompt, '', NULL::text, NULL::text, '{}', messages, turn, error, is_text, 1
    FROM open_runs WHERE user_id = %(owner)s
    ORDER BY turn DESC, 1 DESC LIMIT nullif(%(newest)s::bigint, -1)
) AS newest ORDER BY turn, no;
-- name: open_run
INSERT INTO open_runs (user_id, run_id, session_id, turn, started_at, prompt, is_text)
VALUES (%(owner)s, %(run_id)s, %(session_id)s, %(turn)s, %(started_at)s, %(prompt)s, %(is_text)s);
-- name: run_turn
SELECT turn FROM open_runs WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s AND md5(run_id) = md5(%(run_id)s) AND run_id = %(run_id)s;
-- name: close_run
DELETE FROM open_runs WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s AND md5(run_id) = md5(%(run_id)s) AND run_id = %(run_id)s;
-- name: interrupt_run
UPDATE open_runs SET messages = %(messages)s, error = %(error)s
WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s AND md5(run_id) = md5(%(run_id)s) AND run_id = %(run_id)s;
-- name: delete_open_runs
DELETE FROM open_runs
WHERE user_id = %(owner)s AND (%(session_id)s::text IS NULL
       OR (md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s))
  AND (%(before)s::bigint IS NULL OR started_at < %(before)s);

-- name: fact_by_id
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts WHERE user_id = %(owner)s AND md5(id) = md5(%(id)s) AND id = %(id)s AND retired_at IS NULL;
-- name: add_fact
INSERT INTO facts (user_id, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from,
                   valid_until, recorded_at, retired_at, confidence, source_episode_id, metadata, origin, quote,
                   told_at, sources)
VALUES (%(owner)s, %(id)s, %(subject)s, %(predicate)s, %(object)s, %(subject_key)s, %(predicate_key)s, %(object_key)s, %(valid_from)s,
        %(valid_until)s, %(recorded_at)s, %(retired_at)s, %(confidence)s, %(source_episode_id)s, %(metadata)s, %(origin)s, %(quote)s,
        %(told_at)s, %(sources)s)
RETURNING no;
-- name: retire_fact
UPDATE facts SET retired_at = %(retired_at)s, sources = %(sources)s
WHERE user_id = %(owner)s AND md5(id) = md5(%(id)s) AND id = %(id)s AND retired_at IS NULL
RETURNING no;
-- name: believed_of_thing
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts
WHERE user_id = %(owner)s AND md5(subject_key) = md5(%(subject_key)s) AND md5(predicate_key) = md5(%(predicate_key)s)
  AND subject_key = %(subject_key)s AND predicate_key = %(predicate_key)s
  AND (%(object_key)s::text IS NULL OR object_key = %(object_key)s) AND retired_at IS NULL
ORDER BY recorded_at, no;
-- name: list_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts
WHERE user_id = %(owner)s
  AND (%(id)s::text IS NULL OR (md5(id) = md5(%(id)s) AND id = %(id)s))
  AND (%(subject_key)s::text IS NULL OR subject_key = %(subject_key)s)
  AND (%(predicate_key)s::text IS NULL OR predicate_key = %(predicate_key)s)
  AND (%(object_key)s::text IS NULL OR object_key = %(object_key)s)
  AND (%(valid_at)s::bigint IS NULL OR ((valid_from IS NULL OR valid_from <= %(valid_at)s)
                             AND (valid_until IS NULL OR %(valid_at)s < valid_until)))
  AND (%(history)s
       OR (%(known_at)s::bigint IS NULL AND retired_at IS NULL)
       OR (recorded_at <= %(known_at)s AND (retired_at IS NULL OR %(known_at)s < retired_at)))
ORDER BY recorded_at, no;
-- name: facts_by_no
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at
FROM facts
WHERE user_id = %(owner)s AND no IN (SELECT json_array_elements_text(%(numbers)s::json)::bigint)  
  AND (valid_from IS NULL OR valid_from <= %(now)s) AND (valid_until IS NULL OR %(now)s < valid_until)
  AND ((%(at)s::bigint IS NULL AND retired_at IS NULL)
       OR (recorded_at <= %(at)s AND (retired_at IS NULL OR %(at)s < retired_at)))
  AND (source_episode_id IS NULL
       OR ((%(ids)s::text IS NULL OR source_episode_id NOT IN (SELECT json_array_elements_text(%(ids)s::json)))
           AND (%(session_id)s::text IS NULL OR source_episode_id NOT IN (
               SELECT id FROM episodes WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s))));
-- name: facts_told
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts
WHERE user_id = %(owner)s AND EXISTS (
    SELECT 1 FROM json_array_elements(coalesce(
        sources::json,
        json_build_array(json_build_array(id, coalesce(told_at, recorded_at), 0, 0, 0, source_episode_id))
    )) AS source
    WHERE (%(before)s::bigint IS NULL OR (source -> 1)::text::bigint < %(before)s)
      AND (%(session_id)s::text IS NULL OR (source -> 5)::text IN (  -- compared as JSON: other parts may hold NUL
          SELECT to_json(id)::text FROM episodes
          WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s
          UNION SELECT to_json(run_id)::text FROM open_runs
          WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s)))
ORDER BY no;
-- name: episode_ids
SELECT id FROM episodes WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s
UNION SELECT run_id FROM open_runs WHERE user_id = %(owner)s AND md5(session_id) = md5(%(session_id)s) AND session_id = %(session_id)s;
-- name: delete_fact
DELETE FROM facts WHERE user_id = %(owner)s AND no = %(no)s;
-- name: set_sources
UPDATE facts
SET sources = %(sources)s, source_episode_id = %(source_episode_id)s, quote = %(quote)s, origin = %(origin)s, metadata = %(metadata)s
WHERE user_id = %(owner)s AND no = %(no)s;
-- name: delete_facts
DELETE FROM facts WHERE user_id = %(owner)s;

-- name: queue
INSERT INTO undistilled (user_id, episode_no, due_at) VALUES (%(owner)s, %(no)s, %(due_at)s)
ON CONFLICT (user_id, episode_no) DO NOTHING;
-- name: claim
UPDATE undistilled AS q SET claim = %(claim)s, claimed_until = %(until)s, attempts = attempts + 1
FROM (
    SELECT user_id, episode_no FROM undistilled
    WHERE NOT is_parked AND due_at <= %(now)s AND (claim IS NULL OR claimed_until <= %(now)s)
      AND (%(owner)s::text IS NULL OR user_id = %(owner)s)
    ORDER BY due_at, episode_no LIMIT %(limit)s FOR UPDATE SKIP LOCKED) AS due
WHERE q.user_id = due.user_id AND q.episode_no = due.episode_no
RETURNING q.episode_no, q.user_id, q.attempts;
-- name: claimed_episode
SELECT e.no, e.id, e.session_id, e.occurred_at, e.input, e.output, e.user_name, e.agent_name, e.metadata, m.messages,
       coalesce(u.full_id, u.user_id)
FROM episodes e JOIN users u ON u.user_id = e.user_id
    LEFT JOIN episode_messages m ON m.user_id = e.user_id AND m.episode_no = e.no
WHERE e.user_id = %(owner)s AND e.no = %(no)s;
-- name: is_claimed
SELECT q.episode_no FROM undistilled q JOIN episodes e ON e.user_id = q.user_id AND e.no = q.episode_no
WHERE e.user_id = %(owner)s AND md5(e.id) = md5(%(id)s) AND e.id = %(id)s AND q.claim = %(claim)s
FOR UPDATE OF q;
-- name: unqueue
DELETE FROM undistilled WHERE user_id = %(owner)s AND episode_no = %(no)s;
-- name: postpone
UPDATE undistilled SET claim = NULL, claimed_until = NULL, error = %(error)s, due_at = %(due_at)s, is_parked = %(is_parked)s
WHERE user_id = %(owner)s AND episode_no = %(no)s;
-- name: release
UPDATE undistilled SET claim = NULL, claimed_until = NULL, attempts = attempts - (NOT %(was_tried)s)::int WHERE claim = %(claim)s;
-- name: claims
SELECT DISTINCT claim FROM undistilled WHERE claim IS NOT NULL;
-- name: unpark
UPDATE undistilled SET is_parked = false, attempts = 0, due_at = %(now)s
WHERE is_parked AND (%(owner)s::text IS NULL OR user_id = %(owner)s);
-- name: undistilled_counts
SELECT count(*) FILTER (WHERE NOT is_parked), count(*) FILTER (WHERE is_parked),
       count(*) FILTER (WHERE NOT is_parked AND due_at <= %(now)s AND (claim IS NULL OR claimed_until <= %(now)s)),
       min(greatest(due_at, coalesce(claimed_until, 0))) FILTER (WHERE NOT is_parked)
FROM undistilled WHERE %(owner)s::text IS NULL OR user_id = %(owner)s;
-- name: parked_errors
SELECT error, count(*) FROM undistilled
WHERE is_parked AND (%(owner)s::text IS NULL OR user_id = %(owner)s) GROUP BY error ORDER BY 2 DESC, 1 LIMIT 5;

-- name: embedder_no
SELECT no FROM embedders WHERE md5(name) = md5(%(name)s) AND name = %(name)s;
-- name: add_embedder
INSERT INTO embedders (name) VALUES (%(name)s) ON CONFLICT (md5(name)) DO NOTHING;

-- name: size
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';
-- name: counts
SELECT
    (SELECT count(*) FROM users u WHERE (%(owner)s::text IS NULL OR u.user_id = %(owner)s)
        AND (EXISTS (SELECT 1 FROM blocks WHERE user_id = u.user_id) OR EXISTS (SELECT 1 FROM facts WHERE user_id = u.user_id)
          OR EXISTS (SELECT 1 FROM episodes WHERE user_id = u.user_id)
          OR EXISTS (SELECT 1 FROM open_runs WHERE user_id = u.user_id)
          OR EXISTS (SELECT 1 FROM block_versions WHERE user_id = u.user_id))),
    (SELECT count(*) FROM (SELECT DISTINCT user_id, session_id FROM episodes
        WHERE %(owner)s::text IS NULL OR user_id = %(owner)s) AS sessions),
    (SELECT count(*) FROM blocks WHERE %(owner)s::text IS NULL OR user_id = %(owner)s),
    (SELECT count(*) FROM facts WHERE retired_at IS NULL AND (%(owner)s::text IS NULL OR user_id = %(owner)s)),
    (SELECT count(*) FROM facts WHERE %(owner)s::text IS NULL OR user_id = %(owner)s),
    (SELECT count(*) FROM episodes WHERE %(owner)s::text IS NULL OR user_id = %(owner)s);
-- name: vector_headers
SELECT user_id, kind, no, items, substr(data, 1, 12) FROM segments
WHERE embedder_no = %(embedder_no)s AND (%(owner)s::text IS NULL OR user_id = %(owner)s) ORDER BY user_id, kind, no;
-- name: numbers_believed
SELECT no FROM facts WHERE retired_at IS NULL AND (%(owner)s::text IS NULL OR user_id = %(owner)s);
-- name: is_empty
SELECT NOT EXISTS (SELECT 1 FROM blocks WHERE user_id = %(owner)s)
   AND NOT EXISTS (SELECT 1 FROM facts WHERE user_id = %(owner)s)
   AND NOT EXISTS (SELECT 1 FROM episodes WHERE user_id = %(owner)s)
   AND NOT EXISTS (SELECT 1 FROM open_runs WHERE user_id = %(owner)s)
   AND (%(everything)s OR (SELECT block_floor = 0 FROM users WHERE user_id = %(owner)s));

-- name: next_segment
SELECT nextval('segment_numbers');
-- name: put_segment
INSERT INTO segments (user_id, kind, embedder_no, no, items, data)
VALUES (%(owner)s, %(kind)s, %(embedder_no)s, %(no)s, %(items)s, %(data)s);
-- name: segments_after
SELECT no, data FROM segments
WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = %(embedder_no)s AND no > %(after)s ORDER BY no;
-- name: segment
SELECT data FROM segments WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = %(embedder_no)s AND no = %(no)s;
-- name: segment_headers
SELECT no, substr(data, 1, 12) FROM segments
WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = %(embedder_no)s ORDER BY no;
-- name: embedders_of
SELECT name, no FROM embedders e
WHERE EXISTS (SELECT 1 FROM segments WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = e.no);
-- name: segment_sizes
SELECT no, items FROM segments
WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = %(embedder_no)s ORDER BY no;
-- name: segment_groups
SELECT DISTINCT kind, embedder_no FROM segments WHERE user_id = %(owner)s;
-- name: delete_segment
DELETE FROM segments WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = %(embedder_no)s AND no = %(no)s;
-- name: delete_segments_after
DELETE FROM segments WHERE user_id = %(owner)s AND kind = %(kind)s AND embedder_no = %(embedder_no)s AND no > %(after)s;
-- name: drop_other_vectors
DELETE FROM segments WHERE user_id = %(owner)s AND embedder_no NOT IN (0, %(embedder_no)s);
-- name: numbers_of_episodes
SELECT no FROM episodes WHERE user_id = %(owner)s ORDER BY no;
-- name: numbers_of_facts
SELECT no FROM facts WHERE user_id = %(owner)s ORDER BY no;
-- name: episode_numbers
SELECT no FROM episodes WHERE user_id = %(owner)s AND id IN (SELECT json_array_elements_text(%(ids)s::json));
-- name: episodes_of_numbers
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_id = %(owner)s AND no IN (SELECT json_array_elements_text(%(numbers)s::json)::bigint) ORDER BY no LIMIT nullif(%(limit)s::bigint, -1);
-- name: facts_of_numbers
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at
FROM facts
WHERE user_id = %(owner)s AND no IN (SELECT json_array_elements_text(%(numbers)s::json)::bigint) AND retired_at IS NULL ORDER BY no LIMIT nullif(%(limit)s::bigint, -1);
-- name: all_episodes
SELECT no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata
FROM episodes WHERE user_id = %(owner)s ORDER BY no;
-- name: all_facts
SELECT no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, confidence,
       source_episode_id, metadata, origin, quote, told_at, sources
FROM facts WHERE user_id = %(owner)s ORDER BY no;

-- name: names
SELECT name, is_agent FROM names WHERE user_id = %(owner)s;
-- name: names_at
SELECT user_name AS name, false AS is_agent FROM episodes
WHERE user_id = %(owner)s AND user_name IS NOT NULL AND occurred_at <= %(at)s
UNION SELECT agent_name, true FROM episodes
WHERE user_id = %(owner)s AND agent_name IS NOT NULL AND occurred_at <= %(at)s;
-- name: user_names
SELECT name FROM names WHERE user_id = %(owner)s AND NOT is_agent ORDER BY name;
-- name: user_names_at
SELECT DISTINCT user_name FROM episodes
WHERE user_id = %(owner)s AND user_name IS NOT NULL AND occurred_at <= %(at)s ORDER BY user_name;
-- name: add_name
INSERT INTO names (user_id, name, is_agent) VALUES (%(owner)s, %(name)s, %(is_agent)s::int::boolean) ON CONFLICT DO NOTHING;
-- name: drop_names
DELETE FROM names WHERE user_id = %(owner)s;
-- name: collect_names
INSERT INTO names (user_id, name, is_agent)
SELECT DISTINCT user_id, user_name, false FROM episodes WHERE user_id = %(owner)s AND user_name IS NOT NULL
UNION SELECT DISTINCT user_id, agent_name, true FROM episodes WHERE user_id = %(owner)s AND agent_name IS NOT NULL;
-- name: aliases
SELECT subject, object FROM facts
WHERE user_id = %(owner)s AND retired_at IS NULL AND predicate_key = 'same as' AND valid_until IS NULL
  AND origin = 'user' AND quote IS NULL
ORDER BY no;
-- name: aliases_at
SELECT subject, object FROM facts
WHERE user_id = %(owner)s AND predicate_key = 'same as' AND valid_until IS NULL AND origin = 'user' AND quote IS NULL
  AND recorded_at <= %(at)s AND (retired_at IS NULL OR %(at)s < retired_at)
ORDER BY no;
