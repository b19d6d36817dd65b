//! Answers that are there at the first poll.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{StoreError, StoreErrorKind};

/// What a store that [answers at once](super::Store::is_immediate) says, where nobody waits.
pub fn poll_once<T, E: From<StoreError>>(answer: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(keeps_waiting().into()),
    }
}

#[cold]
fn keeps_waiting() -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, "a store that says it answers at once keeps its callers waiting")
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn an_answer_that_is_not_there_is_an_error_and_not_waited_for() {
        assert_eq!(poll_once::<_, StoreError>(ready(Ok(7))).unwrap(), 7);
        let error = poll_once::<(), StoreError>(pending()).unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (StoreErrorKind::Unsupported, false));
    }
}
