-- One operation on one key. Answers with the time, with what became of it (0 nothing was written, 1 it was, 2 nothing:
-- the state was written under another quota), and with what was found: null for a key that is as good as new, and the
-- quota only when it is another one.
CREATE OR REPLACE FUNCTION {step}(
  of_key bytea, under bytea, units bigint, room bigint, numbers bigint[], given bigint,
  expected_quota bytea, expected bigint[], instead bigint[],
  OUT now bigint, OUT done smallint, OUT found_quota bytea, OUT found_state bigint[]
) LANGUAGE plpgsql SET lock_timeout = '2s' AS $tidegate$
DECLARE
  stored_quota bytea;
  stored_state bigint[];
  stored_until bigint;
  is_stored boolean;
  result record;
BEGIN
  -- What nearly every decision on a bucket or a fixed window is, in one statement: it is there, has room, and is kept long
  -- enough already. It is given back as it was at that time, with what had come back until then. Told: what a unit is,
  -- what comes back in a step, how long a step is, where steps begin. (`numbers` of other algorithms are others.)
  IF numbers[5] = 1 THEN
    now := coalesce(given, {clock});
    UPDATE {table} t SET state = ARRAY[
        greatest(t.state[1] - least(
          greatest((now - numbers[4]) / numbers[3] - (t.state[2] - numbers[4]) / numbers[3], 0),
          t.state[1] / numbers[2] + 1
        ) * numbers[2], 0) + units * numbers[1],
        greatest(now, t.state[2])
      ]
      WHERE t.key = of_key AND t.quota = under AND cardinality(t.state) = 2 AND least(now, t.state[2]) >= numbers[4]
        AND t.state[1] - least(
          greatest((now - numbers[4]) / numbers[3] - (t.state[2] - numbers[4]) / numbers[3], 0),
          t.state[1] / numbers[2] + 1
        ) * numbers[2] <= room * numbers[1]
        AND (given IS NOT NULL
          OR (t.state[1] + units * numbers[1] + numbers[2] - 1) / numbers[2]
            <= (t.expires_at - numbers[4]) / numbers[3] - (now - numbers[4]) / numbers[3])
      RETURNING ARRAY[t.state[1] - units * numbers[1], t.state[2]] INTO found_state;
    IF FOUND THEN
      done := 1;
      RETURN;
    END IF;
  END IF;

  -- What is found is read without a lock, and written only if it is still there. So a denial locks and writes nothing, and
  -- whoever was overtaken looks again, this time under the row's lock.
  FOR attempt IN 1..100 LOOP
    IF attempt = 1 THEN
      SELECT t.quota, t.state, t.expires_at INTO stored_quota, stored_state, stored_until
        FROM {table} t WHERE t.key = of_key;
    ELSE
      SELECT t.quota, t.state, t.expires_at INTO stored_quota, stored_state, stored_until
        FROM {table} t WHERE t.key = of_key FOR UPDATE;
    END IF;
    is_stored := FOUND;
    now := coalesce(given, {clock});
    found_state := stored_state;
    IF stored_quota <> under THEN
      IF stored_quota <> expected_quota OR stored_state <> expected OR expected IS NULL THEN
        done := 2;
        found_quota := stored_quota;
        RETURN;
      END IF;
      found_state := instead;
    END IF;

    result := {next}(under, found_state, now, units, room, numbers);
    found_state := coalesce(result.shown, found_state);
    IF result.after IS NULL THEN
      done := 0;
      RETURN;
    END IF;
    IF result.after = '{}' THEN
      DELETE FROM {table} t WHERE t.key = of_key AND t.state = stored_state AND t.quota = stored_quota;
    ELSIF is_stored THEN
      UPDATE {table} t SET quota = under, state = result.after, expires_at = {until}(given, stored_until, now, result.span)
        WHERE t.key = of_key AND t.state = stored_state AND t.quota = stored_quota;
    ELSE
      INSERT INTO {table} AS t (key, quota, state, expires_at) VALUES (of_key, under, result.after, {until}(given, NULL, now, result.span))
        ON CONFLICT DO NOTHING;
    END IF;
    IF FOUND THEN
      done := 1;
      RETURN;
    END IF;
  END LOOP;
  RAISE EXCEPTION 'tidegate: the key changes faster than it can be written' USING ERRCODE = 'serialization_failure';
END
$tidegate$;
