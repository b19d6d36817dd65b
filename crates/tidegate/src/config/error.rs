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

/// All errors of a config in the order of the file, a line `FILE:LINE:COLUMN: path: message` each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(crate) fn new(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(|error| error.at);
        ConfigErrors(errors)
    }

    /// Returns the errors of several files, file by file. `None` if there are none.
    pub(crate) fn of_files(files: impl IntoIterator<Item = Vec<ConfigError>>) -> Option<Self> {
        let errors: Vec<_> = files.into_iter().flat_map(|errors| ConfigErrors::new(errors).0).collect();
        if errors.is_empty() { None } else { Some(ConfigErrors(errors)) }
    }

    /// Returns the errors, at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
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
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
