//! How tenants that share are set up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{Key, millis, seconds};

use super::state::State;
use super::{Fair, Shared};
use crate::clock::{Clock, Sleeper, SteadyClock};
use crate::concurrency::held::Held;

/// How a [`Fair`] is made; see [`Fair::builder`].
#[must_use = "tenants share once `build` is called"]
pub struct FairBuilder {
    limit: u32,
    terms: Terms,
    sleeper: Option<Arc<dyn Sleeper>>,
}

/// What stays as it is.
pub(super) struct Terms {
    /// By the text of the key.
    pub(super) weights: HashMap<String, u32>,
    pub(super) default_weight: u32,
    pub(super) max_tenants: usize,
    pub(super) queue: usize,
    pub(super) queue_in_all: usize,
    pub(super) idle_after: Duration,
}

impl FairBuilder {
    pub(super) fn new(limit: u32) -> Self {
        let terms = Terms {
            weights: HashMap::new(),
            default_weight: 1,
            max_tenants: 1_024,
            queue: 64,
            queue_in_all: 1_024,
            idle_after: seconds(10),
        };
        FairBuilder { limit: limit.max(1), terms, sleeper: None }
    }

    /// The weight of a tenant; 0 counts as 1. A tenant with a weight of its own always has a place of its own.
    pub fn weight<'a>(mut self, tenant: impl Into<Key<'a>>, weight: u32) -> Self {
        self.terms.weights.insert(tenant.into().to_text().into_owned(), weight.max(1));
        self
    }

    /// The weight of everybody else: 1 unless said otherwise; 0 counts as 1.
    pub fn default_weight(mut self, weight: u32) -> Self {
        self.terms.default_weight = weight.max(1);
        self
    }

    /// How many tenants without a weight of their own have a place each, 1,024 unless said otherwise. Those who come when
    /// all are taken share one more place, with the default weight: so names that somebody makes up cost neither memory
    /// without end nor anybody else's admission.
    pub fn max_tenants(mut self, tenants: usize) -> Self {
        self.terms.max_tenants = tenants;
        self
    }

    /// How many of one tenant may wait: 64 unless said otherwise.
    pub fn queue(mut self, waiting: usize) -> Self {
        self.terms.queue = waiting;
        self
    }

    /// How many of all tenants may wait: 1,024 unless said otherwise. Beyond that, only those may who are the first of
    /// their tenant.
    pub fn queue_in_all(mut self, waiting: usize) -> Self {
        self.terms.queue_in_all = waiting;
        self
    }

    /// How long a tenant that does not ask keeps what is reserved for it: 10 seconds unless said otherwise, and at least a
    /// millisecond.
    pub fn idle_after(mut self, span: Duration) -> Self {
        self.terms.idle_after = span.max(millis(1));
        self
    }

    /// What [`Fair::acquire`] waits with, and whose time counts. With the feature `tokio` that is tokio's timer unless said
    /// otherwise.
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Some(Arc::new(sleeper));
        self
    }

    /// Slots to share.
    pub fn build(self) -> Fair {
        #[cfg(feature = "tokio")]
        let default_sleeper: Option<Arc<dyn Sleeper>> = Some(Arc::new(crate::clock::SteadySleeper));
        #[cfg(not(feature = "tokio"))]
        let default_sleeper = None;
        let sleeper = self.sleeper.or(default_sleeper);
        let clock: Arc<dyn Clock> = match &sleeper {
            Some(sleeper) => Arc::clone(sleeper) as Arc<dyn Clock>,
            None => Arc::new(SteadyClock),
        };
        let state = Mutex::new(State::new(self.limit, self.terms));
        Fair { shared: Arc::new(Shared { state, held: Held::default(), clock, sleeper }) }
    }
}
