//! The lines of a trace, one at a time, in bounded memory.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line that is read. A key has at most 4 KiB, so nothing that could be right is longer.
pub(super) const MAX_LINE: usize = 64 << 10;

const INPUT_BUFFER: usize = 256 << 10;

pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The number of the line that was read last, from 1.
    pub(super) number: u64,
    /// How many bytes were read.
    pub(super) bytes: u64,
}

/// What comes next in a trace.
pub(super) enum Next<'a> {
    /// A line, its end included.
    Line(&'a [u8]),
    /// A line of which only the beginning was read.
    TooLong,
    End,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(trace: R) -> Self {
        let reader = BufReader::with_capacity(INPUT_BUFFER, trace);
        Lines { reader, line: Vec::with_capacity(1 << 10), number: 0, bytes: 0 }
    }

    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        self.line.clear();
        // Two more for the end of the line.
        let most = MAX_LINE as u64 + 2;
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        self.bytes += read as u64;
        Ok(if self.line.trim_ascii_end().len() > MAX_LINE || (read as u64 == most && !self.line.ends_with(b"\n")) {
            Next::TooLong
        } else {
            Next::Line(&self.line)
        })
    }
}
