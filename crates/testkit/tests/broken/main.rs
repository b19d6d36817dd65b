//! Tests that the suite can fail: stores with one flaw each, and the case that must catch it.

mod store;

use std::panic::{self, AssertUnwindSafe};

use store::{BrokenStore, Flaw};
use tidegate_core::TestableStore;
use tidegate_testkit::{Applicability, MapStore, Subject, block_on, oracle, suite};

/// Runs a case. Returns its message if it fails.
fn failure<S: TestableStore + 'static>(store: S, case: &str) -> Option<String> {
    let subject = Subject::new(store);
    let run = AssertUnwindSafe(|| block_on(suite::run(&subject, case)).expect("a case of the suite"));
    let payload = panic::catch_unwind(run).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    Some(text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

#[test]
fn every_flaw_fails_its_case() {
    let caught_by = [
        (Flaw::WritesOnCheck, "check_writes_nothing"),
        (Flaw::WritesOnDenial, "denied_request_consumes_nothing"),
        (Flaw::IgnoresCost, "weighted_cost_is_consumed"),
        (Flaw::FloorsRefill, "polling_loses_nothing"),
        (Flaw::RetriesEarly, "retry_after_is_honest"),
        (Flaw::RetriesLate, "retry_after_is_honest"),
        (Flaw::MovesTimeBack, "backwards_clock_stands_still"),
        (Flaw::EvictsBusyKeys, "busy_keys_are_not_evicted"),
        (Flaw::EvictsBusyKeys, "eviction_changes_no_decision"),
        (Flaw::NeverEvicts, "idle_keys_are_evicted"),
        (Flaw::ChecksThenAdds, "concurrent_callers_never_double_spend"),
        (Flaw::ChecksThenAdds, "concurrent_weighted_callers_never_double_spend"),
        (Flaw::ChecksThenAdds, "joint_requests_are_atomic_under_concurrency"),
        (Flaw::ChecksThenAdds, "check_then_add_does_not_over_admit"),
        (Flaw::IgnoresPrefix, "prefixes_have_separate_budgets"),
        (Flaw::IgnoresCase, "tricky_keys_stay_distinct"),
        (Flaw::ResetsOnQuotaChange, "quota_raise_keeps_usage"),
        (Flaw::ResetsOnQuotaChange, "quota_cut_becomes_debt"),
        (Flaw::ResetsOnQuotaChange, "joint_request_keeps_usage_of_a_changed_quota"),
        (Flaw::IgnoresQuotaChange, "algorithm_change_keeps_usage"),
        (Flaw::RebasesIdleKeys, "idle_key_is_new_under_any_quota"),
        (Flaw::AppliesBatchesOneByOne, "denied_joint_request_consumes_nothing"),
        (Flaw::IgnoresRepeatedKeys, "joint_request_sums_repeated_keys"),
        (Flaw::AllowsChecksInBatches, "joint_request_rejects_other_operations"),
        (Flaw::AllowsTwoQuotasPerKey, "joint_request_rejects_one_key_under_two_quotas"),
        (Flaw::ReplacesLeaseIds, "every_store_method_decides_leases_alike"),
        (Flaw::ClaimsToBeImmediate, "immediate_store_never_waits"),
        (Flaw::WaitsForBatches, "immediate_store_never_waits"),
        (Flaw::RefundsBeyondCapacity, "refund_restores_quota"),
        (Flaw::RefusesDebt, "reserve_goes_into_debt"),
        (Flaw::LosesLargeNumbers, "very_large_numbers_are_exact"),
        (Flaw::RenewsExpiredLeases, "renewing_extends_a_lease"),
        (Flaw::ReplacesLeaseIds, "admitting_twice_takes_one_place"),
        (Flaw::ReleasesAllLeases, "releasing_twice_frees_one_place"),
        (Flaw::ReleasesAllLeases, "late_release_changes_nothing"),
        (Flaw::TruncatesLeaseIds, "similar_lease_ids_stay_distinct"),
        (Flaw::ResetsOnQuotaChange, "quota_change_keeps_leases"),
        (Flaw::NeverEvicts, "expired_leases_are_evicted"),
        (Flaw::ChecksThenAdds, "concurrent_leases_never_exceed_the_capacity"),
        (Flaw::MovesTimeBack, "backwards_clock_stands_still_for_leases"),
    ];
    for (flaw, case) in caught_by {
        let message = failure(BrokenStore::new(flaw), case);
        assert!(message.is_some_and(|message| !message.is_empty()), "{case} does not catch {flaw:?}");
    }
}

#[test]
fn flawless_store_passes_every_case() {
    for case in suite::CASES {
        assert_eq!(failure(BrokenStore::new(Flaw::None), case), None, "{case}");
    }
}

#[test]
fn unclaimed_capability_is_listed_as_not_applicable() {
    let run = |case| block_on(suite::run(&Subject::new(BrokenStore::new(Flaw::AppliesBatchesOneByOne)), case)).unwrap();
    let listed = run("joint_requests_are_atomic_under_concurrency");
    assert!(matches!(listed, Applicability::NotApplicable(reason) if reason.contains("atomic_all")));
    assert_eq!(run("new_key_is_allowed"), Applicability::Ran);
}

#[test]
fn oracle_finds_flaws_and_shortens_the_history() {
    let flaws = [
        Flaw::RetriesEarly,
        Flaw::MovesTimeBack,
        Flaw::WritesOnDenial,
        Flaw::ResetsOnQuotaChange,
        Flaw::RenewsExpiredLeases,
        Flaw::ReplacesLeaseIds,
        Flaw::TruncatesLeaseIds,
    ];
    for flaw in flaws {
        let mismatch = (0..200)
            .find_map(|seed| block_on(oracle::run(&Subject::new(BrokenStore::new(flaw)), seed, 40)).err())
            .unwrap_or_else(|| panic!("{flaw:?} is not found"));
        let text = mismatch.to_string();
        assert!(mismatch.history.len() <= 4, "{flaw:?}: {text}");
        assert!(text.contains(&format!("seed {}, step {}", mismatch.seed, mismatch.step)), "{text}");
        // The shortened history is a failing trace by itself.
        let trace = oracle::Trace { steps: mismatch.history };
        assert!(block_on(oracle::replay(&Subject::new(BrokenStore::new(flaw)), "again", &trace)).is_err());
        assert!(block_on(oracle::replay(&Subject::new(MapStore::new()), "again", &trace)).is_ok());
    }
}
