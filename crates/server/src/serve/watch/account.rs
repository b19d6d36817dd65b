//! Everything that is kept of one limit.

use std::sync::Mutex;

use tidegate::{Decision, Error, Key};

use super::denials::Denials;
use super::history::{History, Sample};
use super::keys::Keys;
use super::tally::{Counts, Tally};
use super::top::Top;

/// Everything that is kept of one limit.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    pub(crate) top: Top,
    history: Mutex<History>,
    denials: Denials,
}

impl Account {
    pub(super) fn new(name: String) -> Self {
        Account { name, ..Account::default() }
    }

    #[inline]
    pub(super) fn saw(&self, key: &Key<'_>, answer: &Result<Decision, Error>, keys: &Keys) {
        self.tally.count(answer);
        if let Ok(decision) = answer
            && !decision.allowed()
        {
            self.denied(key, decision, keys);
        }
    }

    fn denied(&self, key: &Key<'_>, decision: &Decision, keys: &Keys) {
        let id = keys.id(key);
        self.top.count(id, |shown| keys.show(key, id, shown));
        self.denials.log(&self.name, key, id, decision, keys);
    }

    /// Ends a second, and says what was counted until now.
    pub(super) fn tick(&self) -> Counts {
        self.denials.tick(&self.name);
        let counts = self.tally.counts();
        if let Ok(mut history) = self.history.lock() {
            history.tick(counts);
        }
        counts
    }

    /// The last minutes, a sample a second, the newest last. Before the first, nothing was asked.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.history.lock().map(|history| history.samples().iter().copied().collect()).unwrap_or_default()
    }

    /// How much was asked in the last minutes.
    pub(crate) fn traffic(&self) -> u64 {
        self.history.lock().map(|history| history.traffic()).unwrap_or_default()
    }
}
