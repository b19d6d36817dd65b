//! How long work takes when there is not too much of it.

use super::limit::Limit;
use super::rounds::Round;

/// Rounds between two looks at the time without load, as long as the limit holds work back.
const EVERY: u32 = 40;
/// So many rounds are averaged as they come, unless they are much slower: to learn only from quick ones is to learn too little.
const WARM_UP: u32 = 10;
/// What noise does not do.
const MUCH_SLOWER: f64 = 1.25;
const MUCH_QUICKER: f64 = 0.875;
/// What not even few pieces of work do by chance.
const REFUTES: f64 = 4.0;

/// How long work takes without load, in microseconds.
///
/// Under a lasting overload every time that is seen has a queue in it. Whoever learns from those takes the queue for granted,
/// and lets it grow. So every now and then there is a look: for a round the limit is so low that the queue goes away. That
/// costs about a hundredth of what the server can do, and only while work is turned away anyway.
#[derive(Debug, Clone)]
pub(super) struct NoLoad {
    /// 0 while nothing is known.
    micros: f64,
    /// How many rounds it is the average of, up to `window`.
    rounds: u32,
    window: u32,
    /// Rounds since the last look, and the limit then.
    since: u32,
    limit_then: f64,
    /// The limit for the time of a look.
    look: Option<u32>,
}

impl Default for NoLoad {
    fn default() -> Self {
        // The first round under load is followed by a look.
        NoLoad { micros: 0.0, rounds: 0, window: 600, since: EVERY, limit_then: 0.0, look: None }
    }
}

impl NoLoad {
    pub(super) fn set_window(&mut self, rounds: u32) {
        self.window = rounds.max(WARM_UP);
    }

    /// The limit as it is for now: lower during a look.
    pub(super) fn lower(&self, limit: u32) -> u32 {
        self.look.map_or(limit, |look| look.min(limit))
    }

    /// Beyond which a look finds a much longer time than was thought, in microseconds. It is as low as that was wrong, so it
    /// should not last. A shorter one is not believed so soon: what is quick ends first.
    pub(super) fn refuted_beyond(&self) -> Option<f64> {
        self.look.map(|_| self.micros * REFUTES)
    }

    /// Learns from a round. The time without load, or nothing when the round was a look, which does not try the limit.
    pub(super) fn learn(&mut self, round: &Round, limit: &Limit) -> Option<f64> {
        if self.look.take().is_some() {
            self.learn_from_look(round.micros, limit.value());
            return None;
        }
        let in_flight = round.in_flight;
        let first = self.rounds == 0 || (self.rounds < WARM_UP && round.micros < self.micros * MUCH_SLOWER);
        if first || round.micros < self.micros || !limit.is_tried_by(in_flight) {
            self.rounds = (self.rounds + 1).min(self.window);
            self.micros += (round.micros - self.micros) / f64::from(self.rounds);
        }
        if self.micros > round.micros * 2.0 {
            // A slow time is over: the average alone would remember it for too long.
            self.micros *= 0.95;
        }
        self.since = self.since.saturating_add(1);
        let moved = limit.value() > self.limit_then * 2.0 || limit.value() < self.limit_then / 2.0;
        let held_back = u64::from(in_flight) * 4 >= u64::from(limit.whole()) * 3;
        if held_back && (moved || self.since >= EVERY) {
            // Half of those that did not wait, as far as is known: half of a limit that is much too high would still be.
            let at_work = f64::from(in_flight.min(limit.whole())) * (self.micros / round.micros).min(1.0);
            self.look = Some(((at_work / 2.0) as u32).max(limit.min()));
        }
        Some(self.micros)
    }

    /// A look that is much like what is known makes it more exact. Another one replaces it, and is not the last word: where too
    /// high a time was known, the look was not low enough.
    fn learn_from_look(&mut self, micros: f64, limit: f64) {
        let changed = micros < self.micros * MUCH_QUICKER || micros > self.micros * MUCH_SLOWER;
        self.micros = if changed { micros } else { (self.micros * 2.0 + micros) / 3.0 };
        self.since = if changed { EVERY } else { 0 };
        self.limit_then = limit;
    }
}
