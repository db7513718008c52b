-- Moving all rows of a user to another database, see `copying.py`. Rows keep their numbers.

-- name: read_episodes
SELECT no, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata FROM episodes
WHERE user_id = %(owner)s AND no IN (SELECT (one->>0)::bigint FROM json_array_elements(%(keys)s::json) AS one);
-- name: write_episodes
INSERT INTO episodes (user_id, no, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata)
VALUES (%(owner)s, %(no)s, %(id)s, %(session_id)s, %(turn)s, %(occurred_at)s, %(input)s, %(output)s, %(user_name)s,
    %(agent_name)s, %(metadata)s);
-- name: read_episode_messages
SELECT episode_no, messages FROM episode_messages
WHERE user_id = %(owner)s AND episode_no IN (SELECT (one->>0)::bigint FROM json_array_elements(%(keys)s::json) AS one);
-- name: write_episode_messages
INSERT INTO episode_messages (user_id, episode_no, messages)
VALUES (%(owner)s, %(episode_no)s, %(messages)s);
-- name: read_undistilled
SELECT episode_no, attempts, due_at, claim, claimed_until, error, is_parked FROM undistilled
WHERE user_id = %(owner)s AND episode_no IN (SELECT (one->>0)::bigint FROM json_array_elements(%(keys)s::json) AS one);
-- name: write_undistilled
INSERT INTO undistilled (user_id, episode_no, attempts, due_at, claim, claimed_until, error, is_parked)
VALUES (%(owner)s, %(episode_no)s, %(attempts)s, %(due_at)s, %(claim)s, %(claimed_until)s, %(error)s,
    %(is_parked)s::int::boolean);
-- name: read_facts
SELECT no, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from, valid_until,
       recorded_at, retired_at, confidence, source_episode_id, metadata, origin, quote, told_at, sources FROM facts
WHERE user_id = %(owner)s AND no IN (SELECT (one->>0)::bigint FROM json_array_elements(%(keys)s::json) AS one);
-- name: write_facts
INSERT INTO facts (user_id, no, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from,
    valid_until, recorded_at, retired_at, confidence, source_episode_id, metadata, origin, quote, told_at, sources)
VALUES (%(owner)s, %(no)s, %(id)s, %(subject)s, %(predicate)s, %(object)s, %(subject_key)s, %(predicate_key)s,
    %(object_key)s, %(valid_from)s, %(valid_until)s, %(recorded_at)s, %(retired_at)s, %(confidence)s,
    %(source_episode_id)s, %(metadata)s, %(origin)s, %(quote)s, %(told_at)s, %(sources)s);
-- name: read_segments
SELECT kind, embedder_no, no, items, data FROM segments
WHERE user_id = %(owner)s AND (kind, embedder_no, no) IN (SELECT (one->>0)::smallint, (one->>1)::integer,
    (one->>2)::bigint FROM json_array_elements(%(keys)s::json) AS one);
-- name: write_segments
INSERT INTO segments (user_id, kind, embedder_no, no, items, data)
VALUES (%(owner)s, %(kind)s, %(embedder_no)s, %(no)s, %(items)s, %(data)s);
-- name: read_blocks
SELECT name, content, updated_at, version, position FROM blocks
WHERE user_id = %(owner)s;
-- name: write_blocks
INSERT INTO blocks (user_id, name, content, updated_at, version, position)
VALUES (%(owner)s, %(name)s, %(content)s, %(updated_at)s, %(version)s, %(position)s);
-- name: read_block_versions
SELECT name, version, content, updated_at, ended_at, position FROM block_versions
WHERE user_id = %(owner)s;
-- name: write_block_versions
INSERT INTO block_versions (user_id, name, version, content, updated_at, ended_at, position)
VALUES (%(owner)s, %(name)s, %(version)s, %(content)s, %(updated_at)s, %(ended_at)s, %(position)s);
-- name: read_open_runs
SELECT run_id, session_id, turn, started_at, prompt, is_text, messages, error FROM open_runs
WHERE user_id = %(owner)s;
-- name: write_open_runs
INSERT INTO open_runs (user_id, run_id, session_id, turn, started_at, prompt, is_text, messages, error)
VALUES (%(owner)s, %(run_id)s, %(session_id)s, %(turn)s, %(started_at)s, %(prompt)s, %(is_text)s::int::boolean,
    %(messages)s, %(error)s);
-- name: read_users
SELECT next_turn, block_floor, index_version FROM users WHERE user_id = %(owner)s;
-- name: write_users
UPDATE users SET next_turn = %(next_turn)s, block_floor = %(block_floor)s, index_version = %(index_version)s
WHERE user_id = %(owner)s;
-- name: read_embedders
SELECT no, name FROM embedders ORDER BY no;
-- name: clear_embedders
DELETE FROM embedders;
-- name: write_embedders
INSERT INTO embedders (no, name) OVERRIDING SYSTEM VALUE VALUES (%(no)s, %(name)s);
-- name: keys_of_episodes
SELECT no FROM episodes WHERE user_id = %(owner)s ORDER BY no;
-- name: keys_of_facts
SELECT no FROM facts WHERE user_id = %(owner)s ORDER BY no;
-- name: keys_of_segments
SELECT kind, embedder_no, no FROM segments WHERE user_id = %(owner)s ORDER BY kind, embedder_no, no;
-- name: rows_to_copy
SELECT (SELECT count(*) FROM episodes) + (SELECT count(*) FROM facts) + (SELECT count(*) FROM segments);
-- name: is_copying
SELECT to_regclass('unfinished_copy') IS NOT NULL;
-- name: begin_copy
CREATE TABLE unfinished_copy (source text NOT NULL);
-- name: note_source
INSERT INTO unfinished_copy (source) VALUES (%(source)s);
-- name: copied_source
SELECT source FROM unfinished_copy;
-- name: end_copy
DROP TABLE unfinished_copy;
-- name: raise_numbers
SELECT setval('episode_numbers', greatest((SELECT max(no) FROM episodes), (SELECT last_value FROM episode_numbers))),
       setval('fact_numbers', greatest((SELECT max(no) FROM facts), (SELECT last_value FROM fact_numbers))),
       setval('segment_numbers', greatest((SELECT max(no) FROM segments), (SELECT last_value FROM segment_numbers))),
       setval(pg_get_serial_sequence('embedders', 'no'), (SELECT coalesce(max(no), 0) + 1 FROM embedders), false);
