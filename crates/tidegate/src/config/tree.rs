//! The tree of values and positions that every syntax is parsed into, so that errors do not depend on the syntax.

/// The maximum depth: far more than any format needs, and little for a stack.
pub(crate) const MAX_DEPTH: usize = 32;

/// A position in a file. Lines and columns begin at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Position = Position { line: 1, column: 1 };
}

/// A value and its position.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Position,
}

/// A field of a table, in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) node: Node,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    /// A boolean and its spelling: where a text is expected, the word may be one.
    Bool {
        text: String,
        value: bool,
    },
    /// A number as written, and its value if that is a whole number from 0 to 2^64 - 1. Never a float, so that errors
    /// show what was written.
    Number {
        text: String,
        whole: Option<u64>,
    },
    Text(String),
    /// A value that nothing accepts, such as a date.
    Other(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

impl Value {
    /// Describes the value for an error.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool { text, .. } | Value::Number { text, .. } | Value::Other(text) => shorten(text),
            Value::Text(text) => format!("{:?}", shorten(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

/// Shortens a text for an error.
pub(crate) fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
