-- Large users: looking for episodes on the server, see `postgres_searching.py` and `postgres_indexing.py`.

-- name: large_state
SELECT coalesce(sum(s.items), 0)::bigint,
       coalesce(sum(s.items) FILTER (WHERE u.segment_no IS NULL OR s.no > u.segment_no), 0)::bigint
FROM segments s
    LEFT JOIN large_up_to u ON u.user_id = s.user_id AND u.embedder_no = s.embedder_no
WHERE s.user_id = %(owner)s AND s.kind = 0 AND s.embedder_no = %(embedder_no)s;
-- name: large_newest
SELECT coalesce(max(episode_no), 0) FROM large_episodes WHERE user_id = %(owner)s;
-- name: large_tail
SELECT data FROM segments
WHERE user_id = %(owner)s AND kind = 0 AND embedder_no = %(embedder_no)s
  AND no > coalesce((SELECT segment_no FROM large_up_to
                     WHERE user_id = %(owner)s AND embedder_no = %(embedder_no)s), 0)
ORDER BY no;
-- name: large_next
SELECT no, data FROM segments
WHERE user_id = %(owner)s AND kind = 0 AND embedder_no = %(embedder_no)s
  AND no > coalesce((SELECT segment_no FROM large_up_to
                     WHERE user_id = %(owner)s AND embedder_no = %(embedder_no)s), 0)
ORDER BY no LIMIT 1;
-- name: large_embedders
SELECT DISTINCT embedder_no FROM segments WHERE user_id = %(owner)s AND kind = 0 AND embedder_no > 0 ORDER BY 1;
-- name: set_large_up_to
INSERT INTO large_up_to (user_id, embedder_no, segment_no) VALUES (%(owner)s, %(embedder_no)s, %(no)s)
ON CONFLICT (user_id, embedder_no) DO UPDATE SET segment_no = excluded.segment_no;
-- name: add_large_episodes
INSERT INTO large_episodes (user_id, episode_no, session, time, length, terms, segment)
SELECT e.user_id, e.no, new.session, new.time, new.length, array_to_tsvector(string_to_array(new.terms, ' ')), new.segment
FROM unnest(%(numbers)s::bigint[], %(sessions)s::bigint[], %(times)s::bigint[], %(lengths)s::integer[],
            %(terms)s::text[], %(segments)s::bytea[]) AS new (no, session, time, length, terms, segment)
    JOIN episodes e ON e.user_id = %(owner)s AND e.no = new.no
ON CONFLICT DO NOTHING;
-- name: without_large_vectors
SELECT n FROM unnest(%(numbers)s::bigint[]) AS n
WHERE NOT EXISTS (SELECT 1 FROM large_vectors
                  WHERE user_id = %(owner)s AND embedder_no = %(embedder_no)s AND dimensions = %(dimensions)s
                    AND episode_no = n)
ORDER BY n;
-- name: add_large_vectors
INSERT INTO large_vectors (user_id, embedder_no, dimensions, episode_no, place, vector)
SELECT e.user_id, %(embedder_no)s, %(dimensions)s, e.no, new.place, new.vector::halfvec
FROM unnest(%(numbers)s::bigint[], %(places)s::integer[], %(vectors)s::text[]) AS new (no, place, vector)
    JOIN episodes e ON e.user_id = %(owner)s AND e.no = new.no
ON CONFLICT DO NOTHING;
-- name: delete_large_vectors
DELETE FROM large_vectors
WHERE user_id = %(owner)s AND embedder_no = %(embedder_no)s AND episode_no = ANY (%(numbers)s::bigint[]);
-- name: keep_large_vectors
DELETE FROM large_vectors
WHERE user_id = %(owner)s AND (embedder_no, dimensions) IS DISTINCT FROM (%(embedder_no)s, %(dimensions)s);

-- name: large_sample
WITH numbers AS (
    SELECT min(episode_no) AS first, max(episode_no) AS last FROM large_episodes WHERE user_id = %(owner)s),
picked AS (
    SELECT DISTINCT ON (one.session) one.session, one.episode_no
    FROM numbers CROSS JOIN generate_series(0, %(sessions)s::bigint - 1) AS step CROSS JOIN LATERAL (
        SELECT session, episode_no FROM large_episodes
        WHERE user_id = %(owner)s
          AND episode_no >= numbers.first + (numbers.last - numbers.first) * (2 * step + 1) / (2 * %(sessions)s::bigint)
        ORDER BY episode_no LIMIT 1) AS one
    ORDER BY one.session, one.episode_no)
SELECT e.episode_no, e.segment
FROM picked CROSS JOIN LATERAL (
    (SELECT episode_no FROM large_episodes
     WHERE user_id = %(owner)s AND session = picked.session AND episode_no <= picked.episode_no
     ORDER BY episode_no DESC LIMIT %(around)s)
    UNION ALL
    (SELECT episode_no FROM large_episodes
     WHERE user_id = %(owner)s AND session = picked.session AND episode_no > picked.episode_no
     ORDER BY episode_no LIMIT %(around)s)) AS near
    JOIN large_episodes e ON e.user_id = %(owner)s AND e.episode_no = near.episode_no
ORDER BY e.episode_no;
-- name: large_having
SELECT (SELECT count(*) FROM (SELECT 1 FROM large_episodes
                              WHERE user_id = %(owner)s AND terms @@ wanted.term LIMIT %(most)s) AS found)
FROM unnest(%(terms)s::text[]::tsquery[]) WITH ORDINALITY AS wanted (term, at) ORDER BY wanted.at;
-- name: large_by_words
SELECT episode_no
FROM (
    SELECT e.episode_no, e.length, wanted.weight
    FROM unnest(%(terms)s::text[]::tsquery[], %(weights)s::double precision[]) AS wanted (term, weight)
        JOIN large_episodes e ON e.user_id = %(owner)s AND e.terms @@ wanted.term
    WHERE (%(session)s::bigint IS NULL OR e.session <> %(session)s)
      AND (%(at)s::bigint IS NULL OR e.time <= %(at)s) AND e.episode_no <> ALL (%(hidden)s::bigint[])
    UNION ALL
    SELECT episode_no, 0, 1e9 FROM large_episodes
    WHERE user_id = %(owner)s AND terms IS NULL AND (%(session)s::bigint IS NULL OR session <> %(session)s)
      AND (%(at)s::bigint IS NULL OR time <= %(at)s) AND episode_no <> ALL (%(hidden)s::bigint[])) AS found
GROUP BY episode_no, length
ORDER BY sum(weight) / (1 + %(k1)s * (1 - %(b)s + %(b)s * length / %(mean)s::double precision)) DESC, episode_no DESC
LIMIT %(limit)s;
-- name: large_by_vector
SELECT v.episode_no
FROM large_vectors v JOIN large_episodes e ON e.user_id = v.user_id AND e.episode_no = v.episode_no
WHERE v.user_id = %(owner)s AND v.embedder_no = %(embedder_no)s AND v.dimensions = %(dimensions)s
  AND (%(session)s::bigint IS NULL OR e.session <> %(session)s)
  AND (%(at)s::bigint IS NULL OR e.time <= %(at)s) AND v.episode_no <> ALL (%(hidden)s::bigint[])
ORDER BY v.vector::halfvec($DIMENSIONS) <=> %(vector)s::halfvec($DIMENSIONS) LIMIT %(limit)s;
-- name: large_by_vector_exactly
SELECT v.episode_no
FROM large_vectors v JOIN large_episodes e ON e.user_id = v.user_id AND e.episode_no = v.episode_no
WHERE v.user_id = %(owner)s AND v.embedder_no = %(embedder_no)s AND v.dimensions = %(dimensions)s
  AND (%(session)s::bigint IS NULL OR e.session <> %(session)s)
  AND (%(at)s::bigint IS NULL OR e.time <= %(at)s) AND v.episode_no <> ALL (%(hidden)s::bigint[])
ORDER BY (v.vector <=> %(vector)s::halfvec) + 0 LIMIT %(limit)s;
-- name: search_widely
SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %(width)s, true);
-- name: large_neighbours
SELECT near.episode_no
FROM unnest(%(numbers)s::bigint[]) AS wanted (no)
    JOIN large_episodes e ON e.user_id = %(owner)s AND e.episode_no = wanted.no
    CROSS JOIN LATERAL (
        (SELECT episode_no FROM large_episodes
         WHERE user_id = %(owner)s AND session = e.session AND episode_no < e.episode_no
         ORDER BY episode_no DESC LIMIT %(before)s)
        UNION ALL
        (SELECT episode_no FROM large_episodes
         WHERE user_id = %(owner)s AND session = e.session AND episode_no > e.episode_no
         ORDER BY episode_no LIMIT %(after)s)) AS near;
-- name: large_segments
SELECT segment FROM large_episodes WHERE user_id = %(owner)s AND episode_no = ANY (%(numbers)s::bigint[])
ORDER BY episode_no;
-- name: large_cosines
SELECT coalesce(string_agg(int8send(episode_no) || int4send(place)
                           || float4send((1 - (vector <=> %(vector)s::halfvec))::real), ''::bytea), ''::bytea)
FROM large_vectors
WHERE user_id = %(owner)s AND embedder_no = %(embedder_no)s AND dimensions = %(dimensions)s
  AND episode_no = ANY (%(numbers)s::bigint[]);
-- name: large_sessions
SELECT counted.items, counted.length
FROM unnest(%(sessions)s::bigint[]) WITH ORDINALITY AS wanted (session, at) CROSS JOIN LATERAL (
    SELECT count(*) AS items, coalesce(sum(length), 0)::bigint AS length
    FROM (SELECT length FROM large_episodes WHERE user_id = %(owner)s AND session = wanted.session
          LIMIT %(most)s) AS turns) AS counted
ORDER BY wanted.at;
-- name: large_index
SELECT to_regclass(%(name)s) IS NOT NULL,
       pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'large_vectors'::regclass), 'USAGE');
