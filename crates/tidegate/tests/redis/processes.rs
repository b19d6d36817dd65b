//! Many processes, one truth; and one that is killed in the middle of it.

use tidegate::redis::RedisStore;

use crate::crashed::{comes_back_when_it_expires, hold_for_ever, limits};
use crate::fleet::Fleet;
use crate::myself::myself;
use crate::support::{prefix, run, single};

const FLEET: Fleet =
    Fleet { processes: 16, tasks: 25, limits: [(20_000, 100_000), (2_000, 10_000), (2_000, 10_000), (500, 4_000)] };

/// Set for a process that is one of the sixteen.
const CHILD: &str = "TIDEGATE_TEST_PREFIX";

#[test]
fn sixteen_processes_never_admit_one_too_many() {
    // The same test runs as each of the sixteen: there it only asks.
    if let Ok(prefix) = std::env::var(CHILD) {
        let store = single("TIDEGATE_REDIS_URL", RedisStore::builder());
        return run(FLEET.ask(&FLEET.limits().prefix(prefix).bare_store(store).build().unwrap()));
    }
    let prefix = prefix();
    FLEET.run(|| myself("processes::sixteen_processes_never_admit_one_too_many", CHILD, &prefix));
}

#[test]
fn the_place_of_a_killed_holder_comes_back_when_its_lease_expires() {
    let limiter = |prefix: &str| {
        let store = single("TIDEGATE_REDIS_URL", RedisStore::builder());
        limits().prefix(prefix).bare_store(store).build().unwrap()
    };
    if let Ok(prefix) = std::env::var(CHILD) {
        return run(hold_for_ever(&limiter(&prefix)));
    }
    let prefix = prefix();
    let test = "processes::the_place_of_a_killed_holder_comes_back_when_its_lease_expires";
    comes_back_when_it_expires(myself(test, CHILD, &prefix), &limiter(&prefix), |waited| run(waited));
}
