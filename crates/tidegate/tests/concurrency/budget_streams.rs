//! Streams that are charged for the bytes they sent, wherever they are dropped.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use axum::body::{Body, Bytes, HttpBody};
use futures_util::{StreamExt, TryStreamExt, stream};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tidegate::budget::{Budget, HoldGuard, Settlement};
use tidegate::{Error, Limiter, ManualClock, MemoryStore, Quota, Store, StoreError, StoreErrorKind, Timestamp, days};
use tidegate_testkit::{Faults, FaultyStore, Random, block_on};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::waiting_store::WaitingStore;

const CAPACITY: u64 = 1_000_000_000;
const MAX_HOLDS: u64 = 20_000;

/// A budget whose clock stands still, so that nothing is replenished.
fn budget<S: Store + 'static>(wrap: impl FnOnce(MemoryStore) -> S) -> (Budget, Limiter) {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = wrap(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build());
    let limiter = Limiter::builder()
        .bare_store(store)
        .limit("bytes", Quota::token_bucket(CAPACITY, days(1)).unwrap())
        .limit("holds", Quota::concurrency(MAX_HOLDS, days(1)).unwrap())
        .build()
        .unwrap();
    (Budget::with_clock(&limiter, "bytes", "holds", clock), limiter)
}

/// Returns the charge of a key and its number of open holds.
async fn charge(limiter: &Limiter, key: &str) -> (u64, u64) {
    let (bytes, holds) = (limiter.check("bytes", key).await.unwrap(), limiter.check("holds", key).await.unwrap());
    (CAPACITY - bytes.remaining(), MAX_HOLDS - holds.remaining())
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

async fn guard(budget: &Budget, estimate: u64) -> HoldGuard {
    budget.hold("alice", estimate).await.unwrap().into_guard().unwrap()
}

/// The code of the guide: the body of a response, which the server drops when the client disconnects. Needs no runtime.
#[test]
fn thousand_dropped_bodies_are_charged_what_they_sent() {
    let (budget, limiter) = budget(|store| store);
    let mut random = Random::new(36);
    let (mut open, mut sent, mut dropped) = (Vec::<(Body, u64)>::new(), 0, 0);
    while dropped < 1_000 {
        let is_full = open.len() >= 20;
        match random.below(4) {
            0 if !is_full => {
                let estimate = random.between(1, 20_000);
                let mut guard = block_on(guard(&budget, estimate));
                let pieces: Vec<_> = (0..random.below(30)).map(|_| random.below(2_000) as usize).collect();
                let pieces = stream::iter(pieces).map(|len| Ok::<_, std::io::Error>(Bytes::from(vec![0; len])));
                let pieces = pieces.inspect_ok(move |piece: &Bytes| guard.record(piece.len() as u64));
                open.push((Body::from_stream(pieces), estimate));
            }
            // A client disconnects, or has read everything.
            1 if !open.is_empty() => {
                drop(open.swap_remove(random.below(open.len() as u64) as usize));
                dropped += 1;
            }
            _ if !open.is_empty() => {
                let index = random.below(open.len() as u64) as usize;
                let frame = Pin::new(&mut open[index].0).poll_frame(&mut Context::from_waker(Waker::noop()));
                if let Poll::Ready(Some(frame)) = frame {
                    sent += frame.unwrap().into_data().unwrap().len() as u64;
                }
            }
            _ => {}
        }
    }
    assert!(sent > 1_000_000, "{sent}");
    // Streams that are still open are charged when they are dropped, too.
    let charged = block_on(charge(&limiter, "alice"));
    assert_eq!(charged.1, open.len() as u64);
    drop(open);
    assert_eq!(block_on(charge(&limiter, "alice")), (sent, 0));
}

/// With a store that does I/O, a client can disconnect while the hold or the settlement waits for it.
#[test]
fn thousand_streams_dropped_at_any_await_are_charged_what_they_sent() {
    for seed in 0..5 {
        runtime().block_on(async {
            let (budget, limiter) = budget(WaitingStore::new);
            let mut random = Random::new(seed);
            let sent = Rc::new(Cell::new(0));
            let serve = |estimate: u64, pieces: Vec<u64>| {
                let (budget, sent) = (budget.clone(), Rc::clone(&sent));
                async move {
                    let mut guard = guard(&budget, estimate).await;
                    for piece in pieces {
                        yield_now().await;
                        guard.record(piece);
                        sent.set(sent.get() + piece);
                    }
                    guard.settle().await.unwrap()
                }
            };
            let mut open = Vec::new();
            let (mut begun, mut completed) = (0, 0);
            while begun < 1_000 || !open.is_empty() {
                match random.below(10) {
                    0..3 if begun < 1_000 => {
                        let pieces = (0..random.below(10)).map(|_| random.below(2_000)).collect();
                        open.push(Box::pin(serve(random.between(1, 10_000), pieces)));
                        begun += 1;
                    }
                    3 if !open.is_empty() => {
                        drop(open.swap_remove(random.below(open.len() as u64) as usize));
                    }
                    4 => yield_now().await, // the tasks in the background go on
                    _ if !open.is_empty() => {
                        let index = random.below(open.len() as u64) as usize;
                        if let Poll::Ready(settlement) = poll(open[index].as_mut()) {
                            assert_eq!(settlement, Settlement::Full);
                            completed += 1;
                            drop(open.swap_remove(index));
                        }
                    }
                    _ => {}
                }
            }
            assert!((50..950).contains(&completed), "{completed} of 1,000 streams were not dropped");
            budget.flush().await;
            assert_eq!(charge(&limiter, "alice").await, (sent.get(), 0), "seed {seed}");
        });
    }
}

#[test]
fn dropped_hold_takes_nothing() {
    runtime().block_on(async {
        for polls in 0.. {
            let (budget, limiter) = budget(WaitingStore::new);
            let is_done = {
                let mut hold = pin!(budget.hold("alice", 1_000));
                (0..polls).any(|_| poll(hold.as_mut()).is_ready())
            };
            if is_done {
                assert!(polls > 2, "it waits for the store twice");
                break;
            }
            budget.flush().await;
            assert_eq!(charge(&limiter, "alice").await, (0, 0), "dropped after {polls} polls");
        }
    });
}

#[test]
fn dropped_settlement_is_completed() {
    runtime().block_on(async {
        for polls in 1.. {
            let (budget, limiter) = budget(WaitingStore::new);
            let held = budget.hold("alice", 1_000).await.unwrap();
            let hold = held.hold().unwrap();
            let is_done = {
                let mut settle = pin!(hold.settle(300));
                (0..polls).any(|_| poll(settle.as_mut()).is_ready())
            };
            budget.flush().await;
            assert_eq!(charge(&limiter, "alice").await, (300, 0), "dropped after {polls} polls");
            assert_eq!(hold.settle(0).await.unwrap(), Settlement::Unchanged);
            if is_done {
                assert!(polls > 2, "it waits for the store twice");
                break;
            }
        }
    });
}

#[test]
fn panic_settles_what_was_recorded() {
    let (budget, limiter) = budget(|store| store);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = block_on(guard(&budget, 1_000));
        guard.record(70);
        std::panic::resume_unwind(Box::new("the stream"));
    }));
    assert!(result.is_err());
    assert_eq!(block_on(charge(&limiter, "alice")), (70, 0));
}

#[test]
fn guard_without_a_hold_settles_nothing() {
    let (budget, _) = budget(|store| store);
    let denied = block_on(budget.hold("alice", CAPACITY + 1)).unwrap();
    let mut guard = denied.into_guard().unwrap();
    guard.record(5);
    assert_eq!((guard.cost(), guard.hold().is_none()), (5, true));
    assert_eq!(block_on(guard.settle()).unwrap(), Settlement::Unchanged);
}

#[test]
fn resumed_hold_has_a_guard() {
    let (budget, limiter) = budget(|store| store);
    let held = block_on(budget.hold("alice", 1_000)).unwrap();
    let token = held.hold().unwrap().to_token().unwrap();
    let mut guard = budget.resume(&token).unwrap().into_guard().unwrap();
    guard.record(7);
    assert!(block_on(guard.hold().unwrap().renew()).unwrap().allowed());
    drop(guard);
    assert_eq!(block_on(charge(&limiter, "alice")), (7, 0));
}

#[test]
fn guard_without_a_runtime_is_an_error() {
    let (budget, limiter) = budget(WaitingStore::new);
    let held = runtime().block_on(budget.hold("alice", 1_000)).unwrap();
    let error = held.into_guard().unwrap_err();
    assert!(matches!(error, Error::NoRuntime) && error.is_misuse(), "{error:?}");
    assert_eq!(runtime().block_on(charge(&limiter, "alice")), (1_000, 1), "the hold expires");
}

/// Runs `work`, and returns the settlements that were counted, by outcome.
fn settlements(work: impl FnOnce()) -> Vec<(String, u64)> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, work);
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let mut counts: Vec<_> = metrics
        .filter(|(key, ..)| key.key().name() == "tidegate_settlements_total")
        .map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
            let [("limit", "bytes"), ("outcome", outcome)] = *labels else { panic!("{labels:?}") };
            let DebugValue::Counter(count) = value else { panic!("{value:?}") };
            (outcome.to_owned(), count)
        })
        .collect();
    counts.sort();
    counts
}

fn counted<const N: usize>(expected: [(&str, u64); N]) -> Vec<(String, u64)> {
    expected.map(|(outcome, count)| (outcome.to_owned(), count)).to_vec()
}

#[test]
fn settlements_are_counted_by_outcome() {
    let recorded = settlements(|| {
        let (budget, _) = budget(|store| store);
        let held = block_on(budget.hold("alice", 10)).unwrap();
        let hold = held.hold().unwrap();
        assert_eq!(block_on(hold.settle(10)).unwrap(), Settlement::Full);
        assert_eq!(block_on(hold.settle(10)).unwrap(), Settlement::Unchanged);
        drop(block_on(guard(&budget, 10)));
        let _ = block_on(budget.hold("alice", 10)).unwrap().hold().map(|hold| block_on(hold.settle(u64::MAX)));
    });
    assert_eq!(recorded, counted([("full", 2), ("partial", 1), ("unchanged", 1)]));
}

#[test]
fn settlement_whose_runtime_has_ended_is_lost_and_the_estimate_stands() {
    let recorded = settlements(|| {
        let (budget, limiter) = budget(WaitingStore::new);
        let ended = runtime();
        let early = ended.block_on(guard(&budget, 1_000));
        let late = ended.block_on(guard(&budget, 1_000));
        drop(early); // its task has not run yet
        drop(ended);
        drop(late);
        runtime().block_on(async {
            budget.flush().await;
            assert_eq!(charge(&limiter, "alice").await, (2_000, 2));
        });
    });
    assert_eq!(recorded, counted([("lost", 2)]));
}

#[test]
fn failed_settlement_leaves_the_estimate() {
    let recorded = settlements(|| {
        let (budget, limiter, faults) = faulty_budget();
        runtime().block_on(async {
            let guard = guard(&budget, 1_000).await;
            faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
            drop(guard);
            budget.flush().await;
            faults.pass();
            assert_eq!(charge(&limiter, "alice").await, (1_000, 1));
        });
    });
    assert_eq!(recorded, counted([("failed", 1)]));
}

fn faulty_budget() -> (Budget, Limiter, Faults) {
    let mut faults = None;
    let (budget, limiter) = budget(|store| {
        let store = FaultyStore::new(store);
        faults = Some(store.faults());
        store
    });
    (budget, limiter, faults.unwrap())
}

/// All clients disconnect while the store hangs.
#[test]
fn settlements_in_the_background_are_bounded() {
    const MAX_PENDING: u64 = 10_000;
    const MAX_SETTLING: usize = 128;
    const USERS: u64 = 16;
    let recorded = settlements(|| {
        let (budget, limiter, faults) = faulty_budget();
        runtime().block_on(async {
            let mut guards = Vec::new();
            for user in 0..MAX_PENDING + 3 {
                let held = budget.hold(user % USERS, 1_000).await.unwrap();
                guards.push(held.into_guard().unwrap());
            }
            faults.hang();
            drop(guards);
            for _ in 0..10 {
                yield_now().await;
            }
            assert_eq!(faults.held_calls(), MAX_SETTLING);
            faults.pass();
            faults.release();
            budget.flush().await;
            let mut charges = Vec::new();
            for user in 0..USERS {
                charges.push(charge(&limiter, &user.to_string()).await);
            }
            let open: Vec<_> = charges.into_iter().filter(|charge| *charge != (0, 0)).collect();
            assert_eq!(open, [(1_000, 1); 3], "the last three found no room");
            // There is room again.
            drop(guard(&budget, 1_000).await);
            budget.flush().await;
            assert_eq!(charge(&limiter, "alice").await, (0, 0));
        });
    });
    assert_eq!(recorded, counted([("full", MAX_PENDING + 1), ("lost", 3)]));
}
