//! Parsing YAML into the tree, with plain scalars of the YAML 1.2 core schema.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use super::error::{ConfigError, ConfigErrors};
use super::reader::join_path;
use super::tree::{Entry, MAX_DEPTH, Node, Position, Value};

/// The maximum number of values repeated by aliases. A few lines could stand for a billion otherwise.
const MAX_ALIASED: usize = 100_000;

/// Parses a text. The result and its errors are as for TOML.
pub(super) fn parse(text: &str, file: &Arc<str>, errors: &mut ConfigErrors) -> Option<Node> {
    let parser = Parser::new_from_str(text);
    let mut builder = TreeBuilder { parser, file, errors, anchors: HashMap::new(), aliased: 0 };
    match builder.document() {
        Ok(node) => Some(node),
        Err(YamlError { at, message }) => {
            errors.push(ConfigError::new(file, at, "", message));
            None
        }
    }
}

/// Returns whether one of these fields is at the top level, as far as the text can be read. Builds no tree.
pub(super) fn has_field(text: &str, names: &[&str]) -> bool {
    let mut parser = Parser::new_from_str(text);
    // The number of open tables and lists, and whether a key comes next at the top level.
    let (mut depth, mut is_name) = (0_usize, true);
    while let Some(Ok((event, _))) = parser.next_event() {
        match event {
            Event::Scalar(name, ..) if depth == 1 && is_name && names.contains(&&*name) => return true,
            Event::SequenceStart(..) if depth == 0 => return false,
            Event::SequenceStart(..) | Event::MappingStart(..) if depth > MAX_DEPTH => return false,
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                depth += 1;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => depth -= 1,
            Event::Scalar(..) | Event::Alias(_) => {}
            Event::DocumentEnd | Event::StreamEnd => return false,
            _ => continue,
        }
        if depth == 1 {
            is_name = !is_name;
        }
    }
    false
}

/// A syntax error, or syntax that configs do not support.
struct YamlError {
    at: Position,
    message: String,
}

impl YamlError {
    fn new(at: Position, message: &str) -> Self {
        YamlError { at, message: message.to_owned() }
    }
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        YamlError::new(position(error.marker()), error.info())
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// The size of a value.
#[derive(Clone, Copy)]
struct Size {
    /// Number of values in it.
    count: usize,
    /// Number of levels below it.
    height: usize,
}

impl Size {
    const ONE: Size = Size { count: 1, height: 0 };

    /// Long texts count more: aliases repeat them, too.
    fn add_text(&mut self, text: &str) {
        self.count += text.len() / 64;
    }

    fn add(&mut self, child: Size) {
        self.count += child.count;
        self.height = self.height.max(child.height + 1);
    }
}

struct TreeBuilder<'a, 't> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    file: &'a Arc<str>,
    errors: &'a mut ConfigErrors,
    anchors: HashMap<usize, (Node, Size)>,
    aliased: usize,
}

impl<'t> TreeBuilder<'_, 't> {
    fn document(&mut self) -> Result<Node, YamlError> {
        let mut document = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                _ if document.is_some() => {
                    return Err(YamlError::new(position(&span.start), "a second document: expected one"));
                }
                event => document = Some(self.node(event, span, "", 0)?.0),
            }
        }
        Ok(document.unwrap_or(Node { value: Value::Null, at: Position::START }))
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Returns the value that an event begins.
    fn node(&mut self, event: Event<'t>, span: Span, path: &str, depth: usize) -> Result<(Node, Size), YamlError> {
        let at = position(&span.start);
        if depth > MAX_DEPTH {
            return Err(YamlError::new(at, "nested too deep"));
        }
        let mut size = Size::ONE;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                size.add_text(&text);
                let value = match tag {
                    None if style == ScalarStyle::Plain => plain_scalar(&text),
                    None => Value::Text(text.into_owned()),
                    Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Value::Text(text.into_owned()),
                    Some(_) => return Err(YamlError::new(at, "a tag: expected the value itself")),
                };
                (value, anchor)
            }
            Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return Err(YamlError::new(at, "a tag: expected the value itself"));
            }
            Event::SequenceStart(anchor, None) => (self.list(path, depth, &mut size)?, anchor),
            Event::MappingStart(anchor, None) => (self.table(path, depth, &mut size)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, at, depth),
            _ => return Err(YamlError::new(at, "nothing: expected a value")),
        };
        let node = Node { value, at };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok((node, size))
    }

    fn alias(&mut self, anchor: usize, at: Position, depth: usize) -> Result<(Node, Size), YamlError> {
        // An alias within its own anchor.
        let Some((node, size)) = self.anchors.get(&anchor) else {
            return Err(YamlError::new(at, "an alias of what it is in: expected an anchor before it"));
        };
        if depth + size.height > MAX_DEPTH {
            return Err(YamlError::new(at, "nested too deep"));
        }
        self.aliased += size.count;
        if self.aliased > MAX_ALIASED {
            return Err(YamlError::new(at, "too many values repeated by aliases"));
        }
        // Errors in it are reported where it is used.
        Ok((Node { value: node.value.clone(), at }, *size))
    }

    fn list(&mut self, path: &str, depth: usize, size: &mut Size) -> Result<Value, YamlError> {
        let mut nodes = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::List(nodes));
            }
            let path = format!("{path}[{}]", nodes.len());
            let (node, more) = self.node(event, span, &path, depth + 1)?;
            nodes.push(node);
            size.add(more);
        }
    }

    fn table(&mut self, path: &str, depth: usize, size: &mut Size) -> Result<Value, YamlError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<String, Position> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let at = position(&span.start);
            let key = match event {
                Event::MappingEnd => return Ok(Value::Table(entries)),
                Event::Scalar(key, _, _, None) => key.into_owned(),
                _ => return Err(YamlError::new(at, "a name that is not a plain text: expected a name")),
            };
            let path = join_path(path, &key);
            let (event, span) = self.next()?;
            let (node, more) = self.node(event, span, &path, depth + 1)?;
            size.add(more);
            size.add_text(&key);
            match seen.get(&key) {
                Some(first) => {
                    let message =
                        format!("`{key}` is there twice, first in line {}: expected each name once", first.line);
                    self.errors.push(ConfigError::new(self.file, at, path, message));
                }
                None => {
                    seen.insert(key.clone(), at);
                    entries.push(Entry { key, at, node });
                }
            }
        }
    }
}

pub(super) fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool { text: text.to_owned(), value: true },
        "false" | "False" | "FALSE" => Value::Bool { text: text.to_owned(), value: false },
        _ if is_number(text) => Value::Number { text: text.to_owned(), whole: unsigned_number(text) },
        _ => Value::Text(text.to_owned()),
    }
}

fn unsigned_number(text: &str) -> Option<u64> {
    match text.split_at_checked(2) {
        Some(("0x", digits)) => u64::from_str_radix(digits, 16).ok(),
        Some(("0o", digits)) => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

fn is_number(text: &str) -> bool {
    let all = |digits: &str, of: fn(&u8) -> bool| !digits.is_empty() && digits.as_bytes().iter().all(of);
    match text.split_at_checked(2) {
        Some(("0x", digits)) => return all(digits, u8::is_ascii_hexdigit),
        Some(("0o", digits)) => return all(digits, |digit| (b'0'..=b'7').contains(digit)),
        _ => {}
    }
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(text, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let digits = mantissa.replacen('.', "", 1);
    all(&digits, u8::is_ascii_digit) && all(exponent, u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_core_schema() {
        for (text, expected) in
            [("5", Some(5)), ("+5", Some(5)), ("0x1F", Some(31)), ("0o17", Some(15)), ("010", Some(10))]
        {
            assert!(matches!(plain_scalar(text), Value::Number { whole, .. } if whole == expected), "{text}");
        }
        for text in ["1.5", "-1", "1e3", ".5", "5.", "-.inf", ".nan", "18446744073709551616"] {
            assert!(matches!(plain_scalar(text), Value::Number { whole: None, .. }), "{text}");
        }
        for text in ["1m", "0x", "1.2.3", "e5", ".", "+", "1_000", "198.51.100.7", "yes", "é"] {
            assert!(matches!(plain_scalar(text), Value::Text(_)), "{text}");
        }
    }
}
