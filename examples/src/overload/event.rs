//! The events of the simulation, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event. It refers to a request by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Arrival,
    WorkDone(usize),
    Response(usize),
    Timeout(usize),
    Resume,
    Sample,
}

/// A queue of future events, the next first. Events of equal time stay in insertion order, so every run is the same.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
}

impl EventQueue {
    pub(super) fn add(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
