//! The conformance suite on `MapStore`, the simplest store.

use tidegate_testkit::{MapStore, Subject, conformance_tests, suite};

conformance_tests!(map_store, Subject::new(MapStore::new()));

#[test]
fn every_case_runs_by_its_name() {
    assert!(suite::CASES.len() > 40);
    let subject = Subject::new(MapStore::new());
    assert!(tidegate_testkit::block_on(suite::run(&subject, "new_key_is_allowed")).is_some());
    assert!(tidegate_testkit::block_on(suite::run(&subject, "no such case")).is_none());
}
