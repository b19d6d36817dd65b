//! Parallel work, on as many threads as there are cores.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cargo::TaskError;

/// Maps items in parallel, and returns the results in their order. All items are mapped, even if one fails.
pub(crate) fn map<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<R, TaskError> + Sync,
) -> Result<Vec<R>, TaskError> {
    let (remaining, results) = (Mutex::new(items.enumerate()), Mutex::new(Vec::new()));
    let run_worker = || {
        loop {
            let next = remaining.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, item)) = next else { return };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(run_worker))));
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let doubled = map(0..100, |number| Ok(2 * number));
        assert!(doubled.is_ok_and(|doubled| doubled.into_iter().eq((0..100).map(|number| 2 * number))));
    }

    #[test]
    fn one_failure_is_returned() {
        let failed = map(0..100, |number| if number == 70 { Err(TaskError("70".to_owned())) } else { Ok(()) });
        assert!(failed.is_err_and(|TaskError(message)| message == "70"));
    }
}
