//! What an operation comes to, before anything is known of the key.

use tidegate_core::{MAX_COUNT, Op, Quota};

/// Units that are taken or given back, and when they fit.
pub(crate) struct Taking {
    pub(crate) units: u64,
    /// They are given back.
    pub(crate) gives: bool,
    /// How much may be used already for them to fit; none when they never do.
    pub(crate) room: Option<u64>,
}

impl Taking {
    pub(crate) fn of(op: Op, quota: &Quota) -> Self {
        match op {
            Op::Limit(cost) | Op::Check(cost) => Self::units(cost.get(), quota, 0),
            Op::Reserve(cost) => Self::units(cost.get(), quota, quota.slack()),
            Op::Refund(cost) => Taking { gives: true, ..Self::units(cost.get(), quota, 0) },
            Op::Reset => Taking { gives: true, ..Self::units(u64::MAX, quota, 0) },
            // Leases are no units of a rate, so they never fit.
            Op::Admit(_) | Op::Renew(_) | Op::Release(_) => Taking { units: 0, gives: false, room: None },
        }
    }

    /// Units that are taken, going beyond the capacity by `slack` at most.
    pub(crate) fn units(units: u64, quota: &Quota, slack: u64) -> Self {
        let room = u64::from(quota.parts().capacity).checked_sub(units).map(|left| left + slack);
        // More than that is never used, so more cannot be given back.
        Taking { units: units.min(2 * MAX_COUNT), gives: false, room }
    }
}
