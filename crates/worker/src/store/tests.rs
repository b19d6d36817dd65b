//! The store over objects in memory: the whole suite and the oracle, and what becomes of calls over several objects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::{Clock, Cost, Key, OnStoreError, Op, Quota, Scope, SystemClock, Testing, days};
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
    /// Which message fails, counted from now; before or after it was applied.
    fails: AtomicUsize,
}

impl Here {
    fn new(ends: bool) -> Self {
        let books = (0..128).map(|_| Mutex::new(Some(Book::new(MemoryRows::default())))).collect();
        Here { books, ends, sent: Mutex::default(), fails: AtomicUsize::new(usize::MAX) }
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
        self.sent.lock().unwrap().push((to.shard, what));
        if self.fails.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "an object that is gone"));
        }
        let message = Message::read(what, &body).expect("the store writes what an object reads");
        Ok(self.with(to.shard, |book| message.answer(book, SystemClock.now()).expect("settled")))
    }
}

impl Testing for Sharded<Arc<Here>> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<All, StoreError> {
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
    Sharded { apart: Apart::Refund, ..Sharded::new(Arc::new(Here::new(ends))) }
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
    fn new(apart: Apart) -> Self {
        let store = Sharded { apart, ..store(false) };
        Two { store, scope: Scope::new("", "api"), quota: Quota::fixed_window(10, days(300)).unwrap() }
    }

    fn request<'a>(&'a self, key: &'a Key<'a>, op: Op) -> Request<'a> {
        Request { scope: &self.scope, key, quota: &self.quota, op, on_store_error: OnStoreError::Closed }
    }

    fn take(&self, costs: [u64; 2]) -> Result<All, StoreError> {
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
    let two = Two::new(Apart::Refuse);
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
    let two = Two::new(Apart::Refund);
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
        let two = Two::new(Apart::Refund);
        two.store.objects.fails.store(fails, Ordering::SeqCst);
        assert!(two.take([4, 4]).unwrap_err().is_retryable());
        two.store.objects.fails.store(usize::MAX, Ordering::SeqCst);
        assert_eq!(two.left(), left, "message {fails} fails");
    }
}

#[test]
fn a_batch_is_one_message_to_each_object_and_comes_back_in_order() {
    let two = Two::new(Apart::Refuse);
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
