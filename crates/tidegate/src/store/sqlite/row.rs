//! A key's row: what it has used, the quota it was written under, and until when it is kept.

use tidegate_core::{Op, Quota, State, StepResult, StoreError, Timestamp, step};

use crate::store::stored::{decode, encode};
use crate::store::table::expires_at;

/// When an operation is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub(super) at: Timestamp,
    /// A test says so: what it writes is kept until it is asked for, whatever the real time.
    pub(super) given: bool,
}

/// A row as it is in the database.
pub(super) struct Stored {
    value: Vec<u8>,
    /// None for ever.
    until: Option<u64>,
}

impl Stored {
    /// The row that [`select`](super::schema::Table::select) has found.
    pub(super) fn of(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        let until: Option<i64> = row.get(1)?;
        Ok(Stored { value: row.get(0)?, until: until.map(|until| until.max(0) as u64) })
    }
}

/// A row in the middle of a transaction.
pub(super) struct Row {
    quota: Quota,
    state: State,
    /// What is stored cannot be read.
    damage: Option<StoreError>,
    /// Until when the row is kept that is stored, if one is.
    stored: Option<Option<u64>>,
    until: Option<u64>,
    changed: bool,
}

/// What has to be done to the database for a row.
pub(super) enum Change {
    Nothing,
    Delete,
    /// The row is kept as long as before.
    Value(Vec<u8>),
    JointDecision {
        value: Vec<u8>,
        until: Option<u64>,
        /// There was no row before.
        is_new: bool,
    },
}

impl Row {
    /// What is stored about a key, of which `quota` is asked.
    pub(super) fn read(stored: Option<Stored>, quota: &Quota) -> Self {
        let Some(Stored { value, until }) = stored else {
            return Row { quota: *quota, state: State::New, damage: None, stored: None, until: None, changed: false };
        };
        let (read, damage) = match decode(&value, quota) {
            Ok(read) => (read, None),
            Err(error) => ((*quota, State::New), Some(error)),
        };
        Row { quota: read.0, state: read.1, damage, stored: Some(until), until, changed: false }
    }

    /// Steps the row.
    pub(super) fn step(&mut self, quota: &Quota, op: Op, when: When) -> Result<StepResult, StoreError> {
        if op == Op::Reset && self.damage.take().is_some() {
            // Whatever it was, it is forgotten.
            self.changed = true;
        }
        if self.quota == *quota && self.damage.is_none() {
            let outcome = step(quota, &mut self.state, op, when.at);
            if outcome.changed {
                self.written(when);
            }
            return Ok(outcome);
        }
        let mut state = self.state_under(quota, when)?;
        let outcome = step(quota, &mut state, op, when.at);
        // Not after a look or a denial: they write nothing, not even what was carried over.
        if outcome.changed {
            self.put(quota, state, when);
        }
        Ok(outcome)
    }

    /// The state as one of `quota`.
    pub(super) fn state_under(&self, quota: &Quota, when: When) -> Result<State, StoreError> {
        match &self.damage {
            Some(error) => Err(error.clone()),
            None => Ok(self.state.clone().rebase(&self.quota, quota, when.at)),
        }
    }

    /// The row has another state now.
    pub(super) fn put(&mut self, quota: &Quota, state: State, when: When) {
        (self.quota, self.state) = (*quota, state);
        self.written(when);
    }

    fn written(&mut self, when: When) {
        self.changed = true;
        self.until = match when.given {
            true => None,
            false => Some(expires_at(&self.state, &self.quota, when.at, self.until)),
        };
    }

    /// What has to be done to the database.
    pub(super) fn into_change(self) -> Change {
        match (self.state, self.stored) {
            _ if !self.changed => Change::Nothing,
            (State::New, None) => Change::Nothing,
            (State::New, Some(_)) => Change::Delete,
            (state, Some(until)) if until == self.until => Change::Value(encode(&state, &self.quota)),
            (state, stored) => Change::JointDecision {
                value: encode(&state, &self.quota),
                until: self.until,
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

    fn used(quota: &Quota) -> State {
        let mut state = State::New;
        for micros in [0, 1_000, 1_001, 70_000] {
            let at = Timestamp::from_micros(NOW.as_micros() + micros);
            step(quota, &mut state, Op::Reserve(Cost::new(2).unwrap()), at);
            step(quota, &mut state, Op::Admit(Lease::from_bits(micros << 40 | micros)), at);
        }
        state
    }

    #[test]
    fn a_state_and_its_quota_can_be_read_back_whoever_asks() {
        for quota in quotas() {
            let state = used(&quota);
            for likely in quotas() {
                assert_eq!(decode(&encode(&state, &quota), &likely).unwrap(), (quota, state.clone()));
            }
        }
    }

    #[test]
    fn whatever_is_stored_nothing_panics() {
        let mut random = Random::new(1);
        for round in 0..5_000 {
            let quota = quotas()[round % 7];
            let mut bytes = encode(&used(&quota), &quota);
            for _ in 0..1 + random.below(6) {
                let place = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes.truncate(place.max(1)),
                    1 => bytes.insert(place, random.below(256) as u8),
                    _ => bytes[place] = random.below(256) as u8,
                }
            }
            for asked in quotas() {
                let mut row = Row::read(Some(Stored { value: bytes.clone(), until: Some(0) }), &asked);
                let lease = Lease::from_bits(0);
                let of_units = [Op::Limit(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)];
                let of_leases = [Op::Admit(lease), Op::Renew(lease), Op::Release(lease), Op::Reset];
                for op in of_units.into_iter().chain(of_leases) {
                    let _ = row.step(&asked, op, When { at: NOW, given: false });
                }
                row.into_change();
            }
        }
    }

    #[test]
    fn what_a_test_writes_is_kept_whatever_the_real_time() {
        let quota = quotas()[0];
        let until = |given| {
            let mut row = Row::read(None, &quota);
            row.step(&quota, Op::Limit(Cost::ONE), When { at: NOW, given }).unwrap();
            match row.into_change() {
                Change::JointDecision { until, is_new: true, .. } => until,
                _ => panic!("a row is added"),
            }
        };
        assert!(until(false).unwrap() > NOW.as_micros());
        assert_eq!(until(true), None);
    }
}
