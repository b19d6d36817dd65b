//! Reading the tree: tables whose fields are all asked for, and values of the kind that was asked for.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::duration::{self, TIME};
use super::error::ConfigError;
use super::nearest::nearest;
use super::tree::{Entry, Node, Position, Value};

/// Collects what is wrong. Reading goes on after an error, so that all of them are told at once.
pub(crate) struct Reader<'a> {
    file: &'a Arc<str>,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a Arc<str>, errors: Vec<ConfigError>) -> Self {
        Reader { file, errors: RefCell::new(errors) }
    }

    pub(crate) fn error(&self, at: Position, path: &str, message: impl Into<String>) {
        self.errors.borrow_mut().push(ConfigError::new(self.file, at, path, message));
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_content(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        self.errors.into_inner()
    }
}

/// `limits` and `login` are `limits.login`; a name that is not plain is quoted.
pub(crate) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let key = if plain { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// A table that is being read. A field that nobody asked for is unknown: [`Fields::finish`] says so.
pub(crate) struct Fields<'a> {
    reader: &'a Reader<'a>,
    path: String,
    at: Position,
    entries: &'a [Entry],
    asked: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The table that a whole file is.
    pub(crate) fn root(reader: &'a Reader<'a>, node: &'a Node) -> Option<Self> {
        Field { reader, path: String::new(), at: node.at, node }.fields()
    }

    /// A field, if it is there.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.asked.push(name);
        self.all().find(|(key, _)| *key == name).map(|(_, field)| field)
    }

    /// A field that must be there.
    pub(crate) fn need(&mut self, name: &'static str, expected: &str) -> Option<Field<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.reader.error(self.at, &join(&self.path, name), format!("missing, expected {expected}"));
        }
        field
    }

    /// Every field, for tables whose names are the file's own.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> + use<'a> {
        let (reader, path) = (self.reader, self.path.clone());
        self.entries
            .iter()
            .map(move |Entry { key, at, node }| (key.as_str(), Field { reader, path: join(&path, key), at: *at, node }))
    }

    /// Refuses every field that was not asked for.
    pub(crate) fn finish(self) {
        for (key, field) in self.all().filter(|(key, _)| !self.asked.contains(key)) {
            let hint = match nearest(key, &self.asked) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("expected one of {}", self.asked.join(", ")),
            };
            self.reader.error(field.at, &field.path, format!("unknown field, {hint}"));
        }
    }
}

/// A value that is being read: `None` means that it was refused, and the reader knows why.
pub(crate) struct Field<'a> {
    reader: &'a Reader<'a>,
    pub(crate) path: String,
    /// Where its name stands.
    pub(crate) at: Position,
    pub(crate) node: &'a Node,
}

impl<'a> Field<'a> {
    /// Says that something else was expected.
    pub(crate) fn refuse(&self, expected: &str) {
        let found = self.node.value.describe();
        self.reader.error(self.node.at, &self.path, format!("found {found}, expected {expected}"));
    }

    /// Says what is wrong where it is not the value alone.
    pub(crate) fn object(&self, message: impl Into<String>) {
        self.reader.error(self.node.at, &self.path, message);
    }

    /// Says that the name of this field cannot be one.
    pub(crate) fn refuse_name(&self, expected: &str) {
        self.reader.error(self.at, &self.path, format!("expected {expected}"));
    }

    fn refused<T>(&self, expected: &str) -> Option<T> {
        self.refuse(expected);
        None
    }

    pub(crate) fn fields(self) -> Option<Fields<'a>> {
        let entries = match &self.node.value {
            Value::Table(entries) => entries,
            // A name with nothing after it, and an empty file, are empty tables in YAML.
            Value::Null => &[][..],
            _ => return self.refused("a table"),
        };
        Some(Fields { reader: self.reader, path: self.path, at: self.at, entries, asked: Vec::new() })
    }

    pub(crate) fn list(&self, expected: &str) -> Option<impl Iterator<Item = Field<'a>> + use<'a>> {
        let Value::List(nodes) = &self.node.value else { return self.refused(expected) };
        let (reader, path) = (self.reader, self.path.clone());
        Some(nodes.iter().enumerate().map(move |(index, node)| {
            let path = format!("{path}[{index}]");
            Field { reader, path, at: node.at, node }
        }))
    }

    /// A whole number; what is out of bounds in other ways is for the caller to refuse.
    pub(crate) fn whole(&self, expected: &str) -> Option<u64> {
        match &self.node.value {
            Value::Number { whole: Some(whole), .. } => Some(*whole),
            _ => self.refused(expected),
        }
    }

    pub(crate) fn whole_in(&self, least: u64, most: u64) -> Option<u64> {
        let expected = format!("a whole number from {least} to {most}");
        let whole = self.whole(&expected)?;
        if (least..=most).contains(&whole) { Some(whole) } else { self.refused(&expected) }
    }

    pub(crate) fn text(&self, expected: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => self.refused(expected),
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool { value, .. } => Some(*value),
            _ => self.refused("true or false"),
        }
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        match &self.node.value {
            Value::Text(text) => duration::parse(text).or_else(|| self.refused(TIME)),
            _ => self.refused(TIME),
        }
    }

    /// A time within bounds, which `expected` tells.
    pub(crate) fn duration_in(&self, least: Duration, most: Duration, expected: &str) -> Option<Duration> {
        let time = self.duration()?;
        if (least..=most).contains(&time) { Some(time) } else { self.refused(expected) }
    }

    pub(crate) fn is_text(&self, text: &str) -> bool {
        matches!(&self.node.value, Value::Text(found) if found == text)
    }

    /// One of several words.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let known = match &self.node.value {
            Value::Text(text) => words.iter().find(|(word, _)| word == text),
            _ => None,
        };
        let quoted = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>();
        known.map(|(_, meaning)| *meaning).or_else(|| self.refused(&format!("one of {}", quoted().join(", "))))
    }
}
