//! What happens when, in the simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens. Requests are known by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Arrives,
    LeavesWorker(usize),
    Answered(usize),
    TimesOut(usize),
    Resumes,
    Noted,
}

/// What is still to happen, the next first. What happens at the same time does so in the order in which it was planned, so
/// that a run is the same every time.
#[derive(Debug, Default)]
pub(super) struct Plan {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
}

impl Plan {
    pub(super) fn add(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at, self.planned, event)));
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
