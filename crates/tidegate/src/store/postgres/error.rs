//! Conversion of Postgres errors to store errors.

use std::error::Error as _;

use deadpool_postgres::PoolError;
use tidegate_core::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

pub(super) fn store_error(error: Error) -> StoreError {
    let kind = match error.code() {
        // The connection or its protocol failed.
        None => StoreErrorKind::Unavailable,
        // Another transaction locks the row of this key, which does not affect other keys. It may also lock the whole table.
        Some(&SqlState::LOCK_NOT_AVAILABLE) if is_row_lock(&error) => StoreErrorKind::Contended,
        Some(code) => kind_of_code(code),
    };
    // The error's own text names the kind only. The message of the database is its cause.
    let message = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
    StoreError::caused_by(kind, format!("postgres: {message}"), error)
}

/// Returns whether the server accepts no writes, because it has become a standby.
pub(super) fn is_read_only(error: &StoreError) -> bool {
    let postgres = error.source().and_then(|source| source.downcast_ref::<Error>());
    postgres.is_some_and(|error| error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION))
}

pub(super) fn pool_error(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => store_error(error),
        PoolError::Timeout(_) => {
            StoreError::caused_by(StoreErrorKind::Timeout, "postgres: no connection of the pool came free", error)
        }
        _ => StoreError::caused_by(StoreErrorKind::Unavailable, format!("postgres: {error}"), error),
    }
}

/// Returns whether the lock that timed out is one on a row. False when the server's messages are in another language.
fn is_row_lock(error: &Error) -> bool {
    error.as_db_error().and_then(DbError::where_).is_some_and(|context| context.contains(" tuple "))
}

fn kind_of_code(code: &SqlState) -> StoreErrorKind {
    match *code {
        // Too many calls compete for the row of this key. Other keys are not affected.
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => StoreErrorKind::Contended,
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => StoreErrorKind::Timeout,
        // The function does not understand the state. Errors of the table or the function concern every key.
        _ if code.code().get(..2).is_some_and(|class| ["22", "23", "2F"].contains(&class)) => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}
