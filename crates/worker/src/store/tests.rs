//! The store over objects in memory: the whole suite and the oracle, and what becomes of calls over several objects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::store::{Op, Scope, Testing};
use tidegate::{Clock, Cost, Key, OnStoreError, Quota, SystemClock, days};
use tidegate_testkit::{Random, Subject, block_on, conformance_tests, oracle};

use super::*;
use crate::object::memory::MemoryRows;
use crate::object::message::Message;
use crate::object::{Book, When};

/// Objects in memory. Messages are counted, and some of them fail.
struct Here {
    books: Vec<Mutex<Option<Book<MemoryRows>>>>,
    /// The platform ends every object as soon as it has answered.
    ends: bool,
    sent: Mutex<Vec<(u16, &'static str)>>,
    /// Which message is not applied, counted from now.
    fails: AtomicUsize,
    /// Which message is applied and its answer lost.
    loses: AtomicUsize,
    /// What somebody else asks of an object, just before a message.
    between: Mutex<Option<(usize, u16, Vec<u8>)>>,
}

impl Here {
    fn new(ends: bool) -> Self {
        let books = (0..128).map(|_| Mutex::new(Some(Book::new(MemoryRows::default())))).collect();
        let never = || AtomicUsize::new(usize::MAX);
        Here { books, ends, sent: Mutex::default(), fails: never(), loses: never(), between: Mutex::default() }
    }

    fn with<T>(&self, shard: u16, work: impl FnOnce(&Book<MemoryRows>) -> T) -> T {
        let mut place = self.books[usize::from(shard)].lock().unwrap();
        let book = place.take().unwrap();
        let done = work(&book);
        *place = Some(if self.ends { Book::new(book.into_rows()) } else { book });
        done
    }
}

impl Objects for Arc<Here> {
    async fn send(&self, to: Asked, what: &'static str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let number = self.sent.lock().unwrap().len();
        self.sent.lock().unwrap().push((to.shard, what));
        let answer = |shard, what: &str, body: &[u8]| {
            let message = Message::read(what, body).expect("the store writes what an object reads");
            self.with(shard, |book| message.answer(book, SystemClock.now()).expect("settled"))
        };
        let mut between = self.between.lock().unwrap();
        if let Some((_, shard, body)) = between.take_if(|(when, ..)| *when == number) {
            answer(shard, "apply", &body);
        }
        let gone = || StoreError::new(StoreErrorKind::Unavailable, "an object that is gone");
        if self.fails.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(gone());
        }
        let answer = answer(to.shard, what, &body);
        if self.loses.fetch_sub(1, Ordering::SeqCst) == 0 { Err(gone()) } else { Ok(answer) }
    }
}

impl Testing for Sharded<Arc<Here>> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, Some(at)).await
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        let held = (0..128).map(|shard| {
            self.objects.with(shard, |book| {
                let next = book.sweep("", When { at, given: true }).expect("swept");
                assert_eq!(next, None, "no case has as many keys");
                book.rows().rows.borrow().len()
            })
        });
        Some(held.sum())
    }
}

fn store(ends: bool) -> Sharded<Arc<Here>> {
    Sharded { cross_shard: CrossShard::Refund, ..Sharded::new(Arc::new(Here::new(ends))) }
}

conformance_tests!(on_objects, Subject::new(store(false)));
conformance_tests!(on_objects_that_are_ended_after_every_call, Subject::new(store(true)));

#[test]
fn random_traces_agree_on_objects() {
    for seed in 0..60 {
        if let Err(mismatch) = block_on(oracle::run(&Subject::new(store(seed % 2 == 0)), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}

/// Two keys that live in different objects, and how much is left of each after `work`.
struct Two {
    store: Sharded<Arc<Here>>,
    scope: Scope,
    quota: Quota,
}

impl Two {
    fn new(cross_shard: CrossShard) -> Self {
        let store = Sharded { cross_shard, ..store(false) };
        Two { store, scope: Scope::new("", "api"), quota: Quota::fixed_window(10, days(300)).unwrap() }
    }

    fn request<'a>(&'a self, key: &'a Key<'a>, op: Op) -> Request<'a> {
        Request { scope: &self.scope, key, quota: &self.quota, op, on_store_error: OnStoreError::Closed }
    }

    fn take(&self, costs: [u64; 2]) -> Result<JointDecision, StoreError> {
        let keys = self.keys();
        let requests = [0, 1].map(|n| self.request(&keys[n], Op::Limit(Cost::new(costs[n]).unwrap())));
        block_on(self.store.apply_all(&requests))
    }

    fn left(&self) -> [u64; 2] {
        self.keys()
            .each_ref()
            .map(|key| block_on(self.store.apply(&self.request(key, Op::Check(Cost::ONE)))).unwrap().remaining())
    }

    fn keys(&self) -> [Key<'static>; 2] {
        let keys = [Key::from("one"), Key::from("two")];
        assert_ne!(Shards::default().of(&keys[0]), Shards::default().of(&keys[1]));
        keys
    }
}

#[test]
fn all_or_nothing_over_objects_is_refused_unless_it_is_allowed_to_refund() {
    let two = Two::new(CrossShard::Refuse);
    let error = two.take([1, 1]).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Unsupported && error.to_string().contains("different objects"), "{error}");
    assert!(two.store.objects.sent.lock().unwrap().is_empty());
    assert_eq!(two.left(), [10, 10]);
    // Limits on one key live together.
    let (key, other) = (Key::from("one"), Scope::new("", "other"));
    let request = two.request(&key, Op::Limit(Cost::ONE));
    let all = block_on(two.store.apply_all(&[request, Request { scope: &other, ..request }])).unwrap();
    assert!(all.allowed());
}

#[test]
fn what_is_denied_over_objects_takes_nothing_even_for_a_moment() {
    let two = Two::new(CrossShard::Refund);
    assert!(two.take([4, 9]).unwrap().allowed());
    two.store.objects.sent.lock().unwrap().clear();
    let denied = two.take([4, 2]).unwrap();
    assert_eq!((denied.allowed(), denied.decisions()[0].remaining()), (false, 6));
    let sent: Vec<_> = two.store.objects.sent.lock().unwrap().iter().map(|(_, what)| *what).collect();
    assert_eq!((sent, two.left()), (vec!["look", "look"], [6, 1]));
}

#[test]
fn what_was_taken_is_given_back_when_a_later_object_does_not_answer() {
    // Looks are the messages 0 and 1, then each object is taken from.
    for (fails, left) in [(0, [10, 10]), (1, [10, 10]), (2, [10, 10]), (3, [10, 10])] {
        let two = Two::new(CrossShard::Refund);
        two.store.objects.fails.store(fails, Ordering::SeqCst);
        assert!(two.take([4, 4]).unwrap_err().is_retryable());
        two.store.objects.fails.store(usize::MAX, Ordering::SeqCst);
        assert_eq!(two.left(), left, "message {fails} fails");
    }
}

/// Somebody takes all of the second key after it was looked at, and before it is taken from.
fn meddled() -> Two {
    let two = Two::new(CrossShard::Refund);
    let key = &two.keys()[1];
    let body =
        ApplyRequest::new(ApplyMode::Each, &[two.request(key, Op::Limit(Cost::new(10).unwrap()))], None).to_json();
    *two.store.objects.between.lock().unwrap() = Some((3, Shards::default().of(key), body));
    two
}

#[test]
fn what_was_taken_is_given_back_when_a_later_object_has_changed_its_mind() {
    let two = meddled();
    let denied = two.take([4, 4]).unwrap();
    let remaining: Vec<_> = denied.decisions().iter().map(Decision::remaining).collect();
    assert_eq!((denied.allowed(), remaining), (false, vec![10, 0]));
    assert_eq!(two.left(), [10, 0]);
}

#[test]
fn a_denial_stays_one_when_nothing_can_be_given_back() {
    let two = meddled();
    // Two looks, two that are taken from, and then what is given back.
    two.store.objects.fails.store(4, Ordering::SeqCst);
    assert!(!two.take([4, 4]).unwrap().allowed());
    assert_eq!(two.left(), [6, 0], "it stays taken");
}

#[test]
fn what_an_object_has_taken_whose_answer_is_lost_stays_taken() {
    let two = Two::new(CrossShard::Refund);
    two.store.objects.loses.store(3, Ordering::SeqCst);
    assert!(two.take([4, 4]).unwrap_err().is_retryable());
    assert_eq!(two.left(), [10, 6]);
}

#[test]
fn one_key_that_is_too_long_is_no_reason_to_refuse_the_others() {
    let two = Two::new(CrossShard::Refuse);
    let keys = ["one".to_owned(), "x".repeat(20_000), "two".to_owned()].map(Key::from);
    let requests: Vec<_> = keys.iter().map(|key| two.request(key, Op::Limit(Cost::ONE))).collect();
    let kinds: Vec<_> = block_on(two.store.apply_each(&requests))
        .into_iter()
        .map(|answer| answer.map(|decision| decision.remaining()).map_err(|error| error.kind()))
        .collect();
    assert_eq!(kinds, [Ok(9), Err(StoreErrorKind::Unsupported), Ok(9)]);
}

#[test]
fn a_batch_is_one_message_to_each_object_and_comes_back_in_order() {
    let two = Two::new(CrossShard::Refuse);
    let keys: Vec<_> = (0..400_u64).map(|n| Key::from(n % 200)).collect();
    let requests: Vec<_> = keys.iter().map(|key| two.request(key, Op::Limit(Cost::ONE))).collect();
    let answers = block_on(two.store.apply_each(&requests));
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().remaining(), if n < 200 { 9 } else { 8 }, "request {n}");
    }
    let mut asked: Vec<_> = two.store.objects.sent.lock().unwrap().iter().map(|(shard, _)| *shard).collect();
    let messages = asked.len();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), messages, "nobody is asked twice");
}

#[test]
fn any_key_lives_in_one_object_whatever_the_limit() {
    let mut random = Random::new(1);
    for _ in 0..1_000 {
        let key = Key::from(random.below(u64::MAX).to_string());
        assert!(Shards::default().of(&key) < 128);
        assert_eq!(Shards::new(1).unwrap().of(&key), 0);
    }
}
