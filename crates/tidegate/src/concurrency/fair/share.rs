//! The rule by which tenants share slots, in whole numbers.

use std::cmp::Ordering;

/// Returns the guarantee of a tenant: its part of the limit by weight, rounded down. `weights` is the sum over all present
/// tenants, this one included.
pub(super) fn guarantee(weight: u32, limit: u32, weights: u64) -> u32 {
    let part = u64::from(weight) * u64::from(limit) / weights;
    u32::try_from(part).expect("a part is at most the limit")
}

/// Returns whether a tenant may have one more slot. `reserved` is the sum of the unused guarantees of all present tenants. Below
/// its guarantee a tenant uses its own reserve. Above, it borrows, and may not use any reserve.
pub(super) fn admits(below_guarantee: bool, free: u32, reserved: u64) -> bool {
    if below_guarantee { free > 0 } else { u64::from(free) > reserved }
}

/// What a tenant has in flight for its weight. The tenant with the least is served first. Compared exactly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) in_flight: u32,
    pub(super) weight: u32,
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        let crossed = |one: &Self, other: &Self| u64::from(one.in_flight) * u64::from(other.weight);
        crossed(self, other).cmp(&crossed(other, self))
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Load {}

#[cfg(test)]
mod tests {
    use tidegate_testkit::Random;

    use super::*;

    #[test]
    fn guarantee_is_the_part_by_weight_rounded_down() {
        assert_eq!(guarantee(1, 10, 3), 3);
        assert_eq!(guarantee(4, 10, 5), 8);
        assert_eq!(guarantee(1, 10, 11), 0, "more tenants than slots");
        assert_eq!(guarantee(u32::MAX, u32::MAX, u64::from(u32::MAX)), u32::MAX, "alone");
        assert_eq!(guarantee(u32::MAX, u32::MAX, u64::MAX), 0);
    }

    #[test]
    fn guarantees_add_up_to_the_limit_less_rounding() {
        let mut random = Random::new(1);
        for _ in 0..2_000 {
            let weights: Vec<u32> = (0..random.between(1, 12)).map(|_| 1 + random.of_bits(1, 31) as u32).collect();
            let limit = 1 + random.of_bits(1, 31) as u32;
            let sum = weights.iter().copied().map(u64::from).sum();
            let all: u64 = weights.iter().map(|weight| u64::from(guarantee(*weight, limit, sum))).sum();
            assert!(all <= u64::from(limit) && u64::from(limit) - all < weights.len() as u64, "{weights:?} {limit}");
        }
    }

    #[test]
    fn loads_are_compared_exactly() {
        let load = |in_flight, weight| Load { in_flight, weight };
        assert_eq!(load(1, 2), load(2, 4));
        assert_eq!(load(0, 1), load(0, 7));
        assert!(load(1, 3) < load(1, 2));
        // As floats of 32 bits, and their quotients of 64, these are the same.
        assert!(load(u32::MAX - 2, u32::MAX - 1) < load(u32::MAX - 1, u32::MAX));
    }
}
