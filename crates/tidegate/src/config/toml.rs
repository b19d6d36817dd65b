//! Parsing TOML into the tree.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::{ConfigError, ConfigErrors};
use super::tree::{Entry, MAX_DEPTH, Node, Position, Value};

/// The maximum nesting of inline tables, checked before parsing. The parser bounds levels of braces but not the dotted
/// keys in them. So a small file could build a tree too deep for the stack.
const MAX_BRACES: usize = 16;

/// Parses a text. Without a tree there is at least one error. With a tree, all errors are duplicate keys, and the rest
/// can still be read.
pub(super) fn parse(text: &str, file: &Arc<str>, errors: &mut ConfigErrors) -> Option<Node> {
    let lines = LineIndex::new(text);
    if let Some(offset) = find_deep_brace(text) {
        errors.push(ConfigError::new(file, lines.position(offset), "", "nested too deep"));
        return None;
    }
    let (table, found) = DeTable::parse_recoverable(text);
    let only_duplicates = found.iter().all(|error| error.message() == DUPLICATE_KEY);
    for (at, message) in lines.without_repeats(found) {
        errors.push(ConfigError::new(file, at, "", message));
    }
    if !only_duplicates {
        return None;
    }
    let mut builder = TreeBuilder { lines: &lines, file, errors };
    let value = builder.table(table.get_ref(), 0)?;
    Some(Node { value, at: Position::START })
}

/// The parser's message for a duplicate key.
const DUPLICATE_KEY: &str = "duplicate key";

fn find_deep_brace(text: &str) -> Option<usize> {
    let (mut depth, mut start) = (0_usize, 0);
    for line in text.split_inclusive('\n') {
        if !is_comment(line)
            && let Some(offset) = line.bytes().position(|byte| {
                match byte {
                    b'{' => depth += 1,
                    b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth > MAX_BRACES
            })
        {
            return Some(start + offset);
        }
        start += line.len();
    }
    None
}

/// Returns whether a line is only a comment, or text that does not end on it.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#') && !line.contains("\"\"\"") && !line.contains("'''")
}

struct TreeBuilder<'a> {
    lines: &'a LineIndex<'a>,
    file: &'a Arc<str>,
    errors: &'a mut ConfigErrors,
}

impl TreeBuilder<'_> {
    fn table(&mut self, table: &DeTable<'_>, depth: usize) -> Option<Value> {
        let mut fields: Vec<(&Spanned<DeString<'_>>, _)> = table.iter().collect();
        fields.sort_by_key(|(key, _)| key.span().start);
        let entries = fields.into_iter().map(|(key, value)| {
            let at = self.lines.position(key.span().start);
            Some(Entry { key: key.get_ref().to_string(), at, node: self.node(value, depth + 1)? })
        });
        Some(Value::Table(entries.collect::<Option<_>>()?))
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>, depth: usize) -> Option<Node> {
        let at = self.lines.position(value.span().start);
        if depth > MAX_DEPTH {
            self.errors.push(ConfigError::new(self.file, at, "", "nested too deep"));
            return None;
        }
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Number {
                text: number.to_string(),
                whole: u64::from_str_radix(number.as_str(), number.radix()).ok(),
            },
            DeValue::Float(number) => Value::Number { text: number.to_string(), whole: None },
            DeValue::Boolean(value) => Value::Bool { text: value.to_string(), value: *value },
            DeValue::Datetime(date) => Value::Other(date.to_string()),
            DeValue::Array(values) => {
                Value::List(values.iter().map(|value| self.node(value, depth + 1)).collect::<Option<_>>()?)
            }
            DeValue::Table(table) => self.table(table, depth)?,
        };
        Some(Node { value, at })
    }
}

/// Maps offsets to positions. A column costs the same in a long line as in a short one: the whole file can be one line.
struct LineIndex<'a> {
    text: &'a str,
    /// The offset of each line.
    starts: Vec<usize>,
    /// The number of characters before each block of the text.
    chars_before_block: Vec<usize>,
}

/// The bytes of a block of [`LineIndex`].
const BLOCK: usize = 256;

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        let blocks = text.as_bytes().chunks(BLOCK).scan(0, |before, block| {
            *before += count_chars(block);
            Some(*before)
        });
        LineIndex { text, starts, chars_before_block: std::iter::once(0).chain(blocks).collect() }
    }

    fn chars_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.chars_before_block[block] + count_chars(&self.text.as_bytes()[block * BLOCK..offset])
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = self.chars_before(offset.min(self.text.len())) - self.chars_before(self.starts[line - 1]);
        Position { line, column: before + 1 }
    }

    fn is_table_header(&self, line: usize) -> bool {
        self.text[self.starts[line - 1]..].trim_start_matches([' ', '\t']).starts_with('[')
    }

    /// Returns the parser's errors without consequential ones: later errors on a line, and fields of a table that is
    /// itself a duplicate.
    fn without_repeats(&self, mut found: Vec<toml::de::Error>) -> impl Iterator<Item = (Position, String)> {
        found.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        let mut last_line = 0;
        // Within a table that is a duplicate: the line from which on to look for the header of the next one.
        let mut repeated_table = None;
        found.into_iter().filter_map(move |error| {
            let span = error.span().unwrap_or_default();
            let at = self.position(span.start);
            if at.line == std::mem::replace(&mut last_line, at.line) {
                return None;
            }
            if error.message() != DUPLICATE_KEY {
                return Some((at, error.message().to_owned()));
            }
            if self.is_table_header(at.line) {
                repeated_table = Some(at.line + 1);
            } else if let Some(from) = repeated_table {
                let has_ended = (from..at.line).any(|line| self.is_table_header(line));
                repeated_table = (!has_ended).then_some(at.line);
                if !has_ended {
                    return None;
                }
            }
            let key = self.text.get(span).unwrap_or_default();
            Some((at, format!("`{key}` is there twice: expected each name once")))
        })
    }
}

/// Counts the characters that begin in a part of a text.
fn count_chars(part: &[u8]) -> usize {
    part.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_counts_characters_from_the_start_of_the_line() {
        for text in [String::new(), "é\n\n日本x".repeat(200), "x".repeat(BLOCK * 2), "é\n".repeat(BLOCK)] {
            let lines = LineIndex::new(&text);
            for offset in (0..=text.len()).filter(|offset| text.is_char_boundary(*offset)) {
                let before = &text[..offset];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                assert_eq!(lines.position(offset), Position { line, column }, "{offset} of {text:?}");
            }
        }
    }
}
