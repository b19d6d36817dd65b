//! Slots: the parts of a cluster, of which each key is in one.

/// The number of slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// How many neighbouring slots are one partition of the store. A node usually has contiguous ranges of slots.
const SLOTS_PER_PARTITION: u16 = 256;

/// A slot of a cluster. Its number is below [`SLOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Slot(u16);

impl Slot {
    /// The slot of the key with this name in Redis. A hash tag is the text between the first brace and the next closing
    /// one, unless it is empty.
    pub(super) fn of_name(name: &str) -> Self {
        let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        let text = tag.filter(|tag| !tag.is_empty()).unwrap_or(name);
        Slot(crc16(text.as_bytes()) % SLOTS as u16)
    }

    pub(super) fn index(self) -> usize {
        self.0.into()
    }

    /// The partition of the store, below 64.
    pub(super) fn partition(self) -> u8 {
        (self.0 / SLOTS_PER_PARTITION) as u8
    }
}

/// CRC-16/XMODEM, as Redis computes it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ CRC16_TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const CRC16_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The first is the check value in the cluster specification, the others are by `CLUSTER KEYSLOT`.
        let slots = [("123456789", 0x31c3), ("foo", 12_182), ("bar", 5_061), ("", 0)];
        for (name, slot) in slots {
            assert_eq!(Slot::of_name(name).index(), slot, "{name}");
        }
    }

    #[test]
    fn only_the_first_hash_tag_counts() {
        for name in ["{foo}bar", "x{foo}{bar}", "x{foo}}", "{foo}"] {
            assert_eq!(Slot::of_name(name), Slot::of_name("foo"), "{name}");
        }
        for name in ["{}foo", "{foo", "}foo{"] {
            assert_eq!(usize::from(crc16(name.as_bytes())) % SLOTS, Slot::of_name(name).index(), "{name}");
        }
        assert_eq!(Slot::of_name("x{{foo}}"), Slot::of_name("{foo"));
    }

    #[test]
    fn partitions_are_sixty_four_ranges() {
        let partitions: Vec<u8> = (0..SLOTS as u16).map(|slot| Slot(slot).partition()).collect();
        assert!(partitions.is_sorted() && partitions.iter().all(|partition| *partition < 64));
    }
}
