//! Stable hashes for routing: equal in every process and version, and not safe against attackers.

/// Returns a stable hash of bytes: FNV-1a from a seed, then every bit mixed into every other. Without the mix, a
/// remainder or the high half would depend on few bits.
pub(crate) fn stable_hash(seed: u64, bytes: &[u8]) -> u64 {
    let basis = 0xcbf2_9ce4_8422_2325 ^ seed;
    mix(bytes.iter().fold(basis, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// The finalizer of SplitMix64: every input bit reaches every output bit.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
