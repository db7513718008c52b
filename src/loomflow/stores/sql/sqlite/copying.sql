-- Moving all rows of a user to another database, see `copying.py`. Rows keep their numbers.

-- name: read_episodes
SELECT no, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata FROM episodes
WHERE +user_no = :owner AND no IN (SELECT json_extract(value, '$[0]') FROM json_each(:keys));
-- name: write_episodes
INSERT INTO episodes (user_no, no, id, session_id, turn, occurred_at, input, output, user_name, agent_name, metadata)
VALUES (:owner, :no, :id, :session_id, :turn, :occurred_at, :input, :output, :user_name, :agent_name, :metadata);
-- name: read_episode_messages
SELECT m.episode_no, m.messages FROM episode_messages m
WHERE m.episode_no IN (SELECT json_extract(value, '$[0]') FROM json_each(:keys))
    AND (SELECT user_no FROM episodes WHERE no = m.episode_no) = :owner;
-- name: write_episode_messages
INSERT INTO episode_messages (episode_no, messages)
VALUES (:episode_no, :messages);
-- name: read_undistilled
SELECT episode_no, attempts, due_at, claim, claimed_until, error, is_parked FROM undistilled
WHERE +user_no = :owner AND episode_no IN (SELECT json_extract(value, '$[0]') FROM json_each(:keys));
-- name: write_undistilled
INSERT INTO undistilled (user_no, episode_no, attempts, due_at, claim, claimed_until, error, is_parked)
VALUES (:owner, :episode_no, :attempts, :due_at, :claim, :claimed_until, :error, :is_parked);
-- name: read_facts
SELECT no, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from, valid_until,
       recorded_at, retired_at, confidence, source_episode_id, metadata, origin, quote, told_at, sources FROM facts
WHERE +user_no = :owner AND no IN (SELECT json_extract(value, '$[0]') FROM json_each(:keys));
-- name: write_facts
INSERT INTO facts (user_no, no, id, subject, predicate, object, subject_key, predicate_key, object_key, valid_from,
    valid_until, recorded_at, retired_at, confidence, source_episode_id, metadata, origin, quote, told_at, sources)
VALUES (:owner, :no, :id, :subject, :predicate, :object, :subject_key, :predicate_key, :object_key, :valid_from,
    :valid_until, :recorded_at, :retired_at, :confidence, :source_episode_id, :metadata, :origin, :quote, :told_at,
    :sources);
-- name: read_segments
SELECT kind, embedder_no, no, items, data FROM segments
WHERE user_no = :owner AND (kind, embedder_no, no) IN (SELECT json_extract(value, '$[0]'), json_extract(value,
    '$[1]'), json_extract(value, '$[2]') FROM json_each(:keys));
-- name: write_segments
INSERT INTO segments (user_no, kind, embedder_no, no, items, data)
VALUES (:owner, :kind, :embedder_no, :no, :items, :data);
-- name: read_blocks
SELECT name, content, updated_at, version, position FROM blocks
WHERE user_no = :owner;
-- name: write_blocks
INSERT INTO blocks (user_no, name, content, updated_at, version, position)
VALUES (:owner, :name, :content, :updated_at, :version, :position);
-- name: read_block_versions
SELECT name, version, content, updated_at, ended_at, position FROM block_versions
WHERE user_no = :owner;
-- name: write_block_versions
INSERT INTO block_versions (user_no, name, version, content, updated_at, ended_at, position)
VALUES (:owner, :name, :version, :content, :updated_at, :ended_at, :position);
-- name: read_open_runs
SELECT run_id, session_id, turn, started_at, prompt, is_text, messages, error FROM open_runs
WHERE user_no = :owner;
-- name: write_open_runs
INSERT INTO open_runs (user_no, run_id, session_id, turn, started_at, prompt, is_text, messages, error)
VALUES (:owner, :run_id, :session_id, :turn, :started_at, :prompt, :is_text, :messages, :error);
-- name: read_users
SELECT next_turn, block_floor, index_version FROM users WHERE no = :owner;
-- name: write_users
UPDATE users SET next_turn = :next_turn, block_floor = :block_floor, index_version = :index_version
WHERE no = :owner;
-- name: read_embedders
SELECT no, name FROM embedders ORDER BY no;
-- name: clear_embedders
DELETE FROM embedders;
-- name: write_embedders
INSERT INTO embedders (no, name) VALUES (:no, :name);
-- name: keys_of_episodes
SELECT no FROM episodes WHERE user_no = :owner ORDER BY no;
-- name: keys_of_facts
SELECT no FROM facts WHERE user_no = :owner ORDER BY no;
-- name: keys_of_segments
SELECT kind, embedder_no, no FROM segments WHERE user_no = :owner ORDER BY kind, embedder_no, no;
-- name: rows_to_copy
SELECT (SELECT count(*) FROM episodes) + (SELECT count(*) FROM facts) + (SELECT count(*) FROM segments);
-- name: is_copying
SELECT count(*) FROM sqlite_master WHERE name = 'unfinished_copy';
-- name: begin_copy
CREATE TABLE unfinished_copy (source text NOT NULL);
-- name: note_source
INSERT INTO unfinished_copy (source) VALUES (:source);
-- name: copied_source
SELECT source FROM unfinished_copy;
-- name: end_copy
DROP TABLE unfinished_copy;
-- name: raise_numbers
SELECT 1;  -- inserting a row with its number has done it
