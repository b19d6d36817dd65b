-- Forgets a key.
CREATE OR REPLACE FUNCTION {forget}(of_key bytea) RETURNS void LANGUAGE sql SET lock_timeout = '2s' AS $tidegate$
  DELETE FROM {table} t WHERE t.key = of_key
$tidegate$;
