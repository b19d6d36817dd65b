//! Parsing TOML into the tree.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::ConfigError;
use super::tree::{Entry, MAX_DEPTH, Node, Position, Value};

/// The maximum nesting of inline tables, checked before parsing. The parser bounds levels of braces but not the dotted
/// keys in them, so a small file could build a tree too deep for the stack.
const MAX_BRACES: usize = 16;

/// Parses a text. Without a tree there is at least one error. With a tree, all errors are duplicate keys, and the rest
/// can still be read.
pub(super) fn parse(text: &str, file: &Arc<str>, errors: &mut Vec<ConfigError>) -> Option<Node> {
    let lines = LineIndex::new(text);
    if let Some(offset) = find_deep_brace(text) {
        errors.push(ConfigError::new(file, lines.position(offset), "", "nested too deep"));
        return None;
    }
    let (table, found) = DeTable::parse_recoverable(text);
    let only_duplicates = found.iter().all(|error| error.message() == DUPLICATE_KEY);
    errors.extend(lines.without_repeats(found).map(|(at, message)| ConfigError::new(file, at, "", message)));
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
    errors: &'a mut Vec<ConfigError>,
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

/// Maps offsets to positions.
struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1));
        LineIndex { text, starts: starts.collect() }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or_default();
        Position { line, column: before.chars().count() + 1 }
    }

    fn is_table_header(&self, line: usize) -> bool {
        self.text[self.starts[line - 1]..].trim_start_matches([' ', '\t']).starts_with('[')
    }

    /// Returns the parser's errors without consequential ones: later errors on a line, and fields of a table that is
    /// itself a duplicate.
    fn without_repeats(&self, mut found: Vec<toml::de::Error>) -> impl Iterator<Item = (Position, String)> {
        found.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        let mut last_line = 0;
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
                repeated_table = Some(at.line);
            } else if let Some(header) = repeated_table
                && !(header + 1..at.line).any(|line| self.is_table_header(line))
            {
                return None;
            }
            let key = self.text.get(span).unwrap_or_default();
            Some((at, format!("`{key}` is there twice: expected each name once")))
        })
    }
}
