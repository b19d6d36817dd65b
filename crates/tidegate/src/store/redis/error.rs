//! Conversion of Redis errors into store errors.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_core::{StoreError, StoreErrorKind};

pub(super) fn store_error(error: RedisError) -> StoreError {
    let kind = match error.kind() {
        _ if error.is_timeout() => StoreErrorKind::Timeout,
        ErrorKind::Server(ServerErrorKind::CrossSlot) => StoreErrorKind::Unsupported,
        _ if error.code() == Some("WRONGTYPE") => StoreErrorKind::Corrupt,
        // A script that fails on what it finds: it has been tried with everything that is ours. What else goes wrong in
        // a script, such as a missing permission, begins with what it is.
        _ if error.detail().is_some_and(|detail| detail.starts_with("user_script:")) => StoreErrorKind::Corrupt,
        ErrorKind::UnexpectedReturnType => StoreErrorKind::Corrupt,
        ErrorKind::InvalidClientConfig => StoreErrorKind::Unsupported,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::caused_by(kind, format!("redis: {error}"), error)
}
