//! The number that every controller moves.

/// A limit with its bounds. A float, so that it can move by less than one; what is handed out is whole, rounded down.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    value: f64,
    min: u32,
    max: u32,
    initial: u32,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { value: 20.0, min: 1, max: 1_000, initial: 20 }
    }
}

impl Limit {
    pub(super) fn set_min(&mut self, min: u32) {
        self.min = min.max(1);
        self.begin();
    }

    pub(super) fn set_max(&mut self, max: u32) {
        self.max = max;
        self.begin();
    }

    pub(super) fn set_initial(&mut self, initial: u32) {
        self.initial = initial;
        self.begin();
    }

    fn begin(&mut self) {
        self.move_to(f64::from(self.initial));
    }

    /// What is handed out.
    pub(super) fn whole(&self) -> u32 {
        self.value as u32
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// The least it can be.
    pub(super) fn min(&self) -> u32 {
        self.min
    }

    /// Moves it, within its bounds.
    pub(super) fn move_to(&mut self, value: f64) {
        // The order matters where the most is below the least, which then wins.
        self.value = value.min(f64::from(self.max)).max(f64::from(self.min));
    }

    /// A piece of work was wasted. Takes off so much that as many of them as are in flight bring the limit down to
    /// `ratio` of what it was, however many that is. To take that much off for each would bring a high limit to its least
    /// for one bad moment, in which everything in flight is lost.
    pub(super) fn back_off(&mut self, ratio: f64) {
        self.move_to(self.value - (1.0 - ratio));
    }

    /// Whether so many in flight say anything about the limit: at least half of it. Below that it is not what holds work
    /// back, and nothing was learned about a higher one.
    pub(super) fn is_tried_by(&self, in_flight: u32) -> bool {
        f64::from(in_flight) * 2.0 >= self.value.floor()
    }
}

/// The setters that every controller has, for one that keeps its limit at that place.
macro_rules! bounds {
    ($($at:ident)?) => {
        /// The least the limit can be: 1 unless said otherwise, and never less.
        #[must_use]
        pub fn min(mut self, min: u32) -> Self {
            self$(.$at)?.limit.set_min(min);
            self
        }

        /// The most the limit can be: 1,000 unless said otherwise. One below the least counts as the least.
        #[must_use]
        pub fn max(mut self, max: u32) -> Self {
            self$(.$at)?.limit.set_max(max);
            self
        }

        /// Where the limit begins: at 20 unless said otherwise, or at the bound that is nearest.
        #[must_use]
        pub fn initial(mut self, initial: u32) -> Self {
            self$(.$at)?.limit.set_initial(initial);
            self
        }

        /// How much of the limit is left when all that is in flight was wasted ([`Work::Dropped`](crate::concurrency::Work)),
        /// from 0 to 0.99: 0.9 unless said otherwise. When only some of it was, the limit falls by that share of the rest.
        #[must_use]
        pub fn back_off(mut self, ratio: f64) -> Self {
            self$(.$at)?.back_off = super::limit::within(ratio, 0.0, 0.99);
            self
        }
    };
}
pub(super) use bounds;

/// The number, or the bound that is nearest; what is not a number counts as the lower bound.
pub(super) fn within(number: f64, least: f64, most: f64) -> f64 {
    number.max(least).min(most)
}
