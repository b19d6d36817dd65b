//! What one process has in hand of one key: the rules of a lease, without I/O and without a clock.

use std::time::Duration;

use tidegate_core::{Decision, DecisionParts, Reason, Timestamp};

use super::rules::Rules;
use crate::clock::JITTER;

/// How long a batch should last: one that lasts less is followed by one of twice the size.
const LASTS: Duration = Duration::from_millis(20);
/// One that lasts that many times longer is followed by one of half the size.
const TOO_LONG: u32 = 4;
/// When that part of a batch is left, the next is fetched.
const LOW: u64 = 4;
/// After a denial the store is asked again after that long at the latest: somebody may have given something back.
const AGAIN: Duration = Duration::from_secs(1);
/// What was taken in a window is given back only while so much of the window is left: what arrives after its end would
/// count for the next.
pub(super) const IN_TIME: Duration = Duration::from_secs(5);

/// What one process has in hand of one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hand {
    units: u64,
    /// When they lose their worth.
    until: Timestamp,
    /// How much to have in hand after the next refill.
    batch: u64,
    /// Since when a refill is on its way.
    asked: Option<Timestamp>,
    /// What it brings is of before the key began anew.
    is_void: bool,
    /// What it is refused for may be of before somebody gave something back.
    is_old: bool,
    /// When the last one arrived.
    granted: Option<Timestamp>,
    /// When something was last put in or spent.
    used: Timestamp,
    /// The time when it was last looked at.
    seen: Timestamp,
    told: Told,
    denied: Option<Denied>,
}

/// What the store said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Told {
    remaining: u64,
    next_at: Option<Timestamp>,
    reset_at: Timestamp,
}

/// The store had not that much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Denied {
    units: u64,
    /// When it will have, if nobody takes anything.
    retry_at: Timestamp,
    /// Until when it is not asked.
    ask_at: Timestamp,
}

/// What a process asks the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    /// To have a batch in hand.
    pub(super) units: u64,
    /// To serve who asked, at least.
    pub(super) least: u64,
}

/// What follows from an answer of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// So much more is in hand.
    Granted(u64),
    /// To be asked for less.
    Ask(u64),
    /// It has not even the least, and will after that long.
    Refused(Duration),
    /// The store was broken and somebody's failure policy has answered: that is about one request, and no lease.
    Broken,
}

impl Wanted {
    /// What follows from the store's answer when it was asked for `units`, as the last attempt or not.
    pub(super) fn next(&self, units: u64, answer: &Decision) -> Next {
        if answer.reason().is_some_and(|reason| reason != Reason::Rate) {
            return Next::Broken;
        }
        let (least, remaining) = (self.least, answer.remaining());
        match answer.allowed() {
            true => Next::Granted(units),
            // The first time what there is; when that was gone, only what is needed.
            false if units == self.units && remaining >= least && remaining < units => Next::Ask(remaining),
            false if units > least && remaining.saturating_add(1) != least => Next::Ask(least),
            false => {
                let retry = if units > least { answer.next_after() } else { answer.retry_after() };
                retry.map_or(Next::Broken, Next::Refused)
            }
        }
    }
}

impl Hand {
    /// An empty one.
    pub(super) fn new(now: Timestamp) -> Self {
        Hand {
            units: 0,
            until: now,
            batch: 1,
            asked: None,
            is_void: false,
            is_old: false,
            granted: None,
            used: now,
            seen: now,
            told: Told::default(),
            denied: None,
        }
    }

    /// One that has grown, so that the model need not wait for it.
    #[cfg(test)]
    pub(super) fn grown(rules: &Rules, now: Timestamp) -> Self {
        Hand { batch: rules.most, ..Hand::new(now) }
    }

    /// Spends `cost`, or says that nobody can now; none when the store has to be asked.
    #[inline(always)]
    pub(super) fn take(&mut self, rules: &Rules, cost: u64, now: Timestamp) -> Option<Decision> {
        let now = self.settle(rules, now);
        if self.units >= cost {
            self.units -= cost;
            self.used = now;
            return Some(self.decision(rules, None, now));
        }
        self.denies(rules, cost, now).then(|| self.denial(rules, cost, now))
    }

    /// Answers as [`Hand::take`] would, and spends nothing.
    pub(super) fn check(&mut self, rules: &Rules, cost: u64, now: Timestamp) -> Option<Decision> {
        let now = self.settle(rules, now);
        if self.units >= cost {
            return Some(self.decision(rules, None, now));
        }
        self.denies(rules, cost, now).then(|| self.denial(rules, cost, now))
    }

    /// Whether it is time to fetch the next batch, before this one is spent.
    #[inline(always)]
    pub(super) fn is_low(&self, now: Timestamp) -> bool {
        self.asked.is_none()
            && self.batch >= LOW
            && self.units.saturating_mul(LOW) <= self.batch
            && !self.is_denied(1, now)
    }

    /// Whether a refill is on its way.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// What a refill asks for, so that at least `cost` is in hand after it, and if there is as much also what
    /// `others` wait for. From now on it is on its way.
    pub(super) fn ask(&mut self, rules: &Rules, cost: u64, others: u64, now: Timestamp) -> Wanted {
        let now = self.settle(rules, now);
        match self.granted.map(|granted| now.since(granted)) {
            Some(lasted) if lasted < LASTS => self.batch = self.batch.saturating_mul(2).min(rules.most),
            Some(lasted) if lasted >= LASTS * TOO_LONG => self.shrink(),
            _ => {}
        }
        (self.asked, self.is_void, self.is_old) = (Some(now), false, false);
        let least = cost.saturating_sub(self.units).max(1);
        // In hand and on its way there are never more than the most.
        let units = self.batch.max(cost.saturating_add(others)).min(rules.most).saturating_sub(self.units).max(least);
        Wanted { units, least }
    }

    /// The refill has arrived.
    pub(super) fn granted(&mut self, rules: &Rules, units: u64, answer: &Decision, now: Timestamp) {
        let now = self.settle(rules, now);
        let sent = self.asked.take().unwrap_or(Timestamp::EPOCH);
        let units = if std::mem::take(&mut self.is_void) { 0 } else { units };
        let until = rules.until(answer, sent);
        // Were the two of different windows, nothing would be spent in the later one.
        self.until = if self.units > 0 { self.until.min(until) } else { until };
        self.units += units;
        (self.granted, self.used, self.denied) = (Some(now), now, None);
        self.told = told(answer, now);
        self.settle(rules, now);
    }

    /// The store has not that much, and will have it after `retry`. It is not asked again before `pace` has passed.
    pub(super) fn refused(&mut self, units: u64, retry: Duration, pace: Duration, answer: &Decision, now: Timestamp) {
        let retry_at = now.saturating_add(retry);
        let ask_at = retry_at.min(now.saturating_add(AGAIN)).max(now.saturating_add(pace));
        self.asked = None;
        if std::mem::take(&mut self.is_old) {
            return;
        }
        self.denied = Some(Denied { units, retry_at, ask_at });
        self.told = told(answer, now);
        self.shrink();
    }

    /// Nobody knows what became of the refill: if it was granted, it is lost.
    pub(super) fn failed(&mut self) {
        self.asked = None;
    }

    /// The store may have more than it said.
    pub(super) fn given_back(&mut self) {
        (self.denied, self.is_old) = (None, self.asked.is_some());
    }

    /// The key begins anew. What is on its way was taken before that, and the store has forgotten it.
    pub(super) fn forget(&mut self) {
        self.given_back();
        (self.units, self.is_void) = (0, self.asked.is_some());
    }

    /// What is to be given back: everything that nobody has used for `idle`.
    pub(super) fn give_back(&mut self, rules: &Rules, idle: Duration, now: Timestamp) -> u64 {
        let now = self.settle(rules, now);
        if self.units == 0 || now.since(self.used) < idle || !rules.is_in_time(self.until, now) {
            return 0;
        }
        self.shrink();
        std::mem::take(&mut self.units)
    }

    /// When what is in hand, or was just given back, loses its worth.
    pub(super) fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether forgetting it loses nothing.
    pub(super) fn is_spare(&self, idle: Duration, now: Timestamp) -> bool {
        let used = self.units > 0 || self.asked.is_some() || now.since(self.used) < idle;
        !used && !self.is_denied(u64::MAX, now)
    }

    /// Drops what has lost its worth. Gives the time, which does not go back for as little as a clock that is set right a
    /// little all the time.
    #[inline]
    fn settle(&mut self, rules: &Rules, now: Timestamp) -> Timestamp {
        let now = if now < self.seen { self.set_back(rules, now) } else { now };
        self.seen = now;
        if now >= self.until && self.units > 0 {
            self.lapse();
        }
        now
    }

    /// Drops all of it: it was more than was needed.
    #[cold]
    fn lapse(&mut self) {
        (self.units, self.granted) = (0, None);
        self.shrink();
    }

    /// The time when the clock shows an earlier one than before.
    #[cold]
    fn set_back(&mut self, rules: &Rules, now: Timestamp) -> Timestamp {
        if self.seen.since(now) <= JITTER {
            return self.seen;
        }
        // Nobody knows how long it has been.
        self.denied = None;
        self.used = now;
        self.granted = None;
        if rules.is_windowed() {
            self.units = 0;
            self.asked = self.asked.map(|_| Timestamp::EPOCH);
        }
        now
    }

    fn shrink(&mut self) {
        self.batch = (self.batch / 2).max(1);
    }

    /// Whether the store would not have that much now.
    fn is_denied(&self, units: u64, now: Timestamp) -> bool {
        self.denied.is_some_and(|denied| units >= denied.units && now < denied.ask_at)
    }

    /// Whether a cost that is not in hand can be denied here. What is more than a process may have in hand is for the
    /// store to decide, and so is what is more than there ever is.
    fn denies(&self, rules: &Rules, cost: u64, now: Timestamp) -> bool {
        cost <= rules.most && self.is_denied(cost - self.units, now)
    }

    #[inline(never)]
    fn denial(&self, rules: &Rules, cost: u64, now: Timestamp) -> Decision {
        let retry = self.denied.map(|denied| {
            // What is in hand of a window is gone when there is more.
            let short = if rules.is_windowed() { cost } else { cost - self.units };
            let at = match short > denied.units {
                // Never too early, and late by a microsecond, or where there are windows by as much as takes them all.
                true => self.told.reset_at.saturating_sub(rules.earlier(short)).max(denied.retry_at),
                false => denied.retry_at,
            };
            at.max(denied.ask_at).since(now).as_micros() as u64
        });
        self.decision(rules, retry, now)
    }

    /// The answer to who asks: a denial when there is a time to wait for.
    #[inline]
    fn decision(&self, rules: &Rules, retry_after: Option<u64>, now: Timestamp) -> Decision {
        let limit = rules.quota.parts().capacity;
        let span = |at: Timestamp| at.as_micros().saturating_sub(now.as_micros());
        let parts = DecisionParts {
            allowed: retry_after.is_none(),
            limit,
            remaining: (self.units + self.told.remaining).min(limit.into()) as u32,
            retry_after,
            next_after: self.told.next_at.map(span),
            reset_after: span(self.told.reset_at),
            reason: retry_after.map(|_| Reason::Rate),
        };
        parts.into()
    }
}

fn told(answer: &Decision, now: Timestamp) -> Told {
    let outlook = answer.outlook();
    Told {
        remaining: outlook.remaining,
        next_at: outlook.next_after.map(|span| now.saturating_add(span)),
        reset_at: now.saturating_add(outlook.reset_after),
    }
}
