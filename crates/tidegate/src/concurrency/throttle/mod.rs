//! A throttle for callers of a service that may be overloaded.

mod builder;
mod chance;
mod window;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

pub use builder::ThrottleBuilder;
use chance::{K, turns_away};
use window::{Counts, Window};

use crate::clock::Clock;
use crate::random::Random;

/// Holds a caller back from a service that turns it away, so that the service need not. Cheap to clone: clones are one
/// throttle.
///
/// The adaptive throttling of Google's book on site reliability: over the last two minutes, a request is turned away here,
/// unsent, with probability `max(0, (requests - K * accepts) / (requests + 1))`. Requests are all that were made, those
/// turned away here among them; accepts are those that the service took on. K is 2: the service is sent about twice what it
/// accepts. So it still turns some away, which is how the caller notices that it accepts more again.
///
/// Wants no coordination, neither with the service nor with other callers. Use one for each service that is called.
///
/// ```
/// use tidegate::concurrency::Throttle;
///
/// let throttle = Throttle::new();
/// # let ask = || Some("an answer");
/// match throttle.try_pass() {
///     Ok(attempt) => match ask() {
///         Some(_) => attempt.accepted(),
///         None => attempt.rejected(), // overloaded, or no answer in time
///     },
///     Err(throttled) => println!("{throttled}"),
/// }
/// ```
#[derive(Clone)]
pub struct Throttle {
    shared: Arc<Shared>,
}

struct Shared {
    window: Mutex<Window>,
    k: K,
    random: Random,
    clock: Arc<dyn Clock>,
}

/// A request that may be sent. Say what became of it. Dropped, it counts as if it had never been made, which is right when
/// the caller gave up before the service could answer.
#[must_use = "say whether the service accepted it"]
#[derive(Debug)]
pub struct Attempt {
    throttle: Throttle,
}

/// A request that is better not sent: the service turns away too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled;

impl Throttle {
    /// A throttle that remembers two minutes, with a K of 2.
    pub fn new() -> Self {
        Throttle::builder().build()
    }

    /// A throttle with other numbers.
    pub fn builder() -> ThrottleBuilder {
        ThrottleBuilder::new()
    }

    /// Whether a request may be sent.
    pub fn try_pass(&self) -> Result<Attempt, Throttled> {
        let Shared { k, random, clock, .. } = &*self.shared;
        let now = clock.now();
        let mut window = self.window();
        let Counts { requests, accepts } = window.counts(now);
        if turns_away(requests, accepts, *k, random.next()) {
            // A request too: the rule compares what is wanted of the service with what it accepts.
            window.count(false, now);
            return Err(Throttled);
        }
        drop(window);
        Ok(Attempt { throttle: self.clone() })
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.shared.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Attempt {
    /// The service took it on, whatever came of it: an answer of "not found" is accepted too.
    pub fn accepted(self) {
        self.end(true);
    }

    /// The service had no room for it: it said so (503, 429, `RESOURCE_EXHAUSTED`, `UNAVAILABLE`), or did not answer in time.
    pub fn rejected(self) {
        self.end(false);
    }

    fn end(self, accepted: bool) {
        let now = self.throttle.shared.clock.now();
        self.throttle.window().count(accepted, now);
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle::new()
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("k", &self.shared.k).finish_non_exhaustive()
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the service turns away too many requests: this one was not sent")
    }
}

impl std::error::Error for Throttled {}
