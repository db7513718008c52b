-- Looking for damage, see `checking.py` and `postgres_checking.py`.

-- name: every_user
SELECT coalesce(full_id, user_id) COLLATE "C" FROM users ORDER BY 1;
-- name: integrity
SELECT 'ok';  -- the server has no such check for everyone: what cannot be read shows when it is read
-- name: reindex
SELECT 1;
-- name: broken_references
SELECT name, lost FROM (
    SELECT 'blocks' AS name, count(*) AS lost FROM blocks c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'block_versions', count(*) FROM block_versions c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'episodes', count(*) FROM episodes c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'facts', count(*) FROM facts c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'open_runs', count(*) FROM open_runs c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'names', count(*) FROM names c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'segments', count(*) FROM segments c
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id)
    UNION ALL SELECT 'episode_messages', count(*) FROM episode_messages c
    WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE user_id = c.user_id AND no = c.episode_no)
    UNION ALL SELECT 'undistilled', count(*) FROM undistilled c
    WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE user_id = c.user_id AND no = c.episode_no)) AS tables
WHERE lost > 0 ORDER BY name COLLATE "C";
-- name: delete_lost_segments
DELETE FROM segments c WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id);
-- name: delete_lost_names
DELETE FROM names c WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id);
-- name: embedder_numbers
SELECT no FROM embedders;
-- name: embedder_names
SELECT no, name FROM embedders ORDER BY no;
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
