//! Traces: their lines, in bounded memory, and the event on each.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use serde::Deserialize;
use serde_json::error::Category;

use tidegate::api::{CostField, KeyField, LeaseField, MAX_KEY_BYTES, Op, OpName, TimestampField};

const EXAMPLE: &str = r#"{"at_ms":0,"op":"limit","limit":"api","key":"u1","cost":1}"#;

/// The event on a line of a trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Event<'a> {
    pub(super) at_ms: TimestampField,
    op: OpName,
    #[serde(borrow)]
    pub(super) limit: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: KeyField<'a>,
    #[serde(default)]
    pub(super) cost: CostField,
    lease: Option<LeaseField>,
}

/// An error in a line, with its column if it is known.
pub(super) type LineError = (Option<usize>, String);

impl<'a> Event<'a> {
    /// Parses a line.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, LineError> {
        let event: Event<'a> = parse_line(line, EXAMPLE)?;
        if event.key.size() > MAX_KEY_BYTES {
            let found = event.key.size();
            return Err((None, format!("key: found {found} bytes, expected at most {MAX_KEY_BYTES}")));
        }
        Ok(event)
    }

    /// Returns the operation.
    pub(super) fn op(&self) -> Result<Op, LineError> {
        self.op.with_lease(self.lease.map(|lease| lease.0)).map_err(|message| (None, message))
    }
}

/// Parses a line that looks like the example.
pub(super) fn parse_line<'a, T: Deserialize<'a>>(line: &'a [u8], example: &str) -> Result<T, LineError> {
    let line = line.trim_ascii_end();
    // An array would do for serde, with the fields in order; not here.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err((None, format!("not a JSON object, expected a line such as {example}")));
    }
    serde_json::from_slice(line).map_err(|error| line_error(&error, line, example))
}

fn line_error(error: &serde_json::Error, line: &[u8], example: &str) -> LineError {
    let text = error.to_string();
    // The position comes first, as for configs.
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    // An error in a value says what is expected; one in the line does not.
    let message = match error.classify() {
        Category::Data if message.contains("expected") => message.to_owned(),
        _ => format!("{message}, expected a line such as {example}"),
    };
    // The parser counts bytes; people count characters.
    let before = &line[..error.column().min(line.len())];
    let column = String::from_utf8_lossy(before).chars().count().max(1);
    (Some(column), message)
}

/// The longest line that is read. A key has at most 4 KiB, so nothing that could be right is longer.
pub(super) const MAX_LINE: usize = 64 << 10;

const INPUT_BUFFER: usize = 256 << 10;

/// The lines of a trace, one at a time.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The number of the last line, from 1.
    pub(super) number: u64,
    /// The bytes read so far.
    pub(super) bytes: u64,
}

/// The next line of a trace.
pub(super) enum NextLine<'a> {
    /// A line with its end.
    Line(&'a [u8]),
    /// A line that is too long, of which only the beginning was read.
    TooLong,
    /// The end of the trace.
    End,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(trace: R) -> Self {
        let reader = BufReader::with_capacity(INPUT_BUFFER, trace);
        Lines { reader, line: Vec::with_capacity(1 << 10), number: 0, bytes: 0 }
    }

    pub(super) fn next(&mut self) -> io::Result<NextLine<'_>> {
        self.line.clear();
        // Two more for the end of the line.
        let most = MAX_LINE as u64 + 2;
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(NextLine::End);
        }
        self.number += 1;
        self.bytes += read as u64;
        Ok(if self.line.trim_ascii_end().len() > MAX_LINE || (read as u64 == most && !self.line.ends_with(b"\n")) {
            NextLine::TooLong
        } else {
            NextLine::Line(&self.line)
        })
    }
}
