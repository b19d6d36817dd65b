//! Typed reading of a tree: known fields, values within bounds, durations, and hints for misspelt names.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::error::{ConfigError, ConfigErrors};
use super::tree::{Entry, Node, Position, Value, shorten};

/// A collector of errors. Reading goes on after an error, so that all are reported at once.
pub(crate) struct ErrorCollector<'a> {
    file: &'a Arc<str>,
    errors: RefCell<ConfigErrors>,
}

impl<'a> ErrorCollector<'a> {
    pub(crate) fn new(file: &'a Arc<str>, errors: ConfigErrors) -> Self {
        ErrorCollector { file, errors: RefCell::new(errors) }
    }

    pub(crate) fn error(&self, at: Position, path: &str, message: impl Into<String>) {
        self.errors.borrow_mut().push(ConfigError::new(self.file, at, path, message));
    }

    /// Returns whether there are no errors so far.
    pub(crate) fn has_no_errors(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub(crate) fn into_errors(self) -> ConfigErrors {
        self.errors.into_inner()
    }
}

/// Joins a path and a key: `limits` and `login` are `limits.login`. Unusual names are quoted, and long ones are shortened:
/// every value below has the path.
pub(crate) fn join_path(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let key = if plain { shorten(key) } else { format!("{:?}", shorten(key)) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// The fields of a table. [`Fields::reject_unknown`] rejects the ones that were never read.
pub(crate) struct Fields<'a> {
    errors: &'a ErrorCollector<'a>,
    path: String,
    at: Position,
    entries: &'a [Entry],
    known_fields: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Returns the table that is the whole file.
    pub(crate) fn root(errors: &'a ErrorCollector<'a>, node: &'a Node) -> Option<Self> {
        Field { errors, path: String::new(), at: node.at, node }.fields()
    }

    /// Returns a field if it is present.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.known_fields.push(name);
        self.all().find(|(key, _)| *key == name).map(|(_, field)| field)
    }

    /// Returns a field, and reports it if it is missing.
    pub(crate) fn required(&mut self, name: &'static str, expected: &str) -> Option<Field<'a>> {
        let field = self.optional(name);
        if field.is_none() {
            self.errors.error(self.at, &join_path(&self.path, name), format!("missing, expected {expected}"));
        }
        field
    }

    /// Returns every field, for tables whose names are the file's own.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> + use<'a> {
        let (errors, path) = (self.errors, self.path.clone());
        self.entries.iter().map(move |Entry { key, at, node }| {
            (key.as_str(), Field { errors, path: join_path(&path, key), at: *at, node })
        })
    }

    /// Rejects every field that was never read.
    pub(crate) fn reject_unknown(self) {
        for (key, field) in self.all().filter(|(key, _)| !self.known_fields.contains(key)) {
            let hint = match nearest(key, &self.known_fields) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("expected one of {}", self.known_fields.join(", ")),
            };
            self.errors.error(field.at, &field.path, format!("unknown field, {hint}"));
        }
    }
}

/// A value. Its methods report an unexpected value and return `None`.
pub(crate) struct Field<'a> {
    errors: &'a ErrorCollector<'a>,
    pub(crate) path: String,
    /// The position of the name.
    pub(crate) at: Position,
    pub(crate) node: &'a Node,
}

impl<'a> Field<'a> {
    /// Reports that something else was expected.
    pub(crate) fn reject(&self, expected: &str) {
        let found = self.node.value.describe();
        self.errors.error(self.node.at, &self.path, format!("found {found}, expected {expected}"));
    }

    /// Reports another error about the value.
    pub(crate) fn error(&self, message: impl Into<String>) {
        self.errors.error(self.node.at, &self.path, message);
    }

    /// Reports an invalid name.
    pub(crate) fn reject_name(&self, expected: &str) {
        self.errors.error(self.at, &self.path, format!("expected {expected}"));
    }

    fn rejected<T>(&self, expected: &str) -> Option<T> {
        self.reject(expected);
        None
    }

    pub(crate) fn fields(self) -> Option<Fields<'a>> {
        let entries = match &self.node.value {
            Value::Table(entries) => entries,
            // In YAML, a name without a value and an empty file are empty tables.
            Value::Null => &[][..],
            _ => return self.rejected("a table"),
        };
        Some(Fields { errors: self.errors, path: self.path, at: self.at, entries, known_fields: Vec::new() })
    }

    pub(crate) fn list(&self, expected: &str) -> Option<impl Iterator<Item = Field<'a>> + use<'a>> {
        let Value::List(nodes) = &self.node.value else { return self.rejected(expected) };
        let (errors, path) = (self.errors, self.path.clone());
        Some(nodes.iter().enumerate().map(move |(index, node)| {
            let path = format!("{path}[{index}]");
            Field { errors, path, at: node.at, node }
        }))
    }

    /// Returns a whole number, without bounds.
    pub(crate) fn whole_number(&self, expected: &str) -> Option<u64> {
        match &self.node.value {
            Value::Number { whole: Some(whole), .. } => Some(*whole),
            _ => self.rejected(expected),
        }
    }

    pub(crate) fn whole_number_in(&self, min: u64, max: u64) -> Option<u64> {
        let expected = format!("a whole number from {min} to {max}");
        let whole = self.whole_number(&expected)?;
        if (min..=max).contains(&whole) { Some(whole) } else { self.rejected(&expected) }
    }

    pub(crate) fn text(&self, expected: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => self.rejected(expected),
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool { value, .. } => Some(*value),
            _ => self.rejected("true or false"),
        }
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        match &self.node.value {
            Value::Text(text) => duration_from_text(text).or_else(|| self.rejected(EXPECTED_DURATION)),
            _ => self.rejected(EXPECTED_DURATION),
        }
    }

    /// Returns a duration within bounds, which `expected` describes.
    pub(crate) fn duration_in(&self, min: Duration, max: Duration, expected: &str) -> Option<Duration> {
        let time = self.duration()?;
        if (min..=max).contains(&time) { Some(time) } else { self.rejected(expected) }
    }

    pub(crate) fn is_text(&self, text: &str) -> bool {
        matches!(&self.node.value, Value::Text(found) if found == text)
    }

    /// Returns the meaning of one of several words.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let known = match &self.node.value {
            Value::Text(text) => words.iter().find(|(word, _)| word == text),
            _ => None,
        };
        let quoted = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>();
        known.map(|(_, meaning)| *meaning).or_else(|| self.rejected(&format!("one of {}", quoted().join(", "))))
    }
}

/// The format of a duration, for errors.
pub(crate) const EXPECTED_DURATION: &str =
    "a whole number and a unit (us, ms, s, m, h or d), such as \"500ms\", \"10s\" or \"1m\"";

/// Parses a duration that fits in microseconds.
pub(crate) fn duration_from_text(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(end);
    let unit: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60 * 1_000_000,
        "h" => 3_600 * 1_000_000,
        "d" => 86_400 * 1_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(digits.parse::<u64>().ok()?.checked_mul(unit)?))
}

/// Parses a duration as configs write it, such as `10s`. The error says what is expected.
///
/// ```
/// assert_eq!(tidegate::config::parse_duration("1m"), Ok(tidegate::minutes(1)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration_from_text(text).ok_or_else(|| format!("found {text:?}, expected {EXPECTED_DURATION}"))
}

/// Returns the nearest known name within a few edits; fewer for short names.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let max = |known: &str| (name.len().max(known.len()) / 3).clamp(1, 3);
    let near = known.iter().map(|known| (distance(name, known), *known));
    near.filter(|(distance, known)| *distance <= max(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Returns the number of letters to insert, delete, replace or swap.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    // A long name is near no known name, and not worth the work.
    for (i, a) in a.chars().take(64).enumerate() {
        let mut next = vec![i + 1];
        for (j, letter) in b.iter().enumerate() {
            let mut best = (row[j] + usize::from(a != *letter)).min(row[j + 1] + 1).min(next[j] + 1);
            if j > 0 && last == Some(*letter) && b[j - 1] == a {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(a);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_a_whole_number_and_a_unit() {
        let cases = [("0s", 0), ("7us", 7), ("500ms", 500_000), ("10s", 10_000_000), ("1m", 60_000_000)];
        for (text, micros) in cases {
            assert_eq!(duration_from_text(text), Some(Duration::from_micros(micros)), "{text}");
        }
        assert_eq!(duration_from_text("2h"), Some(Duration::from_secs(7_200)));
        assert_eq!(duration_from_text("366d"), Some(Duration::from_secs(366 * 86_400)));
        for text in [
            "",
            "5",
            "s",
            "1.5s",
            "-1s",
            "+1s",
            "1 s",
            "1S",
            "1min",
            "1m30s",
            "١s",
            "18446744073709551616us",
            "300000000d",
        ] {
            assert_eq!(duration_from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["algorithm", "rate", "period", "capacity", "on_store_error", "deny"];
        for (name, expected) in [
            ("rat", Some("rate")),
            ("raet", Some("rate")),
            ("Rate", Some("rate")),
            ("algoritm", Some("algorithm")),
            ("capacty", Some("capacity")),
            ("on_error", None),
            ("burst", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), &known), None);
    }
}
