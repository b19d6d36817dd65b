-- One row for each key that is not as good as new.
CREATE TABLE IF NOT EXISTS {table} (
  key bytea PRIMARY KEY,       -- prefix|limit|key as text, or the byte ff and a SHA-256 of that when it is long
  quota bytea NOT NULL,        -- the quota the state was written under
  state bigint[] NOT NULL,     -- what was used, and when
  expires_at bigint            -- when the row may be swept, in microseconds since 1970; null for never
) WITH (fillfactor = 70);      -- room for a row's next version on its own page, where no index has to know of it

-- A long state, of a log or of many leases, is not compressed: with every write that took several times longer than all the
-- rest.
ALTER TABLE {table} ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at);
