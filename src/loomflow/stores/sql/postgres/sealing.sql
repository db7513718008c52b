-- Whether a memory is encrypted, and its own key, wrapped by the user's, see `sealing.py`.

-- name: is_encrypted
SELECT to_regclass('encryption') IS NOT NULL;
-- name: lock_encryption
SELECT pg_advisory_xact_lock(hashtext('loomflow encryption'));
-- name: begin_encryption
CREATE TABLE encryption (wrapped_key text NOT NULL);
-- name: add_wrapped_key
INSERT INTO encryption (wrapped_key) VALUES (%(wrapped)s);
-- name: set_wrapped_key
UPDATE encryption SET wrapped_key = %(wrapped)s;
-- name: wrapped_key
SELECT wrapped_key FROM encryption;
