IF attempt = 1 THEN
      SELECT t.quota, t.state, t.expires_at INTO stored_quota, stored_state, stored_until
        FROM {table} t WHERE t.key = of_key;
    ELSE
      SELECT t.quota, t.state, t.expires_at INTO stored_quota, stored_state, stored_until
        FROM {table} t WHERE t.key = of_key FOR UPDATE;
    END IF;
    is_stored := FOUND;
    now := coalesce(given, {clock})
