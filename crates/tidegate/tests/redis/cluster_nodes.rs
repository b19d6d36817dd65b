//! Nodes of a cluster that hang or are down, and the keys of the other nodes.

use std::future::IntoFuture;

use futures_util::future::{join_all, poll_immediate};
use tidegate::redis::{ClusterConnection, RedisStore, RedisStoreBuilder};
use tidegate::store::{Scope, Store};
use tidegate::{Decision, Error, Key, Limiter, MAX_PERIOD, Quota, StoreErrorKind};
use tidegate_servers::{Redis, SlotMove, wait_until};

use crate::moving_slot::{connect, start_cluster};
use crate::support::{run, unique_prefix};

/// The partition with the last slots of the first node, 5,460, and the first slots of the second one.
const MIXED_PARTITION: u8 = 21;

/// A limiter on a cluster, and keys of the first node and of the others.
struct Keys {
    limiter: Limiter,
    prefix: String,
    first: Vec<String>,
    others: Vec<String>,
}

impl Keys {
    fn new(store: RedisStore<ClusterConnection>) -> Self {
        let (prefix, quota) = (unique_prefix(), Quota::fixed_window(1_000, MAX_PERIOD).unwrap());
        let scope = Scope::new(&prefix, "api");
        let partition = |key: &String| store.partition(&scope, &Key::from(key));
        let keys: Vec<String> = (0..90).map(|number| format!("user{number}")).collect();
        let of = |is_wanted: fn(u8) -> bool| keys.iter().filter(|key| is_wanted(partition(key))).cloned().collect();
        let (first, others) =
            (of(|partition| partition < MIXED_PARTITION), of(|partition| partition > MIXED_PARTITION));
        let limiter = Limiter::builder().prefix(&prefix).limit("api", quota).bare_store(store).build().unwrap();
        Keys { limiter, prefix, first, others }
    }

    /// Calls for all of these keys at once, and returns whether each is admitted.
    fn are_decided(&self, keys: &[String]) -> bool {
        let calls = keys.iter().map(|key| self.limiter.limit("api", key).into_future());
        run(join_all(calls)).iter().all(|answer| answer.as_ref().is_ok_and(Decision::allowed))
    }
}

fn start(builder: RedisStoreBuilder) -> (Vec<Redis>, Keys) {
    let cluster = start_cluster();
    let keys = Keys::new(connect(&cluster, builder));
    assert!(keys.first.len() > 10 && keys.others.len() > 20, "the keys are spread over the nodes");
    assert!(keys.are_decided(&keys.first));
    assert!(keys.are_decided(&keys.others));
    (cluster, keys)
}

#[test]
fn hung_node_delays_only_its_own_keys() {
    let (cluster, keys) = start(RedisStore::builder().coalesce_beyond(1));
    cluster[0].pause();
    let call = |key| keys.limiter.limit("api", key).into_future();
    let mut waiting: Vec<_> = keys.first.iter().chain(&keys.first).map(call).collect();
    run(async {
        for call in &mut waiting {
            assert!(poll_immediate(call).await.is_none(), "the node is stopped");
        }
    });
    // Calls that are given up start a refresh of the slots, for which the node is asked, too.
    waiting.truncate(keys.first.len());
    for _ in 0..5 {
        assert!(keys.are_decided(&keys.others));
    }
    // And so does a slot that has moved.
    let moved = &keys.others[0];
    SlotMove::open(&cluster[1..], &format!("{{{}|api|{moved}}}", keys.prefix)).close();
    for _ in 0..5 {
        assert!(keys.are_decided(&keys.others));
    }
    cluster[0].resume();
    // The others may have declared it down by then.
    run(join_all(waiting));
    assert!(wait_until(|| keys.are_decided(&keys.first)));
}

#[test]
fn dead_node_fails_only_its_own_keys() {
    let (mut cluster, keys) = start(RedisStore::builder());
    cluster[0].kill();
    // The second call waits for attempts to reconnect.
    for key in &keys.first[..2] {
        let answer = run(keys.limiter.limit("api", key).into_future());
        let Err(Error::Store(error)) = answer else { panic!("{key} has no node: {answer:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(keys.are_decided(&keys.others));
    }
    cluster[0].restart();
    assert!(wait_until(|| run(keys.limiter.limit("api", &keys.first[0]).into_future()).is_ok()));
}
