//! From TOML to the tree.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::ConfigError;
use super::tree::{Entry, MAX_DEPTH, Node, Position, Value};

/// How deep inline tables may be nested before the text is handed to the parser, whose own bound counts a level of
/// braces but not the dotted keys in it, so that a small file could build a tree too deep for a stack.
const MAX_BRACES: usize = 16;

/// The tree of a text, and what is wrong with it. With no tree there is at least one error; with a tree, the errors
/// are about fields that were set twice, and the rest can still be read.
pub(super) fn parse(text: &str, file: &Arc<str>, errors: &mut Vec<ConfigError>) -> Option<Node> {
    let lines = Lines::new(text);
    if let Some(offset) = deep_brace(text) {
        errors.push(ConfigError::new(file, lines.position(offset), "", "nested too deep"));
        return None;
    }
    let (table, found) = DeTable::parse_recoverable(text);
    let only_twice = found.iter().all(|error| error.message() == TWICE);
    errors.extend(lines.told_once(found).map(|(at, message)| ConfigError::new(file, at, "", message)));
    if !only_twice {
        return None;
    }
    let mut reader = Builder { lines: &lines, file, errors };
    let value = reader.table(table.get_ref(), 0)?;
    Some(Node { value, at: Position::START })
}

/// How the parser calls a key that is there already.
const TWICE: &str = "duplicate key";

fn deep_brace(text: &str) -> Option<usize> {
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

/// Whether this is nothing but a comment, or a line of a text that does not end on it.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#') && !line.contains("\"\"\"") && !line.contains("'''")
}

struct Builder<'a> {
    lines: &'a Lines<'a>,
    file: &'a Arc<str>,
    errors: &'a mut Vec<ConfigError>,
}

impl Builder<'_> {
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

/// Turns offsets into positions.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1));
        Lines { text, starts: starts.collect() }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or_default();
        Position { line, column: before.chars().count() + 1 }
    }

    fn begins_a_table(&self, line: usize) -> bool {
        self.text[self.starts[line - 1]..].trim_start_matches([' ', '\t']).starts_with('[')
    }

    /// The parser's errors, less those that only follow from another: the later ones on a line, and the fields of a
    /// table that is itself there twice.
    fn told_once(&self, mut found: Vec<toml::de::Error>) -> impl Iterator<Item = (Position, String)> {
        found.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        let mut last_line = 0;
        let mut table_twice = None;
        found.into_iter().filter_map(move |error| {
            let span = error.span().unwrap_or_default();
            let at = self.position(span.start);
            if at.line == std::mem::replace(&mut last_line, at.line) {
                return None;
            }
            if error.message() != TWICE {
                return Some((at, error.message().to_owned()));
            }
            if self.begins_a_table(at.line) {
                table_twice = Some(at.line);
            } else if let Some(header) = table_twice
                && !(header + 1..at.line).any(|line| self.begins_a_table(line))
            {
                return None;
            }
            let key = self.text.get(span).unwrap_or_default();
            Some((at, format!("`{key}` is there twice: expected each name once")))
        })
    }
}
