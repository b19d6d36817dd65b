//! The rendezvous store over several independent servers.

use std::sync::Arc;

use tidegate::store::{Op, Request, Scope};
use tidegate::{Colocation, Cost, Key, MemoryStore, OnStoreError, Quota, RendezvousStore, Store, StoreErrorKind, days};
use tidegate_testkit::{Subject, block_on, conformance_tests};

fn rendezvous_of(names: &[&str]) -> (RendezvousStore<Arc<MemoryStore>>, Vec<Arc<MemoryStore>>) {
    let stores: Vec<_> = names.iter().map(|_| Arc::new(MemoryStore::builder().max_keys(10_000).build())).collect();
    (RendezvousStore::new(names.iter().zip(stores.iter().cloned())), stores)
}

fn subject() -> Subject<RendezvousStore<MemoryStore>> {
    let servers = ["one", "two", "three"].map(|name| (name, MemoryStore::builder().max_keys(10_000).build()));
    Subject::new(RendezvousStore::new(servers).colocation(Colocation::Prefix))
}

conformance_tests!(rendezvous, subject());

fn quota() -> Quota {
    Quota::sliding_log(2, days(1)).unwrap()
}

/// Takes one unit of each of a thousand keys, and returns which were allowed.
fn limit_thousand_keys(store: &impl Store) -> Vec<bool> {
    let (scope, quota) = (Scope::new("", "a"), quota());
    (0..1_000_u64)
        .map(|key| {
            let (key, op) = (Key::from(key), Op::Limit(Cost::ONE));
            let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
            block_on(store.apply(&request)).unwrap().allowed()
        })
        .collect()
}

#[test]
fn keys_spread_evenly_and_new_server_moves_only_its_share() {
    let (three, stores) = rendezvous_of(&["one", "two", "three"]);
    assert!(limit_thousand_keys(&three).iter().all(|taken| *taken));
    let held: Vec<_> = stores.iter().map(|store| store.stats().keys).collect();
    assert!(held.iter().all(|keys| (250..420).contains(keys)), "{held:?}");

    // These servers in another order, and one more. A key that moves is reset.
    let fourth = Arc::new(MemoryStore::new());
    let mut named: Vec<_> = ["one", "two", "three"].into_iter().zip(stores.iter().cloned()).collect();
    named.push(("four", Arc::clone(&fourth)));
    named.reverse();
    let four = RendezvousStore::new(named);
    assert!(limit_thousand_keys(&four).iter().all(|taken| *taken));
    let moved = fourth.stats().keys;
    assert!((180..330).contains(&moved), "{moved}");
    let stayed = limit_thousand_keys(&four).iter().filter(|taken| !**taken).count();
    assert_eq!(stayed, 1_000 - moved, "a key that stayed has used two, one that moved only one");
}

#[test]
fn joint_decision_across_servers_is_unsupported() {
    let (store, _) = rendezvous_of(&["one", "two", "three"]);
    let (scope, quota) = (Scope::new("", "a"), quota());
    let keys: Vec<_> = (0..20_u64).map(Key::from).collect();
    let requests: Vec<_> = keys
        .iter()
        .map(|key| Request {
            scope: &scope,
            key,
            quota: &quota,
            op: Op::Limit(Cost::ONE),
            on_store_error: OnStoreError::Open,
        })
        .collect();
    assert_eq!(block_on(store.apply_all(&requests)).unwrap_err().kind(), StoreErrorKind::Unsupported);
    let answers = block_on(store.apply_each(&requests));
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.remaining() == 1)));
}
