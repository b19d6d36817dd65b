//! Many processes, one truth; and one that is killed in the middle of it.

use tidegate::postgres::PostgresStore;

use crate::crashed::{self, comes_back_when_it_expires, hold_for_ever};
use crate::fleet::Fleet;
use crate::killed::{KEY, gives_nothing_back, limits, take_for_ever};
use crate::myself::myself;
use crate::support::{builder, run, store_in, unique};
use tidegate_servers::variable;

/// As many tasks as there are connections.
const FLEET: Fleet =
    Fleet { processes: 8, tasks: 8, limits: [(4_000, 16_000), (1_000, 4_480), (1_000, 4_480), (300, 1_920)] };

/// Set for a process that is another one.
const CHILD: &str = "TIDEGATE_TEST_TABLE";

#[test]
fn eight_processes_never_admit_one_too_many() {
    // The same test runs as each of the eight: there it only asks. All of them make the table at once.
    if let Ok(table) = std::env::var(CHILD) {
        return run(FLEET.ask(&FLEET.limits().bare_store(store_in(&table)).build().unwrap()));
    }
    let table = unique("processes");
    FLEET.run(|| myself("processes::eight_processes_never_admit_one_too_many", CHILD, &table));
}

/// On the server as it is: a commit waits for the disk.
fn durable(table: &str) -> PostgresStore {
    run(builder(table).connect(&variable("TIDEGATE_POSTGRES_URL"))).unwrap()
}

#[test]
fn a_killed_process_gives_nothing_back() {
    if let Ok(table) = std::env::var(CHILD) {
        return run(take_for_ever(&limits().bare_store(durable(&table)).build().unwrap()));
    }
    let table = unique("killed");
    let child = || myself("processes::a_killed_process_gives_nothing_back", CHILD, &table);
    gives_nothing_back(5, child, |limit| {
        let limiter = limits().bare_store(durable(&table)).build().unwrap();
        run(limiter.check(limit, KEY).into_future()).unwrap().remaining()
    });
}

#[test]
fn the_place_of_a_killed_holder_comes_back_when_its_lease_expires() {
    let limiter = |table: &str| crashed::limits().bare_store(durable(table)).build().unwrap();
    if let Ok(table) = std::env::var(CHILD) {
        return run(hold_for_ever(&limiter(&table)));
    }
    let table = unique("holder");
    let test = "processes::the_place_of_a_killed_holder_comes_back_when_its_lease_expires";
    comes_back_when_it_expires(myself(test, CHILD, &table), &limiter(&table), |waited| run(waited));
}
