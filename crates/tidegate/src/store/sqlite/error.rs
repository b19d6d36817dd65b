//! What an SQLite error means to a caller.

use rusqlite::{Connection, Error, ErrorCode};
use tidegate_core::{StoreError, StoreErrorKind};

use StoreErrorKind::{Unavailable, Unsupported};

/// An error that came up on `connection`.
pub(super) fn store_error(error: Error, connection: &Connection) -> StoreError {
    file_error(error, file(connection))
}

/// An error that came up in a transaction of the caller's on `connection`. SQLite does not wait there for a lock that somebody else
/// has: who has read already cannot write behind somebody else's back.
pub(super) fn transaction_error(error: Error, connection: &Connection) -> StoreError {
    if is_busy(&error) {
        return StoreError::caused_by(Unavailable, format!("sqlite: {}: {error}: {AGAIN}", file(connection)), error);
    }
    store_error(error, connection)
}

const AGAIN: &str = "another connection writes, or has written since this transaction began to read; roll it back and run it \
                     again, and begin it IMMEDIATE";

/// What a connection is open on, for a message.
pub(super) fn file(connection: &Connection) -> &str {
    connection.path().filter(|path| !path.is_empty()).unwrap_or("the database")
}

/// An error that came up with the database `file`.
pub(super) fn file_error(error: Error, file: &str) -> StoreError {
    let (kind, advice) = meaning(&error);
    let advice = if advice.is_empty() { String::new() } else { format!(": {advice}") };
    StoreError::caused_by(kind, format!("sqlite: {file}: {error}{advice}"), error)
}

/// Its kind, and what to do next when there is something.
fn meaning(error: &Error) -> (StoreErrorKind, &'static str) {
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
        // What SQLite says about statements: ours are right as long as the table is.
        (Error::SqlInputError { .. } | Error::InvalidColumnType(..), _)
        | (_, Some(ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)) => {
            (Unavailable, "the table is missing or not as `tidegate::sqlite::migration` makes it")
        }
        (Error::InvalidPath(_) | Error::NulError(_), _) => (Unsupported, "that cannot be the name of a file"),
        _ => (Unavailable, ""),
    }
}

/// Whether somebody else holds a lock that is needed.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The store was closed, or its thread has ended.
pub(super) fn closed() -> StoreError {
    StoreError::new(Unavailable, "sqlite: the store is closed")
}
