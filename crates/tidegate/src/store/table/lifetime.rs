//! Until when a row is kept.

use tidegate_core::{Quota, State, Timestamp};

/// A row is kept this much longer than half as long again as it takes to be as good as new, in microseconds.
const SLACK: u64 = 60_000_000;

/// When a row may be swept: when its key is as good as new, and half as long again and a minute later. A row that is
/// kept long enough already, `until` then, stays as it is, so that most writes leave the index of this alone.
pub(crate) fn expires_at(state: &State, quota: &Quota, now: Timestamp, until: Option<u64>) -> u64 {
    let new_at = state.new_at(quota).as_micros();
    match until {
        Some(until) if new_at <= until => until,
        _ => {
            let span = new_at.saturating_sub(now.as_micros());
            // The databases' numbers have a sign.
            new_at.saturating_add(span / 2).saturating_add(SLACK).min(i64::MAX as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, Op, seconds, step};

    use super::*;

    #[test]
    fn a_row_is_kept_until_its_key_is_as_good_as_new_and_moved_rarely() {
        let (quota, now) = (Quota::token_bucket(10, seconds(1_000)).unwrap(), Timestamp::from_millis(1_000));
        let mut state = State::New;
        step(&quota, &mut state, Op::Limit(Cost::new(4).unwrap()), now);
        let until = expires_at(&state, &quota, now, None);
        assert_eq!(until, 1_000_000 + 400_000_000 * 3 / 2 + 60_000_000);
        step(&quota, &mut state, Op::Limit(Cost::new(2).unwrap()), now);
        assert_eq!(expires_at(&state, &quota, now, Some(until)), until, "600 s are covered by 660");
        step(&quota, &mut state, Op::Limit(Cost::new(1).unwrap()), now);
        assert_eq!(expires_at(&state, &quota, now, Some(until)), 1_000_000 + 700_000_000 * 3 / 2 + 60_000_000);
    }
}
