//! Calls that share a transaction are decided as if each had one.

use tidegate::sqlite::SqliteStore;
use tidegate::store::{DecisionParts, Op, Request, Scope};
use tidegate::{Cost, Key, ManualClock, MemoryStore, OnStoreError, Quota, Store, StoreErrorKind, Timestamp, seconds};
use tidegate_testkit::{Random, block_on};

use crate::support::{Folder, try_start};

fn quotas() -> [Quota; 6] {
    [
        Quota::token_bucket(10, seconds(10)).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
        Quota::token_bucket(3, seconds(7)).unwrap().capacity(20).unwrap().max_debt(5).unwrap(),
        Quota::fixed_window(8, seconds(5)).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap(),
        Quota::sliding_window(12, seconds(12)).unwrap().buckets(4).unwrap(),
    ]
}

/// How something is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    One,
    Each,
    JointDecision,
}

/// What both stores are asked.
struct Question {
    how: How,
    asks: Vec<(Scope, Key<'static>, Quota, Op)>,
}

impl Question {
    fn new(random: &mut Random) -> Self {
        let how = random.pick(&[How::One, How::One, How::Each, How::JointDecision]);
        let count = if how == How::One { 1 } else { 1 + random.below(5) };
        let mut asks: Vec<_> = (0..count).map(|_| ask(random, how)).collect();
        // Looks alone are asked of the other thread, so they are not in order with the rest.
        if asks.iter().all(|(.., op)| matches!(op, Op::Check(_))) {
            asks[0].3 = Op::Limit(Cost::ONE);
        }
        Question { how, asks }
    }

    /// The decisions of a store.
    async fn ask(&self, store: &impl Store) -> Vec<Result<DecisionParts, StoreErrorKind>> {
        let request = |(scope, key, quota, op)| Request { scope, key, quota, op, on_store_error: OnStoreError::Closed };
        let requests: Vec<_> =
            self.asks.iter().map(|(scope, key, quota, op)| request((scope, key, quota, *op))).collect();
        let decisions = match self.how {
            How::One => vec![store.apply(&requests[0]).await],
            How::Each => store.apply_each(&requests).await,
            How::JointDecision => match store.apply_all(&requests).await {
                Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            },
        };
        let parts = decisions.into_iter().map(|decision| decision.map(|decision| decision.into_parts()));
        parts.map(|parts| parts.map_err(|error| error.kind())).collect()
    }
}

/// Something about one of a few keys, mostly under the quota of its limit and sometimes under another.
fn ask(random: &mut Random, how: How) -> (Scope, Key<'static>, Quota, Op) {
    let limit = random.below(2);
    let quota = if random.below(6) == 0 { random.below(6) } else { limit };
    let cost = Cost::new(1 + random.below(4)).unwrap();
    let op = match random.below(10) {
        0..=5 => Op::Limit(cost),
        _ if how == How::JointDecision => Op::Limit(cost),
        6 => Op::Check(cost),
        7 => Op::Reserve(cost),
        8 => Op::Refund(cost),
        _ => Op::Reset,
    };
    (Scope::new("batches", &format!("limit-{limit}")), Key::from(random.below(3)), quotas()[quota as usize], op)
}

#[test]
fn a_batch_is_decided_as_one_call_after_the_other() {
    for seed in 0..6 {
        let (folder, clock) = (Folder::new(), ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let mut random = Random::new(seed);
        for round in 0..15 {
            // Opened anew, so that what is in the file is all it knows.
            let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
            clock.advance(std::time::Duration::from_micros(random.below(4_000_000)));
            let questions: Vec<_> = (0..1 + random.below(60)).map(|_| Question::new(&mut random)).collect();
            // They stand in line in this order, and are served together when the lock is free.
            let lock = folder.lock();
            let asked: Vec<_> = questions.iter().map(|question| try_start(question.ask(&store))).collect();
            drop(lock);
            for (index, (question, answer)) in questions.iter().zip(asked).enumerate() {
                let (expected, got) =
                    (block_on(question.ask(&memory)), answer.map_or_else(|mistake| mistake, block_on));
                assert_eq!(
                    got, expected,
                    "seed {seed}, round {round}, question {index}: {:?} {:?}",
                    question.how, question.asks
                );
            }
        }
    }
}
