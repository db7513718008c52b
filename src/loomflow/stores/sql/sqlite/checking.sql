-- Looking for damage, see `checking.py`.

-- name: every_user
SELECT user_id FROM users ORDER BY user_id;
-- name: integrity
PRAGMA integrity_check;
-- name: reindex
REINDEX;
-- name: broken_references
SELECT "table", count(*) FROM pragma_foreign_key_check GROUP BY 1
UNION ALL SELECT 'undistilled, of unknown users', count(*) FROM undistilled
WHERE user_no NOT IN (SELECT no FROM users) HAVING count(*) > 0
ORDER BY 1;
-- name: delete_lost_segments
DELETE FROM segments WHERE user_no NOT IN (SELECT no FROM users);
-- name: delete_lost_names
DELETE FROM names WHERE user_no NOT IN (SELECT no FROM users);
-- name: user_messages
SELECT e.id, m.messages FROM episode_messages m JOIN episodes e ON e.no = m.episode_no WHERE e.user_no = :owner;
-- name: user_open_runs
SELECT run_id, started_at, prompt, messages FROM open_runs WHERE user_no = :owner;
-- name: every_block
SELECT name, content, updated_at, version FROM blocks WHERE user_no = :owner
UNION ALL SELECT name, content, updated_at, version FROM block_versions WHERE user_no = :owner;
