//! From YAML to the tree.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use super::error::ConfigError;
use super::reader::join;
use super::scalar;
use super::tree::{Entry, MAX_DEPTH, Node, Position, Value};

/// How many values aliases may repeat, so that a few lines cannot stand for a billion.
const MAX_ALIASED: usize = 100_000;

/// The tree of a text, and what is wrong with it; as for TOML.
pub(super) fn parse(text: &str, file: &Arc<str>, errors: &mut Vec<ConfigError>) -> Option<Node> {
    let parser = Parser::new_from_str(text);
    let mut builder = Builder { parser, file, errors, anchors: HashMap::new(), aliased: 0 };
    match builder.document() {
        Ok(node) => Some(node),
        Err(Stop { at, message }) => {
            errors.push(ConfigError::new(file, at, "", message));
            None
        }
    }
}

/// Whether one of these fields is at the top of a text, as far as it can be read. No tree is built.
pub(super) fn has_field(text: &str, names: &[&str]) -> bool {
    let mut parser = Parser::new_from_str(text);
    // How many tables and lists are open, and whether a name comes next when it is only the first.
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

/// The text is not well-formed, or nothing that can be read.
struct Stop {
    at: Position,
    message: String,
}

impl Stop {
    fn new(at: Position, message: &str) -> Self {
        Stop { at, message: message.to_owned() }
    }
}

impl From<ScanError> for Stop {
    fn from(error: ScanError) -> Self {
        Stop::new(position(error.marker()), error.info())
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// How large a value is.
#[derive(Clone, Copy)]
struct Size {
    /// How many values it is.
    count: usize,
    /// How many levels it has below it.
    height: usize,
}

impl Size {
    const ONE: Size = Size { count: 1, height: 0 };

    /// Long texts count more: they are repeated, too.
    fn add_text(&mut self, text: &str) {
        self.count += text.len() / 64;
    }

    fn add(&mut self, child: Size) {
        self.count += child.count;
        self.height = self.height.max(child.height + 1);
    }
}

struct Builder<'a, 't> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    file: &'a Arc<str>,
    errors: &'a mut Vec<ConfigError>,
    anchors: HashMap<usize, (Node, Size)>,
    aliased: usize,
}

impl<'t> Builder<'_, 't> {
    fn document(&mut self) -> Result<Node, Stop> {
        let mut document = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                _ if document.is_some() => {
                    return Err(Stop::new(position(&span.start), "a second document: expected one"));
                }
                event => document = Some(self.node(event, span, "", 0)?.0),
            }
        }
        Ok(document.unwrap_or(Node { value: Value::Null, at: Position::START }))
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Stop> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The value that `event` begins.
    fn node(&mut self, event: Event<'t>, span: Span, path: &str, depth: usize) -> Result<(Node, Size), Stop> {
        let at = position(&span.start);
        if depth > MAX_DEPTH {
            return Err(Stop::new(at, "nested too deep"));
        }
        let mut size = Size::ONE;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                size.add_text(&text);
                let value = match tag {
                    None if style == ScalarStyle::Plain => scalar::plain(&text),
                    None => Value::Text(text.into_owned()),
                    Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Value::Text(text.into_owned()),
                    Some(_) => return Err(Stop::new(at, "a tag: expected the value itself")),
                };
                (value, anchor)
            }
            Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return Err(Stop::new(at, "a tag: expected the value itself"));
            }
            Event::SequenceStart(anchor, None) => (self.list(path, depth, &mut size)?, anchor),
            Event::MappingStart(anchor, None) => (self.table(path, depth, &mut size)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, at, depth),
            _ => return Err(Stop::new(at, "nothing: expected a value")),
        };
        let node = Node { value, at };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok((node, size))
    }

    fn alias(&mut self, anchor: usize, at: Position, depth: usize) -> Result<(Node, Size), Stop> {
        // An alias within its own anchor is not there yet.
        let Some((node, size)) = self.anchors.get(&anchor) else {
            return Err(Stop::new(at, "an alias of what it is in: expected an anchor before it"));
        };
        if depth + size.height > MAX_DEPTH {
            return Err(Stop::new(at, "nested too deep"));
        }
        self.aliased += size.count;
        if self.aliased > MAX_ALIASED {
            return Err(Stop::new(at, "too many values repeated by aliases"));
        }
        // What is wrong with it is said where it is used.
        Ok((Node { value: node.value.clone(), at }, *size))
    }

    fn list(&mut self, path: &str, depth: usize, size: &mut Size) -> Result<Value, Stop> {
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

    fn table(&mut self, path: &str, depth: usize, size: &mut Size) -> Result<Value, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<String, Position> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let at = position(&span.start);
            let key = match event {
                Event::MappingEnd => return Ok(Value::Table(entries)),
                Event::Scalar(key, _, _, None) => key.into_owned(),
                _ => return Err(Stop::new(at, "a name that is not a plain text: expected a name")),
            };
            let path = join(path, &key);
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
