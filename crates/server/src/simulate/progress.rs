//! How far it is, for people who wait.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// How many lines pass between two looks at the bar, so that it costs nothing.
const EVERY: u64 = 1 << 13;

/// A bar on standard error when that is a terminal, and nothing otherwise.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    sized: bool,
}

impl Progress {
    /// A bar for a trace of that many bytes, or one that only counts lines when nobody knows how many.
    pub(crate) fn new(size: Option<u64>, quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Progress::none();
        }
        let (bar, template) = match size {
            Some(size) => (
                ProgressBar::new(size),
                "{bar:40} {bytes}/{total_bytes} {msg} lines, {binary_bytes_per_sec}, {eta} left",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {human_pos} lines"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress { bar: Some(bar.with_style(style)), sized: size.is_some() }
    }

    pub(crate) fn none() -> Self {
        Progress { bar: None, sized: false }
    }

    #[inline]
    pub(crate) fn tell(&self, lines: u64, bytes: u64) {
        if let Some(bar) = &self.bar
            && lines.is_multiple_of(EVERY)
        {
            if self.sized {
                bar.set_message(lines.to_string());
            }
            bar.set_position(if self.sized { bytes } else { lines });
        }
    }

    /// Takes the bar away, so that what is said next stands alone.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
