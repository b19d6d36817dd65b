-- One operation on one key. Answers with the time, with what became of it (0 nothing was written, 1 it was, 2 nothing:
-- the state was written under another quota, 3 it was, and the state is what it is now), and with what was found: null
-- for a key that is as good as new, and the quota only when it is another one.
CREATE OR REPLACE FUNCTION {step}(
  of_key bytea, under bytea, units bigint, room bigint, n1 bigint, n2 bigint, n3 bigint, n4 bigint, how bigint,
  given bigint, expected_quota bytea, expected bigint[], instead bigint[],
  OUT now bigint, OUT done smallint, OUT found_quota bytea, OUT found_state bigint[]
) LANGUAGE plpgsql SET lock_timeout = '2s' AS $tidegate$
DECLARE
  ends bigint;  -- when the window ends that `now` is in, or the bucket of a sliding one
  stored_quota bytea;
  stored_state bigint[];
  stored_until bigint;
  is_stored boolean;
  result record;
BEGIN
  -- What nearly every decision is, in one statement: the row is there, has room, and is kept long enough already. Its
  -- condition is the decision. Every expression costs more to set up than to work out, so there are as few as can be, and
  -- the numbers are not in an array; what they are is said in the function above. No product passes 64 bits, in whatever
  -- order the conditions are looked at.
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
  ELSIF how = 3 THEN  -- sliding window of one bucket, still in the bucket in which it was written. When the clock is behind,
                      -- a little too much is asked for, and what does not fit for that is looked at again below.
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

  -- What is found is read without a lock, and written only if it is still there. So a denial locks and writes nothing, and
  -- whoever was overtaken looks again, this time under the row's lock.
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
