//! A replay that is stopped by a signal, as with Ctrl-C: nothing stays behind then either.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::leftovers::Leftovers;
use crate::say;

/// From now on a signal that ends the program ends it after what it has written is removed.
#[cfg(unix)]
pub(super) fn clean_up_when_stopped(leftovers: &Arc<Leftovers>, runtime: &Handle) {
    use tokio::signal::unix::{SignalKind as Kind, signal};

    let _inside = runtime.enter();
    // The exit codes are those that a shell tells of a program that a signal has ended.
    let ends = [(Kind::hangup(), 129), (Kind::interrupt(), 130), (Kind::quit(), 131), (Kind::terminate(), 143)];
    for (kind, code) in ends.into_iter().filter(|(kind, _)| !is_ignored(kind.as_raw_value())) {
        // One that cannot be listened to ends the program as it always did.
        let Ok(mut signal) = signal(kind) else { continue };
        let leftovers = Arc::clone(leftovers);
        runtime.spawn(async move {
            if signal.recv().await.is_some() {
                leave(&leftovers, code).await;
            }
        });
    }
}

/// Whether whoever started the program wants this signal to do nothing, as `nohup` does; as far as that can be known.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

/// From now on Ctrl-C ends the program after what it has written is removed.
#[cfg(not(unix))]
pub(super) fn clean_up_when_stopped(leftovers: &Arc<Leftovers>, runtime: &Handle) {
    let leftovers = Arc::clone(leftovers);
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            leave(&leftovers, 130).await;
        }
    });
}

async fn leave(leftovers: &Leftovers, code: i32) {
    // Kept until the end, so that nothing more is written.
    let mut used = leftovers.used().await;
    match leftovers.clear(&mut used).await {
        Ok(removed) => say(&format!("stopped; keys used in the store, and removed again: {removed}")),
        Err(failure) => say(&failure.to_string()),
    }
    std::process::exit(code);
}
