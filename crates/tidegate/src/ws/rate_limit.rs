//! What messages are limited by.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tidegate_core::Key;

use super::{Data, Ingress, KeyOf, keys};
use crate::enforce::{Caller, Enforcer, Outcome, Step};

type Of<D, T> = Arc<dyn Fn(&Ingress<'_, D>) -> T + Send + Sync>;

/// What messages are limited by: which limits, whom they count a message under, and what it costs.
///
/// ```
/// use tidegate::enforce::Enforcer;
/// use tidegate::ws::{RateLimit, keys};
/// use tidegate::{Limiter, Quota, seconds};
///
/// let limiter = Limiter::builder()
///     .limit("user", Quota::token_bucket(5, seconds(1))?.capacity(20)?)
///     .limit("address", Quota::token_bucket(50, seconds(1))?)
///     .build()?;
/// let limits: RateLimit<()> = RateLimit::new(Enforcer::new(&limiter, "user").and("address")) // all or nothing
///     .key_each([keys::user_and_type(), keys::address()])
///     .cost_of(|ingress| if ingress.message_type() == Some("SEARCH") { 5 } else { 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RateLimit<D> {
    enforcer: Which<D>,
    /// One for all limits, or one for each.
    keys: Vec<KeyOf<D>>,
    cost: Option<Of<D, u64>>,
    skip: Option<Of<D, bool>>,
}

enum Which<D> {
    One(Enforcer),
    Picked(Of<D, Enforcer>),
}

impl<D: Data, L: Into<Enforcer>> From<L> for RateLimit<D> {
    fn from(limits: L) -> Self {
        RateLimit::new(limits)
    }
}

impl<D: Data> RateLimit<D> {
    /// Limits messages by a limit of a limiter (`(&limiter, "send")`), a bare quota, or whatever an [`Enforcer`] does; for
    /// each user and type on its own.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        Self::of(Which::One(limits.into()))
    }

    /// Limits each message by what `pick` picks for it: other limits for expensive types, or for users who pay. Whatever
    /// it picks is made beforehand and cloned.
    pub fn pick(pick: impl Fn(&Ingress<'_, D>) -> Enforcer + Send + Sync + 'static) -> Self {
        Self::of(Which::Picked(Arc::new(pick)))
    }

    fn of(enforcer: Which<D>) -> Self {
        RateLimit { enforcer, keys: vec![keys::user_and_type()], cost: None, skip: None }
    }

    /// Whom a message is counted under, by all limits.
    #[must_use]
    pub fn key(mut self, key: KeyOf<D>) -> Self {
        self.keys = vec![key];
        self
    }

    /// Whom each of several limits counts a message under, in the order in which the enforcer has them.
    #[must_use]
    pub fn key_each(mut self, keys: impl IntoIterator<Item = KeyOf<D>>) -> Self {
        self.keys = keys.into_iter().collect();
        self
    }

    /// What a message costs: 1 unless said otherwise. One that costs 0 is refused as INVALID_ARGUMENT.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&Ingress<'_, D>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Which messages are left alone.
    #[must_use]
    pub fn skip(mut self, skip: impl Fn(&Ingress<'_, D>) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Arc::new(skip));
        self
    }

    /// What becomes of a message, and what it costs. None for one that is left alone.
    pub(super) async fn ask(&self, ingress: &Ingress<'_, D>, used: &mut Used) -> Option<(Outcome, u64)> {
        if self.skip.as_ref().is_some_and(|skip| skip(ingress)) {
            return None;
        }
        let picked;
        let enforcer = match &self.enforcer {
            Which::One(enforcer) => enforcer,
            Which::Picked(pick) => {
                picked = pick(ingress);
                &picked
            }
        };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(ingress));
        let Some(caller) = self.caller(enforcer, ingress, used) else { return Some((enforcer.without_key(), cost)) };
        let outcome = match enforcer.ask_now(&caller, cost, Step::Take) {
            Some(outcome) => outcome,
            None => enforcer.ask(&caller, cost, Step::Take).await,
        };
        Some((outcome, cost))
    }

    /// Who sends a message. Keys that end with the connection are noted.
    fn caller(&self, enforcer: &Enforcer, ingress: &Ingress<'_, D>, used: &mut Used) -> Option<Caller<'static>> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for (place, key_of) in self.keys.iter().enumerate() {
            let (key, is_connection) = key_of.find(ingress)?;
            if is_connection {
                // One key that is the same for all limits is known to each of them.
                let places = if self.keys.len() == 1 { 0..enforcer.len() } else { place..place + 1 };
                places.for_each(|place| used.note(enforcer, place, &key));
            }
            keys.push(key);
        }
        let caller = if keys.len() == 1 { Caller::new(keys.remove(0)) } else { Caller::each(keys) };
        Some(match ingress.client() {
            Some(client) => caller.with_address(client.address()),
            None => caller,
        })
    }
}

/// The keys of a connection that end with it. There are few: one for each limit, or for each limit and type.
#[derive(Default)]
pub(super) struct Used(HashMap<(usize, usize, Key<'static>), Enforcer>);

impl Used {
    /// More than this is a program that makes enforcers up for each message.
    const MOST: usize = 1_024;

    fn note(&mut self, enforcer: &Enforcer, place: usize, key: &Key<'static>) {
        if self.0.len() < Self::MOST {
            self.0.entry((enforcer.identity(), place, key.clone())).or_insert_with(|| enforcer.clone());
        }
    }

    /// Has the limits forget them.
    pub(super) async fn forget(self) {
        for ((_, place, key), enforcer) in self.0 {
            enforcer.forget(place, &key).await;
        }
    }
}

impl<D> fmt::Debug for RateLimit<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RateLimit");
        if let Which::One(enforcer) = &self.enforcer {
            debug.field("enforcer", enforcer);
        }
        debug.field("keys", &self.keys).finish_non_exhaustive()
    }
}
