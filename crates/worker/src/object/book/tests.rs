//! How often the storage is asked, what is written, and what is swept.

use tidegate::store::Scope;
use tidegate::{Cost, Key, Lease, OnStoreError, days, hours, seconds};

use super::*;
use crate::object::memory::MemoryRows;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn later(span: std::time::Duration) -> When {
    When { at: NOW.saturating_add(span), given: false }
}

fn quotas() -> [Quota; 4] {
    [
        Quota::token_bucket(2, days(1)).unwrap(),
        Quota::fixed_window(2, days(365)).unwrap(),
        Quota::sliding_window(2, days(1)).unwrap(),
        Quota::sliding_log(2, days(1)).unwrap(),
    ]
}

fn ask(book: &Book<MemoryRows>, quota: &Quota, key: &str, op: Op, when: When) -> Result<Decision, StoreError> {
    let (scope, key, on_store_error) = (Scope::new("", "api"), Key::from(key), OnStoreError::Closed);
    let request = Request { scope: &scope, key: &key, quota, op, on_store_error };
    book.answer(Asking::Apply(ApplyMode::Each), &[request], when).unwrap().remove(0)
}

fn calls(book: &Book<MemoryRows>) -> (usize, usize) {
    (book.rows().reads.take(), book.rows().writes.take())
}

#[test]
fn a_decision_is_one_read_at_most_and_a_write_only_when_something_changes() {
    for quota in quotas() {
        let book = Book::new(MemoryRows::default());
        let ask = |op, allowed, expected| {
            assert_eq!(ask(&book, &quota, "u1", op, later(seconds(1))).unwrap().allowed(), allowed, "{op:?}");
            assert_eq!(calls(&book), expected, "{quota:?}: {op:?}: reads and writes");
        };
        ask(Op::Check(Cost::ONE), true, (1, 0));
        ask(Op::Limit(Cost::ONE), true, (1, 1));
        // From now on it is in memory.
        ask(Op::Limit(Cost::ONE), true, (0, 1));
        ask(Op::Limit(Cost::ONE), false, (0, 0));
        ask(Op::Check(Cost::ONE), false, (0, 0));
        ask(Op::Refund(Cost::ONE), true, (0, 1));
        ask(Op::Reserve(Cost::ONE), true, (0, 1));
        ask(Op::Reset, true, (0, 1));
        ask(Op::Reset, true, (1, 0));
        assert!(book.rows().rows.borrow().is_empty());
    }
}

#[test]
fn an_object_that_was_ended_goes_on_where_it_was() {
    for quota in quotas() {
        let mut book = Book::new(MemoryRows::default());
        for expected in [true, true, false, false] {
            let decision = ask(&book, &quota, "u1", Op::Limit(Cost::ONE), later(seconds(1))).unwrap();
            assert_eq!(decision.allowed(), expected, "{quota:?}");
            book = Book::new(book.rows);
        }
    }
}

#[test]
fn a_write_that_fails_is_an_error_and_leaves_no_trace_in_memory() {
    for quota in quotas() {
        let book = Book::new(MemoryRows::default());
        let limit = |when| ask(&book, &quota, "u1", Op::Limit(Cost::ONE), when);
        assert_eq!(limit(later(seconds(1))).unwrap().remaining(), 1);
        book.rows().is_full.set(true);
        assert!(limit(later(seconds(1))).unwrap_err().is_retryable());
        assert!(limit(later(seconds(1))).is_err());
        book.rows().is_full.set(false);
        assert_eq!(limit(later(seconds(1))).unwrap().remaining(), 0, "{quota:?}: taken once more, and no oftener");
    }
}

#[test]
fn all_or_nothing_is_one_write_of_everything() {
    let (book, quota, scope) = (Book::new(MemoryRows::default()), quotas()[0], Scope::new("", "api"));
    let keys: Vec<Key<'_>> = (0..50_u64).map(Key::from).collect();
    let (op, on_store_error) = (Op::Limit(Cost::new(2).unwrap()), OnStoreError::Closed);
    let requests: Vec<_> =
        keys.iter().map(|key| Request { scope: &scope, key, quota: &quota, op, on_store_error }).collect();
    let all = |asking, requests: &[Request<'_>]| {
        let answers = book.answer(asking, requests, later(seconds(1))).unwrap();
        answers.into_iter().map(|answer| answer.map(|decision| decision.allowed())).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(all(Asking::Look, &requests).unwrap(), [true; 50]);
    assert_eq!(calls(&book).1, 0, "a look writes nothing");
    book.rows().is_full.set(true);
    assert!(all(Asking::Apply(ApplyMode::All), &requests).is_err());
    book.rows().is_full.set(false);
    assert_eq!(all(Asking::Apply(ApplyMode::All), &requests[..49]).unwrap(), [true; 49], "what failed took nothing");
    assert_eq!(calls(&book).1, 1);
    assert!(all(Asking::Apply(ApplyMode::All), &requests).unwrap().contains(&false));
    assert_eq!(calls(&book).1, 0, "a denial writes nothing");
    assert_eq!(
        all(Asking::Apply(ApplyMode::All), &requests[49..]).unwrap(),
        [true],
        "the last one was not taken before"
    );
}

#[test]
fn nothing_is_written_before_it_is_settled_how_many_objects_there_are() {
    let (book, quota, scope, key) =
        (Book::new(MemoryRows::default()), quotas()[0], Scope::new("", "api"), Key::from("u1"));
    book.rows().is_unsettled.set(true);
    let request = |op| Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
    let (check, limit) = (request(Op::Check(Cost::ONE)), request(Op::Limit(Cost::ONE)));
    assert!(book.answer(Asking::Apply(ApplyMode::Each), &[check], later(seconds(1))).is_ok());
    for mode in [ApplyMode::Each, ApplyMode::All] {
        assert!(book.answer(Asking::Apply(mode), &[limit, limit], later(seconds(1))).is_err());
    }
    book.rows().is_unsettled.set(false);
    let answers = book.answer(Asking::Apply(ApplyMode::Each), &[limit, limit, limit], later(seconds(1))).unwrap();
    let allowed: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().allowed()).collect();
    assert_eq!(allowed, [true, true, false], "the calls that had to wait took nothing");
}

#[test]
fn damage_is_said_and_a_reset_mends_it() {
    let (book, quota) = (Book::new(MemoryRows::default()), quotas()[0]);
    let limit = || ask(&book, &quota, "u1", Op::Limit(Cost::ONE), later(seconds(1)));
    let row = Row { name: "%|api|u1".to_owned(), value: b"not ours".to_vec(), new_at: 0, given: false };
    assert!(book.rows().write(&[row]).is_ok());
    assert_eq!(limit().unwrap_err().kind(), StoreErrorKind::Corrupt);
    assert!(ask(&book, &quota, "u1", Op::Reset, later(seconds(1))).unwrap().allowed());
    assert_eq!(limit().unwrap().remaining(), 1);
}

/// Sweeps to the end, and says how many are left.
fn sweep(book: &Book<MemoryRows>, when: When) -> usize {
    let mut after = String::new();
    while let Some(next) = book.sweep(&after, when).unwrap() {
        after = next;
    }
    book.rows().rows.borrow().len()
}

#[test]
fn a_sweep_forgets_what_is_as_good_as_new_and_nothing_else() {
    let book = Book::new(MemoryRows::default());
    let hour = Quota::fixed_window(2, hours(1)).unwrap();
    let year = Quota::fixed_window(2, days(365)).unwrap();
    let lease = Quota::concurrency(2, days(2)).unwrap();
    for number in 0..2_500 {
        let _ = ask(&book, &hour, &format!("hour-{number}"), Op::Limit(Cost::ONE), later(seconds(0))).unwrap();
    }
    let _ = ask(&book, &year, "year", Op::Limit(Cost::new(2).unwrap()), later(seconds(0))).unwrap();
    let _ = ask(&book, &lease, "lease", Op::Admit(Lease::from_bits(7)), later(seconds(0))).unwrap();
    // A test's own time is not the alarm's.
    let given = When { given: true, ..later(seconds(0)) };
    let _ = ask(&book, &hour, "given", Op::Limit(Cost::ONE), given).unwrap();

    assert_eq!(sweep(&book, later(seconds(0))), 2_503, "nothing is as good as new yet");
    book.rows().pages.set(0);
    assert_eq!(sweep(&book, later(hours(1))), 3);
    assert_eq!(book.rows().pages.get(), 3, "in pages of 1,000");
    // Idle for longer than a day, and spent all the same.
    assert_eq!(sweep(&book, later(hours(47))), 3);
    let denied = ask(&book, &year, "year", Op::Limit(Cost::ONE), later(hours(47))).unwrap();
    assert!(!denied.allowed());
    assert_eq!(sweep(&book, later(hours(48))), 2, "the lease has expired");
    assert_eq!(sweep(&book, When { given: true, ..later(hours(48)) }), 1, "what a test wrote goes by a test's time");
    // What was swept is gone from memory as well: even a clock that went back meets the same as after the object's end.
    assert_eq!(ask(&book, &hour, "hour-1", Op::Limit(Cost::ONE), later(seconds(0))).unwrap().remaining(), 1);
}
