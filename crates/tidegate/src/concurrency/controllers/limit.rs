//! The limit that every controller moves within its bounds, and the settings that all controllers share.

/// A limit with its bounds. A float, so that it can move by less than one; the limit that applies is rounded down.
#[derive(Debug, Clone)]
pub(super) struct BoundedLimit {
    value: f64,
    min: u32,
    max: u32,
    initial: u32,
}

impl Default for BoundedLimit {
    fn default() -> Self {
        BoundedLimit { value: 20.0, min: 1, max: 1_000, initial: 20 }
    }
}

impl BoundedLimit {
    pub(super) fn set_min(&mut self, min: u32) {
        self.min = min.max(1);
        self.reset();
    }

    pub(super) fn set_max(&mut self, max: u32) {
        self.max = max;
        self.reset();
    }

    pub(super) fn set_initial(&mut self, initial: u32) {
        self.initial = initial;
        self.reset();
    }

    fn reset(&mut self) {
        self.move_to(f64::from(self.initial));
    }

    /// Returns the limit that applies.
    pub(super) fn rounded(&self) -> u32 {
        self.value as u32
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// Returns the lower bound.
    pub(super) fn min(&self) -> u32 {
        self.min
    }

    /// Moves the limit, within its bounds.
    pub(super) fn move_to(&mut self, value: f64) {
        // The order matters where the upper bound is below the lower one, which then wins.
        self.value = value.min(f64::from(self.max)).max(f64::from(self.min));
    }

    /// Reduces the limit for one piece of wasted work, by so little that a whole limit of wasted work reduces it to about `ratio`.
    /// With the whole ratio for each, one bad moment that wastes all work in flight would reduce a high limit to its minimum.
    pub(super) fn back_off(&mut self, ratio: f64) {
        self.move_to(self.value - (1.0 - ratio));
    }

    /// Returns whether a round with that many in flight has tried the limit: at least half of it. Below that the limit
    /// rejects no work, and a higher one was not tried.
    pub(super) fn is_tested_by(&self, in_flight: u32) -> bool {
        f64::from(in_flight) * 2.0 >= self.value.floor()
    }
}

/// The settings of every controller, for one that has its limit in that field.
macro_rules! bound_settings {
    ($($at:ident)?) => {
        /// Sets the lower bound of the limit. Defaults to 1, which is the minimum.
        #[must_use]
        pub fn min(mut self, min: u32) -> Self {
            self$(.$at)?.limit.set_min(min);
            self
        }

        /// Sets the upper bound of the limit. Defaults to 1,000. One below the lower bound counts as the lower bound.
        #[must_use]
        pub fn max(mut self, max: u32) -> Self {
            self$(.$at)?.limit.set_max(max);
            self
        }

        /// Sets the initial limit. Defaults to 20, or the nearest bound.
        #[must_use]
        pub fn initial(mut self, initial: u32) -> Self {
            self$(.$at)?.limit.set_initial(initial);
            self
        }

        /// Sets the ratio to which the limit falls when all work in flight was wasted
        /// ([`Completion::Dropped`](crate::concurrency::Completion)), from 0 to 0.99. Defaults to 0.9. When only a part of the
        /// work was wasted, the limit falls by that part of the difference.
        #[must_use]
        pub fn back_off(mut self, ratio: f64) -> Self {
            self$(.$at)?.back_off = super::limit::clamp(ratio, 0.0, 0.99);
            self
        }
    };
}
pub(super) use bound_settings;

/// Returns the number, or the nearest bound; NaN counts as the lower bound.
pub(super) fn clamp(number: f64, min: f64, max: f64) -> f64 {
    number.max(min).min(max)
}
