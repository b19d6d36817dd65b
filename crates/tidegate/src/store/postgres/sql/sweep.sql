DELETE FROM {table} WHERE key IN (
  SELECT t.key FROM {table} t WHERE t.expires_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
    ORDER BY t.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
