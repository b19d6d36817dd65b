SELECT
  (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
    FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped),
  EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = to_regclass($1) AND i.indisprimary AND i.indnkeyatts = 1 AND a.attname = 'key'),
  to_regclass($2) IS NOT NULL,
  NOT EXISTS (SELECT FROM unnest($3) AS f (name) WHERE to_regproc(f.name) IS NULL)
