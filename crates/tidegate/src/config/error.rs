//! Config errors, with their position.

use std::fmt;
use std::sync::Arc;

use super::tree::Position;

/// One error of a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: Arc<str>,
    at: Option<Position>,
    path: String,
    message: String,
}

impl ConfigError {
    pub(crate) fn new(file: &Arc<str>, at: Position, path: impl Into<String>, message: impl Into<String>) -> Self {
        ConfigError { file: Arc::clone(file), at: Some(at), path: path.into(), message: message.into() }
    }

    /// Returns an error about the file as a whole.
    pub(crate) fn of_file(file: &Arc<str>, message: impl Into<String>) -> Self {
        ConfigError { file: Arc::clone(file), at: None, path: String::new(), message: message.into() }
    }

    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the line, from 1. `None` if the file cannot be read.
    pub fn line(&self) -> Option<usize> {
        self.at.map(|at| at.line)
    }

    /// Returns the column, from 1, in characters. `None` if the file cannot be read.
    pub fn column(&self) -> Option<usize> {
        self.at.map(|at| at.column)
    }

    /// Returns the field, such as `limits.login.rate`. Empty for a syntax error.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what was found and what is expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(Position { line, column }) = self.at {
            write!(f, "{line}:{column}:")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

/// The most errors of a config that are kept.
const MAX_ERRORS: usize = 100;

/// The errors of a config in the order of the file, a line `FILE:LINE:COLUMN: path: message` each.
///
/// The first 100 errors are kept, and the rest are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    more: usize,
}

impl ConfigErrors {
    /// Adds an error, which may be anywhere in the file.
    pub(crate) fn push(&mut self, error: ConfigError) {
        self.errors.push(error);
        if self.errors.len() >= 2 * MAX_ERRORS {
            self.sort();
        }
    }

    /// Adds the errors of the next file.
    pub(crate) fn append(&mut self, mut file: ConfigErrors) {
        file.sort();
        self.more += file.more;
        self.errors.append(&mut file.errors);
        self.truncate();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the value that was read from a file if there were no errors.
    pub(crate) fn into_result<T>(mut self, read: Option<T>) -> Result<T, Self> {
        match read {
            Some(value) if self.is_empty() => Ok(value),
            _ => {
                self.sort();
                Err(self)
            }
        }
    }

    /// Keeps the first errors of one file.
    fn sort(&mut self) {
        self.errors.sort_by_key(|error| error.at);
        self.truncate();
    }

    fn truncate(&mut self) {
        self.more += self.errors.len().saturating_sub(MAX_ERRORS);
        self.errors.truncate(MAX_ERRORS);
    }

    /// Returns the first errors: at least one, and at most 100.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.errors.iter()
    }

    /// Returns the number of errors after those.
    pub fn more(&self) -> usize {
        self.more
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        ConfigErrors { errors: vec![error], more: 0 }
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more errors", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
