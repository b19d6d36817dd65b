//! What a Redis error means to a caller.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_core::{StoreError, StoreErrorKind};

pub(super) fn store_error(error: RedisError) -> StoreError {
    let kind = match error.kind() {
        _ if error.is_timeout() => StoreErrorKind::Timeout,
        ErrorKind::Server(ServerErrorKind::CrossSlot) => StoreErrorKind::Unsupported,
        _ if error.code() == Some("WRONGTYPE") => StoreErrorKind::Corrupt,
        // A script that fails on what it finds: it has been tried with everything that is ours.
        ErrorKind::Server(ServerErrorKind::ResponseError) if error.to_string().contains("user_script") => {
            StoreErrorKind::Corrupt
        }
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::caused_by(kind, format!("redis: {error}"), error)
}
