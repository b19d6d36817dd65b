//! Many callers at once, and what they have seen.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Limiter, OnStoreError, millis};
use tidegate_servers::wait_until;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stalls;
use crate::support::{Answer, CAPACITY, SHARE, TIMEOUT, keys, run, spawn};

/// How many ask at once under each policy.
const CALLERS: usize = 8;

/// How much later than its timeout a call may end on a busy machine, beside the time in which nobody could run at all. It
/// tells a call that hangs from one that waits for a processor, and both together from the 500 milliseconds after which a
/// connection gives up by itself.
const SCHEDULING: Duration = millis(400);

/// A call that began and ended then did not hang.
pub(crate) fn assert_in_time(began: Instant, ended: Instant) {
    let (took, stalled) = (ended - began, stalls::between(began, ended));
    assert!(took <= TIMEOUT + SCHEDULING + stalled, "a call took {took:?}, and for {stalled:?} nobody could run");
}

/// One call and what came of it.
struct Seen {
    policy: OnStoreError,
    key: usize,
    began: Instant,
    ended: Instant,
    answer: Answer,
}

/// Callers that ask until they are told to stop.
pub(crate) struct Load {
    shared: Arc<Shared>,
    callers: Vec<JoinHandle<Vec<Seen>>>,
    keys: usize,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// How many calls the store has answered so far, under each policy.
    by_store: Counts,
    /// How many calls the policy has answered so far, under each.
    by_policy: Counts,
}

type Counts = [AtomicU64; OnStoreError::ALL.len()];

fn counted(counts: &Counts) -> impl Iterator<Item = u64> {
    counts.iter().map(|count| count.load(Ordering::Relaxed))
}

/// Comes back when so many more calls that begin from now on are counted under every policy.
fn wait_for(counts: &Counts, more: u64, otherwise: &str) {
    // As many as there are callers may have begun before.
    let enough: Vec<u64> = counted(counts).map(|count| count + CALLERS as u64 + more).collect();
    assert!(wait_until(|| counted(counts).zip(&enough).all(|(count, enough)| count >= *enough)), "{otherwise}");
}

impl Load {
    pub(crate) fn start(limiter: &Limiter, keys: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let callers = OnStoreError::ALL.into_iter().flat_map(|policy| (0..CALLERS).map(move |from| (policy, from)));
        let callers =
            callers.map(|(policy, from)| spawn(calls(limiter.clone(), policy, keys, from, Arc::clone(&shared))));
        Load { callers: callers.collect(), shared, keys }
    }

    /// Does something that makes calls fail, and comes back when one of these has.
    pub(crate) fn struck_by(&self, fault: impl FnOnce()) {
        let failed = || counted(&self.shared.by_policy).sum::<u64>();
        let before = failed();
        fault();
        assert!(wait_until(|| failed() > before), "no call meets the fault");
    }

    /// Comes back when the store has decided about calls of every policy that began after this one.
    pub(crate) fn is_served(&self) {
        wait_for(&self.shared.by_store, 1, "the store does not decide");
    }

    /// Comes back when the store has decided about so many that nothing is left of the keys: what it admits of them from now on
    /// is too much, unless it begins anew.
    pub(crate) fn uses_up(&self) {
        wait_for(&self.shared.by_store, self.keys as u64 * CAPACITY, "the store does not decide");
    }

    /// Comes back when every policy has answered enough calls to use up what may be admitted in process.
    pub(crate) fn is_left_to_the_policies(&self) {
        wait_for(&self.shared.by_policy, SHARE, "the policies do not answer");
    }

    /// What they have seen; none of them may have panicked, and no call may have hung.
    pub(crate) fn stop(self) -> Log {
        self.shared.stop.store(true, Ordering::Relaxed);
        let callers = self.callers.into_iter().map(|caller| run(caller).expect("a caller that did not panic"));
        let log = Log { seen: callers.flatten().collect(), keys: self.keys };
        assert!(!log.seen.is_empty(), "nobody asked");
        log.seen.iter().for_each(|call| assert_in_time(call.began, call.ended));
        log
    }
}

async fn calls(limiter: Limiter, policy: OnStoreError, count: usize, from: usize, shared: Arc<Shared>) -> Vec<Seen> {
    let (keys, mut seen) = (keys(count), Vec::new());
    for key in (0..count).cycle().skip(from) {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let answer = limiter.limit(policy.as_str(), &keys[key]).into_future().await;
        let ended = Instant::now();
        let answer = Answer::of(policy, answer);
        let counts = match answer {
            Answer::Store { .. } => &shared.by_store,
            Answer::Policy { .. } => &shared.by_policy,
        };
        let index = OnStoreError::ALL.iter().position(|other| *other == policy).expect("one of them");
        counts[index].fetch_add(1, Ordering::Relaxed);
        seen.push(Seen { policy, key, began, ended, answer });
        // Answers that need no waiting would keep everybody else from running.
        tokio::time::sleep(millis(4)).await;
    }
    seen
}

/// What the callers have seen.
pub(crate) struct Log {
    seen: Vec<Seen>,
    keys: usize,
}

impl Log {
    /// The calls under one policy.
    fn under(&self, policy: OnStoreError) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(move |call| call.policy == policy)
    }

    /// Nobody got an answer of the store in a time in which it was away, and everybody got one.
    pub(crate) fn assert_away(&self, from: Instant, to: Instant) {
        for policy in OnStoreError::ALL {
            let mut calls = self.under(policy).filter(|call| call.began >= from && call.ended <= to).peekable();
            assert!(calls.peek().is_some(), "{policy:?}: nobody asked while the store was away");
            assert!(
                calls.all(|call| matches!(call.answer, Answer::Policy { .. })),
                "{policy:?}: the store was not away"
            );
        }
    }

    /// The store has decided again about calls of every policy from then on.
    pub(crate) fn assert_served(&self, from: Instant) {
        for policy in OnStoreError::ALL {
            let mut calls = self.under(policy).filter(|call| call.began >= from);
            let served = calls.any(|call| matches!(call.answer, Answer::Store { .. }));
            assert!(served, "{policy:?}: the store does not decide");
        }
    }

    /// Of each key the store admitted at least 1, and `most` at most, in calls that began in a time.
    pub(crate) fn assert_admitted_by_store(&self, most: u64, began: impl Fn(Instant) -> bool) {
        for policy in OnStoreError::ALL {
            let admitted = self.admitted(policy, Answer::Store { allowed: true }, &began);
            let fine = admitted.iter().all(|admitted| (1..=most).contains(admitted));
            assert!(fine, "{policy:?}: the store admitted {admitted:?} of each key");
        }
    }

    /// Of no key more than the share was admitted in process, in however many outages, by calls that began in a time.
    pub(crate) fn assert_share(&self, from: Instant, to: Instant) {
        let admitted = self.admitted_in_process(|began| began >= from && began <= to);
        assert!(admitted.iter().all(|admitted| *admitted <= SHARE), "admitted in process: {admitted:?} of each key");
    }

    /// The share was not just refused: of some key all of it was admitted before then.
    pub(crate) fn assert_share_was_served(&self, to: Instant) {
        let admitted = self.admitted_in_process(|began| began <= to);
        assert!(admitted.iter().any(|admitted| *admitted >= SHARE), "admitted in process: {admitted:?} of each key");
    }

    /// How many calls in a time were answered by their policy.
    pub(crate) fn answered_by_policy(&self, policy: OnStoreError, from: Instant, to: Instant) -> usize {
        let calls = self.under(policy).filter(|call| call.began >= from && call.ended <= to);
        calls.filter(|call| matches!(call.answer, Answer::Policy { .. })).count()
    }

    fn admitted_in_process(&self, began: impl Fn(Instant) -> bool) -> Vec<u64> {
        self.admitted(OnStoreError::Local, Answer::Policy { allowed: true }, began)
    }

    /// How many calls have the answer, of each key.
    fn admitted(&self, policy: OnStoreError, answer: Answer, began: impl Fn(Instant) -> bool) -> Vec<u64> {
        let mut admitted = vec![0; self.keys];
        let calls = self.under(policy).filter(|call| call.answer == answer && began(call.began));
        calls.for_each(|call| admitted[call.key] += 1);
        admitted
    }
}
