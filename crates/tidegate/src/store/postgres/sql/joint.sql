-- Applies operations to several keys, all or nothing. The keys are sorted, and rows are locked in that order, so that two
-- calls never wait for each other. There are five numbers for each key. States are text, because all parts of an array of
-- arrays have one length.
CREATE OR REPLACE FUNCTION {all}(
  of_keys bytea[], under bytea[], units bigint[], rooms bigint[], numbers bigint[], given bigint,
  expected_quotas bytea[], expected text[], instead text[],
  OUT now bigint, OUT done smallint, OUT found_quotas bytea[], OUT found_states text[]
) LANGUAGE plpgsql SET lock_timeout = '2s' AS $tidegate$
DECLARE
  stored_states text[];
  stored_quotas bytea[];
  expiries bigint[];
  afters text[];
  untils bigint[];
  result record;
BEGIN
  FOR attempt IN 1..100 LOOP
    IF attempt > 1 THEN
      -- Overtaken: lock existing rows in order. After a missing row, writing in order keeps the order of locks.
      FOR i IN 1..cardinality(of_keys) LOOP
        PERFORM FROM {table} t WHERE t.key = of_keys[i] FOR UPDATE;
        EXIT WHEN NOT FOUND;
      END LOOP;
    END IF;
    -- One statement, so that all rows are of one moment.
    SELECT array_agg(t.quota ORDER BY k.i), array_agg(t.state::text ORDER BY k.i), array_agg(t.expires_at ORDER BY k.i)
      INTO stored_quotas, stored_states, expiries
      FROM unnest(of_keys) WITH ORDINALITY AS k (key, i) LEFT JOIN {table} t ON t.key = k.key;
    now := coalesce(given, {clock});
    done := 1;
    found_quotas := array_fill(NULL::bytea, ARRAY[cardinality(of_keys)]);
    found_states := stored_states;
    afters := array_fill(NULL::text, ARRAY[cardinality(of_keys)]);
    untils := expiries;
    FOR i IN 1..cardinality(of_keys) LOOP
      IF stored_quotas[i] <> under[i] THEN
        IF stored_quotas[i] <> expected_quotas[i] OR stored_states[i] <> expected[i] OR expected[i] IS NULL THEN
          done := 2;
          found_quotas[i] := stored_quotas[i];
          CONTINUE;
        END IF;
        found_states[i] := instead[i];
      END IF;
      CONTINUE WHEN done <> 1;
      result := {next}(
        under[i], found_states[i]::bigint[], now, units[i], rooms[i], numbers[5 * i - 4 : 5 * i]
      );
      IF result.after IS NULL THEN
        done := 0;
      ELSE
        afters[i] := result.after::text;
        untils[i] := {until}(given, expiries[i], now, result.span);
      END IF;
    END LOOP;
    IF done <> 1 THEN
      RETURN;
    END IF;
    BEGIN
      FOR i IN 1..cardinality(of_keys) LOOP
        IF stored_states[i] IS NULL THEN
          INSERT INTO {table} AS t (key, quota, state, expires_at)
            VALUES (of_keys[i], under[i], afters[i]::bigint[], untils[i]) ON CONFLICT DO NOTHING;
        ELSE
          UPDATE {table} t SET quota = under[i], state = afters[i]::bigint[], expires_at = untils[i]
            WHERE t.key = of_keys[i] AND t.state = stored_states[i]::bigint[] AND t.quota = stored_quotas[i];
        END IF;
        IF NOT FOUND THEN
          RAISE EXCEPTION 'overtaken' USING ERRCODE = 'TG001';
        END IF;
      END LOOP;
      RETURN;
    EXCEPTION WHEN SQLSTATE 'TG001' THEN
      -- The writes of this attempt are undone.
    END;
  END LOOP;
  RAISE EXCEPTION 'tidegate: the keys change faster than they can be written' USING ERRCODE = 'serialization_failure';
END
$tidegate$;
