//! Foreign values: data under a key of the store that the store has not written.

use std::future::IntoFuture;

use redis::aio::MultiplexedConnection;
use tidegate::redis::RedisStore;
use tidegate::resilience::BreakerState;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Decision, Error, Key, OnStoreError, Quota, Reason, Store, StoreError, StoreErrorKind};
use tidegate_testkit::Random;
use tokio::time::Instant;

use super::server::{self, Redis};
use crate::load::assert_no_hang;
use crate::support::{CAPACITY, LOCAL_SHARE, quotas, run};

/// Commands that store something of another type under a key.
const WRONG_TYPES: [[&str; 4]; 4] =
    [["RPUSH", "KEY", "a", "b"], ["HSET", "KEY", "field", "b"], ["ZADD", "KEY", "1", "b"], ["SADD", "KEY", "a", "b"]];

const OPS: [Op; 4] = [Op::Limit(Cost::ONE), Op::Check(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)];

/// One key of a store, and a connection to the server that writes to it.
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

    /// Resets the key, and asserts that it counts as a new one then.
    fn assert_reset_repairs(&self, quota: &Quota) {
        let _ = self.apply(quota, Op::Reset).unwrap();
        let decision = self.apply(quota, Op::Limit(Cost::ONE)).unwrap();
        assert_eq!((decision.allowed(), decision.remaining()), (true, CAPACITY - 1), "{quota:?}");
    }

    /// The value that is stored once one unit was taken.
    fn stored_value(&self, quota: &Quota) -> Vec<u8> {
        self.assert_reset_repairs(quota);
        run(redis::cmd("GET").arg(Self::NAME).query_async(&mut self.raw.clone())).unwrap()
    }

    fn write_value(&self, value: &[u8]) {
        run(redis::cmd("SET").arg(Self::NAME).arg(value).exec_async(&mut self.raw.clone())).unwrap();
    }

    /// Applies every operation, each after `poison`, and returns the results.
    fn apply_operations(&self, quota: &Quota, poison: impl Fn()) -> Vec<Result<(), StoreErrorKind>> {
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

fn random_bytes(random: &mut Random, count: u64) -> Vec<u8> {
    (0..count).map(|_| random.next() as u8).collect()
}

#[test]
fn value_of_another_type_is_corrupt_until_reset() {
    let subject = Subject::new();
    for quota in quotas() {
        for command in WRONG_TYPES {
            let command = command.map(|word| if word == "KEY" { Subject::NAME } else { word });
            let results = subject.apply_operations(&quota, || {
                subject.server.cli(&["DEL", Subject::NAME]);
                subject.server.cli(&command);
            });
            assert_eq!(results, [Err(StoreErrorKind::Corrupt); 5], "{command:?} {quota:?}");
            subject.assert_reset_repairs(&quota);
        }
    }
}

#[test]
fn empty_string_counts_as_no_value() {
    let subject = Subject::new();
    for quota in quotas() {
        assert_eq!(subject.apply_operations(&quota, || subject.write_value(b"")), [Ok(()); 5], "{quota:?}");
        subject.write_value(b"");
        let left = [Op::Check(Cost::ONE), Op::Limit(Cost::ONE), Op::Limit(Cost::ONE)];
        let left = left.map(|op| subject.apply(&quota, op).unwrap().remaining());
        assert_eq!(left, [CAPACITY, CAPACITY - 1, CAPACITY - 2], "{quota:?}");
    }
}

#[test]
fn foreign_string_is_corrupt_until_reset() {
    let subject = Subject::new();
    let mut random = Random::new(11);
    for quota in quotas() {
        let value = subject.stored_value(&quota);
        let mut wrong: Vec<Vec<u8>> =
            ["hello", "42", "{\"count\":1}", "\0"].map(|text| text.as_bytes().to_vec()).into();
        wrong.extend((1..value.len()).map(|end| value[..end].to_vec()));
        // Without whole numbers at its beginning, a value can be a shorter one that is ours.
        wrong.extend((1..value.len()).filter(|begin| begin % 8 != 0).map(|begin| value[begin..].to_vec()));
        wrong.extend((1..60).map(|count| random_bytes(&mut random, count)));
        for wrong in wrong {
            let results = subject.apply_operations(&quota, || subject.write_value(&wrong));
            assert_eq!(results, [Err(StoreErrorKind::Corrupt); 5], "{wrong:?} {quota:?}");
        }
        subject.assert_reset_repairs(&quota);
    }
}

/// Damaged numbers under the requested quota: the script steps from them.
#[test]
fn damaged_numbers_give_a_decision_or_a_corrupt_error() {
    let subject = Subject::new();
    let mut random = Random::new(12);
    for quota in quotas() {
        let value = subject.stored_value(&quota);
        // A value ends with its quota, and that with its length.
        let (numbers, tail) = value.split_at(value.len() - usize::from(*value.last().unwrap()));
        for round in 0..150 {
            let mut numbers = numbers.to_vec();
            match round % 3 {
                0 => numbers = random_bytes(&mut random, numbers.len() as u64),
                1 => numbers[random.below(value.len() as u64 - tail.len() as u64) as usize] ^= 1 << random.below(8),
                _ => {
                    let number =
                        random.pick(&[f64::NAN, f64::INFINITY, -1.0, 0.5, 1e300, 5e-324, 9_007_199_254_740_991.0]);
                    let at = 8 * random.below(numbers.len() as u64 / 8) as usize;
                    numbers[at..at + 8].copy_from_slice(&number.to_le_bytes());
                }
            }
            let damaged = [&numbers, tail].concat();
            let results = subject.apply_operations(&quota, || subject.write_value(&damaged));
            let fine = results.iter().all(|result| matches!(result, Ok(()) | Err(StoreErrorKind::Corrupt)));
            assert!(fine, "{results:?} {numbers:?} {quota:?}");
        }
        subject.assert_reset_repairs(&quota);
    }
}

/// The way in which a key is repaired.
enum Repair {
    Delete,
    Reset,
}

fn assert_policy_answers(poison: &[&str], repair: Repair) {
    let server = server::start();
    let service = server::patient_service(&server);
    let limit = |policy: OnStoreError, key: &str| -> Result<Decision, Error> {
        let began = Instant::now();
        let answer = run(service.limiter.limit(policy.as_str(), key).into_future());
        assert_no_hang(began, Instant::now());
        answer
    };
    for policy in OnStoreError::ALL {
        let _ = limit(policy, "u").unwrap();
        let name = format!("fault|{}|u", policy.as_str());
        assert_eq!(server.cli(&["DEL", &name]), "1");
        server.cli(&poison.iter().map(|word| if *word == "KEY" { &*name } else { word }).collect::<Vec<_>>());

        let answers: Vec<_> = (0..50).map(|_| limit(policy, "u")).collect();
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
                assert!(answers.iter().all(|answer| answer.limit() == LOCAL_SHARE), "{answers:?}");
                assert_eq!(answers.iter().filter(|answer| answer.allowed()).count(), LOCAL_SHARE as usize);
            }
        }
        // Only one key is damaged: the other keys are served, and the breaker sees a store that answers.
        let other = limit(policy, "v").unwrap();
        assert_eq!((other.remaining(), other.reason()), (CAPACITY - 1, None));
        assert_eq!(service.breaker(), BreakerState::Closed);

        match repair {
            Repair::Delete => assert_eq!(server.cli(&["DEL", &name]), "1"),
            Repair::Reset => drop(run(service.limiter.reset(policy.as_str(), "u").into_future()).unwrap()),
        }
        let repaired = limit(policy, "u").unwrap();
        assert_eq!((repaired.allowed(), repaired.remaining(), repaired.reason()), (true, CAPACITY - 1, None));
    }
}

#[test]
fn policy_answers_for_value_of_another_type_until_deleted() {
    assert_policy_answers(&WRONG_TYPES[0], Repair::Delete);
}

#[test]
fn policy_answers_for_value_of_another_type_until_reset() {
    assert_policy_answers(&WRONG_TYPES[0], Repair::Reset);
}

#[test]
fn policy_answers_for_foreign_string_until_deleted() {
    assert_policy_answers(&["SET", "KEY", "hello"], Repair::Delete);
}

#[test]
fn policy_answers_for_foreign_string_until_reset() {
    assert_policy_answers(&["SET", "KEY", "hello"], Repair::Reset);
}
