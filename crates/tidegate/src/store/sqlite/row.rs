//! The row of a key: its state, the quota that the state was written under, and the time at which the row expires.

use tidegate_core::{Op, Quota, State, StepResult, StoreError, Timestamp, step};

use crate::store::codec::{decode, encode};

/// The extra time for which a row is kept, in microseconds, on top of half of the time that its key takes to recover.
const EXPIRY_GRACE: u64 = 60_000_000;

/// Returns the time at which a row may be swept, in microseconds. That is when its key has recovered its whole quota, plus
/// half of the time that this takes and a minute. An `expires_at` that is late enough stays, so most writes leave the index
/// alone.
fn row_expiry(state: &State, quota: &Quota, now: Timestamp, expires_at: Option<u64>) -> u64 {
    let new_at = state.new_at(quota).as_micros();
    match expires_at {
        Some(expires_at) if new_at <= expires_at => expires_at,
        _ => {
            let span = new_at.saturating_sub(now.as_micros());
            // SQLite's integers are signed.
            new_at.saturating_add(span / 2).saturating_add(EXPIRY_GRACE).min(i64::MAX as u64)
        }
    }
}

/// The time of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepTime {
    pub(super) now: Timestamp,
    /// Whether a test chose the time. It may be far from the real time, so a row that is written at it never expires.
    pub(super) is_test: bool,
}

impl StepTime {
    /// The time that a test chose, or else `now`.
    pub(super) fn new(test_time: Option<Timestamp>, now: Timestamp) -> Self {
        StepTime { now: test_time.unwrap_or(now), is_test: test_time.is_some() }
    }
}

/// A row as the database stores it.
pub(super) struct StoredRow {
    value: Vec<u8>,
    /// `None` when the row never expires.
    expires_at: Option<u64>,
}

impl StoredRow {
    /// Reads a row that [`select`](super::schema::TableSchema::select) returned.
    pub(super) fn from_sql(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        let expires_at: Option<i64> = row.get(1)?;
        Ok(StoredRow { value: row.get(0)?, expires_at: expires_at.map(|micros| micros.max(0) as u64) })
    }
}

/// A row in memory, between reading and writing it.
pub(super) struct LoadedRow {
    quota: Quota,
    state: State,
    /// The error of a stored value that cannot be decoded.
    decode_error: Option<StoreError>,
    /// The expiry of the stored row. The outer `None` means that there is no stored row.
    stored_expires_at: Option<Option<u64>>,
    expires_at: Option<u64>,
    is_changed: bool,
}

/// A change to make to the stored row.
pub(super) enum RowChange {
    Unchanged,
    Delete,
    /// Writes the value. The expiry stays as it is.
    UpdateValue(Vec<u8>),
    Upsert {
        value: Vec<u8>,
        expires_at: Option<u64>,
        /// Whether there is no stored row.
        is_new: bool,
    },
}

impl LoadedRow {
    /// Creates the row from the stored one, if any. `quota` is the one that the stored value most often has.
    pub(super) fn new(stored: Option<StoredRow>, quota: &Quota) -> Self {
        let (stored_expires_at, decoded) = match stored {
            Some(StoredRow { value, expires_at }) => (Some(expires_at), decode(&value, quota)),
            None => (None, Ok((*quota, State::New))),
        };
        let (quota, state, decode_error) = match decoded {
            Ok((quota, state)) => (quota, state, None),
            Err(error) => (*quota, State::New, Some(error)),
        };
        let expires_at = stored_expires_at.flatten();
        LoadedRow { quota, state, decode_error, stored_expires_at, expires_at, is_changed: false }
    }

    /// Applies an operation to the row.
    pub(super) fn step(&mut self, quota: &Quota, op: Op, time: StepTime) -> Result<StepResult, StoreError> {
        if op == Op::Reset && self.decode_error.take().is_some() {
            // A reset discards even a value that cannot be decoded.
            self.is_changed = true;
        }
        if self.quota == *quota && self.decode_error.is_none() {
            let outcome = step(quota, &mut self.state, op, time.now);
            if outcome.changed {
                self.mark_changed(time);
            }
            return Ok(outcome);
        }
        let mut state = self.state_under(quota, time)?;
        let outcome = step(quota, &mut state, op, time.now);
        // A check or a denial writes nothing, not even the rebased state.
        if outcome.changed {
            self.set_state(quota, state, time);
        }
        Ok(outcome)
    }

    /// Returns the state, rebased to `quota`.
    pub(super) fn state_under(&self, quota: &Quota, time: StepTime) -> Result<State, StoreError> {
        match &self.decode_error {
            Some(error) => Err(error.clone()),
            None => Ok(self.state.clone().rebase(&self.quota, quota, time.now)),
        }
    }

    /// Replaces the state and the quota of the row.
    pub(super) fn set_state(&mut self, quota: &Quota, state: State, time: StepTime) {
        (self.quota, self.state) = (*quota, state);
        self.mark_changed(time);
    }

    fn mark_changed(&mut self, time: StepTime) {
        self.is_changed = true;
        self.expires_at = match time.is_test {
            true => None,
            false => Some(row_expiry(&self.state, &self.quota, time.now, self.expires_at)),
        };
    }

    /// Returns the change to make to the stored row.
    pub(super) fn into_change(self) -> RowChange {
        match (self.state, self.stored_expires_at) {
            _ if !self.is_changed => RowChange::Unchanged,
            (State::New, None) => RowChange::Unchanged,
            (State::New, Some(_)) => RowChange::Delete,
            (state, Some(stored)) if stored == self.expires_at => RowChange::UpdateValue(encode(&state, &self.quota)),
            (state, stored) => RowChange::Upsert {
                value: encode(&state, &self.quota),
                expires_at: self.expires_at,
                is_new: stored.is_none(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, Lease, MAX_COUNT, days, seconds};
    use tidegate_testkit::Random;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn quotas() -> [Quota; 7] {
        [
            Quota::token_bucket(10, seconds(1)).unwrap(),
            Quota::token_bucket(4_294_967_291, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
            Quota::fixed_window(7, seconds(3)).unwrap().start(seconds(1)).unwrap().max_debt(0).unwrap(),
            Quota::sliding_window(10, seconds(1)).unwrap(),
            Quota::sliding_window(10, seconds(64)).unwrap().buckets(64).unwrap().max_debt(9).unwrap(),
            Quota::sliding_log(10, seconds(1)).unwrap(),
            Quota::concurrency(10, seconds(1)).unwrap(),
        ]
    }

    fn used_state(quota: &Quota) -> State {
        let mut state = State::New;
        for micros in [0, 1_000, 1_001, 70_000] {
            let at = Timestamp::from_micros(NOW.as_micros() + micros);
            step(quota, &mut state, Op::Reserve(Cost::new(2).unwrap()), at);
            step(quota, &mut state, Op::Admit(Lease::from_bits(micros << 40 | micros)), at);
        }
        state
    }

    #[test]
    fn encoded_state_decodes_whichever_quota_is_likely() {
        for quota in quotas() {
            let state = used_state(&quota);
            for likely in quotas() {
                assert_eq!(decode(&encode(&state, &quota), &likely).unwrap(), (quota, state.clone()));
            }
        }
    }

    #[test]
    fn corrupt_value_never_panics() {
        let mut random = Random::new(1);
        for round in 0..5_000 {
            let quota = quotas()[round % 7];
            let mut bytes = encode(&used_state(&quota), &quota);
            for _ in 0..1 + random.below(6) {
                let place = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes.truncate(place.max(1)),
                    1 => bytes.insert(place, random.below(256) as u8),
                    _ => bytes[place] = random.below(256) as u8,
                }
            }
            for quota in quotas() {
                let mut row = LoadedRow::new(Some(StoredRow { value: bytes.clone(), expires_at: Some(0) }), &quota);
                let lease = Lease::from_bits(0);
                let unit_ops = [Op::Limit(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)];
                let lease_ops = [Op::Admit(lease), Op::Renew(lease), Op::Release(lease), Op::Reset];
                for op in unit_ops.into_iter().chain(lease_ops) {
                    let _ = row.step(&quota, op, StepTime { now: NOW, is_test: false });
                }
                row.into_change();
            }
        }
    }

    #[test]
    fn row_written_at_a_test_time_never_expires() {
        let quota = quotas()[0];
        let expires_at = |is_test| {
            let mut row = LoadedRow::new(None, &quota);
            row.step(&quota, Op::Limit(Cost::ONE), StepTime { now: NOW, is_test }).unwrap();
            match row.into_change() {
                RowChange::Upsert { expires_at, is_new: true, .. } => expires_at,
                _ => panic!("a row is added"),
            }
        };
        assert!(expires_at(false).unwrap() > NOW.as_micros());
        assert_eq!(expires_at(true), None);
    }

    #[test]
    fn row_expires_after_its_key_has_recovered_and_rarely_moves() {
        let (quota, now) = (Quota::token_bucket(10, seconds(1_000)).unwrap(), Timestamp::from_millis(1_000));
        let mut state = State::New;
        step(&quota, &mut state, Op::Limit(Cost::new(4).unwrap()), now);
        let expiry = row_expiry(&state, &quota, now, None);
        assert_eq!(expiry, 1_000_000 + 400_000_000 * 3 / 2 + 60_000_000);
        step(&quota, &mut state, Op::Limit(Cost::new(2).unwrap()), now);
        assert_eq!(row_expiry(&state, &quota, now, Some(expiry)), expiry, "600 s are covered by 660");
        step(&quota, &mut state, Op::Limit(Cost::new(1).unwrap()), now);
        assert_eq!(row_expiry(&state, &quota, now, Some(expiry)), 1_000_000 + 700_000_000 * 3 / 2 + 60_000_000);
    }
}
