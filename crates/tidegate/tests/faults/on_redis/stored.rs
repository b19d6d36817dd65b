//! Something under our key that we have not written.

use std::future::IntoFuture;

use redis::aio::MultiplexedConnection;
use tidegate::redis::RedisStore;
use tidegate::resilience::BreakerState;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Decision, Error, Key, OnStoreError, Quota, Reason, Store, StoreError, StoreErrorKind};
use tidegate_testkit::Random;
use tokio::time::Instant;

use super::server::{self, Redis};
use crate::load::assert_in_time;
use crate::support::{CAPACITY, SHARE, quotas, run};

/// Commands that store something of another type under a key.
const WRONG_TYPES: [[&str; 4]; 4] =
    [["RPUSH", "KEY", "a", "b"], ["HSET", "KEY", "field", "b"], ["ZADD", "KEY", "1", "b"], ["SADD", "KEY", "a", "b"]];

const OPS: [Op; 4] = [Op::Limit(Cost::ONE), Op::Check(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)];

/// One key of a store, and the server itself to write to it.
struct Subject {
    server: Redis,
    store: RedisStore,
    raw: MultiplexedConnection,
    scope: Scope,
    key: Key<'static>,
}

impl Subject {
    const NAME: &'static str = "fault|stored|u";

    fn new() -> Self {
        let server = server::start();
        let store = run(RedisStore::connect(server.url())).unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let raw = run(client.get_multiplexed_async_connection()).unwrap();
        Subject { server, store, raw, scope: Scope::new("fault", "stored"), key: Key::from("u") }
    }

    fn request<'a>(&'a self, quota: &'a Quota, op: Op) -> Request<'a> {
        Request { scope: &self.scope, key: &self.key, quota, op, on_store_error: OnStoreError::Closed }
    }

    fn apply(&self, quota: &Quota, op: Op) -> Result<Decision, StoreError> {
        run(self.store.apply(&self.request(quota, op)))
    }

    /// The key is forgotten, and then counts as it should.
    fn assert_heals(&self, quota: &Quota) {
        let _ = self.apply(quota, Op::Reset).unwrap();
        let decision = self.apply(quota, Op::Limit(Cost::ONE)).unwrap();
        assert_eq!((decision.allowed(), decision.remaining()), (true, CAPACITY - 1), "{quota:?}");
    }

    /// What is stored once one unit was taken.
    fn value(&self, quota: &Quota) -> Vec<u8> {
        self.assert_heals(quota);
        run(redis::cmd("GET").arg(Self::NAME).query_async(&mut self.raw.clone())).unwrap()
    }

    fn store(&self, value: &[u8]) {
        run(redis::cmd("SET").arg(Self::NAME).arg(value).exec_async(&mut self.raw.clone())).unwrap();
    }

    /// What every way to ask ends with, each after `poison`.
    fn every_way(&self, quota: &Quota, poison: impl Fn()) -> Vec<Result<(), StoreErrorKind>> {
        let single = OPS.into_iter().map(|op| {
            poison();
            self.apply(quota, op).map(|_| ()).map_err(|error| error.kind())
        });
        let mut results: Vec<_> = single.collect();
        poison();
        let request = self.request(quota, Op::Limit(Cost::ONE));
        results.push(run(self.store.apply_all(&[request, request])).map(|_| ()).map_err(|error| error.kind()));
        results
    }
}

fn bytes(random: &mut Random, count: u64) -> Vec<u8> {
    (0..count).map(|_| random.next() as u8).collect()
}

#[test]
fn another_type_is_corrupt_until_the_key_is_reset() {
    let subject = Subject::new();
    for quota in quotas() {
        for command in WRONG_TYPES {
            let command = command.map(|word| if word == "KEY" { Subject::NAME } else { word });
            let results = subject.every_way(&quota, || {
                subject.server.cli(&["DEL", Subject::NAME]);
                subject.server.cli(&command);
            });
            assert_eq!(results, [Err(StoreErrorKind::Corrupt); 5], "{command:?} {quota:?}");
            subject.assert_heals(&quota);
        }
    }
}

#[test]
fn an_empty_string_counts_as_nothing() {
    let subject = Subject::new();
    for quota in quotas() {
        assert_eq!(subject.every_way(&quota, || subject.store(b"")), [Ok(()); 5], "{quota:?}");
        subject.store(b"");
        let left = [Op::Check(Cost::ONE), Op::Limit(Cost::ONE), Op::Limit(Cost::ONE)];
        let left = left.map(|op| subject.apply(&quota, op).unwrap().remaining());
        assert_eq!(left, [CAPACITY, CAPACITY - 1, CAPACITY - 2], "{quota:?}");
    }
}

#[test]
fn a_string_that_is_not_ours_is_corrupt_until_the_key_is_reset() {
    let subject = Subject::new();
    let mut random = Random::new(11);
    for quota in quotas() {
        let value = subject.value(&quota);
        let mut wrong: Vec<Vec<u8>> =
            ["hello", "42", "{\"count\":1}", "\0"].map(|text| text.as_bytes().to_vec()).into();
        wrong.extend((1..value.len()).map(|end| value[..end].to_vec()));
        // Without whole numbers at its beginning, a value can be a shorter one that is ours.
        wrong.extend((1..value.len()).filter(|begin| begin % 8 != 0).map(|begin| value[begin..].to_vec()));
        wrong.extend((1..60).map(|count| bytes(&mut random, count)));
        for wrong in wrong {
            let results = subject.every_way(&quota, || subject.store(&wrong));
            assert_eq!(results, [Err(StoreErrorKind::Corrupt); 5], "{wrong:?} {quota:?}");
        }
        subject.assert_heals(&quota);
    }
}

/// Numbers that nobody has written, under the quota that is asked for: the script steps from them.
#[test]
fn damaged_numbers_are_an_answer_or_corrupt_and_never_more() {
    let subject = Subject::new();
    let mut random = Random::new(12);
    for quota in quotas() {
        let value = subject.value(&quota);
        // A value ends with its quota, and that with its length.
        let (numbers, tail) = value.split_at(value.len() - usize::from(*value.last().unwrap()));
        for round in 0..150 {
            let mut numbers = numbers.to_vec();
            match round % 3 {
                0 => numbers = bytes(&mut random, numbers.len() as u64),
                1 => numbers[random.below(value.len() as u64 - tail.len() as u64) as usize] ^= 1 << random.below(8),
                _ => {
                    let number =
                        random.pick(&[f64::NAN, f64::INFINITY, -1.0, 0.5, 1e300, 5e-324, 9_007_199_254_740_991.0]);
                    let at = 8 * random.below(numbers.len() as u64 / 8) as usize;
                    numbers[at..at + 8].copy_from_slice(&number.to_le_bytes());
                }
            }
            let damaged = [&numbers, tail].concat();
            let results = subject.every_way(&quota, || subject.store(&damaged));
            let fine = results.iter().all(|result| matches!(result, Ok(()) | Err(StoreErrorKind::Corrupt)));
            assert!(fine, "{results:?} {numbers:?} {quota:?}");
        }
        subject.assert_heals(&quota);
    }
}

/// Which way the key comes to be forgotten.
enum Heal {
    Delete,
    Reset,
}

fn is_answered_by_the_policy(poison: &[&str], heal: Heal) {
    let server = server::start();
    let service = server::patient(&server);
    let ask = |policy: OnStoreError, key: &str| -> Result<Decision, Error> {
        let began = Instant::now();
        let answer = run(service.limiter.limit(policy.as_str(), key).into_future());
        assert_in_time(began, Instant::now());
        answer
    };
    for policy in OnStoreError::ALL {
        let _ = ask(policy, "u").unwrap();
        let name = format!("fault|{}|u", policy.as_str());
        assert_eq!(server.cli(&["DEL", &name]), "1");
        server.cli(&poison.iter().map(|word| if *word == "KEY" { &*name } else { word }).collect::<Vec<_>>());

        let answers: Vec<_> = (0..50).map(|_| ask(policy, "u")).collect();
        match policy {
            OnStoreError::Open => {
                let admitted = |answer: &Decision| answer.allowed() && answer.reason() == Some(Reason::Store);
                assert!(answers.iter().all(|answer| admitted(answer.as_ref().unwrap())), "{answers:?}");
            }
            OnStoreError::Closed => {
                let corrupt =
                    |error: &Error| matches!(error, Error::Store(error) if error.kind() == StoreErrorKind::Corrupt);
                assert!(answers.iter().all(|answer| corrupt(answer.as_ref().unwrap_err())), "{answers:?}");
            }
            OnStoreError::Local => {
                let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
                assert!(answers.iter().all(|answer| answer.limit() == SHARE), "{answers:?}");
                assert_eq!(answers.iter().filter(|answer| answer.allowed()).count(), SHARE as usize);
            }
        }
        // It is about one key: the others go on, and the breaker sees a store that answers.
        let other = ask(policy, "v").unwrap();
        assert_eq!((other.remaining(), other.reason()), (CAPACITY - 1, None));
        assert_eq!(service.breaker(), BreakerState::Closed);

        match heal {
            Heal::Delete => assert_eq!(server.cli(&["DEL", &name]), "1"),
            Heal::Reset => drop(run(service.limiter.reset(policy.as_str(), "u").into_future()).unwrap()),
        }
        let healed = ask(policy, "u").unwrap();
        assert_eq!((healed.allowed(), healed.remaining(), healed.reason()), (true, CAPACITY - 1, None));
    }
}

#[test]
fn another_type_is_answered_by_the_policy_until_it_is_deleted() {
    is_answered_by_the_policy(&WRONG_TYPES[0], Heal::Delete);
}

#[test]
fn another_type_is_answered_by_the_policy_until_it_is_reset() {
    is_answered_by_the_policy(&WRONG_TYPES[0], Heal::Reset);
}

#[test]
fn a_string_that_is_not_ours_is_answered_by_the_policy_until_it_is_deleted() {
    is_answered_by_the_policy(&["SET", "KEY", "hello"], Heal::Delete);
}

#[test]
fn a_string_that_is_not_ours_is_answered_by_the_policy_until_it_is_reset() {
    is_answered_by_the_policy(&["SET", "KEY", "hello"], Heal::Reset);
}
