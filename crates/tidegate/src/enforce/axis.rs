//! What there can be too much of.

/// What there can be too much of, in the order in which an [`Admission`](super::Admission) asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// How many are in flight at once.
    Concurrency,
    /// How often.
    Rate,
    /// How much it costs in all.
    Cost,
}

impl Axis {
    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Axis::Concurrency => "concurrency",
            Axis::Rate => "rate",
            Axis::Cost => "cost",
        }
    }
}
