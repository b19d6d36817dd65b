//! The conformance suite: what every store has to do, one named case at a time.
//!
//! A case is a plain async function over a [`Subject`]. It panics when the store breaks the contract, and its message
//! says under which quota, at which step, what was expected and what came. A case that is about something the store
//! does not claim says so with [`Applicability::NotApplicable`].
//!
//! Cases pass their own time in, but for those about many callers at once and about `try_apply`, `apply` and `apply_each`
//! themselves: they run on the store's clock, with periods so long that nothing refills. The cases about forgetting
//! count the keys of the whole store, so they need one that no other test uses at the same time.

mod batches;
mod caller;
mod changes;
mod concurrency;
mod deciding;
mod forgetting;
mod honesty;
mod isolation;
mod leases;
mod numbers;
mod operations;
mod peers;
mod time;

use tidegate_core::Testing;

use crate::{Applicability, Subject};
pub use batches::{
    all_counts_the_same_key_twice, all_denied_burns_nothing, all_refuses_one_key_under_two_quotas,
    all_refuses_other_operations, all_retries_when_all_pass, all_takes_everything,
    all_under_another_quota_keeps_what_was_used, each_is_applied_in_order, each_under_two_quotas_is_applied_in_order,
    empty_batches_are_allowed, try_apply_agrees_with_apply, who_answers_at_once_never_waits,
};
pub use changes::{
    algorithm_change_keeps_what_was_used, idle_is_new_under_any_quota, quota_cut_becomes_debt,
    quota_raise_keeps_what_was_used, tiers_that_alternate_keep_refilling, tiers_that_alternate_share_what_was_used,
};
pub use concurrency::{all_or_nothing_under_concurrency, no_double_spend, no_double_spend_weighted};
pub use deciding::{
    allowed, blocked, check_writes_nothing, cost_above_capacity, denied_takes_nothing, exactly_at_capacity,
    weighted_cost,
};
pub use forgetting::{busy_keys_are_not_forgotten, forgetting_changes_no_decision, idle_keys_are_forgotten};
pub use honesty::{next_after_is_honest, reset_after_is_honest, retry_after_is_honest};
pub use isolation::{
    equal_scopes_share, keys_do_not_meet, limits_do_not_meet, prefixes_do_not_meet, tricky_keys_stay_distinct,
};
pub use leases::{
    admitting_twice_takes_one_place, between_leases_and_a_rate_a_key_begins_anew, changed_quotas_keep_leases,
    idle_leases_are_forgotten, late_release_changes_nothing, lease_expires_at_its_time, leases_and_units_do_not_mix,
    leases_are_the_same_however_asked, leases_of_keys_do_not_meet, leases_on_a_clock_that_goes_back,
    leases_up_to_the_capacity, leases_with_alike_ids_are_different, looking_at_leases_writes_nothing,
    no_more_leases_than_the_capacity, releasing_twice_frees_one_place, renewing_extends_a_lease, reset_forgets_leases,
};
pub use numbers::{fractional_rates_are_exact, very_large_numbers, very_small_numbers};
pub use operations::{
    refund_gives_back, refund_takes_the_newest_first, reserve_goes_into_debt, reserve_stops_at_max_debt, reset_forgets,
};
pub use peers::{burst_of_one_limits, check_then_add_does_not_over_admit, no_more_than_the_burst_after_idle};
pub use time::{
    backwards_clock_is_honest, backwards_clock_stands_still, leftovers_roll_over, polling_loses_nothing,
    windows_begin_at_start,
};

/// Makes one `#[test]` of every case, in a module of that name, so that the first failure does not hide the rest.
/// The subject is made anew for each.
///
/// ```
/// use tidegate_testkit::{MapStore, Subject, conformance_tests};
///
/// conformance_tests!(map_store, Subject::new(MapStore::new()));
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($module:ident, $subject:expr) => {
        $crate::__with_cases! { __conformance_module ($module, $subject) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_module {
    (($module:ident, $subject:expr) $($case:ident)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the subject may be made without anything from around it")]
            use super::*;

            $(
                #[test]
                fn $case() {
                    let subject = $subject;
                    let looked_at = subject.clone();
                    subject
                        .run(async move { $crate::suite::$case(&looked_at).await })
                        .report(concat!(module_path!(), "::", stringify!($case)));
                }
            )*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __with_cases {
    ($callback:ident $arguments:tt) => {
        $crate::$callback! {
            $arguments
            allowed
            blocked
            weighted_cost
            exactly_at_capacity
            cost_above_capacity
            denied_takes_nothing
            check_writes_nothing
            keys_do_not_meet
            limits_do_not_meet
            prefixes_do_not_meet
            equal_scopes_share
            tricky_keys_stay_distinct
            no_double_spend
            no_double_spend_weighted
            all_or_nothing_under_concurrency
            reserve_goes_into_debt
            reserve_stops_at_max_debt
            refund_gives_back
            refund_takes_the_newest_first
            reset_forgets
            retry_after_is_honest
            reset_after_is_honest
            next_after_is_honest
            backwards_clock_stands_still
            backwards_clock_is_honest
            polling_loses_nothing
            windows_begin_at_start
            leftovers_roll_over
            fractional_rates_are_exact
            very_large_numbers
            very_small_numbers
            all_takes_everything
            all_denied_burns_nothing
            all_retries_when_all_pass
            all_counts_the_same_key_twice
            all_refuses_other_operations
            all_refuses_one_key_under_two_quotas
            all_under_another_quota_keeps_what_was_used
            empty_batches_are_allowed
            each_is_applied_in_order
            each_under_two_quotas_is_applied_in_order
            try_apply_agrees_with_apply
            who_answers_at_once_never_waits
            quota_raise_keeps_what_was_used
            quota_cut_becomes_debt
            algorithm_change_keeps_what_was_used
            tiers_that_alternate_share_what_was_used
            tiers_that_alternate_keep_refilling
            idle_is_new_under_any_quota
            idle_keys_are_forgotten
            busy_keys_are_not_forgotten
            forgetting_changes_no_decision
            burst_of_one_limits
            no_more_than_the_burst_after_idle
            check_then_add_does_not_over_admit
            leases_up_to_the_capacity
            leases_are_the_same_however_asked
            lease_expires_at_its_time
            renewing_extends_a_lease
            late_release_changes_nothing
            releasing_twice_frees_one_place
            admitting_twice_takes_one_place
            looking_at_leases_writes_nothing
            reset_forgets_leases
            changed_quotas_keep_leases
            between_leases_and_a_rate_a_key_begins_anew
            leases_of_keys_do_not_meet
            leases_with_alike_ids_are_different
            leases_on_a_clock_that_goes_back
            idle_leases_are_forgotten
            no_more_leases_than_the_capacity
            leases_and_units_do_not_mix
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __case_names {
    (() $($case:ident)*) => {
        /// The name of every case, in the order of the suite.
        pub const CASES: &[&str] = &[$(stringify!($case)),*];

        /// Runs one case by its name; none when there is no such case.
        pub async fn run<S: Testing + 'static>(subject: &Subject<S>, case: &str) -> Option<Applicability> {
            match case {
                // On the heap, so that the future is not as large as all cases together.
                $(stringify!($case) => Some(Box::pin($case(subject)).await),)*
                _ => None,
            }
        }
    };
}

crate::__with_cases! { __case_names () }
