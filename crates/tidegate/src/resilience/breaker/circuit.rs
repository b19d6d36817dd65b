//! The state of a breaker, without a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{StoreError, StoreErrorKind, Timestamp};

use super::super::telemetry;
use super::BreakerState;
use crate::clock::Clock;

/// When calls may pass.
pub(super) struct Circuit {
    pub(super) name: Box<str>,
    /// How many failures in a row open it.
    pub(super) failures: u32,
    /// How long it stays open before a call may try again.
    pub(super) pause: Duration,
    pub(super) clock: Arc<dyn Clock>,
    position: Mutex<Position>,
    /// How often a call has tried whether the store is back.
    attempts: AtomicU64,
}

enum Position {
    /// Calls pass. So many of the last ones failed, in a row.
    Closed { failed: u32 },
    /// Calls are refused until then.
    Open { until: Timestamp },
    /// One call is trying. The others are refused until then: nobody may be polling it.
    HalfOpen { until: Timestamp, attempt: u64 },
}

/// What a call says about the health of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    Bad,
    /// Nothing: as if the call had not been made.
    Unknown,
}

/// Leave to make one call. Dropped without a report, it leaves the circuit as if the call had not been made.
pub(super) struct Pass<'a> {
    circuit: &'a Circuit,
    /// The number of the attempt, for a call that tries whether the store is back.
    attempt: Option<u64>,
}

impl Circuit {
    pub(super) fn new(name: &str, failures: u32, pause: Duration, clock: Arc<dyn Clock>) -> Self {
        telemetry::describe();
        telemetry::breaker_state(name, BreakerState::Closed);
        let position = Mutex::new(Position::Closed { failed: 0 });
        Circuit { name: name.into(), failures, pause, clock, position, attempts: AtomicU64::new(0) }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.lock().state()
    }

    /// Leave to make a call, or why not.
    pub(super) fn enter(&self) -> Result<Pass<'_>, StoreError> {
        let mut position = self.lock();
        match &mut *position {
            Position::Closed { .. } => Ok(Pass { circuit: self, attempt: None }),
            Position::Open { until } => match self.left(until) {
                Duration::ZERO => Ok(self.attempt(&mut position)),
                left => Err(refused(format!("circuit open, next try in {left:?}"))),
            },
            Position::HalfOpen { until, .. } => match self.left(until) {
                Duration::ZERO => Ok(self.attempt(&mut position)),
                _ => Err(refused("circuit half open, another call is trying".to_owned())),
            },
        }
    }

    /// How long it is until then: a pause at most, so that a clock that went back makes it begin anew, and not last until it has
    /// caught up.
    fn left(&self, until: &mut Timestamp) -> Duration {
        let now = self.clock.now();
        *until = now.saturating_add(self.pause).min(*until);
        until.since(now)
    }

    /// Leave to try whether the store is back.
    fn attempt(&self, position: &mut Position) -> Pass<'_> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        self.turn(position, Position::HalfOpen { until: self.clock.now().saturating_add(self.pause), attempt });
        Pass { circuit: self, attempt: Some(attempt) }
    }

    /// Under the lock, so that the state in metrics is the last one.
    fn turn(&self, position: &mut Position, to: Position) {
        *position = to;
        telemetry::breaker_state(&self.name, position.state());
    }

    fn open(&self, position: &mut Position) {
        self.turn(position, Position::Open { until: self.clock.now().saturating_add(self.pause) });
        telemetry::breaker_opened(&self.name);
    }

    fn lock(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Position {
    fn state(&self) -> BreakerState {
        match self {
            Position::Closed { .. } => BreakerState::Closed,
            Position::Open { .. } => BreakerState::Open,
            Position::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
}

impl Pass<'_> {
    /// What came of the call, and the error if it was one.
    pub(super) fn report(mut self, health: Health, error: Option<&StoreError>) {
        let good = match health {
            Health::Good => true,
            Health::Bad => false,
            Health::Unknown => return,
        };
        let reported = self.attempt.take();
        let circuit = self.circuit;
        let mut position = circuit.lock();
        match &mut *position {
            Position::Closed { failed } if good => *failed = 0,
            Position::Closed { failed } => {
                *failed += 1;
                if *failed >= circuit.failures {
                    circuit.open(&mut position);
                    telemetry::left_alone(&circuit.name, error);
                }
            }
            Position::HalfOpen { attempt, .. } if reported == Some(*attempt) => match good {
                true => {
                    circuit.turn(&mut position, Position::Closed { failed: 0 });
                    telemetry::answers_again(&circuit.name);
                }
                false => circuit.open(&mut position),
            },
            // A call that began before the circuit opened, or before another tried, says nothing new.
            Position::Open { .. } | Position::HalfOpen { .. } => {}
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let Some(dropped) = self.attempt else { return };
        let mut position = self.circuit.lock();
        if matches!(*position, Position::HalfOpen { attempt, .. } if attempt == dropped) {
            // The next call tries.
            self.circuit.turn(&mut position, Position::Open { until: Timestamp::EPOCH });
        }
    }
}

fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}
