-- Whether a memory is encrypted, and its own key, wrapped by the user's, see `sealing.py`.

-- name: is_encrypted
SELECT count(*) FROM sqlite_master WHERE name = 'encryption';
-- name: lock_encryption
SELECT 1;
-- name: begin_encryption
CREATE TABLE encryption (wrapped_key text NOT NULL);
-- name: add_wrapped_key
INSERT INTO encryption (wrapped_key) VALUES (:wrapped);
-- name: set_wrapped_key
UPDATE encryption SET wrapped_key = :wrapped;
-- name: wrapped_key
SELECT wrapped_key FROM encryption;
