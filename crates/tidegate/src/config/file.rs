//! The text of a file.

use std::path::Path;
use std::sync::Arc;

use super::error::ConfigError;
use super::tree::Position;

/// The text at `path`, which errors call `file`.
pub(super) fn read(path: &Path, file: &Arc<str>) -> Result<String, ConfigError> {
    let bytes = std::fs::read(path).map_err(|error| ConfigError::of_file(file, format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        ConfigError::new(file, Position { line, column }, "", "not a text: expected UTF-8")
    })
}

/// The text without its byte order mark, which is no character of the first line.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
