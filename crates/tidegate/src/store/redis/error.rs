//! Conversion of Redis errors into store errors.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_core::{StoreError, StoreErrorKind};

pub(super) fn store_error(error: RedisError) -> StoreError {
    let kind = match error.kind() {
        _ if error.is_timeout() => StoreErrorKind::Timeout,
        ErrorKind::Server(ServerErrorKind::CrossSlot) => StoreErrorKind::Unsupported,
        ErrorKind::Server(kind) if is_about_slot(kind, &error) => StoreErrorKind::Contended,
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

/// Whether an error of a cluster is about one slot, while the node that reports it is well.
fn is_about_slot(kind: ServerErrorKind, error: &RedisError) -> bool {
    match kind {
        ServerErrorKind::Ask | ServerErrorKind::Moved | ServerErrorKind::TryAgain => true,
        // Otherwise all of the cluster is down.
        ServerErrorKind::ClusterDown => error.detail().is_some_and(|detail| detail.contains("slot not served")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_one_slot_are_not_those_of_the_store() {
        let kind = |reply: &str| {
            let value = redis::parse_redis_value(reply.as_bytes()).unwrap();
            store_error(value.extract_error().unwrap_err()).kind()
        };
        let of_one_slot = [
            "-ASK 3999 127.0.0.1:6381\r\n",
            "-MOVED 3999 127.0.0.1:6381\r\n",
            "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
            "-CLUSTERDOWN Hash slot not served\r\n",
        ];
        for reply in of_one_slot {
            assert_eq!(kind(reply), StoreErrorKind::Contended, "{reply}");
        }
        for reply in ["-CLUSTERDOWN The cluster is down\r\n", "-LOADING Redis is loading the dataset in memory\r\n"] {
            assert_eq!(kind(reply), StoreErrorKind::Unavailable, "{reply}");
        }
        assert_eq!(kind("-CROSSSLOT Keys in request don't hash to the same slot\r\n"), StoreErrorKind::Unsupported);
    }
}
