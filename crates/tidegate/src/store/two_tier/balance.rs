//! The balance of one key in one process: sizes, spends and returns batches. Without I/O and without a clock.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Algorithm, Decision, DecisionParts, Op, Quota, Reason, Request, Timestamp};

use crate::clock::JITTER;

/// How long a batch should last. After one that lasts less, the next is twice the size.
const TARGET_BATCH_SPAN: Duration = Duration::from_millis(20);
/// After a batch that lasts this many times the target, the next is half the size.
const SHRINK_FACTOR: u32 = 4;
/// The next batch is fetched when this part of the current one is left.
const LOW_DIVISOR: u64 = 4;
/// How long a denial is answered locally at most: another process may have returned units.
const MAX_LOCAL_DENIAL: Duration = Duration::from_secs(1);
/// How long the network may delay a return. Units of a window are returned only while this much of the window is left: a
/// return that arrives after its end would count for the next window.
pub(super) const RETURN_MARGIN: Duration = Duration::from_secs(5);
/// A return without an answer has arrived after this span, or never will: it is sent within [`RETURN_MARGIN`] and arrives
/// within another. The rest is for a batch of returns that is sent in parts, and for a clock that runs fast.
const RETURN_SPAN: Duration = Duration::from_secs(15);

/// A batch expires before its window ends, by the window's length divided by this. Two clocks that are slewed in opposite
/// directions, each by the 500 parts in a million that systems allow, use a fourth of it.
const DRIFT_DIVISOR: u64 = 256;

/// The shortest window, in microseconds, of which batches are taken. A batch is sized to last some tens of milliseconds, and
/// its rest is lost at the end of the window: in a shorter window that would be most of it.
const MIN_WINDOW_MICROS: u64 = 500_000;

/// The rules by which a quota is taken in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchRules {
    pub(super) quota: Quota,
    /// The most units that one process holds, has requested or is returning, at least 2.
    pub(super) max: u64,
    /// For a quota that counts in windows, the span in which units must be spent, in microseconds.
    window: Option<u64>,
}

impl BatchRules {
    /// Returns the rules for a quota that this many processes share, or `None` for a quota that is not batched: one that is
    /// not counted in units, a log, which remembers when each unit was taken, and one that is too small or too short.
    pub(super) fn new(quota: &Quota, replicas: NonZeroU32) -> Option<Self> {
        let parts = quota.parts();
        let period = parts.period.as_micros() as u64;
        let window = match parts.algorithm {
            Algorithm::TokenBucket => None,
            Algorithm::FixedWindow => Some(period),
            // Within a bucket of the window, the time of a request does not matter.
            Algorithm::SlidingWindow => Some(period / u64::from(parts.buckets)),
            _ => return None,
        };
        let max = u64::from(parts.capacity / replicas);
        let is_batched = max >= 2 && window.is_none_or(|window| window >= MIN_WINDOW_MICROS);
        is_batched.then_some(BatchRules { quota: *quota, max, window })
    }

    /// Returns whether units expire with the end of a window.
    pub(super) fn is_windowed(&self) -> bool {
        self.window.is_some()
    }

    /// Returns when units expire, by this process's clock, that were just granted to a refill sent at `sent`.
    ///
    /// The store decided at or after `sent`, and its answer says how long the window lasts from then. Only spans are
    /// compared, so the difference between the clocks does not matter.
    fn expires(&self, granted: &Decision, sent: Timestamp) -> Timestamp {
        let Some(window) = self.window else { return Timestamp::from_micros(u64::MAX) };
        // Units that were just taken are replenished at the end of a window, this one or a later one.
        let left = (granted.reset_after().as_micros() as u64).saturating_sub(1) % window + 1;
        sent.saturating_add(Duration::from_micros(left - left.div_ceil(DRIFT_DIVISOR)).saturating_sub(JITTER))
    }

    /// Returns how much earlier than the whole capacity this many units are replenished, or zero where the decision does not
    /// tell.
    fn time_before_full(&self, units: u64) -> Duration {
        if self.is_windowed() {
            return Duration::ZERO;
        }
        let missing = u128::from(u64::from(self.quota.parts().capacity).saturating_sub(units));
        let micros = missing * u128::from(self.quota.unit()) / u128::from(self.quota.refill());
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// Returns the cost of a request that a balance can answer.
pub(super) fn batched_cost(request: &Request<'_>) -> Option<u64> {
    match request.op {
        Op::Limit(cost) | Op::Check(cost) => Some(cost.get()),
        _ => None,
    }
}

/// The units of one key that one process has taken from the store and not spent yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Balance {
    units: u64,
    expires: Timestamp,
    /// Units on their way back to the store. They count as held until they have arrived: otherwise one span could see a new
    /// balance spent, and these from the store.
    returning: u64,
    /// When they have arrived, even if no answer says so.
    returned_by: Timestamp,
    /// The balance that the next refill aims for.
    batch: u64,
    /// When the pending refill was sent.
    refill_sent: Option<Timestamp>,
    /// The pending refill predates a reset; discard its units.
    discard_refill: bool,
    /// The pending refill predates a refund; ignore its denial.
    ignore_denial: bool,
    /// When the last refill arrived.
    refilled_at: Option<Timestamp>,
    /// When units were last added or spent.
    used_at: Timestamp,
    /// The latest time that was seen.
    latest: Timestamp,
    last_answer: LastAnswer,
    denial: Option<RefillDenial>,
}

/// The last answer of the store about the key, as times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct LastAnswer {
    remaining: u64,
    next_at: Option<Timestamp>,
    reset_at: Timestamp,
}

/// A refill that the store denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RefillDenial {
    units: u64,
    /// When the store will have them, if no process takes anything.
    retry_at: Timestamp,
    /// When the next refill may be sent.
    refill_at: Timestamp,
}

/// The units that a refill requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RefillSize {
    /// Fills the balance up to a batch.
    pub(super) units: u64,
    /// The least that serves the waiting request.
    pub(super) min: u64,
}

/// The step that follows the store's answer to a refill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RefillStep {
    /// Add this many units.
    Granted(u64),
    /// Request this many units instead.
    Retry(u64),
    /// The store has not even the minimum. It will after this span.
    Denied(Duration),
    /// The store failed and a failure policy answered. That answer is about one request and grants no units.
    Fallback,
}

impl RefillSize {
    /// Returns what follows from the store's answer to a request for `units`, the first or a later attempt.
    pub(super) fn step(&self, units: u64, answer: &Decision) -> RefillStep {
        if answer.reason().is_some_and(|reason| reason != Reason::Rate) {
            return RefillStep::Fallback;
        }
        let (min, remaining) = (self.min, answer.remaining());
        match answer.allowed() {
            true => RefillStep::Granted(units),
            // The second attempt asks for the remaining units; when those are gone, the third for the minimum.
            false if units == self.units && remaining >= min && remaining < units => RefillStep::Retry(remaining),
            false if units > min && remaining.saturating_add(1) != min => RefillStep::Retry(min),
            false => {
                let retry = if units > min { answer.next_after() } else { answer.retry_after() };
                retry.map_or(RefillStep::Fallback, RefillStep::Denied)
            }
        }
    }
}

impl Balance {
    /// Creates an empty balance.
    pub(super) fn new(now: Timestamp) -> Self {
        Balance {
            units: 0,
            expires: now,
            returning: 0,
            returned_by: now,
            batch: 1,
            refill_sent: None,
            discard_refill: false,
            ignore_denial: false,
            refilled_at: None,
            used_at: now,
            latest: now,
            last_answer: LastAnswer::default(),
            denial: None,
        }
    }

    /// Creates an empty balance with the largest batch, so that the model need not grow it.
    #[cfg(test)]
    pub(super) fn with_largest_batch(rules: &BatchRules, now: Timestamp) -> Self {
        Balance { batch: rules.max, ..Balance::new(now) }
    }

    /// Spends `cost`, or denies it. Returns `None` when the store must decide.
    #[inline]
    pub(super) fn take(&mut self, rules: &BatchRules, cost: u64, now: Timestamp) -> Option<Decision> {
        let now = self.advance(rules, now);
        if self.units >= cost {
            self.units -= cost;
            self.used_at = now;
            return Some(self.decision(rules, None, now));
        }
        self.denies(rules, cost, now).then(|| self.deny(rules, cost, now))
    }

    /// Answers like [`Balance::take`], and spends nothing.
    pub(super) fn check(&mut self, rules: &BatchRules, cost: u64, now: Timestamp) -> Option<Decision> {
        let now = self.advance(rules, now);
        if self.units >= cost {
            return Some(self.decision(rules, None, now));
        }
        self.denies(rules, cost, now).then(|| self.deny(rules, cost, now))
    }

    /// Returns whether to fetch the next batch now, before this one is spent.
    #[inline]
    pub(super) fn is_low(&self, now: Timestamp) -> bool {
        self.refill_sent.is_none()
            && self.batch >= LOW_DIVISOR
            && self.units.saturating_mul(LOW_DIVISOR) <= self.batch
            && !self.is_denied(1, now)
    }

    /// Returns whether a refill is pending.
    pub(super) fn is_refilling(&self) -> bool {
        self.refill_sent.is_some()
    }

    /// Returns the most units that may be held and requested.
    fn room(&self, rules: &BatchRules, now: Timestamp) -> u64 {
        rules.max.saturating_sub(if self.is_returning(now) { self.returning } else { 0 })
    }

    /// Returns whether a refill for this cost may begin.
    pub(super) fn can_refill(&self, rules: &BatchRules, cost: u64, now: Timestamp) -> bool {
        cost.max(self.units + 1) <= self.room(rules, now)
    }

    /// Begins a refill, which [must be possible](Balance::can_refill), after which `cost` can be spent, and also what `others`
    /// wait for, if the rules allow that much.
    pub(super) fn begin_refill(&mut self, rules: &BatchRules, cost: u64, others: u64, now: Timestamp) -> RefillSize {
        let now = self.advance(rules, now);
        match self.refilled_at.map(|refilled| now.since(refilled)) {
            Some(lasted) if lasted < TARGET_BATCH_SPAN => self.batch = self.batch.saturating_mul(2).min(rules.max),
            Some(lasted) if lasted >= TARGET_BATCH_SPAN * SHRINK_FACTOR => self.shrink_batch(),
            _ => {}
        }
        (self.refill_sent, self.discard_refill, self.ignore_denial) = (Some(now), false, false);
        let min = cost.saturating_sub(self.units).max(1);
        // Held, requested and returning units together never exceed the maximum.
        let most = self.batch.max(cost.saturating_add(others)).min(self.room(rules, now));
        let units = most.saturating_sub(self.units).max(min);
        RefillSize { units, min }
    }

    /// Ends the pending refill: adds its units.
    pub(super) fn refill_granted(&mut self, rules: &BatchRules, units: u64, answer: &Decision, now: Timestamp) {
        let now = self.advance(rules, now);
        let sent = self.refill_sent.take().unwrap_or(Timestamp::EPOCH);
        let units = if std::mem::take(&mut self.discard_refill) { 0 } else { units };
        let expires = rules.expires(answer, sent);
        // When the two belong to different windows, nothing is spent in the later one.
        self.expires = if self.units > 0 { self.expires.min(expires) } else { expires };
        self.units += units;
        (self.refilled_at, self.used_at, self.denial) = (Some(now), now, None);
        self.last_answer = LastAnswer::from_decision(answer, now);
        self.advance(rules, now);
    }

    /// Ends the pending refill: the store will have that many units after `retry`. No refill is sent before `pace` has
    /// passed.
    pub(super) fn refill_denied(
        &mut self,
        units: u64,
        retry: Duration,
        pace: Duration,
        answer: &Decision,
        now: Timestamp,
    ) {
        let retry_at = now.saturating_add(retry);
        let refill_at = retry_at.min(now.saturating_add(MAX_LOCAL_DENIAL)).max(now.saturating_add(pace));
        self.refill_sent = None;
        if std::mem::take(&mut self.ignore_denial) {
            return;
        }
        self.denial = Some(RefillDenial { units, retry_at, refill_at });
        self.last_answer = LastAnswer::from_decision(answer, now);
        self.shrink_batch();
    }

    /// Ends the pending refill without a result. If the store granted units, they are lost.
    pub(super) fn refill_failed(&mut self) {
        self.refill_sent = None;
    }

    /// Forgets the denial: after a refund the store may have more.
    pub(super) fn record_refund(&mut self) {
        (self.denial, self.ignore_denial) = (None, self.refill_sent.is_some());
    }

    /// Forgets everything: the key was reset. The store no longer counts the units of a pending refill.
    pub(super) fn reset(&mut self) {
        self.record_refund();
        (self.units, self.discard_refill) = (0, self.refill_sent.is_some());
    }

    /// Takes out the units to return: all of them, if none was used for `idle`.
    pub(super) fn take_idle(&mut self, rules: &BatchRules, idle: Duration, now: Timestamp) -> u64 {
        let now = self.advance(rules, now);
        if self.units == 0 || now.since(self.used_at) < idle || now > self.return_deadline(now) {
            return 0;
        }
        self.shrink_batch();
        let units = std::mem::take(&mut self.units);
        (self.returning, self.returned_by) =
            (rules.max - self.room(rules, now) + units, now.saturating_add(RETURN_SPAN));
        units
    }

    /// Returns the latest time to send a return of units that are taken out now.
    pub(super) fn return_deadline(&self, now: Timestamp) -> Timestamp {
        self.expires.saturating_sub(RETURN_MARGIN).min(now.saturating_add(RETURN_MARGIN))
    }

    fn is_returning(&self, now: Timestamp) -> bool {
        self.returning > 0 && now < self.returned_by
    }

    /// Ends the return of so many units: they have arrived.
    pub(super) fn return_arrived(&mut self, units: u64) {
        self.returning = self.returning.saturating_sub(units);
    }

    /// Returns whether dropping it loses nothing.
    pub(super) fn is_disposable(&self, idle: Duration, now: Timestamp) -> bool {
        let used = self.units > 0 || self.refill_sent.is_some() || now.since(self.used_at) < idle;
        !used && !self.is_returning(now) && !self.is_denied(u64::MAX, now)
    }

    /// Drops units that have expired. Returns the time to use: small steps back, as of a clock that is adjusted all the time,
    /// are ignored.
    #[inline]
    fn advance(&mut self, rules: &BatchRules, now: Timestamp) -> Timestamp {
        let now = if now < self.latest { self.handle_clock_set_back(rules, now) } else { now };
        self.latest = now;
        if now >= self.expires && self.units > 0 {
            self.expire();
        }
        now
    }

    /// Drops all units. They were more than was needed.
    #[cold]
    fn expire(&mut self) {
        (self.units, self.refilled_at) = (0, None);
        self.shrink_batch();
    }

    #[cold]
    fn handle_clock_set_back(&mut self, rules: &BatchRules, now: Timestamp) -> Timestamp {
        if self.latest.since(now) <= JITTER {
            return self.latest;
        }
        // The time since the last refill is unknown.
        self.denial = None;
        self.used_at = now;
        self.refilled_at = None;
        self.returned_by = self.returned_by.min(now.saturating_add(RETURN_SPAN));
        if rules.is_windowed() {
            self.units = 0;
            self.refill_sent = self.refill_sent.map(|_| Timestamp::EPOCH);
        }
        now
    }

    fn shrink_batch(&mut self) {
        self.batch = (self.batch / 2).max(1);
    }

    /// Returns whether the store would deny that many units now.
    fn is_denied(&self, units: u64, now: Timestamp) -> bool {
        self.denial.is_some_and(|denial| units >= denial.units && now < denial.refill_at)
    }

    /// Returns whether to deny a cost that exceeds the balance. Only the store decides about a cost above the maximum of a
    /// process, and so about one above the capacity.
    fn denies(&self, rules: &BatchRules, cost: u64, now: Timestamp) -> bool {
        cost <= rules.max && self.is_denied(cost - self.units, now)
    }

    #[inline(never)]
    fn deny(&self, rules: &BatchRules, cost: u64, now: Timestamp) -> Decision {
        let retry = self.denial.map(|denial| {
            // The balance of a window has expired when there is more.
            let missing = if rules.is_windowed() { cost } else { cost - self.units };
            let at = match missing > denial.units {
                // Never too early. Late by a microsecond, and in windows by up to the time of the whole capacity.
                true => self.last_answer.reset_at.saturating_sub(rules.time_before_full(missing)).max(denial.retry_at),
                false => denial.retry_at,
            };
            at.max(denial.refill_at).since(now).as_micros() as u64
        });
        self.decision(rules, retry, now)
    }

    /// Returns a denial if there is a `retry_after`, and an admission otherwise.
    #[inline]
    fn decision(&self, rules: &BatchRules, retry_after: Option<u64>, now: Timestamp) -> Decision {
        let limit = rules.quota.parts().capacity;
        let span = |at: Timestamp| at.as_micros().saturating_sub(now.as_micros());
        let parts = DecisionParts {
            allowed: retry_after.is_none(),
            limit,
            remaining: (self.units + self.last_answer.remaining).min(limit.into()) as u32,
            retry_after,
            next_after: self.last_answer.next_at.map(span),
            reset_after: span(self.last_answer.reset_at),
            reason: retry_after.map(|_| Reason::Rate),
        };
        parts.into()
    }
}

impl LastAnswer {
    fn from_decision(answer: &Decision, now: Timestamp) -> Self {
        LastAnswer {
            remaining: answer.remaining(),
            next_at: answer.next_after().map(|span| now.saturating_add(span)),
            reset_at: now.saturating_add(answer.reset_after()),
        }
    }
}
