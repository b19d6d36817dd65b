//! The registry of quotas: each gets a number that fits in a slot.

use std::sync::OnceLock;

use tidegate_core::Quota;

use super::slot::{IN_OVERFLOW, TAG_BITS};

const SEGMENT_LEN: usize = 256;
const SEGMENTS: usize = (1 << TAG_BITS) / SEGMENT_LEN;
/// The number of possible numbers for a quota. If all are taken, its states go to the overflow table.
const MAX_PROBES: usize = 8;

/// The quotas that wrote slots. It only grows, up to 16,383 numbers, so the meaning of a slot's number never changes.
pub(super) struct QuotaRegistry {
    segments: Box<[Segment; SEGMENTS]>,
}

type Segment = OnceLock<Box<[OnceLock<Quota>; SEGMENT_LEN]>>;

impl QuotaRegistry {
    pub(super) fn new() -> Self {
        QuotaRegistry { segments: Box::new([const { OnceLock::new() }; SEGMENTS]) }
    }

    /// Returns the number of this quota, or `None` if there is no room for it.
    #[inline]
    pub(super) fn tag(&self, quota: &Quota) -> Option<u16> {
        let tag = quota.tag() as usize % (SEGMENT_LEN * SEGMENTS);
        match self.get(tag) {
            Some(known) if known == quota && tag != usize::from(IN_OVERFLOW) => Some(tag as u16),
            _ => self.insert(quota),
        }
    }

    /// Assigns a number to a new quota, or finds one that is not at its first place.
    #[cold]
    fn insert(&self, quota: &Quota) -> Option<u16> {
        let places = (0..MAX_PROBES).map(|probe| (quota.tag() as usize).wrapping_add(probe) % (SEGMENT_LEN * SEGMENTS));
        let mut places = places.filter(|tag| *tag != usize::from(IN_OVERFLOW));
        let place = places.find(|tag| {
            let new_segment = || Box::new([const { OnceLock::new() }; SEGMENT_LEN]);
            let segment = self.segments[tag / SEGMENT_LEN].get_or_init(new_segment);
            segment[tag % SEGMENT_LEN].get_or_init(|| *quota) == quota
        });
        place.map(|tag| tag as u16)
    }

    #[inline]
    fn get(&self, tag: usize) -> Option<&Quota> {
        self.segments[tag / SEGMENT_LEN].get()?[tag % SEGMENT_LEN].get()
    }

    /// Returns the quota of a number from [`QuotaRegistry::tag`].
    #[inline]
    pub(super) fn quota(&self, tag: u16) -> &Quota {
        self.get(tag.into()).expect("a slot only carries numbers that were given out")
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::seconds;

    use super::*;

    #[test]
    fn quotas_keep_their_numbers_when_numbers_run_out() {
        let registry = QuotaRegistry::new();
        let quotas: Vec<_> = (1..=40_000).map(|rate| Quota::token_bucket(rate, seconds(1)).unwrap()).collect();
        let tags: Vec<_> = quotas.iter().map(|quota| registry.tag(quota)).collect();
        let given = tags.iter().flatten().count();
        assert!((12_000..16_384).contains(&given), "{given}");
        for (quota, tag) in quotas.iter().zip(&tags) {
            assert_eq!(registry.tag(quota), *tag);
            if let Some(tag) = tag {
                assert_ne!(*tag, IN_OVERFLOW);
                assert_eq!(registry.quota(*tag), quota);
            }
        }
    }
}
