//! What became of the config each time it was read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tidegate::{Clock, SystemClock, Timestamp};

/// What became of the config each time it was read again.
#[derive(Debug)]
pub(crate) struct Reloads {
    served: AtomicU64,
    refused: AtomicU64,
    /// When the config was read that is served, in microseconds.
    since: AtomicU64,
    /// What was wrong with the config when it was read last; none when nothing was.
    wrong: ArcSwapOption<String>,
}

impl Reloads {
    pub(super) fn new() -> Self {
        Reloads {
            served: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            since: AtomicU64::new(now()),
            wrong: ArcSwapOption::empty(),
        }
    }

    pub(super) fn succeeded(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.since.store(now(), Ordering::Relaxed);
        self.wrong.store(None);
    }

    pub(super) fn failed(&self, errors: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.wrong.store(Some(Arc::new(errors.to_owned())));
    }

    /// How often one was read and served.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// How often one was read and refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// When the config was read that is served.
    pub(crate) fn since(&self) -> Timestamp {
        Timestamp::from_micros(self.since.load(Ordering::Relaxed))
    }

    /// What was wrong with the config when it was read last; none when nothing was.
    pub(crate) fn wrong(&self) -> Option<Arc<String>> {
        self.wrong.load_full()
    }
}

fn now() -> u64 {
    SystemClock.now().as_micros()
}
