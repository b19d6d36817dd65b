//! Answers that wait for their clients, for a while.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::in_place::Answering;

/// How long a client may take to make room for more of its answer.
pub(super) const ROOM: Duration = Duration::from_secs(60);

/// What became of an answer while it was made the last time.
#[derive(Clone, Copy, Default)]
struct Made {
    /// It waits for something of ours: a store, or what comes next.
    waits_for_us: bool,
    /// There was something to send.
    goes_on: bool,
}

thread_local! {
    static MADE: Cell<Made> = const { Cell::new(Made { waits_for_us: false, goes_on: false }) };
}

/// Notes what became of a part of an answer, its head or a piece of its body, which is then nothing that the client is waited for.
pub(super) fn note<T>(part: Poll<T>) -> Poll<T> {
    let made = MADE.get();
    MADE.set(match part {
        Poll::Pending => Made { waits_for_us: true, ..made },
        Poll::Ready(_) => Made { goes_on: true, ..made },
    });
    part
}

/// The same, noted.
pub(super) async fn noted<F: Future>(head: F) -> F::Output {
    let mut head = pin!(head);
    poll_fn(|context| note(head.as_mut().poll(context))).await
}

/// An answer over HTTP/2 on its way. A client that makes no room for it would have it kept for ever: after a while it is given up,
/// which resets its stream.
pub(super) struct Sending {
    answer: Answering,
    /// While the client is waited for.
    room: Option<Pin<Box<Sleep>>>,
}

impl Sending {
    pub(super) fn new(answer: Answering) -> Self {
        Sending { answer, room: None }
    }
}

impl Future for Sending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        MADE.set(Made::default());
        if self.answer.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let Made { waits_for_us, goes_on } = MADE.get();
        if waits_for_us || goes_on {
            self.room = None;
        }
        if waits_for_us {
            return Poll::Pending;
        }
        self.room.get_or_insert_with(|| Box::pin(sleep(ROOM))).as_mut().poll(context)
    }
}
