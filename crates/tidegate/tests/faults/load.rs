//! Load: many callers at once, and a log of their calls.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Limiter, OnStoreError, millis};
use tidegate_servers::wait_until;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stalls;
use crate::support::{Answer, CAPACITY, LOCAL_SHARE, TIMEOUT, keys, run, spawn};

/// The number of concurrent callers under each policy.
const CALLERS: usize = 8;

/// How much later than its timeout a call may end on a busy machine, beside the time in which no thread could run. It
/// distinguishes a hanging call from one that waits for a processor. Together they are below the 500 milliseconds after
/// which a connection gives up.
const SCHEDULING: Duration = millis(400);

/// Asserts that a call between these instants did not hang.
pub(crate) fn assert_no_hang(began: Instant, ended: Instant) {
    let (took, stalled) = (ended - began, stalls::stalled_time(began, ended));
    assert!(took <= TIMEOUT + SCHEDULING + stalled, "a call took {took:?}, and for {stalled:?} no thread could run");
}

/// One call and its answer.
struct CallRecord {
    policy: OnStoreError,
    key: usize,
    began: Instant,
    ended: Instant,
    answer: Answer,
}

/// Callers that make calls until they are stopped.
pub(crate) struct Load {
    state: Arc<LoadState>,
    callers: Vec<JoinHandle<Vec<CallRecord>>>,
    keys: usize,
}

#[derive(Default)]
struct LoadState {
    stop: AtomicBool,
    /// The number of calls that the store has answered so far, by policy.
    by_store: PolicyCounts,
    /// The number of calls that the policy has answered so far, by policy.
    by_policy: PolicyCounts,
}

type PolicyCounts = [AtomicU64; OnStoreError::ALL.len()];

fn load_counts(counts: &PolicyCounts) -> impl Iterator<Item = u64> {
    counts.iter().map(|count| count.load(Ordering::Relaxed))
}

/// Returns when so many more calls that begin from now on are counted under every policy.
fn wait_for_more(counts: &PolicyCounts, more: u64, failure: &str) {
    // As many as there are callers may have begun before.
    let enough: Vec<u64> = load_counts(counts).map(|count| count + CALLERS as u64 + more).collect();
    assert!(wait_until(|| load_counts(counts).zip(&enough).all(|(count, enough)| count >= *enough)), "{failure}");
}

impl Load {
    pub(crate) fn start(limiter: &Limiter, keys: usize) -> Self {
        let state = Arc::new(LoadState::default());
        let callers = OnStoreError::ALL.into_iter().flat_map(|policy| (0..CALLERS).map(move |from| (policy, from)));
        let callers =
            callers.map(|(policy, from)| spawn(run_caller(limiter.clone(), policy, keys, from, Arc::clone(&state))));
        Load { callers: callers.collect(), state, keys }
    }

    /// Makes calls fail by `fault`, and returns when one has failed.
    pub(crate) fn inject_fault(&self, fault: impl FnOnce()) {
        let failed = || load_counts(&self.state.by_policy).sum::<u64>();
        let before = failed();
        fault();
        assert!(wait_until(|| failed() > before), "no call meets the fault");
    }

    /// Returns when the store has decided about calls of every policy that began after this one.
    pub(crate) fn wait_until_served(&self) {
        wait_for_more(&self.state.by_store, 1, "the store does not decide");
    }

    /// Returns when the store has decided about so many calls that the keys are used up. Whatever it admits of them
    /// from now on is too much, unless it begins anew.
    pub(crate) fn wait_until_used_up(&self) {
        wait_for_more(&self.state.by_store, self.keys as u64 * CAPACITY, "the store does not decide");
    }

    /// Returns when every policy has answered enough calls to use up the local share.
    pub(crate) fn wait_until_policies_answer(&self) {
        wait_for_more(&self.state.by_policy, LOCAL_SHARE, "the policies do not answer");
    }

    /// Stops the callers and returns their log. Asserts that no caller has panicked and no call has hung.
    pub(crate) fn stop(self) -> LoadLog {
        self.state.stop.store(true, Ordering::Relaxed);
        let callers = self.callers.into_iter().map(|caller| run(caller).expect("a caller that did not panic"));
        let log = LoadLog { records: callers.flatten().collect(), keys: self.keys };
        assert!(!log.records.is_empty(), "no call was made");
        log.records.iter().for_each(|call| assert_no_hang(call.began, call.ended));
        log
    }
}

async fn run_caller(
    limiter: Limiter,
    policy: OnStoreError,
    count: usize,
    from: usize,
    state: Arc<LoadState>,
) -> Vec<CallRecord> {
    let (keys, mut records) = (keys(count), Vec::new());
    for key in (0..count).cycle().skip(from) {
        if state.stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let answer = limiter.limit(policy.as_str(), &keys[key]).into_future().await;
        let ended = Instant::now();
        let answer = Answer::from_result(policy, answer);
        let index = OnStoreError::ALL.iter().position(|other| *other == policy).expect("one of them");
        match answer {
            Answer::Store { .. } => _ = state.by_store[index].fetch_add(1, Ordering::Relaxed),
            Answer::Policy { .. } => _ = state.by_policy[index].fetch_add(1, Ordering::Relaxed),
            Answer::Overloaded => {}
        }
        records.push(CallRecord { policy, key, began, ended, answer });
        // Answers that come at once would keep the other callers from running.
        tokio::time::sleep(millis(4)).await;
    }
    records
}

/// The log of the calls of a load.
pub(crate) struct LoadLog {
    records: Vec<CallRecord>,
    keys: usize,
}

impl LoadLog {
    /// The calls under one policy.
    fn with_policy(&self, policy: OnStoreError) -> impl Iterator<Item = &CallRecord> {
        self.records.iter().filter(move |call| call.policy == policy)
    }

    /// Asserts that in this time every policy answered calls, and the store none.
    pub(crate) fn assert_unavailable(&self, from: Instant, to: Instant) {
        for policy in OnStoreError::ALL {
            let mut calls = self.with_policy(policy).filter(|call| call.began >= from && call.ended <= to).peekable();
            assert!(calls.peek().is_some(), "{policy:?}: no call was made while the store was unavailable");
            assert!(
                calls.all(|call| !matches!(call.answer, Answer::Store { .. })),
                "{policy:?}: the store was available"
            );
        }
    }

    /// Asserts that the store has decided again about calls of every policy that began from then on.
    pub(crate) fn assert_served(&self, from: Instant) {
        for policy in OnStoreError::ALL {
            let mut calls = self.with_policy(policy).filter(|call| call.began >= from);
            let served = calls.any(|call| matches!(call.answer, Answer::Store { .. }));
            assert!(served, "{policy:?}: the store does not decide");
        }
    }

    /// Asserts that the store admitted 1 to `most` units of each key, in calls that began in a time.
    pub(crate) fn assert_admitted_by_store(&self, most: u64, began: impl Fn(Instant) -> bool) {
        for policy in OnStoreError::ALL {
            let admitted = self.count_admitted(policy, Answer::Store { allowed: true }, &began);
            let fine = admitted.iter().all(|admitted| (1..=most).contains(admitted));
            assert!(fine, "{policy:?}: the store admitted {admitted:?} of each key");
        }
    }

    /// Asserts that at most the local share of each key was admitted in process, over all outages, by calls that began
    /// in this time.
    pub(crate) fn assert_local_share(&self, from: Instant, to: Instant) {
        let admitted = self.count_admitted_locally(|began| began >= from && began <= to);
        assert!(
            admitted.iter().all(|admitted| *admitted <= LOCAL_SHARE),
            "admitted in process: {admitted:?} of each key"
        );
    }

    /// Asserts that the local share was not just refused: all of some key's share was admitted before then.
    pub(crate) fn assert_local_share_used(&self, to: Instant) {
        let admitted = self.count_admitted_locally(|began| began <= to);
        assert!(
            admitted.iter().any(|admitted| *admitted >= LOCAL_SHARE),
            "admitted in process: {admitted:?} of each key"
        );
    }

    /// Counts the calls in a time that their policy answered.
    pub(crate) fn count_policy_answers(&self, policy: OnStoreError, from: Instant, to: Instant) -> usize {
        let calls = self.with_policy(policy).filter(|call| call.began >= from && call.ended <= to);
        calls.filter(|call| matches!(call.answer, Answer::Policy { .. })).count()
    }

    fn count_admitted_locally(&self, began: impl Fn(Instant) -> bool) -> Vec<u64> {
        self.count_admitted(OnStoreError::Local, Answer::Policy { allowed: true }, began)
    }

    /// Counts the calls that have this answer, by key.
    fn count_admitted(&self, policy: OnStoreError, answer: Answer, began: impl Fn(Instant) -> bool) -> Vec<u64> {
        let mut admitted = vec![0; self.keys];
        let calls = self.with_policy(policy).filter(|call| call.answer == answer && began(call.began));
        calls.for_each(|call| admitted[call.key] += 1);
        admitted
    }
}
