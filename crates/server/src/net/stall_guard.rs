//! `StallGuard`: drops an HTTP/2 response whose client has stopped reading it.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::inline_executor::BoxedResponse;

/// How long a client may take to make room for more of its response.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The progress of a response in its last poll.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// It waits for the server: a store, or the next piece.
    waits_for_server: bool,
    /// It had something to send.
    has_sent: bool,
}

thread_local! {
    // hyper polls a response and its body in one call without a way to pass this on.
    static PROGRESS: Cell<Progress> = const { Cell::new(Progress { waits_for_server: false, has_sent: false }) };
}

/// Records the progress of the head or a piece of the body, so that a delay of the server does not count against the
/// client.
pub(super) fn note<T>(part: Poll<T>) -> Poll<T> {
    let progress = PROGRESS.get();
    PROGRESS.set(match part {
        Poll::Pending => Progress { waits_for_server: true, ..progress },
        Poll::Ready(_) => Progress { has_sent: true, ..progress },
    });
    part
}

/// Polls the head of a response and notes its progress.
pub(super) async fn note_head<F: Future>(head: F) -> F::Output {
    let mut head = pin!(head);
    poll_fn(|context| note(head.as_mut().poll(context))).await
}

/// A response over HTTP/2 that times out. A client that makes no room would keep it in memory for ever: dropping it resets its
/// stream.
pub(super) struct StallGuard {
    response: BoxedResponse,
    /// The timer while the client is waited for.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl StallGuard {
    pub(super) fn new(response: BoxedResponse) -> Self {
        StallGuard { response, stalled: None }
    }
}

impl Future for StallGuard {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        PROGRESS.set(Progress::default());
        if self.response.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let Progress { waits_for_server, has_sent } = PROGRESS.get();
        if waits_for_server || has_sent {
            self.stalled = None;
        }
        if waits_for_server {
            return Poll::Pending;
        }
        self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_TIMEOUT))).as_mut().poll(context)
    }
}
