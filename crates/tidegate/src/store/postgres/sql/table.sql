-- One row for each key that is not as good as new.
CREATE TABLE IF NOT EXISTS {table} (
  key bytea PRIMARY KEY,       -- prefix|limit|key as text, or the byte ff and a SHA-256 of that when it is long
  quota bytea NOT NULL,        -- the quota the state was written under
  state bigint[] NOT NULL,     -- the usage and its times
  expires_at bigint            -- when the row may be swept, in microseconds since 1970; null for never
) WITH (fillfactor = 70);      -- room for a row's next version on its own page, which needs no index update

-- A long state, of a log or of many leases, is not compressed. With each write, compression took several times longer than
-- everything else.
ALTER TABLE {table} ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at);
