//! How a throttle is set up.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::minutes;

use super::chance::K;
use super::window::Window;
use super::{Shared, Throttle};
use crate::clock::{Clock, SteadyClock};
use crate::random::Random;

/// How a [`Throttle`] is made; see [`Throttle::builder`].
#[must_use = "a throttle exists once `build` is called"]
pub struct ThrottleBuilder {
    k: K,
    window: Duration,
    seed: Option<u64>,
    clock: Arc<dyn Clock>,
}

impl ThrottleBuilder {
    pub(super) fn new() -> Self {
        ThrottleBuilder { k: K::new(2, 1), window: minutes(2), seed: None, clock: Arc::new(SteadyClock) }
    }

    /// K as a fraction: `requests` are sent for every `accepts` that the service takes on. `k(2, 1)` unless said otherwise.
    ///
    /// Less, such as `k(11, 10)`, spares the service more, where to turn a request away costs it nearly as much as to
    /// serve it; but what it can take again is noticed more slowly, and a few stray errors hold requests back. Less
    /// than 1 counts as 1.
    pub fn k(mut self, requests: u16, accepts: u16) -> Self {
        self.k = K::new(requests, accepts);
        self
    }

    /// How long requests are remembered: two minutes unless said otherwise. A shorter window reacts and recovers sooner, and
    /// swings more.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Where chance begins, for runs that can be repeated. Unless said otherwise, each throttle begins elsewhere.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Another clock, for tests and simulations.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The throttle.
    pub fn build(self) -> Throttle {
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(()));
        let window = Mutex::new(Window::new(self.window));
        Throttle { shared: Arc::new(Shared { window, k: self.k, random: Random::new(seed), clock: self.clock }) }
    }
}
