-- Looking for damage, see `checking.py` and `postgres_checking.py`.

-- name: every_user
SELECT coalesce(full_id, user_id) COLLATE "C" FROM users ORDER BY 1;
-- name: integrity
SELECT 'ok';  -- the server has no such check for everyone: what cannot be read shows when it is read
-- name: reindex
SELECT 1;
-- name: broken_references
SELECT name, count(*) FROM (
    SELECT 'blocks' AS name, user_id FROM blocks
    UNION ALL SELECT 'block_versions', user_id FROM block_versions
    UNION ALL SELECT 'episodes', user_id FROM episodes
    UNION ALL SELECT 'facts', user_id FROM facts
    UNION ALL SELECT 'open_runs', user_id FROM open_runs
    UNION ALL SELECT 'names', user_id FROM names
    UNION ALL SELECT 'segments', user_id FROM segments) AS of_users
WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = of_users.user_id) GROUP BY name
UNION ALL SELECT name, count(*) FROM (
    SELECT 'episode_messages' AS name, user_id, episode_no FROM episode_messages
    UNION ALL SELECT 'undistilled', user_id, episode_no FROM undistilled) AS of_episodes
WHERE NOT EXISTS (SELECT 1 FROM episodes e WHERE e.user_id = of_episodes.user_id AND e.no = of_episodes.episode_no)
GROUP BY name ORDER BY name;
-- name: delete_lost_segments
DELETE FROM segments c WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id);
-- name: delete_lost_names
DELETE FROM names c WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id);
-- name: user_messages
SELECT e.id, m.messages FROM episode_messages m JOIN episodes e ON e.user_id = m.user_id AND e.no = m.episode_no
WHERE e.user_id = %(owner)s;
-- name: user_open_runs
SELECT run_id, started_at, prompt, messages FROM open_runs WHERE user_id = %(owner)s;
-- name: every_block
SELECT name, content, updated_at, version FROM blocks WHERE user_id = %(owner)s
UNION ALL SELECT name, content, updated_at, version FROM block_versions WHERE user_id = %(owner)s;

-- name: all_large_episodes
SELECT episode_no, session, time, length, tsvector_to_array(terms) AS terms, segment FROM large_episodes
WHERE user_id = %(owner)s AND episode_no = ANY (%(numbers)s::bigint[]);
-- name: all_large_vectors
SELECT embedder_no, dimensions, episode_no, place, vector::text FROM large_vectors
WHERE user_id = %(owner)s AND episode_no = ANY (%(numbers)s::bigint[]);
-- name: large_numbers
SELECT episode_no FROM large_episodes WHERE user_id = %(owner)s;
-- name: large_vector_numbers
SELECT DISTINCT embedder_no, dimensions, episode_no FROM large_vectors WHERE user_id = %(owner)s;
-- name: large_read
SELECT embedder_no, segment_no FROM large_up_to WHERE user_id = %(owner)s;
-- name: delete_large
WITH episodes AS (DELETE FROM large_episodes WHERE user_id = %(owner)s),
     vectors AS (DELETE FROM large_vectors WHERE user_id = %(owner)s)
DELETE FROM large_up_to WHERE user_id = %(owner)s;
