//! How work ended.

use std::fmt;

/// How the work ended that a [`Permit`](super::Permit) stood for: what a [`Controller`](super::Controller) learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// It used its capacity, whatever came of it: a quick error is done too.
    Done,
    /// It was wasted: it took too long, or whoever asked is gone.
    Dropped,
    /// Nothing can be said about it. A permit that is merely dropped says this.
    Ignore,
}

impl Work {
    /// Every way to end.
    pub const ALL: [Work; 3] = [Work::Done, Work::Dropped, Work::Ignore];

    /// The name in JSON and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Work::Done => "done",
            Work::Dropped => "dropped",
            Work::Ignore => "ignore",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
