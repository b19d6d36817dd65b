//! The limit on open files of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cargo::TaskError;

/// The files that tests need: they hold a thousand connections, some with both ends in one process, and run in
/// parallel.
const REQUIRED: u64 = 8_192;

/// Raises the limit of this process and its children to the needs of the tests.
pub(crate) fn raise_limit() -> Result<(), TaskError> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(most) = limit.maximum.filter(|most| *most < REQUIRED) {
        let advice = "raise it with `ulimit -Hn` as root, or in /etc/security/limits.conf";
        return Err(TaskError(format!("at most {most} files may be open here, and tests need {REQUIRED}: {advice}")));
    }
    if limit.current.is_some_and(|current| current < REQUIRED) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(REQUIRED), ..limit });
        raised.map_err(|error| TaskError(format!("{REQUIRED} files cannot be allowed: {error}")))?;
    }
    Ok(())
}
