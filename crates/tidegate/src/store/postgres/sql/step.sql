-- Applies one operation to one key. Returns the time, the effect and the stored state. The effect is 0 if nothing was
-- written, 1 if the state was written, 2 if nothing was written because the state belongs to another quota, and 3 if the
-- state was written and is returned as it is now. The stored state is null for a key that is as good as new. The stored
-- quota is returned only if it is another one.
CREATE OR REPLACE FUNCTION {step}(
  of_key bytea, under bytea, units bigint, room bigint, n1 bigint, n2 bigint, n3 bigint, n4 bigint, how bigint,
  given bigint, expected_quota bytea, expected bigint[], instead bigint[],
  OUT now bigint, OUT done smallint, OUT found_quota bytea, OUT found_state bigint[]
) LANGUAGE plpgsql SET lock_timeout = '2s' AS $tidegate$
DECLARE
  ends bigint;  -- the end of the window, or of the bucket of a sliding window, that contains `now`
  stored_quota bytea;
  stored_state bigint[];
  stored_until bigint;
  is_stored boolean;
  result record;
BEGIN
  -- The shortcut for nearly every decision, in one statement: the row exists, has room, and is kept long enough. Its
  -- condition is the decision. An expression costs more to set up than to compute, so there are as few as possible, and
  -- the numbers are not in an array. The function above has their meaning. No product exceeds 64 bits, in any order of
  -- evaluation of the conditions.
  now := coalesce(given, {clock});
  IF how = 1 THEN  -- token bucket
    UPDATE {table} t SET state = ARRAY[
        greatest(t.state[1] - least(greatest(now - t.state[2], 0), n3) * n2, 0) + units * n1, greatest(now, t.state[2])
      ]
      WHERE t.key = of_key AND t.quota = under AND cardinality(t.state) = 2
        AND t.state[1] - least(greatest(now - t.state[2], 0), n3) * n2 <= room * n1
        AND (given IS NOT NULL OR (t.state[1] + units * n1) / n2 < t.expires_at - greatest(now, t.state[2]))
      RETURNING 3::smallint, t.state INTO done, found_state;
  ELSIF how = 2 THEN  -- fixed window
    ends := now - (now + n4) % n3 + n3;
    UPDATE {table} t SET state = ARRAY[
        greatest(t.state[1] - least(greatest(ends - 1 - t.state[2], 0) / n3, n1) * n2, 0) + units, greatest(now, t.state[2])
      ]
      WHERE t.key = of_key AND t.quota = under AND cardinality(t.state) = 2 AND t.state[2] < ends
        AND t.state[1] - least(greatest(ends - 1 - t.state[2], 0) / n3, n1) * n2 <= room
        AND (given IS NOT NULL OR (t.state[1] + units + n2 - 1) / n2 <= (t.expires_at - ends + n3) / n3)
      RETURNING 3::smallint, t.state INTO done, found_state;
  ELSIF how = 3 THEN  -- sliding window of one bucket, still in the bucket of its last write. If the clock is behind, the
                      -- condition is a little too strict, and the loop below decides again.
    ends := now - (now + n2) % n1 + n1;
    UPDATE {table} t SET state = ARRAY[greatest(now, t.state[1]), t.state[2], t.state[3] + units]
      WHERE t.key = of_key AND t.quota = under AND cardinality(t.state) = 3
        AND t.state[1] >= ends - n1 AND t.state[1] < ends AND t.state[2] <= n4
        AND least(t.state[2], n4) * (ends - now) <= greatest(room - t.state[3], -1) * n1
        AND (given IS NOT NULL OR ends + n1 <= t.expires_at)
      RETURNING 3::smallint, t.state INTO done, found_state;
  END IF;
  IF FOUND THEN
    RETURN;
  END IF;

  -- The row is read without a lock, and written only if it has not changed. So a denial locks and writes nothing. A call
  -- that was overtaken reads again, under the row's lock.
  FOR attempt IN 1..100 LOOP
    {read};
    found_state := stored_state;
    IF stored_quota <> under THEN
      IF stored_quota <> expected_quota OR stored_state <> expected OR expected IS NULL THEN
        done := 2;
        found_quota := stored_quota;
        RETURN;
      END IF;
      found_state := instead;
    END IF;

    result := {next}(under, found_state, now, units, room, ARRAY[n1, n2, n3, n4, how]);
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
