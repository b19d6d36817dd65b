//! A reader and a writer of bytes with a checksum.

use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};

use super::SnapshotError;

/// A checksum: FNV-1a of 64 bits. Every change of a single byte changes it.
#[derive(Clone, Copy)]
pub(super) struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, add);
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }
}

/// A writer that appends a checksum.
pub(super) struct ChecksumWriter<W: Write> {
    out: BufWriter<W>,
    sum: Checksum,
}

impl<W: Write> ChecksumWriter<W> {
    pub(super) fn new(out: W) -> Self {
        ChecksumWriter { out: BufWriter::new(out), sum: Checksum::default() }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.add(bytes);
        self.out.write_all(bytes)
    }

    /// Writes the checksum of everything so far, and flushes.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&self.sum.get().to_le_bytes())?;
        self.out.flush()
    }
}

/// A reader that checks a checksum.
pub(super) struct ChecksumReader<R> {
    input: BufReader<R>,
    sum: Checksum,
}

impl<R: Read> ChecksumReader<R> {
    pub(super) fn new(input: R) -> Self {
        ChecksumReader { input: BufReader::new(input), sum: Checksum::default() }
    }

    pub(super) fn read_array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn read_numbers<const N: usize>(&mut self) -> Result<[u64; N], SnapshotError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.read_array()?);
        }
        Ok(numbers)
    }

    pub(super) fn read_bytes(&mut self, len: u8) -> Result<Vec<u8>, SnapshotError> {
        let mut bytes = vec![0; len.into()];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Checks that the checksum of everything so far comes next, and then the end.
    pub(super) fn finish(mut self) -> Result<(), SnapshotError> {
        let sum = self.sum.get();
        if self.read_numbers()? != [sum] {
            return Err(SnapshotError::Damaged("its checksum is another one"));
        }
        match self.fill(&mut [0]) {
            Err(SnapshotError::Damaged(_)) => Ok(()),
            Ok(()) => Err(SnapshotError::Damaged("something follows its end")),
            Err(error) => Err(error),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => SnapshotError::Damaged("it ends too early"),
            _ => SnapshotError::Io(error),
        })?;
        self.sum.add(bytes);
        Ok(())
    }
}
