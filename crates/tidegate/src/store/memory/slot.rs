//! A slot: one key's fingerprint, quota number and state, in two words and a part of a third.

use tidegate_core::{Algorithm, BucketCounts, NarrowBucket, Quota, State, Timestamp};

/// Bits of a key's hash that a slot keeps.
pub(super) const FINGERPRINT_BITS: u32 = 40;
/// Bits of a time: microseconds until the year 2255.
const TIME_BITS: u32 = 53;
/// Bits of a level, which holds a state that fits.
const LEVEL_BITS: u32 = 42;
/// Bits of a quota's number.
pub(super) const TAG_BITS: u32 = 14;
/// Bits of each of a sliding window's two counts.
const COUNT_BITS: u32 = LEVEL_BITS / 2;

/// Bits of a place in the overflow table.
const PLACE_BITS: u32 = 32;

/// The tag of a slot whose state is in the overflow table. `level` has its place and its eviction rank at the write,
/// and `time` is when it will be as good as new.
pub(super) const IN_OVERFLOW: u16 = (1 << TAG_BITS) - 1;

/// The content of a slot. A fingerprint of 0 is an empty slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slot {
    pub(super) fingerprint: u64,
    pub(super) tag: u16,
    pub(super) time: u64,
    pub(super) level: u64,
}

// Word A: fingerprint and the low 24 bits of the level. Word B: time and the low 11 bits of the tag. Every slot of a
// line has 21 bits of word C: the high 3 bits of the tag and the high 18 bits of the level.
const LEVEL_IN_A: u32 = 64 - FINGERPRINT_BITS;
const TAG_IN_B: u32 = 64 - TIME_BITS;
const LEVEL_IN_C: u32 = LEVEL_BITS - LEVEL_IN_A;
/// Bits of word C that one slot has.
pub(super) const C_BITS: u32 = LEVEL_IN_C + TAG_BITS - TAG_IN_B;

const fn low_mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

impl Slot {
    /// The last time that fits.
    pub(super) const END_OF_TIME: u64 = low_mask(TIME_BITS);

    /// The fingerprint in word A.
    pub(super) fn unpack_fingerprint(a: u64) -> u64 {
        a >> LEVEL_IN_A
    }

    pub(super) fn unpack(a: u64, b: u64, c: u64) -> Self {
        let tag = (b & low_mask(TAG_IN_B)) | (c >> LEVEL_IN_C) << TAG_IN_B;
        Slot {
            fingerprint: Self::unpack_fingerprint(a),
            tag: tag as u16,
            time: b >> TAG_IN_B,
            level: (a & low_mask(LEVEL_IN_A)) | (c & low_mask(LEVEL_IN_C)) << LEVEL_IN_A,
        }
    }

    pub(super) fn pack(self) -> (u64, u64, u64) {
        let tag = u64::from(self.tag);
        let a = self.fingerprint << LEVEL_IN_A | self.level & low_mask(LEVEL_IN_A);
        let b = self.time << TAG_IN_B | tag & low_mask(TAG_IN_B);
        let c = (tag >> TAG_IN_B) << LEVEL_IN_C | self.level >> LEVEL_IN_A;
        (a, b, c)
    }

    /// Returns the token bucket in a slot that has one.
    #[inline]
    pub(super) fn bucket(self) -> NarrowBucket {
        NarrowBucket { deficit: self.level, last: Timestamp::from_micros(self.time) }
    }

    /// Creates a slot with this token bucket, if it fits in one and is not as good as new.
    #[inline]
    pub(super) fn from_bucket(fingerprint: u64, tag: u16, bucket: NarrowBucket) -> Option<Self> {
        let (level, time) = (bucket.deficit, bucket.last.as_micros());
        let fits = level != 0 && level >> LEVEL_BITS == 0 && time >> TIME_BITS == 0;
        fits.then_some(Slot { fingerprint, tag, time, level })
    }

    /// Creates a slot with this state, if it fits in one.
    pub(super) fn encode(fingerprint: u64, tag: u16, state: &State) -> Option<Self> {
        let level = match state {
            State::TokenBucket { deficit, .. } => u64::try_from(*deficit).ok()?,
            State::FixedWindow { deficit, .. } => *deficit,
            State::SlidingWindow { counts: BucketCounts::One([previous, current]), .. }
                if (previous | current) >> COUNT_BITS == 0 =>
            {
                previous << COUNT_BITS | current
            }
            _ => return None,
        };
        let time = state.last()?.as_micros();
        let fits = level >> LEVEL_BITS == 0 && time >> TIME_BITS == 0;
        fits.then_some(Slot { fingerprint, tag, time, level })
    }

    /// Returns the state of a slot that was written under `quota`.
    pub(super) fn decode(self, quota: &Quota) -> State {
        let last = Timestamp::from_micros(self.time);
        match quota.algorithm() {
            Algorithm::TokenBucket => State::TokenBucket { deficit: self.level.into(), last },
            Algorithm::FixedWindow => State::FixedWindow { deficit: self.level, last },
            // Nothing else is ever encoded.
            _ => {
                let counts = [self.level >> COUNT_BITS, self.level & low_mask(COUNT_BITS)];
                State::SlidingWindow { counts: BucketCounts::One(counts), last }
            }
        }
    }

    /// Creates a slot whose state is in the overflow table, at `place`.
    pub(super) fn for_overflow(fingerprint: u64, place: u64, rank: u16, new_at: Timestamp) -> Self {
        debug_assert!(place >> PLACE_BITS == 0, "more entries than any memory holds");
        let time = new_at.as_micros().min(Self::END_OF_TIME);
        Slot { fingerprint, tag: IN_OVERFLOW, time, level: u64::from(rank) << PLACE_BITS | place }
    }

    /// Returns the place of the state in the overflow table.
    pub(super) fn overflow_place(self) -> u64 {
        self.level & low_mask(PLACE_BITS)
    }

    /// Returns the same slot for a state that is at another place.
    pub(super) fn with_overflow_place(self, place: u64) -> Self {
        Slot { level: self.level & !low_mask(PLACE_BITS) | place, ..self }
    }

    /// Returns the eviction rank at the last write of the state in the overflow table.
    pub(super) fn stored_rank(self) -> u16 {
        (self.level >> PLACE_BITS) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_survives_packing() {
        let slots = [
            Slot { fingerprint: 1, tag: 0, time: 0, level: 0 },
            Slot { fingerprint: low_mask(40), tag: IN_OVERFLOW, time: low_mask(53), level: low_mask(42) },
            Slot { fingerprint: 0xab_cdef_1234, tag: 0x1234, time: 1_700_000_000_123_456, level: 0x2aa_aa55_5533 },
        ];
        for slot in slots {
            let (a, b, c) = slot.pack();
            assert_eq!(c >> C_BITS, 0);
            assert_eq!(Slot::unpack(a, b, c), slot);
        }
    }
}
