//! Coalescing: decisions that share calls are equal to separate ones, in fewer calls of the server.

use std::future::IntoFuture;
use std::path::PathBuf;

use futures_util::future::{join_all, poll_immediate};
use tidegate::redis::{RedisStore, RedisStoreBuilder};
use tidegate::store::{Op, Request, Scope, TestableStore};
use tidegate::{
    Colocation, Cost, Error, Key, Limiter, MAX_PERIOD, MemoryStore, OnStoreError, Quota, Store, StoreErrorKind,
    Timestamp, days, millis, seconds,
};
use tidegate_servers::{Redis, required_env, wait_until};
use tidegate_testkit::Random;
use tokio::task::JoinSet;

use crate::support::{connect_cluster, run, unique_prefix};

/// Starts a server for one test, so that it counts only the calls of that test.
pub(crate) fn start_server() -> Redis {
    start_server_with(&[])
}

fn start_server_with(arguments: &[&str]) -> Redis {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(|name| PathBuf::from(required_env(name)));
    Redis::start(&server, &cli, arguments).unwrap()
}

pub(crate) fn connect_store(server: &Redis, builder: RedisStoreBuilder) -> RedisStore {
    run(builder.connect(server.url())).unwrap()
}

/// Counts the script calls that the server has run.
pub(crate) fn count_script_calls(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let of = |verb: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(verb));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    of("cmdstat_evalsha:calls=") + of("cmdstat_eval:calls=")
}

/// A limit of each algorithm, which replenishes nothing while a test runs.
fn limits(capacity: u64) -> [(&'static str, Quota); 4] {
    let bucket = Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(capacity)).unwrap();
    let others = [Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    let [fixed, sliding, log] = others.map(|quota| quota(capacity, MAX_PERIOD).unwrap());
    [("bucket", bucket), ("fixed", fixed), ("sliding", sliding), ("log", log)]
}

fn limiter(store: impl Store + 'static, capacity: u64) -> Limiter {
    Limiter::builder().prefix(unique_prefix()).limits(limits(capacity)).bare_store(store).build().unwrap()
}

/// Runs 512 tasks with 40 calls each, under one limit each, and counts the admitted calls by limit.
fn run_concurrent_callers(limiter: &Limiter, capacity: u64) -> [u64; 4] {
    run(async {
        let mut tasks = JoinSet::new();
        for task in 0..512 {
            let limiter = limiter.clone();
            tasks.spawn(async move {
                let mut admitted = 0;
                for _ in 0..40 {
                    let decision = limiter.limit(limits(capacity)[task % 4].0, "u").await.unwrap();
                    admitted += u64::from(decision.allowed());
                }
                (task % 4, admitted)
            });
        }
        let mut sums = [0; 4];
        while let Some(done) = tasks.join_next().await {
            let (limit, admitted) = done.unwrap();
            sums[limit] += admitted;
        }
        sums
    })
}

/// A shard that has all slots refuses calls over keys of several slots, though it has all keys.
#[test]
fn single_cluster_node_serves_keys_of_all_slots() {
    let server = start_server_with(&["--cluster-enabled", "yes"]);
    assert_eq!(server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    assert!(wait_until(|| server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")));
    let limiter = limiter(connect_store(&server, RedisStore::builder()), 100);
    let batch = run(limiter.batch((0..100_u32).map(|key| limiter.limit("fixed", key))));
    assert!(batch.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.remaining() == 99)), "{batch:?}");
    assert_eq!(run_concurrent_callers(&limiter, 100), [100; 4]);
    // Callers of one key still share calls.
    let calls = count_script_calls(&server);
    assert!(calls < 512 * 40 / 4, "{calls} calls for {} decisions", 512 * 40);
}

#[test]
fn concurrent_callers_get_exactly_the_quota_in_few_calls() {
    let server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder()), 1_000);
    assert_eq!(run_concurrent_callers(&limiter, 1_000), [1_000; 4]);
    let calls = count_script_calls(&server);
    assert!(calls < 512 * 40 / 4, "{calls} calls for {} decisions", 512 * 40);
}

#[test]
fn without_coalescing_every_decision_is_a_call() {
    let server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder().coalesce_beyond(usize::MAX)), 1_000);
    assert_eq!(run_concurrent_callers(&limiter, 1_000), [1_000; 4]);
    // An unknown script is sent once more, by every caller at most.
    let calls = count_script_calls(&server);
    assert!((512 * 40..=512 * 41).contains(&calls), "{calls}");
}

#[test]
fn cluster_admits_exactly_the_quota_under_any_colocation() {
    for colocation in [Colocation::None, Colocation::Key, Colocation::Prefix] {
        let limiter = limiter(connect_cluster(RedisStore::builder().colocation(colocation).coalesce_beyond(2)), 1_000);
        assert_eq!(run_concurrent_callers(&limiter, 1_000), [1_000; 4], "{colocation:?}");
    }
}

#[test]
fn decisions_beyond_the_limit_share_calls() {
    let server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder()), 100);
    let bucket = || limiter.limit("bucket", "u").into_future();
    run(async {
        for made in 1..=10 {
            let _ = bucket().await.unwrap();
            // The first found the script unknown.
            assert_eq!(count_script_calls(&server), made + 1, "one after the other, each is a call");
        }
    });
    let before = count_script_calls(&server);
    server.pause();
    run(async {
        let mut waiting: Vec<_> = (0..30).map(|_| bucket()).collect();
        for call in &mut waiting {
            assert!(poll_immediate(call).await.is_none(), "the server is stopped");
        }
        server.resume();
        let mut left: Vec<_> = join_all(waiting).await.into_iter().map(|answer| answer.unwrap().remaining()).collect();
        left.sort_unstable();
        assert_eq!(left, (60..90).collect::<Vec<_>>());
    });
    // Eight direct calls. Two workers have up to three calls each, of which the first may find the batch script
    // unknown.
    let made = count_script_calls(&server) - before;
    assert!((10..=14).contains(&made), "{made} calls");
}

/// Runs a test on one thread, on which the workers run only when the test yields.
fn run_single_threaded(test: impl AsyncFnOnce(&Limiter, &Redis)) {
    let server = start_server();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let store = RedisStore::builder().coalesce_beyond(1).connect(server.url()).await.unwrap();
        let limiter = limiter(store, 100_000);
        let _ = limiter.limit("bucket", "u").await.unwrap();
        test(&limiter, &server).await;
    });
}

#[test]
fn callers_queue_while_workers_have_calls_in_flight() {
    run_single_threaded(async |limiter, server| {
        let before = count_script_calls(server);
        server.pause();
        let mut waiting: Vec<_> = (0..30).map(|_| limiter.limit("bucket", "u").into_future()).collect();
        for call in &mut waiting {
            assert!(poll_immediate(call).await.is_none());
            // Lets a worker take it along, if there is one.
            tokio::task::yield_now().await;
        }
        server.resume();
        join_all(waiting).await.into_iter().for_each(|answer| assert!(answer.unwrap().allowed()));
        // One direct call, two by the workers, and one for the others, whose script is not known yet.
        assert_eq!(count_script_calls(server) - before, 5);
    });
}

#[test]
fn canceled_waiter_consumes_nothing() {
    run_single_threaded(async |limiter, server| {
        let bucket = || limiter.limit("bucket", "u").into_future();
        server.pause();
        let [mut direct, mut first, mut second, mut canceled, mut waiter] = [(); 5].map(|()| bucket());
        for call in [&mut direct, &mut first, &mut second] {
            assert!(poll_immediate(call).await.is_none());
            // Lets a worker take it along.
            tokio::task::yield_now().await;
        }
        for call in [&mut canceled, &mut waiter] {
            assert!(poll_immediate(call).await.is_none());
        }
        drop(canceled);
        // These were sent, so they consume quota all the same.
        drop((direct, first));
        server.resume();
        assert_eq!(waiter.await.unwrap().remaining(), 100_000 - 5);
    });
}

#[test]
fn canceled_waiters_are_dropped_while_server_stalls() {
    run_single_threaded(async |limiter, server| {
        let bucket = || limiter.limit("bucket", "u").into_future();
        server.pause();
        let mut sent = [(); 3].map(|()| bucket());
        for call in &mut sent {
            assert!(poll_immediate(call).await.is_none());
            tokio::task::yield_now().await;
        }
        for _ in 0..20_000 {
            assert!(poll_immediate(&mut bucket()).await.is_none());
        }
        let mut waiter = bucket();
        assert!(poll_immediate(&mut waiter).await.is_none());
        server.resume();
        assert_eq!(waiter.await.unwrap().remaining(), 100_000 - 5);
    });
}

#[test]
fn unpolled_caller_does_not_block_others() {
    run_single_threaded(async |limiter, _| {
        let bucket = || limiter.limit("bucket", "u").into_future();
        let mut unpolled = [(); 3].map(|()| bucket());
        for call in &mut unpolled {
            assert!(poll_immediate(call).await.is_none());
        }
        // None of them is polled meanwhile.
        for _ in 0..10 {
            assert!(bucket().await.unwrap().allowed());
        }
        for call in unpolled {
            assert!(call.await.unwrap().allowed());
        }
    });
}

#[test]
fn failure_reaches_all_waiters_and_service_recovers() {
    let mut server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder().coalesce_beyond(2)), 100);
    let bucket = || limiter.limit("bucket", "u").into_future();
    let _ = run(async { bucket().await.unwrap() });
    server.pause();
    let answers = run(async {
        let mut waiting: Vec<_> = (0..30).map(|_| bucket()).collect();
        for call in &mut waiting {
            assert!(poll_immediate(call).await.is_none());
        }
        server.kill();
        join_all(waiting).await
    });
    for answer in answers {
        let Err(Error::Store(error)) = answer else { panic!("{answer:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    server.restart();
    assert!(tidegate_servers::wait_until(|| run(bucket()).is_ok()));
    assert!(run(join_all((0..30).map(|_| bucket()))).iter().all(Result::is_ok));
}

#[test]
fn damaged_key_does_not_fail_its_batch() {
    let server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder().coalesce_beyond(1)), 100);
    let _ = run(async { limiter.limit("bucket", "good").await.unwrap() });
    let name = server.cli(&["KEYS", "*"]).trim().replace("good", "bad");
    server.cli(&["RPUSH", &name, "x"]);
    let keys = ["good", "bad", "good", "bad", "good"];
    let answers = run(join_all(keys.map(|key| limiter.limit("bucket", key).into_future())));
    let batch = run(limiter.batch(keys.map(|key| limiter.limit("bucket", key))));
    for (key, answer) in keys.iter().chain(&keys).zip(answers.into_iter().chain(batch)) {
        match (key, answer) {
            (&"good", Ok(decision)) => assert!(decision.allowed()),
            (&"bad", Err(Error::Store(error))) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}"),
            (key, answer) => panic!("{key}: {answer:?}"),
        }
    }
    assert_eq!(run(limiter.check("bucket", "good").into_future()).unwrap().remaining(), 93);
}

#[test]
fn forbidden_keys_do_not_fail_their_batch() {
    let server = start_server();
    let rights = ["ACL", "SETUSER", "half", "on", ">secret", "~ours*", "+@all"];
    assert_eq!(server.cli(&rights), "OK");
    let url = server.url().replace("redis://", "redis://half:secret@");
    let store = run(RedisStore::builder().coalesce_beyond(1).connect(url)).unwrap();
    let of =
        |prefix: &str| Limiter::builder().prefix(prefix).limits(limits(100)).bare_store(store.clone()).build().unwrap();
    let (ours, theirs) = (of("ours"), of("theirs"));
    let callers = [&ours, &ours, &theirs, &ours, &theirs];
    let answers = run(join_all(callers.map(|limiter| limiter.limit("bucket", "u").into_future())));
    let allowed: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(allowed, [true, true, false, true, false]);
    assert_eq!(run(ours.check("bucket", "u").into_future()).unwrap().remaining(), 97);
}

#[test]
fn usage_under_another_quota_is_rebased_once() {
    let server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder().coalesce_beyond(1)), 100);
    let wider = Quota::fixed_window(1_000, MAX_PERIOD).unwrap();
    let _ = run(async { limiter.limit("fixed", "u").cost(40).await.unwrap() });
    let calls = (0..20).map(|_| limiter.limit("fixed", "u").with_quota(&wider).into_future());
    assert!(run(join_all(calls)).into_iter().all(|answer| answer.unwrap().allowed()));
    let left = run(limiter.check("fixed", "u").with_quota(&wider).into_future()).unwrap().remaining();
    assert_eq!(left, 1_000 - 40 - 20);
    // And where a batch is the first call to find that usage.
    let _ = run(async { limiter.limit("fixed", "v").cost(40).await.unwrap() });
    let calls: Vec<_> = (0..20).map(|_| limiter.limit("fixed", "v").with_quota(&wider)).collect();
    let left: Vec<_> = run(limiter.batch(calls)).into_iter().map(|answer| answer.unwrap().remaining()).collect();
    assert_eq!(left, (940..960).rev().collect::<Vec<_>>());
}

#[test]
fn batch_is_one_call() {
    let server = start_server();
    let limiter = limiter(connect_store(&server, RedisStore::builder()), 100);
    let run_batch = || {
        let calls = (0..64).map(|key: u64| match key % 3 {
            0 => limiter.limit("bucket", key / 2),
            1 => limiter.check("fixed", key),
            _ => limiter.reserve("log", key / 2),
        });
        let answers = run(limiter.batch(calls.collect::<Vec<_>>()));
        assert!(answers.into_iter().all(|answer| answer.unwrap().allowed()));
    };
    run_batch();
    let before = count_script_calls(&server);
    run_batch();
    assert_eq!(count_script_calls(&server) - before, 1);
}

/// Compares random operations, many at one time, with sequential ones on a memory store.
async fn assert_agrees_with_memory<S: TestableStore>(store: &S, seed: u64) {
    let quotas = [
        Quota::token_bucket(20, seconds(10)).unwrap().max_debt(7).unwrap(),
        Quota::token_bucket(1, days(366)).unwrap().capacity(400).unwrap().max_debt(300).unwrap(),
        Quota::fixed_window(15, seconds(3)).unwrap().capacity(40).unwrap(),
        Quota::sliding_window(20, seconds(8)).unwrap().buckets(4).unwrap(),
        Quota::sliding_log(25, seconds(5)).unwrap().max_debt(9).unwrap(),
    ];
    let prefix = unique_prefix();
    let scopes = [0, 1, 2, 3, 4].map(|limit: u32| Scope::new(&prefix, &limit.to_string()));
    let keys = ["a", "b", "before"].map(Key::from);
    let request = |limit: usize, key: usize, op| {
        let (scope, key, quota) = (&scopes[limit], &keys[key], &quotas[limit]);
        Request { scope, key, quota, op, on_store_error: OnStoreError::Closed }
    };
    let (reference, mut random) = (MemoryStore::new(), Random::new(seed));
    let mut now = Timestamp::from_micros(1_700_000_000_000_000);
    // A call whose script is not known is sent once more, and others may overtake it.
    for op in [Op::Limit(Cost::ONE), Op::Check(Cost::ONE)] {
        let first_requests: Vec<_> = (0..5).map(|limit| request(limit, 2, op)).collect();
        for request in &first_requests {
            let _ = store.apply_at(request, now).await.unwrap();
        }
        join_all(first_requests.iter().map(|request| store.apply_at(request, now))).await;
    }
    for moment in 0..40 {
        now = now.saturating_add(millis(random.below(1_500)));
        // No more than `join_all` polls in order.
        let requests: Vec<Request<'_>> = (0..28)
            .map(|_| {
                let cost = Cost::new(1 + random.below(6)).unwrap();
                let op = match random.below(10) {
                    0..=4 => Op::Limit(cost),
                    5..=6 => Op::Check(cost),
                    7 => Op::Reserve(cost),
                    _ => Op::Refund(cost),
                };
                request(random.below(5) as usize, random.below(2) as usize, op)
            })
            .collect();
        let decisions = join_all(requests.iter().map(|request| store.apply_at(request, now))).await;
        for (request, decision) in requests.iter().zip(decisions) {
            let expected = reference.apply_at(request, now).await.unwrap().into_parts();
            assert_eq!(decision.unwrap().into_parts(), expected, "seed {seed}, moment {moment}: {request:?}");
        }
    }
}

#[test]
fn coalesced_operations_decide_like_sequential_ones() {
    let server = start_server();
    let builder = || RedisStore::builder().coalesce_beyond(1);
    // On one thread, so that all operations are queued, in order, before a worker takes them along.
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let redis = builder().connect(server.url()).await.unwrap();
        let valkey = builder().hash_keys("a secret").connect(required_env("TIDEGATE_VALKEY_URL")).await.unwrap();
        let urls = required_env("TIDEGATE_CLUSTER_URLS");
        let cluster = builder().colocation(Colocation::Prefix).connect_cluster(urls.split(',')).await.unwrap();
        for seed in 0..6 {
            assert_agrees_with_memory(&redis, seed).await;
            assert_agrees_with_memory(&valkey, seed).await;
            assert_agrees_with_memory(&cluster, seed).await;
        }
    });
    // The first of 28 is a call of its own and the others share one; and the calls that come before.
    let calls = count_script_calls(&server);
    assert!(calls <= 6 * (40 * 2 + 20), "{calls} calls for {} decisions", 6 * 40 * 28);
}
