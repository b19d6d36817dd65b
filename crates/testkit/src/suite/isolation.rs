//! Cases about isolation: which scopes and keys share a budget.

use std::collections::HashMap;

use tidegate_core::{Key, Quota, Scope, TestableStore, seconds};

use super::caller::{BASE, Caller, standard_quotas};
use crate::{Applicability, Subject};

/// Two keys of one limit have separate budgets.
pub async fn keys_have_separate_budgets<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let first = Caller::new(subject, "keys_have_separate_budgets", quota);
        let second = first.with_key("other");
        first.expect_allowed(10, BASE).await;
        second.expect_remaining(10, BASE, "after the first key took all of its own").await;
        second.expect_allowed(4, BASE).await;
        first.expect_remaining(0, BASE, "after the second key took some").await;
    }
    Applicability::Ran
}

/// A key has separate budgets in two limits.
pub async fn limits_have_separate_budgets<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let first = Caller::new(subject, "limits_have_separate_budgets", quota);
        let second =
            first.with_scope(subject.scope("limits_have_separate_budgets", &format!("{}2", first.scope.limit())));
        first.expect_allowed(10, BASE).await;
        second.expect_remaining(10, BASE, "after another limit was used up").await;
    }
    Applicability::Ran
}

/// Limiters with different prefixes have separate budgets, even when the texts of prefix, limit and key run together.
pub async fn prefixes_have_separate_budgets<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let case = |end: &str| format!("{}prefixes_have_separate_budgets{end}", subject.prefix());
    let quota = Quota::token_bucket(100, seconds(10)).expect("a valid quota");
    let mut callers = Vec::new();
    for (prefix, limit, key) in [
        ("", "b", Key::from("d")),
        ("a", "b", Key::from("d")),
        ("A", "b", Key::from("d")),
        ("a", "b", Key::from(("c", "d"))),
        ("a", "b|c", Key::from("d")),
        ("a|b", "c", Key::from("d")),
        ("a", "b", Key::GLOBAL),
        ("a", "bd", Key::GLOBAL),
        ("a:b", "c", Key::from("d")),
        ("a", "b:c", Key::from("d")),
        ("a", "", Key::from(("b", "d"))),
        ("a", "", Key::from("d")),
    ] {
        callers.push(Caller { subject, scope: Scope::new(&case(prefix), limit), key, quota });
    }
    expect_separate_budgets(&callers).await
}

/// Two limiters on one store share a budget if prefix and limit are equal. That is how a fleet shares.
pub async fn equal_scopes_share_a_budget<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let first = Caller::new(subject, "equal_scopes_share_a_budget", quota);
        let second = Caller::new(subject, "equal_scopes_share_a_budget", quota);
        first.expect_allowed(6, BASE).await;
        second.expect_remaining(4, BASE, "after an equal scope took 6").await;
        second.expect_allowed(4, BASE).await;
        first.expect_denied(1, BASE).await;
    }
    Applicability::Ran
}

/// Similar keys stay distinct, also with separators, empty, long, or in other scripts.
pub async fn tricky_keys_stay_distinct<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let long = "x".repeat(4_095);
    let keys = vec![
        Key::GLOBAL,
        Key::from(""),
        Key::from(("", "")),
        Key::from(("", "", "")),
        Key::from(" "),
        Key::from("a"),
        Key::from("A"),
        Key::from("a "),
        Key::from(" a"),
        Key::from(("a", "")),
        Key::from(("", "a")),
        Key::from(("a", "b")),
        Key::from("a|b"),
        Key::from(("a|b", "c")),
        Key::from(("a", "b|c")),
        Key::from(("a", "b", "c")),
        Key::from("%"),
        Key::from("%25"),
        Key::from("%7c"),
        Key::from("a%7cb"),
        Key::from("a:b"),
        Key::from("{a}"),
        Key::from("a*"),
        Key::from("a?"),
        Key::from("a_"),
        Key::from("'a'"),
        Key::from("\"a\""),
        Key::from("a\\"),
        Key::from("a\n"),
        Key::from("a\r\n"),
        Key::from("a\0"),
        Key::from("\u{e9}"),
        Key::from("e\u{301}"),
        Key::from("\u{df}"),
        Key::from("ss"),
        Key::from("\u{65e5}\u{672c}"),
        Key::from("\u{1f30a}"),
        Key::from(format!("{long}1")),
        Key::from(format!("{long}2")),
        Key::from("%s0"),
        Key::shard(0),
        Key::shard(1),
        Key::from("a").with_shard(0),
    ];
    let quota = Quota::token_bucket(100, seconds(10)).expect("a valid quota");
    let caller = Caller::new(subject, "tricky_keys_stay_distinct", quota);
    let callers: Vec<_> = keys.into_iter().map(|key| caller.with_key(key)).collect();
    expect_separate_budgets(&callers).await
}

/// Takes a different amount from each caller, which has 100, and expects exactly that to be missing in the end.
async fn expect_separate_budgets<S: TestableStore + 'static>(callers: &[Caller<'_, S>]) -> Applicability {
    let mut names = HashMap::new();
    for (taken, caller) in (1..).zip(callers) {
        let name = (caller.scope.as_str(), caller.key.to_text());
        assert_eq!(names.insert(name, taken), None, "{caller}: the case has one key twice");
        let decision = caller.expect_allowed(taken, BASE).await;
        assert_eq!(u64::from(decision.remaining), 100 - taken, "{caller}: remaining after its first {taken}");
    }
    for (taken, caller) in (1..).zip(callers) {
        caller.expect_remaining(100 - taken, BASE, "after all the others took something").await;
    }
    Applicability::Ran
}
