-- Applies one operation to the leases of one key: 0 checks whether `need` places are free, 1 admits, 2 renews, 3 releases.
-- A state is the time of its write, the expiry of each lease, earliest first, the high halves of their ids, and the low
-- halves. Returns the time, 1 if the operation is allowed, the number of leases in flight, and three times. At the first,
-- enough leases have expired for the denied request; at the second, for one more place; at the third, all of them.
CREATE OR REPLACE FUNCTION {leases}(
  of_key bytea, under bytea, what bigint, high bigint, low bigint, capacity bigint, ttl bigint, need bigint, given bigint,
  OUT now bigint, OUT done smallint, OUT in_flight bigint, OUT times bigint[]
) LANGUAGE plpgsql SET lock_timeout = '2s' AS $tidegate$
DECLARE
  stored_quota bytea;
  stored_state bigint[];
  stored_until bigint;
  is_stored boolean;
  at bigint;            -- the time of the decision, not before the state was written
  count int;
  first int;            -- the first lease that has not expired
  last int;
  middle int;
  place int;            -- the index of the requested lease
  expiries bigint[];
  highs bigint[];
  lows bigint[];
BEGIN
  -- As in the step function: the row is read without a lock, and written only if it has not changed.
  FOR attempt IN 1..100 LOOP
    {read};

    -- A state of another algorithm counts as new, because units of a rate are not leases.
    at := now;
    count := 0;
    expiries := '{}';
    highs := '{}';
    lows := '{}';
    IF is_stored AND get_byte(stored_quota, 0) & 15 = 4 THEN
      at := greatest(now, stored_state[1]);
      count := (cardinality(stored_state) - 1) / 3;
      first := 1;
      last := count + 1;
      WHILE first < last LOOP
        middle := (first + last) / 2;
        IF stored_state[1 + middle] <= at THEN first := middle + 1; ELSE last := middle; END IF;
      END LOOP;
      expiries := stored_state[1 + first : 1 + count];
      highs := stored_state[1 + count + first : 1 + 2 * count];
      lows := stored_state[1 + 2 * count + first : 1 + 3 * count];
      count := count - first + 1;
    END IF;
    place := NULL;
    IF what > 0 THEN
      place := array_position(lows, low);
      WHILE highs[place] <> high LOOP
        place := array_position(lows, low, place + 1);
      END LOOP;
    END IF;

    done := 0;
    IF what = 0 THEN
      IF count + need <= capacity THEN done := 1; END IF;
    ELSIF place IS NOT NULL OR (what = 1 AND count < capacity) THEN
      done := 1;
      IF place IS NOT NULL THEN
        expiries := expiries[: place - 1] || expiries[place + 1 :];
        highs := highs[: place - 1] || highs[place + 1 :];
        lows := lows[: place - 1] || lows[place + 1 :];
        count := count - 1;
      END IF;
      IF what < 3 THEN
        -- Nearly always the last place, except after the time to live was shortened.
        place := count + 1;
        WHILE expiries[place - 1] > at + ttl LOOP
          place := place - 1;
        END LOOP;
        expiries := expiries[: place - 1] || (at + ttl) || expiries[place :];
        highs := highs[: place - 1] || high || highs[place :];
        lows := lows[: place - 1] || low || lows[place :];
        count := count + 1;
      END IF;
      IF count = 0 THEN
        DELETE FROM {table} t WHERE t.key = of_key AND t.state = stored_state AND t.quota = stored_quota;
      ELSIF is_stored THEN
        UPDATE {table} t SET quota = under, state = at || expiries || highs || lows,
            expires_at = {until}(given, stored_until, now, expiries[count] - now)
          WHERE t.key = of_key AND t.state = stored_state AND t.quota = stored_quota;
      ELSE
        INSERT INTO {table} AS t (key, quota, state, expires_at)
          VALUES (of_key, under, at || expiries || highs || lows, {until}(given, NULL, now, expiries[count] - now))
          ON CONFLICT DO NOTHING;
      END IF;
      CONTINUE WHEN NOT FOUND;
    END IF;

    in_flight := count;
    times := ARRAY[NULL, expiries[greatest(count - capacity, 0) + 1], expiries[count]];
    IF done = 0 AND need BETWEEN 1 AND capacity THEN
      times[1] := expiries[count + need - capacity];
    END IF;
    RETURN;
  END LOOP;
  RAISE EXCEPTION 'tidegate: the key changes faster than it can be written' USING ERRCODE = 'serialization_failure';
END
$tidegate$;
