//! What an error of Postgres means to a caller.

use std::error::Error as _;

use deadpool_postgres::PoolError;
use tidegate_core::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

pub(super) fn store_error(error: Error) -> StoreError {
    let kind = match error.code() {
        // The connection, or what is said on it.
        None => StoreErrorKind::Unavailable,
        // Somebody has the row of this key, which is about nobody else; or the whole table.
        Some(&SqlState::LOCK_NOT_AVAILABLE) if is_of_row(&error) => StoreErrorKind::Contended,
        Some(code) => kind(code),
    };
    // Its own text names the kind only; what the database said is its cause.
    let said = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
    StoreError::caused_by(kind, format!("postgres: {said}"), error)
}

/// Whether a server says that it takes no writes: it has become a standby.
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

/// Whether what could not be locked in time is a row. A server that speaks another language does not say.
fn is_of_row(error: &Error) -> bool {
    error.as_db_error().and_then(DbError::where_).is_some_and(|context| context.contains(" tuple "))
}

fn kind(code: &SqlState) -> StoreErrorKind {
    match *code {
        // Too many want the row of this key. Others are not concerned.
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => StoreErrorKind::Contended,
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => StoreErrorKind::Timeout,
        // A state is not one that the function knows. What is wrong with the table or the function is about every key.
        _ if code.code().get(..2).is_some_and(|class| ["22", "23", "2F"].contains(&class)) => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}
