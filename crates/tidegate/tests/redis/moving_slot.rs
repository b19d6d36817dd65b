//! A slot of a cluster that moves from one node to another while its keys are in use.

use std::future::IntoFuture;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidegate::redis::{ClusterConnection, RedisStore, RedisStoreBuilder};
use tidegate::resilience::{BreakerState, Resilience, Resilient};
use tidegate::{Colocation, Decision, Error, Limit, Limiter, MAX_PERIOD, OnStoreError, Quota, StoreErrorKind, seconds};
use tidegate_servers::{Redis, SlotMove, required_env, wait_until};
use tidegate_testkit::Random;
use tokio::task::JoinSet;

use crate::support::{run, unique_prefix};

pub(crate) fn start_cluster() -> Vec<Redis> {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(|name| PathBuf::from(required_env(name)));
    Redis::cluster(&server, &cli).unwrap()
}

pub(crate) fn connect(nodes: &[Redis], builder: RedisStoreBuilder) -> RedisStore<ClusterConnection> {
    run(builder.connect_cluster(nodes.iter().map(Redis::url))).unwrap()
}

/// The cluster of these tests, which take different slots. It ends with the last test that uses it.
fn shared_cluster() -> Arc<Vec<Redis>> {
    static CLUSTER: Mutex<Weak<Vec<Redis>>> = Mutex::new(Weak::new());
    let mut cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.upgrade().unwrap_or_else(|| {
        let started = Arc::new(start_cluster());
        *cluster = Arc::downgrade(&started);
        started
    })
}

type GuardedStore = Arc<Resilient<RedisStore<ClusterConnection>>>;

/// A store with a breaker. No call is so slow on a busy machine that it times out.
fn guarded(store: RedisStore<ClusterConnection>) -> GuardedStore {
    Arc::new(Resilience::default().timeout(seconds(30)).cache_denials(0).build(store))
}

/// A limiter with two limits that replenish nothing while a test runs.
fn limiter(prefix: &str, capacity: u64, store: &GuardedStore) -> Limiter {
    let quota = Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(capacity)).unwrap();
    let limits = ["one", "two"].map(|name| (name, Limit::new(quota).on_store_error(OnStoreError::Closed)));
    Limiter::builder().prefix(prefix).limits(limits).store(Arc::clone(store)).build().unwrap()
}

/// How many stores, each with a connection of its own as in a process of its own, and how many tasks on each.
const STORES: usize = 4;
const TASKS: usize = 24;

/// How often the slot of busy callers moves, to and fro: once, or as `cargo xtask deep` says.
fn moves() -> u64 {
    std::env::var("TIDEGATE_SLOT_MOVES").map_or(1, |moves| moves.parse().unwrap())
}

/// The answers to callers that call on and on.
#[derive(Default)]
struct Answers {
    answered: AtomicU64,
    admitted: AtomicU64,
    failed: AtomicU64,
    is_stopped: AtomicBool,
}

impl Answers {
    fn count(&self, answer: Result<Decision, Error>) {
        match answer {
            Ok(decision) => self.admitted.fetch_add(u64::from(decision.allowed()), Ordering::Relaxed),
            Err(_) => self.failed.fetch_add(1, Ordering::Relaxed),
        };
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn wait_for_more(&self, more: u64) {
        let target = self.answered.load(Ordering::Relaxed) + more;
        assert!(wait_until(|| self.answered.load(Ordering::Relaxed) >= target), "the callers get no answers");
    }
}

/// Runs callers of so many keys while `scenario` moves their slot. Asserts that they get each key's capacity and not more, and
/// that fewer than one answer in a thousand is an error.
fn assert_decided_meanwhile(limiters: &[Limiter], keys: u64, capacity: u64, scenario: impl FnOnce(&Answers)) {
    let answers = Arc::new(Answers::default());
    run(async {
        let mut tasks = JoinSet::new();
        for (number, limiter) in limiters.iter().cycle().take(limiters.len() * TASKS).enumerate() {
            let (limiter, answers) = (limiter.clone(), Arc::clone(&answers));
            tasks.spawn(async move {
                let mut random = Random::new(number as u64);
                while !answers.is_stopped.load(Ordering::Relaxed) {
                    answers.count(limiter.limit("one", random.below(keys)).await);
                }
            });
        }
        scenario(&answers);
        answers.is_stopped.store(true, Ordering::Relaxed);
        tasks.join_all().await;
    });
    let [answered, admitted, failed] =
        [&answers.answered, &answers.admitted, &answers.failed].map(|count| count.load(Ordering::Relaxed));
    assert!(failed * 1_000 < answered, "{failed} of {answered} calls failed");
    // A call that failed may have taken its unit.
    let expected = keys * capacity;
    assert!(admitted <= expected && admitted + failed >= expected, "{admitted} of {expected}, {failed} failed");
}

/// Counts the calls that nodes have redirected for good.
fn count_moved_errors(cluster: &[Redis]) -> u64 {
    let count = |node: &Redis| {
        let stats = node.cli(&["INFO", "errorstats"]);
        let line = stats.lines().find_map(|line| line.trim().strip_prefix("errorstat_MOVED:count="));
        line.map_or(0, |count| count.parse().unwrap())
    };
    cluster.iter().map(count).sum()
}

#[test]
fn busy_key_is_decided_while_its_slot_moves() {
    let capacity = 4_000 * moves();
    // Its own, because it counts redirects.
    let cluster = start_cluster();
    let prefix = unique_prefix();
    // Without shared calls, more of them are in flight on a connection.
    let builder = RedisStore::builder().coalesce_beyond(usize::MAX);
    let stores = [(); STORES].map(|()| guarded(connect(&cluster, builder.clone())));
    let limiters = stores.each_ref().map(|store| limiter(&prefix, capacity, store));
    assert_decided_meanwhile(&limiters, 1, capacity, |answers| {
        for _ in 0..moves() {
            answers.wait_for_more(1_000);
            let slot = SlotMove::open(&cluster, &format!("{{{prefix}|one|0}}"));
            let before = count_moved_errors(&cluster);
            answers.wait_for_more(2_000);
            assert_eq!(slot.move_keys(10), 1);
            answers.wait_for_more(2_000);
            // The new owner redirects a call whose flag another call has taken. It redirects a few more: a node may tell the
            // owner before the last move.
            let moved = count_moved_errors(&cluster) - before;
            assert!(moved < 100, "{moved} calls have lost their ASKING");
            slot.close();
        }
        answers.wait_for_more(2_000);
    });
    assert!(stores.iter().all(|store| store.breaker() == BreakerState::Closed));
}

#[test]
fn decisions_that_share_calls_are_split_while_their_slot_moves() {
    const KEYS: u64 = 32;
    let capacity = 100 * moves();
    let cluster = shared_cluster();
    let prefix = unique_prefix();
    let builder = RedisStore::builder().colocation(Colocation::Prefix).coalesce_beyond(1);
    let stores = [(); STORES].map(|()| guarded(connect(&cluster, builder.clone())));
    let limiters = stores.each_ref().map(|store| limiter(&prefix, capacity, store));
    assert_decided_meanwhile(&limiters, KEYS, capacity, |answers| {
        for _ in 0..moves() {
            answers.wait_for_more(1_000);
            let slot = SlotMove::open(&cluster, &format!("{{{prefix}}}"));
            assert_eq!(slot.move_keys(16), 16);
            answers.wait_for_more(3_000);
            slot.close();
        }
        answers.wait_for_more(2_000);
    });
    assert!(stores.iter().all(|store| store.breaker() == BreakerState::Closed));
}

#[test]
fn batch_is_split_while_its_slot_moves() {
    let cluster = shared_cluster();
    let prefix = unique_prefix();
    let store = guarded(connect(&cluster, RedisStore::builder().colocation(Colocation::Prefix)));
    let limiter = limiter(&prefix, 5, &store);
    let run_batch = || run(limiter.batch((0..20_u64).map(|key| limiter.limit("one", key))));
    let remaining = |answers: Vec<Result<Decision, Error>>| -> Vec<u64> {
        answers.into_iter().map(|answer| answer.unwrap().remaining()).collect()
    };
    assert_eq!(remaining(run_batch()), [4; 20]);
    let slot = SlotMove::open(&cluster, &format!("{{{prefix}}}"));
    assert_eq!(remaining(run_batch()), [3; 20], "all keys are at the old owner");
    assert_eq!(slot.move_keys(7), 7);
    assert_eq!(remaining(run_batch()), [2; 20], "some have moved");
    assert_eq!(slot.move_keys(100), 13);
    assert_eq!(remaining(run_batch()), [1; 20], "all are at the new owner");
    slot.close();
    assert_eq!(remaining(run_batch()), [0; 20]);
}

#[test]
fn joint_decision_fails_only_in_a_moving_slot() {
    let cluster = shared_cluster();
    let store = guarded(connect(&cluster, RedisStore::builder().colocation(Colocation::Key)));
    let limiter = limiter(&unique_prefix(), 100, &store);
    let [moving, staying] = [(); 2].map(|()| unique_prefix());
    let limit_both = |key: &str| {
        let calls = [limiter.limit("one", key), limiter.limit("two", key)];
        run(async { limiter.limit_all(calls).await }).map(|all| all.allowed())
    };
    let remaining = |limit: &str, key: &str| run(limiter.check(limit, key).into_future()).unwrap().remaining();
    assert!(limit_both(&moving).unwrap() && limit_both(&staying).unwrap());

    let slot = SlotMove::open(&cluster, &format!("{{{moving}}}"));
    assert!(limit_both(&moving).unwrap(), "both keys are at the old owner");
    assert_eq!(slot.move_keys(1), 1);
    for round in 1..=10 {
        let Err(Error::Store(error)) = limit_both(&moving) else { panic!("the keys are on two nodes") };
        assert_eq!(error.kind(), StoreErrorKind::Contended, "{error}");
        assert!(limit_both(&staying).unwrap());
        assert!(run(limiter.limit("one", &moving).into_future()).unwrap().allowed());
        assert_eq!((remaining("one", &moving), remaining("two", &moving)), (98 - round, 98));
    }
    assert_eq!(store.breaker(), BreakerState::Closed);
    assert_eq!(slot.move_keys(1), 1);
    assert!(limit_both(&moving).unwrap(), "both keys are at the new owner");
    slot.close();
    assert!(limit_both(&moving).unwrap());
    assert_eq!((remaining("one", &moving), remaining("two", &moving)), (86, 96));
    assert_eq!((remaining("one", &staying), remaining("two", &staying)), (89, 89));
}
