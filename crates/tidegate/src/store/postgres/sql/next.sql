-- Returns the time at which a row may be swept that is as good as new in `span`: half as long again, and a minute later. A
-- stored time that is late enough stays, so that most writes leave the index alone. A row of a test's time stays forever.
CREATE OR REPLACE FUNCTION {until}(given bigint, stored bigint, now bigint, span bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $tidegate$
  SELECT CASE
    WHEN given IS NOT NULL THEN NULL
    WHEN stored >= now + span THEN stored
    ELSE now + span + span / 2 + 60000000
  END
$tidegate$;

-- Returns the state after an operation. Units are taken, or refunded when below 0. They fit when at most `room` is used.
-- `after` is null when nothing changes, and empty when the key is as good as new. `span` is the time from now until it is.
-- `shown` is the part of the state that a decision needs, if that is not all of it.
CREATE OR REPLACE FUNCTION {next}(
  quota bytea, state bigint[], now bigint, units bigint, room bigint, numbers bigint[],
  OUT after bigint[], OUT span bigint, OUT shown bigint[]
) LANGUAGE plpgsql IMMUTABLE AS $tidegate$
DECLARE
  forever CONSTANT bigint := 2305843009213693952;
  at bigint := now;     -- the time of the decision, not before the state was written
  missing bigint;
  back bigint;
  entered bigint;       -- windows since the state was written
  elapsed bigint;
  inside bigint;        -- the time from the start of its window to `at`
  wide numeric;
  counts bigint[];
  count int;
  total bigint;
  before bigint;
  first int;            -- the first run that has not expired
  previous int;
  low int;
  high int;
  middle int;
  target bigint;
BEGIN
  IF state IS NULL AND units < 0 THEN
    RETURN;
  END IF;
  CASE get_byte(quota, 0) & 15

  WHEN 0 THEN  -- token bucket. State: the deficit in sub-units, in one number or two; the time. Numbers: unit, refill, the
            -- time in which one number's worth is refilled, 0, and 1 when units are taken and one number is enough for
            -- everything except the stored state.
    IF numbers[5] = 1 AND coalesce(cardinality(state), 2) = 2 THEN
      missing := 0;
      IF state IS NOT NULL THEN
        at := greatest(now, state[2]);
        missing := greatest(state[1] - least(at - state[2], state[1] / numbers[2] + 1) * numbers[2], 0);
      END IF;
      IF missing <= room * numbers[1] THEN
        missing := missing + units * numbers[1];
        after := ARRAY[missing, at];
        span := (missing + numbers[2] - 1) / numbers[2] + at - now;
      END IF;
      RETURN;
    END IF;
    wide := 0;
    IF state IS NOT NULL THEN
      at := greatest(now, state[cardinality(state)]);
      wide := CASE cardinality(state) WHEN 2 THEN state[1] ELSE state[1]::numeric * 68719476736 + state[2] END;
      wide := greatest(wide - (at - state[cardinality(state)])::numeric * numbers[2], 0);
    END IF;
    IF units >= 0 AND (room < 0 OR wide > room::numeric * numbers[1]) THEN
      RETURN;
    END IF;
    wide := wide + units::numeric * numbers[1];
    IF wide <= 0 THEN
      after := '{}';
      RETURN;
    ELSIF wide < 9007199254740992 THEN
      after := ARRAY[wide::bigint, at];
    ELSE
      after := ARRAY[div(wide, 68719476736)::bigint, mod(wide, 68719476736)::bigint, at];
    END IF;
    span := least(div(wide, numbers[2]) + 1 + at - now, forever);

  WHEN 1 THEN  -- fixed window. State: the deficit in units; the time. Numbers: the windows that refill everything, rate,
            -- period, and the shift of a time that makes windows begin at multiples of the period.
    at := greatest(now, state[2]);
    inside := (at + numbers[4]) % numbers[3];
    elapsed := at - coalesce(state[2], at);
    entered := CASE WHEN elapsed <= inside THEN 0 ELSE (elapsed - inside + numbers[3] - 1) / numbers[3] END;
    missing := coalesce(state[1], 0);
    missing := CASE WHEN entered > missing / numbers[2] THEN 0 ELSE missing - entered * numbers[2] END;
    IF units >= 0 AND missing > room THEN
      RETURN;
    END IF;
    missing := missing + units;
    IF missing <= 0 THEN
      after := '{}';
    ELSE
      after := ARRAY[missing, at];
      span := least(((missing + numbers[2] - 1) / numbers[2])::numeric * numbers[3] - inside + at - now, forever);
    END IF;

  WHEN 2 THEN  -- sliding window. State: the time; the count of each bucket, oldest first. Numbers: length of a bucket, the
            -- shift of a time that makes buckets begin at multiples of it, buckets, and the largest count whose product
            -- with the length fits in 62 bits.
    count := numbers[3] + 1;
    at := greatest(now, state[1]);
    inside := (at + numbers[2]) % numbers[1];
    elapsed := at - coalesce(state[1], at);
    entered := CASE WHEN elapsed <= inside THEN 0 ELSE (elapsed - inside + numbers[1] - 1) / numbers[1] END;
    IF state IS NULL OR entered >= count THEN
      counts := array_fill(0::bigint, ARRAY[count]);
    ELSE
      counts := state[2 + entered::int : count + 1] || array_fill(0::bigint, ARRAY[entered::int]);
    END IF;
    total := 0;
    IF units < 0 THEN
      missing := -units;
      FOR i IN REVERSE count..1 LOOP
        back := least(missing, counts[i]);
        counts[i] := counts[i] - back;
        missing := missing - back;
        total := total + counts[i];
      END LOOP;
      IF total = 0 THEN
        after := '{}';
        RETURN;
      END IF;
    ELSE
      FOR i IN 2..count LOOP
        total := total + counts[i];
      END LOOP;
      IF room < total THEN
        RETURN;
      END IF;
      IF counts[1] > room - total
        AND counts[1]::numeric * (numbers[1] - inside) > (room - total)::numeric * numbers[1] THEN
        RETURN;
      END IF;
      counts[count] := counts[count] + units;
    END IF;
    after := at || counts;
    span := count * numbers[1] - inside + at - now;

  ELSE  -- sliding log. State: the time; the total before the first run; each run's time and the total after it. Numbers:
        -- period, rate, and the mode: 0 returns only the runs that matter, 1 also takes nothing, 2 returns all runs.
    IF state IS NULL THEN
      IF room >= 0 AND numbers[3] <> 1 THEN
        after := ARRAY[now, 0, now, units];
        span := numbers[1];
      END IF;
      RETURN;
    END IF;
    at := greatest(now, state[1]);
    count := cardinality(state) / 2 - 1;
    low := 1;
    high := count + 1;
    WHILE low < high LOOP
      middle := (low + high) / 2;
      IF at - state[1 + 2 * middle] >= numbers[1] THEN low := middle + 1; ELSE high := middle; END IF;
    END LOOP;
    first := low;
    before := state[2 * first];
    total := state[2 * count + 2];

    IF units < 0 THEN
      target := total + units;
      IF target <= before THEN
        after := '{}';
        RETURN;
      END IF;
      low := first;
      high := count + 1;
      WHILE low < high LOOP
        middle := (low + high) / 2;
        IF state[2 + 2 * middle] < target THEN low := middle + 1; ELSE high := middle; END IF;
      END LOOP;
      after := ARRAY[at, before] || state[1 + 2 * first : 2 * low] || ARRAY[state[1 + 2 * low], target];
      span := numbers[1] - (at - state[1 + 2 * low]) + at - now;
      RETURN;
    END IF;

    IF numbers[3] < 2 AND count - first > 3 THEN
      -- The oldest run, the runs whose end makes room for one unit and for this cost, and the newest run.
      shown := ARRAY[state[1], before, state[1 + 2 * first], state[2 + 2 * first]];
      previous := first;
      FOREACH target IN ARRAY ARRAY[numbers[2] - 1, room] LOOP
        CONTINUE WHEN target < 0 OR total - before <= target;
        low := first;
        high := count + 1;
        WHILE low < high LOOP
          middle := (low + high) / 2;
          IF total - state[2 + 2 * middle] > target THEN low := middle + 1; ELSE high := middle; END IF;
        END LOOP;
        CONTINUE WHEN low <= previous;
        shown := shown || state[1 + 2 * low : 2 + 2 * low];
        previous := low;
      END LOOP;
      IF count > previous THEN
        shown := shown || state[1 + 2 * count : 2 + 2 * count];
      END IF;
    END IF;
    IF numbers[3] = 1 OR total - before > room THEN
      RETURN;
    END IF;
    -- Requests of one microsecond are one run.
    IF first <= count AND state[1 + 2 * count] = at THEN
      count := count - 1;
    END IF;
    counts := state[1 + 2 * first : 2 + 2 * count];
    IF total > 4503599627370496 THEN
      -- Totals are reduced long before they stop being exact in other stores.
      counts := ARRAY(
        SELECT CASE WHEN i % 2 = 1 THEN run ELSE run - before END FROM unnest(counts) WITH ORDINALITY AS t(run, i) ORDER BY i
      );
      total := total - before;
      before := 0;
    END IF;
    after := ARRAY[at, before] || counts || ARRAY[at, total + units];
    span := numbers[1] + at - now;
  END CASE;
END
$tidegate$;
