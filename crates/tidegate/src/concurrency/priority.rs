//! Whose work goes first when there is too much of it.

/// How much a piece of work matters. Under a reserve, each class leaves some of the limit to those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Priority {
    /// May be turned away first: what will be tried again anyway, such as a prefetch or a batch.
    Sheddable,
    /// Ordinary work.
    #[default]
    Default,
    /// May use the last of the limit: health checks, logins, payments.
    Critical,
}

impl Priority {
    /// Every priority, the least important first.
    pub const ALL: [Priority; 3] = [Priority::Sheddable, Priority::Default, Priority::Critical];

    /// The name in configs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Priority::Sheddable => "sheddable",
            Priority::Default => "default",
            Priority::Critical => "critical",
        }
    }

    /// How much of `limit` this class may use when each leaves `reserve` percent of it, rounded up, to the next. At least
    /// one, so that a small limit does not shut a class out for ever.
    pub(super) fn ceiling(self, limit: u32, reserve: u8) -> u32 {
        let below = match self {
            Priority::Critical => 0,
            Priority::Default => 1,
            Priority::Sheddable => 2,
        };
        let kept = (u64::from(limit) * u64::from(reserve)).div_ceil(100) * below;
        limit.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_leaves_the_reserve_to_the_next() {
        let ceilings = |limit, reserve| Priority::ALL.map(|priority| priority.ceiling(limit, reserve));
        assert_eq!(ceilings(100, 0), [100, 100, 100]);
        assert_eq!(ceilings(100, 10), [80, 90, 100]);
        assert_eq!(ceilings(15, 10), [11, 13, 15], "rounded up");
        assert_eq!(ceilings(1, 10), [1, 1, 1], "nobody is shut out");
        assert_eq!(ceilings(100, 50), [1, 50, 100]);
        assert_eq!(ceilings(u32::MAX, 100), [1, 1, u32::MAX]);
    }
}
