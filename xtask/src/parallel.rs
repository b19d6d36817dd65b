//! As much at once as there are cores.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cargo::Failed;

/// Does the work for each, and returns what came of it in their order. All of it is done, though one part may fail.
pub(crate) fn each<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<R, Failed> + Sync,
) -> Result<Vec<R>, Failed> {
    let (left, done) = (Mutex::new(items.enumerate()), Mutex::new(Vec::new()));
    let one_after_the_other = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, item)) = next else { return };
            let result = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(one_after_the_other))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_it_is_in_order() {
        let doubled = each(0..100, |number| Ok(2 * number));
        assert!(doubled.is_ok_and(|doubled| doubled.into_iter().eq((0..100).map(|number| 2 * number))));
    }

    #[test]
    fn one_that_fails_is_told() {
        let failed = each(0..100, |number| if number == 70 { Err(Failed("70".to_owned())) } else { Ok(()) });
        assert!(failed.is_err_and(|Failed(which)| which == "70"));
    }
}
