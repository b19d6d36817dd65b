//! The suite can fail: stores with one flaw each, and the case that has to catch it.

mod store;

use std::panic::{self, AssertUnwindSafe};

use store::{BrokenStore, Flaw};
use tidegate_core::Testing;
use tidegate_testkit::{Applicability, MapStore, Subject, block_on, oracle, suite};

/// Whether a case fails, and with what message.
fn failure<S: Testing + 'static>(store: S, case: &str) -> Option<String> {
    let subject = Subject::new(store);
    let run = AssertUnwindSafe(|| block_on(suite::run(&subject, case)).expect("a case of the suite"));
    let payload = panic::catch_unwind(run).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    Some(text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

#[test]
fn every_flaw_is_caught_by_the_case_that_names_it() {
    let caught_by = [
        (Flaw::WritesOnCheck, "check_writes_nothing"),
        (Flaw::WritesOnDenial, "denied_takes_nothing"),
        (Flaw::IgnoresCost, "weighted_cost"),
        (Flaw::FloorsRefill, "polling_loses_nothing"),
        (Flaw::RetriesEarly, "retry_after_is_honest"),
        (Flaw::RetriesLate, "retry_after_is_honest"),
        (Flaw::MovesTimeBack, "backwards_clock_stands_still"),
        (Flaw::ForgetsBusyKeys, "busy_keys_are_not_forgotten"),
        (Flaw::ForgetsBusyKeys, "forgetting_changes_no_decision"),
        (Flaw::NeverForgets, "idle_keys_are_forgotten"),
        (Flaw::ChecksThenAdds, "no_double_spend"),
        (Flaw::ChecksThenAdds, "no_double_spend_weighted"),
        (Flaw::ChecksThenAdds, "all_or_nothing_under_concurrency"),
        (Flaw::ChecksThenAdds, "check_then_add_does_not_over_admit"),
        (Flaw::IgnoresPrefix, "prefixes_do_not_meet"),
        (Flaw::IgnoresCase, "tricky_keys_stay_distinct"),
        (Flaw::ForgivesOnQuotaChange, "quota_raise_keeps_what_was_used"),
        (Flaw::ForgivesOnQuotaChange, "quota_cut_becomes_debt"),
        (Flaw::ForgivesOnQuotaChange, "all_under_another_quota_keeps_what_was_used"),
        (Flaw::IgnoresQuotaChange, "algorithm_change_keeps_what_was_used"),
        (Flaw::RebasesIdleKeys, "idle_is_new_under_any_quota"),
        (Flaw::TakesBatchesOneByOne, "all_denied_burns_nothing"),
        (Flaw::JudgesTwinsAlone, "all_counts_the_same_key_twice"),
        (Flaw::LetsBatchesCheck, "all_refuses_other_operations"),
        (Flaw::JudgesAKeyByTwoQuotas, "all_refuses_one_key_under_two_quotas"),
        (Flaw::TakesHoldersForOthers, "leases_are_the_same_however_asked"),
        (Flaw::ClaimsToAnswerAtOnce, "who_answers_at_once_never_waits"),
        (Flaw::WaitsForBatches, "who_answers_at_once_never_waits"),
        (Flaw::RefundsBeyondCapacity, "refund_gives_back"),
        (Flaw::LimitsDebtAway, "reserve_goes_into_debt"),
        (Flaw::LosesLargeNumbers, "very_large_numbers"),
        (Flaw::RenewsWhatIsGone, "renewing_extends_a_lease"),
        (Flaw::TakesHoldersForOthers, "admitting_twice_takes_one_place"),
        (Flaw::ReleasesEverything, "releasing_twice_frees_one_place"),
        (Flaw::ReleasesEverything, "late_release_changes_nothing"),
        (Flaw::LosesHalfOfALease, "leases_with_alike_ids_are_different"),
        (Flaw::ForgivesOnQuotaChange, "changed_quotas_keep_leases"),
        (Flaw::NeverForgets, "idle_leases_are_forgotten"),
        (Flaw::ChecksThenAdds, "no_more_leases_than_the_capacity"),
        (Flaw::MovesTimeBack, "leases_on_a_clock_that_goes_back"),
    ];
    for (flaw, case) in caught_by {
        let message = failure(BrokenStore::new(flaw), case);
        assert!(message.is_some_and(|message| !message.is_empty()), "{case} does not catch {flaw:?}");
    }
}

#[test]
fn a_store_without_a_flaw_is_not_accused() {
    for case in suite::CASES {
        assert_eq!(failure(BrokenStore::new(Flaw::None), case), None, "{case}");
    }
}

#[test]
fn what_a_store_does_not_claim_is_listed_and_not_passed() {
    let run = |case| block_on(suite::run(&Subject::new(BrokenStore::new(Flaw::TakesBatchesOneByOne)), case)).unwrap();
    let listed = run("all_or_nothing_under_concurrency");
    assert!(matches!(listed, Applicability::NotApplicable(reason) if reason.contains("atomic_all")));
    assert_eq!(run("allowed"), Applicability::Ran);
}

#[test]
fn the_oracle_catches_flaws_and_shortens_the_history() {
    let flaws = [
        Flaw::RetriesEarly,
        Flaw::MovesTimeBack,
        Flaw::WritesOnDenial,
        Flaw::ForgivesOnQuotaChange,
        Flaw::RenewsWhatIsGone,
        Flaw::TakesHoldersForOthers,
        Flaw::LosesHalfOfALease,
    ];
    for flaw in flaws {
        let mismatch = (0..200)
            .find_map(|seed| block_on(oracle::run(&Subject::new(BrokenStore::new(flaw)), seed, 40)).err())
            .unwrap_or_else(|| panic!("{flaw:?} is not found"));
        let text = mismatch.to_string();
        assert!(mismatch.history.len() <= 4, "{flaw:?}: {text}");
        assert!(text.contains(&format!("seed {}, step {}", mismatch.seed, mismatch.step)), "{text}");
        // The short history is a failing trace by itself.
        let trace = oracle::Trace { steps: mismatch.history };
        assert!(block_on(oracle::replay(&Subject::new(BrokenStore::new(flaw)), "again", &trace)).is_err());
        assert!(block_on(oracle::replay(&Subject::new(MapStore::new()), "again", &trace)).is_ok());
    }
}
