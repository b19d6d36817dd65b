//! Conversion of SQLite errors to store errors.

use rusqlite::{Connection, Error, ErrorCode};
use tidegate_core::{StoreError, StoreErrorKind};

use StoreErrorKind::{Unavailable, Unsupported};

/// Converts an error of `connection`.
pub(super) fn store_error(error: Error, connection: &Connection) -> StoreError {
    file_error(error, file_name(connection))
}

/// Converts an error of a transaction of the caller's on `connection`. SQLite does not wait for a lock there: a transaction
/// that has read cannot write once another connection has written.
pub(super) fn transaction_error(error: Error, connection: &Connection) -> StoreError {
    if is_busy(&error) {
        return StoreError::caused_by(
            Unavailable,
            format!("sqlite: {}: {error}: {RETRY_ADVICE}", file_name(connection)),
            error,
        );
    }
    store_error(error, connection)
}

const RETRY_ADVICE: &str = "another connection writes, or has written since this transaction began to read; roll it back and \
                            run it again, and begin it IMMEDIATE";

/// Returns the file of a connection, for a message.
pub(super) fn file_name(connection: &Connection) -> &str {
    connection.path().filter(|path| !path.is_empty()).unwrap_or("the database")
}

/// Converts an error that is about the database `file`.
pub(super) fn file_error(error: Error, file: &str) -> StoreError {
    let (kind, advice) = kind_and_advice(&error);
    let advice = if advice.is_empty() { String::new() } else { format!(": {advice}") };
    StoreError::caused_by(kind, format!("sqlite: {file}: {error}{advice}"), error)
}

/// Returns the kind of an error, and advice on what to do next, which may be empty.
fn kind_and_advice(error: &Error) -> (StoreErrorKind, &'static str) {
    match (error, error.sqlite_error_code()) {
        (_, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
            (Unavailable, "another connection has held its lock for longer than the busy timeout")
        }
        (_, Some(ErrorCode::DiskFull)) => {
            (Unavailable, "nothing was taken; it goes on by itself when there is space on the disk")
        }
        (_, Some(ErrorCode::ReadOnly)) => {
            (Unavailable, "the file, its folder or its mount is read-only, and a limit has to be written")
        }
        (_, Some(ErrorCode::CannotOpen)) => {
            (Unavailable, "its folder has to exist, and the program has to be allowed to write there")
        }
        (_, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)) => {
            (Unavailable, "`PRAGMA integrity_check` says more; restore it, or move it away and begin anew")
        }
        // Errors about a statement. Our statements are valid as long as the table is.
        (Error::SqlInputError { .. } | Error::InvalidColumnType(..), _)
        | (_, Some(ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)) => {
            (Unavailable, "the table is missing or not as `tidegate::sqlite::migration` makes it")
        }
        (Error::InvalidPath(_) | Error::NulError(_), _) => (Unsupported, "that cannot be the name of a file"),
        _ => (Unavailable, ""),
    }
}

/// Returns whether another connection holds the lock.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The error of a call to a store that was closed, or whose thread has ended.
pub(super) fn closed_error() -> StoreError {
    StoreError::new(Unavailable, "sqlite: the store is closed")
}
