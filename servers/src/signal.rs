//! Signals to processes.

use std::process::{Command, Stdio};

/// Sends signals to processes one after the other, each a name and a process's id, and says whether there were any, and all of
/// them were there.
///
/// By the shell, which has a `kill` of its own: the program of that name is not on every machine.
pub fn signal<'a>(signals: impl IntoIterator<Item = (&'a str, u32)>) -> bool {
    let sends: Vec<_> = signals.into_iter().map(|(name, id)| format!("kill -{name} {id} || missing=1")).collect();
    let script = format!("missing=; {}; test -z \"$missing\"", sends.join("; "));
    let sent = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    !sends.is_empty() && sent.expect("a shell").success()
}
