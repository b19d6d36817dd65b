//! How many files a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cargo::Failed;

/// Tests hold a thousand connections, some with both ends in one process, and run beside each other.
const NEEDED: u64 = 8_192;

/// Lets this process, and those that it starts, have as many open as tests need.
pub(crate) fn allow_many() -> Result<(), Failed> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(most) = limit.maximum.filter(|most| *most < NEEDED) {
        let advice = "raise it with `ulimit -Hn` as root, or in /etc/security/limits.conf";
        return Err(Failed(format!("at most {most} files may be open here, and tests need {NEEDED}: {advice}")));
    }
    if limit.current.is_some_and(|current| current < NEEDED) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(NEEDED), ..limit });
        raised.map_err(|error| Failed(format!("{NEEDED} files cannot be allowed: {error}")))?;
    }
    Ok(())
}
