//! Many processes, one truth.

use tidegate::redis::RedisStore;

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
        return run(FLEET.ask(&FLEET.limits().prefix(prefix).store(store).build().unwrap()));
    }
    let prefix = prefix();
    FLEET.run(|| myself("processes::sixteen_processes_never_admit_one_too_many", CHILD, &prefix));
}
