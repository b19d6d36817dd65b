//! The limit on open files of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cargo::TaskError;

/// The files that tests need: they hold a thousand connections, some with both ends in one process, and run in
/// parallel.
const REQUIRED: u64 = 8_192;

/// Raises the limit of this process and its children to the needs of the tests.
pub(crate) fn raise_limit() -> Result<(), TaskError> {
    let most = raise_limit_towards(REQUIRED)?;
    if most < REQUIRED {
        let advice = "raise it with `ulimit -Hn` as root, or in /etc/security/limits.conf";
        return Err(TaskError(format!("at most {most} files may be open here, and tests need {REQUIRED}: {advice}")));
    }
    Ok(())
}

/// Raises the limit to `wanted`, or as far as the system allows, and returns how many of these files may be open.
pub(crate) fn raise_limit_towards(wanted: u64) -> Result<u64, TaskError> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < most) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
        raised.map_err(|error| TaskError(format!("{most} files cannot be allowed: {error}")))?;
    }
    Ok(most)
}
