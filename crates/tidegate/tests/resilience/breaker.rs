//! The circuit breaker: no calls to a store that keeps failing.

use std::pin::pin;
use std::sync::Barrier;
use std::task::Poll;
use std::thread;

use tidegate::resilience::{BreakerState, BreakerStore, TimeoutStore};
use tidegate::store::{Capabilities, Op, Request, Scope};
use tidegate::{
    Decision, JointDecision, Key, Lease, ManualClock, Store, StoreError, StoreErrorKind, Timestamp, millis, seconds,
};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Faulty, TestRequest, apply_in_every_way, clock, error, faulty, kind, poll};

const UNAVAILABLE: Option<StoreErrorKind> = Some(StoreErrorKind::Unavailable);

fn guarded() -> (BreakerStore<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    (BreakerStore::new(store, "faulty").failures(3).pause(seconds(2)).clock(clock.clone()), faults, clock)
}

fn ask(store: &impl Store) -> Result<bool, String> {
    block_on(store.apply(&TestRequest::new(50).limit()))
        .map(|decision| decision.allowed())
        .map_err(|error| error.to_string())
}

/// A breaker that has just opened.
fn open() -> (BreakerStore<Faulty>, Faults, ManualClock) {
    let (store, faults, clock) = guarded();
    faults.fail(error(StoreErrorKind::Timeout));
    while store.state() == BreakerState::Closed {
        ask(&store).unwrap_err();
    }
    (store, faults, clock)
}

#[test]
fn breaker_opens_after_the_set_number_of_failures_in_a_row() {
    let (store, faults, _) = guarded();
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Timeout, StoreErrorKind::Unavailable] {
        assert_eq!(store.state(), BreakerState::Closed);
        faults.fail(error(kind));
        assert!(ask(&store).unwrap_err().ends_with("on command"));
    }
    assert_eq!((store.state(), faults.calls().apply), (BreakerState::Open, 3));
}

/// A store that answers a part of each batch, and the rest too late.
struct PartialBatchStore(Faulty);

impl Store for PartialBatchStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.0.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.0.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.0.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut answers = self.0.apply_each(&requests[..1]).await;
        answers.resize(requests.len(), Err(error(StoreErrorKind::Timeout)));
        answers
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[test]
fn batch_that_times_out_counts_as_failure() {
    let clock = clock();
    let store = BreakerStore::new(PartialBatchStore(faulty(&clock).0), "slow").failures(3).clock(clock);
    let target = TestRequest::new(50);
    for _ in 0..3 {
        assert_eq!(store.state(), BreakerState::Closed);
        assert!(block_on(store.apply_each(&[target.limit(), target.limit()]))[0].is_ok());
    }
    assert_eq!(store.state(), BreakerState::Open);
}

#[test]
fn success_resets_the_failure_count() {
    let (store, faults, _) = guarded();
    for _ in 0..5 {
        faults.fail(error(StoreErrorKind::Unavailable));
        assert!(ask(&store).is_err() && ask(&store).is_err());
        faults.pass();
        assert_eq!(ask(&store), Ok(true));
    }
    assert_eq!(store.state(), BreakerState::Closed);
}

#[test]
fn defaults_are_five_failures_and_one_second() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = BreakerStore::new(store, "faulty").clock(clock.clone());
    faults.fail(error(StoreErrorKind::Unavailable));
    for _ in 0..5 {
        assert_eq!(store.state(), BreakerState::Closed);
        ask(&store).unwrap_err();
    }
    faults.pass();
    clock.advance(millis(999));
    assert_eq!(ask(&store), Err("store unavailable: circuit open, next try in 1ms".to_owned()));
    clock.advance(millis(1));
    assert_eq!(ask(&store), Ok(true));
}

#[test]
fn open_breaker_fails_every_call_without_the_store() {
    let (store, faults, clock) = open();
    let before = faults.calls();
    clock.advance(millis(500));
    assert_eq!(ask(&store), Err("store unavailable: circuit open, next try in 1.5s".to_owned()));
    let refused = apply_in_every_way(&store, &TestRequest::new(5));
    assert_eq!(refused.into_iter().map(kind).collect::<Vec<_>>(), [UNAVAILABLE; 5]);
    assert_eq!(faults.calls(), before);
    block_on(store.close());
    assert_eq!(faults.calls().close, 1);
}

#[test]
fn successful_probe_closes_the_breaker() {
    let (store, faults, clock) = open();
    faults.pass();
    clock.advance(seconds(2));
    assert_eq!((ask(&store), store.state()), (Ok(true), BreakerState::Closed));
    // And counts from the beginning.
    faults.fail(error(StoreErrorKind::Unavailable));
    assert!(ask(&store).is_err() && ask(&store).is_err());
    assert_eq!(store.state(), BreakerState::Closed);
}

#[test]
fn failed_probe_opens_the_breaker_for_another_pause() {
    let (store, faults, clock) = open();
    for _ in 0..3 {
        let before = faults.calls().apply;
        clock.advance(seconds(2));
        assert!(ask(&store).unwrap_err().ends_with("on command"));
        assert_eq!(store.state(), BreakerState::Open);
        clock.advance(millis(1_999));
        assert!(ask(&store).unwrap_err().contains("circuit open"));
        assert_eq!(faults.calls().apply, before + 1);
    }
}

#[test]
fn every_kind_of_call_can_open_and_close_the_breaker() {
    type CallFn = fn(&BreakerStore<Faulty>, &TestRequest) -> Option<StoreErrorKind>;
    let ways: [CallFn; 4] = [
        |store, target| kind(store.try_apply(&target.limit()).unwrap()),
        |store, target| kind(block_on(store.apply(&target.limit()))),
        |store, target| kind(block_on(store.apply_all(&[target.limit()]))),
        |store, target| kind(block_on(store.apply_each(&[target.limit(), target.limit()])).remove(1)),
    ];
    for ask in ways {
        let (store, faults, clock) = guarded();
        faults.fail(error(StoreErrorKind::Unavailable));
        for _ in 0..3 {
            assert_eq!(store.state(), BreakerState::Closed);
            assert_eq!(ask(&store, &TestRequest::new(5)), UNAVAILABLE);
        }
        assert_eq!(store.state(), BreakerState::Open);
        clock.advance(seconds(2));
        faults.pass();
        assert_eq!((ask(&store, &TestRequest::new(5)), store.state()), (None, BreakerState::Closed));
    }
}

#[test]
fn other_calls_fail_during_a_probe() {
    let (store, faults, clock) = open();
    clock.advance(seconds(2));
    faults.hang();
    let target = TestRequest::new(50);
    let request = target.limit();
    let mut trying = pin!(store.apply(&request));
    assert!(poll(trying.as_mut()).is_pending());
    assert_eq!(store.state(), BreakerState::HalfOpen);
    for _ in 0..3 {
        let Poll::Ready(Err(error)) = poll(pin!(store.apply(&request))) else { panic!("it went through") };
        assert_eq!(error.to_string(), "store unavailable: circuit half open, another call is trying");
        clock.advance(millis(600));
    }
    assert_eq!(kind(store.try_apply(&request).unwrap()), UNAVAILABLE);
    faults.release();
    assert!(matches!(poll(trying.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(store.state(), BreakerState::Closed);
}

#[test]
fn probe_that_is_never_polled_blocks_others_for_one_pause() {
    let (store, faults, clock) = open();
    let target = TestRequest::new(50);
    let request = target.limit();
    clock.advance(seconds(2));
    faults.hang();
    let mut first = Box::pin(store.apply(&request));
    assert!(poll(first.as_mut()).is_pending());
    // The next one tries, and what becomes of the first says nothing any more.
    clock.advance(seconds(2));
    let mut second = pin!(store.apply(&request));
    assert!(poll(second.as_mut()).is_pending());
    drop(first);
    assert_eq!(store.state(), BreakerState::HalfOpen);
    faults.fail(error(StoreErrorKind::Timeout));
    clock.advance(seconds(2));
    ask(&store).unwrap_err();
    assert_eq!(store.state(), BreakerState::Open);
    // Nor what becomes of the second, while another tries.
    clock.advance(seconds(2));
    faults.release();
    faults.hang();
    let mut third = pin!(store.apply(&request));
    assert!(poll(third.as_mut()).is_pending());
    assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(store.state(), BreakerState::HalfOpen);
    faults.release();
    assert!(matches!(poll(third.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(store.state(), BreakerState::Closed);
}

#[test]
fn exactly_one_of_many_threads_probes() {
    let (store, faults, clock) = open();
    for _ in 0..50 {
        let before = faults.calls().apply;
        clock.advance(seconds(2));
        let start = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    ask(&store).unwrap_err();
                });
            }
        });
        assert_eq!(faults.calls().apply, before + 1);
    }
}

#[test]
fn dropped_probe_lets_the_next_call_probe() {
    let (store, faults, clock) = open();
    clock.advance(seconds(2));
    faults.hang();
    let target = TestRequest::new(50);
    let requests = [target.limit()];
    {
        let mut all = pin!(store.apply_all(&requests));
        assert!(poll(all.as_mut()).is_pending());
        assert_eq!(store.state(), BreakerState::HalfOpen);
    }
    assert_eq!(store.state(), BreakerState::Open);
    {
        let mut each = pin!(store.apply_each(&requests));
        assert!(poll(each.as_mut()).is_pending());
    }
    faults.pass();
    assert_eq!((ask(&store), store.state()), (Ok(true), BreakerState::Closed));
}

#[test]
fn store_that_must_wait_is_not_probed_without_waiting() {
    let (store, faults, clock) = open();
    clock.advance(seconds(2));
    faults.hang();
    assert!(store.try_apply(&TestRequest::new(5).limit()).is_none());
    faults.pass();
    assert_eq!((ask(&store), store.state()), (Ok(true), BreakerState::Closed));
}

#[test]
fn call_from_before_the_outage_does_not_close_the_breaker() {
    let (store, faults, clock) = guarded();
    let target = TestRequest::new(50);
    let request = target.limit();
    faults.hang();
    let (mut early, mut other) = (pin!(store.apply(&request)), pin!(store.apply(&request)));
    assert!(poll(early.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
    faults.fail(error(StoreErrorKind::Unavailable));
    while store.state() == BreakerState::Closed {
        ask(&store).unwrap_err();
    }
    faults.release();
    assert!(matches!(poll(early.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(store.state(), BreakerState::Open);
    // Nor while another call is trying.
    clock.advance(seconds(2));
    faults.hang();
    let mut trying = pin!(store.apply(&request));
    assert!(poll(trying.as_mut()).is_pending());
    assert!(matches!(poll(other.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(store.state(), BreakerState::HalfOpen);
}

#[test]
fn unsupported_request_does_not_affect_the_breaker() {
    let (store, faults, clock) = guarded();
    let target = TestRequest::new(50);
    for _ in 0..10 {
        assert_eq!(kind(block_on(store.apply_all(&[target.op(Op::Reset)]))), Some(StoreErrorKind::Unsupported));
    }
    assert_eq!(store.state(), BreakerState::Closed);
    faults.fail(error(StoreErrorKind::Unavailable));
    assert!(ask(&store).is_err() && ask(&store).is_err());
    faults.pass();
    assert!(block_on(store.apply_all(&[target.op(Op::Reset)])).is_err());
    faults.fail(error(StoreErrorKind::Unavailable));
    ask(&store).unwrap_err();
    assert_eq!(store.state(), BreakerState::Open);
    // Nor that it is back, or still broken: the next call tries.
    clock.advance(seconds(2));
    faults.pass();
    assert!(block_on(store.apply_all(&[target.op(Op::Reset)])).is_err());
    assert_eq!((store.state(), ask(&store)), (BreakerState::Open, Ok(true)));
    assert_eq!(store.state(), BreakerState::Closed);
}

/// Errors about one key, which only a working store reports.
const OF_ONE_KEY: [StoreErrorKind; 2] = [StoreErrorKind::Corrupt, StoreErrorKind::Contended];

#[test]
fn error_about_one_key_counts_as_success() {
    for kind in OF_ONE_KEY {
        let (store, faults, _) = guarded();
        for _ in 0..5 {
            faults.fail(error(StoreErrorKind::Unavailable));
            assert!(ask(&store).is_err() && ask(&store).is_err());
            faults.fail(error(kind));
            ask(&store).unwrap_err();
        }
        assert_eq!(store.state(), BreakerState::Closed);
    }
}

#[test]
fn error_about_one_key_closes_the_breaker() {
    for kind in OF_ONE_KEY {
        let (store, faults, clock) = open();
        clock.advance(seconds(2));
        faults.fail(error(kind));
        ask(&store).unwrap_err();
        assert_eq!(store.state(), BreakerState::Closed);
    }
}

#[test]
fn clock_set_back_does_not_keep_the_breaker_open() {
    let (store, faults, clock) = open();
    faults.pass();
    clock.set(Timestamp::from_millis(1_000));
    assert!(ask(&store).unwrap_err().ends_with("next try in 2s"));
    clock.advance(seconds(2));
    assert_eq!(ask(&store), Ok(true));
}

const RENEW: Op = Op::Renew(Lease::from_bits(1));

#[test]
fn renewals_pass_an_open_breaker() {
    let (store, faults, _) = open();
    let target = TestRequest::new(50);
    let renew = target.op(RENEW);
    let before = faults.calls().decisions();
    let renewed = [block_on(store.apply(&renew)), block_on(store.apply_each(&[renew, renew])).remove(1)];
    assert_eq!(renewed.map(kind), [Some(StoreErrorKind::Timeout); 2]);
    assert_eq!(kind(store.try_apply(&renew).unwrap()), Some(StoreErrorKind::Timeout));
    assert_eq!(faults.calls().decisions(), before + 3);
    // Nothing else does in their company.
    let refused = block_on(store.apply_each(&[renew, target.limit()]));
    assert_eq!(refused.into_iter().map(kind).collect::<Vec<_>>(), [UNAVAILABLE; 2]);
    assert!(block_on(store.apply_each(&[])).is_empty());
    assert_eq!(faults.calls().decisions(), before + 3);
}

#[test]
fn successful_renewal_closes_the_breaker_after_the_pause() {
    let (store, faults, clock) = open();
    let target = TestRequest::new(50);
    let renew = || block_on(store.apply(&target.op(RENEW)));
    faults.pass();
    clock.advance(millis(1_999));
    assert!(renew().is_ok());
    assert_eq!(store.state(), BreakerState::Open, "the store is left alone for the whole pause");
    clock.advance(millis(1));
    assert!(renew().is_ok());
    assert_eq!(store.state(), BreakerState::Closed);
}

/// Renewals that fail while others would succeed must not keep the breaker open.
#[test]
fn failed_renewal_neither_probes_nor_lengthens_the_pause() {
    let (store, faults, clock) = open();
    let target = TestRequest::new(50);
    let renew = || block_on(store.apply(&target.op(RENEW)));
    for _ in 0..4 {
        clock.advance(millis(500));
        assert!(renew().is_err());
        assert_eq!(store.state(), BreakerState::Open);
    }
    faults.hang();
    let request = target.limit();
    let mut probe = pin!(store.apply(&request));
    assert!(poll(probe.as_mut()).is_pending());
    faults.fail(error(StoreErrorKind::Timeout));
    assert!(renew().is_err());
    assert_eq!(store.state(), BreakerState::HalfOpen, "the probe is on its way");
    faults.pass();
    faults.release();
    assert!(matches!(poll(probe.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(store.state(), BreakerState::Closed);
}

/// A flood of renewals does not reach a store that is left alone.
#[test]
fn open_breaker_admits_a_bounded_number_of_renewals_at_once() {
    let (store, faults, _) = open();
    let target = TestRequest::new(50);
    let renew = target.op(RENEW);
    faults.hang();
    let mut renewals: Vec<_> = (0..32).map(|_| Box::pin(store.apply(&renew))).collect();
    assert!(renewals.iter_mut().all(|renewal| poll(renewal.as_mut()).is_pending()));
    assert_eq!(ask_renewal(&store, &renew), UNAVAILABLE);
    assert_eq!(faults.held_calls(), 32);
    renewals.pop();
    let mut next = Box::pin(store.apply(&renew));
    assert!(poll(next.as_mut()).is_pending(), "there is room for one more");
    assert_eq!(ask_renewal(&store, &renew), UNAVAILABLE);
    drop((renewals, next));
    faults.fail(error(StoreErrorKind::Timeout));
    assert_eq!(ask_renewal(&store, &renew), Some(StoreErrorKind::Timeout));
}

fn ask_renewal(store: &impl Store, renew: &Request<'_>) -> Option<StoreErrorKind> {
    kind(block_on(store.apply(renew)))
}

#[test]
fn timeout_while_others_are_answered_is_overload() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = BreakerStore::new(TimeoutStore::new(store, millis(50), clock.clone()), "slow").failures(3);
    let store = store.clock(clock.clone());
    let target = TestRequest::new(1_000);
    let request = target.limit();
    for _ in 0..10 {
        faults.hang();
        let mut late = pin!(store.apply(&request));
        assert!(poll(late.as_mut()).is_pending());
        let batch = [request; 2];
        let mut late_batch = pin!(store.apply_each(&batch));
        assert!(poll(late_batch.as_mut()).is_pending());
        faults.pass();
        assert!(target.take(&store).allowed());
        clock.advance(millis(50));
        let Poll::Ready(result) = poll(late.as_mut()) else { panic!("no timeout") };
        assert_eq!(kind(result), Some(StoreErrorKind::Overloaded));
        let Poll::Ready(results) = poll(late_batch.as_mut()) else { panic!("no timeout") };
        assert_eq!(results.into_iter().map(kind).collect::<Vec<_>>(), [Some(StoreErrorKind::Overloaded); 2]);
        assert_eq!(store.state(), BreakerState::Closed);
    }
    // Nothing is answered meanwhile, and then nothing in a quarter of the pause.
    faults.hang();
    for expected in [StoreErrorKind::Overloaded; 3].into_iter().chain([StoreErrorKind::Timeout; 3]) {
        let mut late = pin!(store.apply(&request));
        assert!(poll(late.as_mut()).is_pending());
        clock.advance(millis(50));
        let Poll::Ready(result) = poll(late.as_mut()) else { panic!("no timeout") };
        assert_eq!(kind(result), Some(expected));
    }
    assert_eq!(store.state(), BreakerState::Open);
}

/// A store of two servers. The one that has the key `lost` cannot be reached.
struct TwoServers(Faulty);

impl TwoServers {
    fn answer(request: &Request<'_>, result: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
        if request.key.to_text() == "lost" { Err(error(StoreErrorKind::Unavailable)) } else { result }
    }
}

impl Store for TwoServers {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn partition(&self, _scope: &Scope, key: &Key<'_>) -> u8 {
        if key.to_text() == "lost" { 63 } else { 7 }
    }

    fn try_apply(&self, _request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        TwoServers::answer(request, self.0.apply(request).await)
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.0.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let results = self.0.apply_each(requests).await;
        requests.iter().zip(results).map(|(request, result)| TwoServers::answer(request, result)).collect()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[test]
fn lost_server_opens_only_its_own_circuit() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = BreakerStore::new(TwoServers(store), "two").failures(3).pause(seconds(2)).clock(clock.clone());
    let (well, lost) = (TestRequest::new(1_000), TestRequest::new(1_000).key("lost"));
    for _ in 0..5 {
        assert!(well.take(&store).allowed());
        assert_eq!(kind(block_on(store.apply(&lost.limit()))), UNAVAILABLE);
    }
    assert_eq!(store.state(), BreakerState::Open);
    let calls = faults.calls();
    assert!(well.take(&store).allowed());
    assert_eq!(kind(block_on(store.apply(&lost.limit()))), UNAVAILABLE);
    assert_eq!(faults.calls().apply, calls.apply + 1, "the lost server is left alone");
    // A batch over both: one call, and the answers in order.
    let results = block_on(store.apply_each(&[lost.limit(), well.limit(), lost.limit(), well.limit()]));
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true]);
    assert_eq!(faults.calls().apply_each, calls.apply_each + 1);
    assert!(results[1].as_ref().unwrap().remaining() > results[3].as_ref().unwrap().remaining());
}
