//! What a file says, before it means anything: values and where they stand.
//!
//! Every syntax becomes this one tree, and every reader reads this one tree, so that an error has the same words
//! and a place whatever the file was written in.

/// How deep values may be nested: far more than any format that is read has use for, and little for a stack.
pub(crate) const MAX_DEPTH: usize = 32;

/// A place in a file. Both numbers begin at 1; a column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Position = Position { line: 1, column: 1 };
}

/// A value and where it begins.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Position,
}

/// A field of a table, where its name begins, and its value. In the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) node: Node,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    /// True or false, and how that was written: where a text is expected, the word itself may be one.
    Bool {
        text: String,
        value: bool,
    },
    /// A number as it was written, and what it is when that is a whole number from 0 to 2^64 - 1. The others are
    /// kept as text only: nothing here is ever a floating point number, and an error can show what was found.
    Number {
        text: String,
        whole: Option<u64>,
    },
    Text(String),
    /// A value of a kind that nothing accepts, such as a date.
    Other(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

impl Value {
    /// What was found, for an error.
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

/// A text short enough for one line of an error.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
