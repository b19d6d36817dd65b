//! Decisions that share calls: each is what it would be alone, and the server is asked less often.

use std::future::IntoFuture;
use std::path::PathBuf;

use futures_util::future::{join_all, poll_immediate};
use tidegate::redis::{RedisStore, RedisStoreBuilder};
use tidegate::store::{Op, Request, Scope, Testing};
use tidegate::{
    Colocation, Cost, Error, Key, Limiter, MAX_PERIOD, MemoryStore, OnStoreError, Quota, Store, StoreErrorKind,
    Timestamp, days, millis, seconds,
};
use tidegate_servers::{Redis, variable, wait_until};
use tidegate_testkit::Random;
use tokio::task::JoinSet;

use crate::support::{clustered, prefix, run};

/// A server of a test's own, so that its counts are of nobody else.
pub(crate) fn server() -> Redis {
    server_with(&[])
}

fn server_with(arguments: &[&str]) -> Redis {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(|name| PathBuf::from(variable(name)));
    Redis::start(&server, &cli, arguments).unwrap()
}

pub(crate) fn store_on(server: &Redis, builder: RedisStoreBuilder) -> RedisStore {
    run(builder.connect(server.url())).unwrap()
}

/// How many scripts it has run.
pub(crate) fn calls(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let of = |verb: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(verb));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    of("cmdstat_evalsha:calls=") + of("cmdstat_eval:calls=")
}

/// A limit of each algorithm, of which nothing comes back while a test runs.
fn limits(capacity: u64) -> [(&'static str, Quota); 4] {
    let bucket = Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(capacity)).unwrap();
    let others = [Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    let [fixed, sliding, log] = others.map(|quota| quota(capacity, MAX_PERIOD).unwrap());
    [("bucket", bucket), ("fixed", fixed), ("sliding", sliding), ("log", log)]
}

fn limiter(store: impl Store + 'static, capacity: u64) -> Limiter {
    Limiter::builder().prefix(prefix()).limits(limits(capacity)).bare_store(store).build().unwrap()
}

/// What 512 tasks are admitted that each ask 40 times, under one limit each.
fn crowd(limiter: &Limiter, capacity: u64) -> [u64; 4] {
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

/// One shard that has all slots refuses calls about keys of several, though they are all there.
#[test]
fn a_node_of_a_cluster_can_be_asked_as_if_it_were_alone() {
    let server = server_with(&["--cluster-enabled", "yes"]);
    assert_eq!(server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    assert!(wait_until(|| server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")));
    let limiter = limiter(store_on(&server, RedisStore::builder()), 100);
    let each = run(limiter.batch((0..100_u32).map(|key| limiter.limit("fixed", key))));
    assert!(each.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.remaining() == 99)), "{each:?}");
    assert_eq!(crowd(&limiter, 100), [100; 4]);
    // Whoever asks for the same key still shares.
    let calls = calls(&server);
    assert!(calls < 512 * 40 / 4, "{calls} calls for {} decisions", 512 * 40);
}

#[test]
fn a_crowd_is_admitted_exactly_the_quota_in_far_fewer_calls() {
    let server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder()), 1_000);
    assert_eq!(crowd(&limiter, 1_000), [1_000; 4]);
    let calls = calls(&server);
    assert!(calls < 512 * 40 / 4, "{calls} calls for {} decisions", 512 * 40);
}

#[test]
fn without_sharing_every_decision_is_a_call() {
    let server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder().coalesce_beyond(usize::MAX)), 1_000);
    assert_eq!(crowd(&limiter, 1_000), [1_000; 4]);
    // A script that is not known yet is sent once more, at most by everybody.
    let calls = calls(&server);
    assert!((512 * 40..=512 * 41).contains(&calls), "{calls}");
}

#[test]
fn a_crowd_on_a_cluster_wherever_its_keys_are() {
    for together in [Colocation::Nothing, Colocation::Key, Colocation::Prefix] {
        let limiter = limiter(clustered(RedisStore::builder().colocation(together).coalesce_beyond(2)), 1_000);
        assert_eq!(crowd(&limiter, 1_000), [1_000; 4], "{together:?}");
    }
}

#[test]
fn a_few_go_at_once_and_the_others_share_the_next_calls() {
    let server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder()), 100);
    let bucket = || limiter.limit("bucket", "u").into_future();
    run(async {
        for asked in 1..=10 {
            let _ = bucket().await.unwrap();
            // The first found the script unknown.
            assert_eq!(calls(&server), asked + 1, "one after the other, each is a call");
        }
    });
    let before = calls(&server);
    server.stop_answering();
    run(async {
        let mut waiting: Vec<_> = (0..30).map(|_| bucket()).collect();
        for call in &mut waiting {
            assert!(poll_immediate(call).await.is_none(), "nobody answers");
        }
        server.go_on();
        let mut left: Vec<_> = join_all(waiting).await.into_iter().map(|answer| answer.unwrap().remaining()).collect();
        left.sort_unstable();
        assert_eq!(left, (60..90).collect::<Vec<_>>());
    });
    // Eight at once. Two tasks have up to three calls each, of which the first may find the script for several keys unknown.
    let together = calls(&server) - before;
    assert!((10..=14).contains(&together), "{together} calls");
}

/// A limiter whose tasks run when this thread lets them, and only then.
fn in_turns(test: impl AsyncFnOnce(&Limiter, &Redis)) {
    let server = server();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let store = RedisStore::builder().coalesce_beyond(1).connect(server.url()).await.unwrap();
        let limiter = limiter(store, 100_000);
        let _ = limiter.limit("bucket", "u").await.unwrap();
        test(&limiter, &server).await;
    });
}

#[test]
fn while_tasks_have_calls_in_flight_everybody_else_waits_for_the_next() {
    in_turns(async |limiter, server| {
        let before = calls(server);
        server.stop_answering();
        let mut waiting: Vec<_> = (0..30).map(|_| limiter.limit("bucket", "u").into_future()).collect();
        for call in &mut waiting {
            assert!(poll_immediate(call).await.is_none());
            // So that a task takes it along, if one does.
            tokio::task::yield_now().await;
        }
        server.go_on();
        join_all(waiting).await.into_iter().for_each(|answer| assert!(answer.unwrap().allowed()));
        // One alone, two by the tasks, and the others together, for which the script is not known yet.
        assert_eq!(calls(server) - before, 5);
    });
}

#[test]
fn who_gives_up_before_the_call_takes_nothing() {
    in_turns(async |limiter, server| {
        let bucket = || limiter.limit("bucket", "u").into_future();
        server.stop_answering();
        let [mut flies, mut first, mut second, mut gives_up, mut waits] = [(); 5].map(|()| bucket());
        for call in [&mut flies, &mut first, &mut second] {
            assert!(poll_immediate(call).await.is_none());
            // So that a task takes it along.
            tokio::task::yield_now().await;
        }
        for call in [&mut gives_up, &mut waits] {
            assert!(poll_immediate(call).await.is_none());
        }
        drop(gives_up);
        // These were sent, so they are taken all the same.
        drop((flies, first));
        server.go_on();
        assert_eq!(waits.await.unwrap().remaining(), 100_000 - 5);
    });
}

#[test]
fn who_gives_up_is_not_kept_while_the_server_does_not_answer() {
    in_turns(async |limiter, server| {
        let bucket = || limiter.limit("bucket", "u").into_future();
        server.stop_answering();
        let mut sent = [(); 3].map(|()| bucket());
        for call in &mut sent {
            assert!(poll_immediate(call).await.is_none());
            tokio::task::yield_now().await;
        }
        for _ in 0..20_000 {
            assert!(poll_immediate(&mut bucket()).await.is_none());
        }
        let mut waits = bucket();
        assert!(poll_immediate(&mut waits).await.is_none());
        server.go_on();
        assert_eq!(waits.await.unwrap().remaining(), 100_000 - 5);
    });
}

#[test]
fn nobody_waits_for_a_caller_who_does_not_go_on() {
    in_turns(async |limiter, _| {
        let bucket = || limiter.limit("bucket", "u").into_future();
        let mut asleep = [(); 3].map(|()| bucket());
        for call in &mut asleep {
            assert!(poll_immediate(call).await.is_none());
        }
        // None of them is polled meanwhile.
        for _ in 0..10 {
            assert!(bucket().await.unwrap().allowed());
        }
        for call in asleep {
            assert!(call.await.unwrap().allowed());
        }
    });
}

#[test]
fn a_failure_reaches_everybody_and_afterwards_all_is_well() {
    let mut server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder().coalesce_beyond(2)), 100);
    let bucket = || limiter.limit("bucket", "u").into_future();
    let _ = run(async { bucket().await.unwrap() });
    server.stop_answering();
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
fn a_damaged_key_fails_alone() {
    let server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder().coalesce_beyond(1)), 100);
    let _ = run(async { limiter.limit("bucket", "good").await.unwrap() });
    let name = server.cli(&["KEYS", "*"]).trim().replace("good", "bad");
    server.cli(&["RPUSH", &name, "x"]);
    let keys = ["good", "bad", "good", "bad", "good"];
    let answers = run(join_all(keys.map(|key| limiter.limit("bucket", key).into_future())));
    let each = run(limiter.batch(keys.map(|key| limiter.limit("bucket", key))));
    for (key, answer) in keys.iter().chain(&keys).zip(answers.into_iter().chain(each)) {
        match (key, answer) {
            (&"good", Ok(decision)) => assert!(decision.allowed()),
            (&"bad", Err(Error::Store(error))) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}"),
            (key, answer) => panic!("{key}: {answer:?}"),
        }
    }
    assert_eq!(run(limiter.check("bucket", "good").into_future()).unwrap().remaining(), 93);
}

#[test]
fn keys_that_the_user_may_not_touch_are_refused_alone() {
    let server = server();
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
fn what_was_used_under_another_quota_is_carried_over_once() {
    let server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder().coalesce_beyond(1)), 100);
    let wider = Quota::fixed_window(1_000, MAX_PERIOD).unwrap();
    let _ = run(async { limiter.limit("fixed", "u").cost(40).await.unwrap() });
    let asked = (0..20).map(|_| limiter.limit("fixed", "u").with_quota(&wider).into_future());
    assert!(run(join_all(asked)).into_iter().all(|answer| answer.unwrap().allowed()));
    let left = run(limiter.check("fixed", "u").with_quota(&wider).into_future()).unwrap().remaining();
    assert_eq!(left, 1_000 - 40 - 20);
    // And where the call about all of them is the first to find it.
    let _ = run(async { limiter.limit("fixed", "v").cost(40).await.unwrap() });
    let asked: Vec<_> = (0..20).map(|_| limiter.limit("fixed", "v").with_quota(&wider)).collect();
    let left: Vec<_> = run(limiter.batch(asked)).into_iter().map(|answer| answer.unwrap().remaining()).collect();
    assert_eq!(left, (940..960).rev().collect::<Vec<_>>());
}

#[test]
fn a_list_is_one_call() {
    let server = server();
    let limiter = limiter(store_on(&server, RedisStore::builder()), 100);
    let ask = || {
        let asked = (0..64).map(|key: u64| match key % 3 {
            0 => limiter.limit("bucket", key / 2),
            1 => limiter.check("fixed", key),
            _ => limiter.reserve("log", key / 2),
        });
        let answers = run(limiter.batch(asked.collect::<Vec<_>>()));
        assert!(answers.into_iter().all(|answer| answer.unwrap().allowed()));
    };
    ask();
    let before = calls(&server);
    ask();
    assert_eq!(calls(&server) - before, 1);
}

/// Random operations, many of them at one time, each beside the memory store, which is asked one after the other.
async fn agrees<S: Testing>(store: &S, seed: u64) {
    let quotas = [
        Quota::token_bucket(20, seconds(10)).unwrap().max_debt(7).unwrap(),
        Quota::token_bucket(1, days(366)).unwrap().capacity(400).unwrap().max_debt(300).unwrap(),
        Quota::fixed_window(15, seconds(3)).unwrap().capacity(40).unwrap(),
        Quota::sliding_window(20, seconds(8)).unwrap().buckets(4).unwrap(),
        Quota::sliding_log(25, seconds(5)).unwrap().max_debt(9).unwrap(),
    ];
    let prefix = prefix();
    let scopes = [0, 1, 2, 3, 4].map(|limit: u32| Scope::new(&prefix, &limit.to_string()));
    let keys = ["a", "b", "before"].map(Key::from);
    let request = |limit: usize, key: usize, op| {
        let (scope, key, quota) = (&scopes[limit], &keys[key], &quotas[limit]);
        Request { scope, key, quota, op, on_store_error: OnStoreError::Closed }
    };
    let (reference, mut random) = (MemoryStore::new(), Random::new(seed));
    let mut now = Timestamp::from_micros(1_700_000_000_000_000);
    // A script that is not known is sent once more, and others may overtake it.
    for op in [Op::Limit(Cost::ONE), Op::Check(Cost::ONE)] {
        let alone: Vec<_> = (0..5).map(|limit| request(limit, 2, op)).collect();
        for request in &alone {
            let _ = store.apply_at(request, now).await.unwrap();
        }
        join_all(alone.iter().map(|request| store.apply_at(request, now))).await;
    }
    for moment in 0..40 {
        now = now.saturating_add(millis(random.below(1_500)));
        // No more than are polled in order by one who joins them.
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
        let found = join_all(requests.iter().map(|request| store.apply_at(request, now))).await;
        for (request, found) in requests.iter().zip(found) {
            let expected = reference.apply_at(request, now).await.unwrap().into_parts();
            assert_eq!(found.unwrap().into_parts(), expected, "seed {seed}, moment {moment}: {request:?}");
        }
    }
}

#[test]
fn mixed_quotas_and_operations_are_decided_as_if_one_after_the_other() {
    let server = server();
    let builder = || RedisStore::builder().coalesce_beyond(1);
    // On one thread, so that all have come before a task takes them along: in the order in which they came.
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let redis = builder().connect(server.url()).await.unwrap();
        let valkey = builder().hash_keys("a secret").connect(variable("TIDEGATE_VALKEY_URL")).await.unwrap();
        let urls = variable("TIDEGATE_CLUSTER_URLS");
        let cluster = builder().colocation(Colocation::Prefix).connect_cluster(urls.split(',')).await.unwrap();
        for seed in 0..6 {
            agrees(&redis, seed).await;
            agrees(&valkey, seed).await;
            agrees(&cluster, seed).await;
        }
    });
    // The first of 28 alone, and the others together; and what is asked before.
    let calls = calls(&server);
    assert!(calls <= 6 * (40 * 2 + 20), "{calls} calls for {} decisions", 6 * 40 * 28);
}
