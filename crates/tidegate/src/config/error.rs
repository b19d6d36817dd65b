//! What is wrong with a config, and where.

use std::fmt;
use std::sync::Arc;

use super::tree::Position;

/// One thing that is wrong with a config.
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

    /// An error about the file as a whole.
    pub(crate) fn of_file(file: &Arc<str>, message: impl Into<String>) -> Self {
        ConfigError { file: Arc::clone(file), at: None, path: String::new(), message: message.into() }
    }

    /// The file, by the name it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; none when the file could not be read at all.
    pub fn line(&self) -> Option<usize> {
        self.at.map(|at| at.line)
    }

    /// The column, from 1, in characters; none when the file could not be read at all.
    pub fn column(&self) -> Option<usize> {
        self.at.map(|at| at.column)
    }

    /// The field, such as `limits.login.rate`; empty when the file is not well-formed there.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What was found, and what is accepted.
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

/// Everything that is wrong with a config, in the order of the file: one `FILE:LINE:COLUMN: path: message` a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(crate) fn new(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(|error| error.at);
        ConfigErrors(errors)
    }

    /// The errors of several files, each file's together; none when there are none.
    pub(crate) fn of_files(files: impl IntoIterator<Item = Vec<ConfigError>>) -> Option<Self> {
        let errors: Vec<_> = files.into_iter().flat_map(|errors| ConfigErrors::new(errors).0).collect();
        if errors.is_empty() { None } else { Some(ConfigErrors(errors)) }
    }

    /// The errors, at least one.
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
