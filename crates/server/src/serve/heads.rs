//! How long the head of a request may take, by one timer for a whole connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant as StdInstant};

use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, sleep_until};

/// The timer of one connection of HTTP/1. Every request has a deadline of its own, and nearly none is ever reached: to tell the
/// runtime of each would cost more than to read the head. So the runtime is told of one; when that is reached, it is told of the
/// one that is the latest by then. No deadline is missed by that, as each is as far away as the others when it is set.
pub(crate) struct Heads {
    times: Arc<Times>,
    patience: Duration,
    /// None until there is a deadline.
    alarm: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// In microseconds since the connection began.
struct Times {
    began: Instant,
    /// The latest deadline; 0 before there is one.
    latest: AtomicU64,
    /// When the alarm went off the last time.
    rang: AtomicU64,
}

impl Heads {
    /// For deadlines that are `patience` away when they are set.
    pub(crate) fn new(patience: Duration) -> Self {
        let times = Times { began: Instant::now(), latest: AtomicU64::new(0), rang: AtomicU64::new(0) };
        Heads { times: Arc::new(times), patience, alarm: None }
    }

    /// What sets the deadlines.
    pub(crate) fn timer(&self) -> impl Timer + Send + Sync + 'static {
        Deadlines(Arc::clone(&self.times))
    }

    /// Whether the alarm went off, so that a deadline may have been reached.
    pub(crate) fn rang(&mut self, context: &mut Context<'_>) -> bool {
        let Times { began, latest, rang } = &*self.times;
        let latest = latest.load(Ordering::Relaxed);
        if latest == 0 {
            return false;
        }
        let at = |micros| *began + Duration::from_micros(micros);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at(latest))));
        if alarm.as_mut().poll(context).is_pending() {
            return false;
        }
        let now = Instant::now();
        let micros = micros(now - *began);
        rang.store(micros, Ordering::Relaxed);
        // Whatever is set from now on is a whole patience away.
        alarm.as_mut().reset(if latest > micros { at(latest) } else { now + self.patience });
        true
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Sets the deadlines of a connection.
struct Deadlines(Arc<Times>);

impl Timer for Deadlines {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + time)
    }

    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn Sleep>> {
        let at = micros(Instant::from_std(deadline) - self.0.began);
        self.0.latest.fetch_max(at, Ordering::Relaxed);
        Box::pin(Deadline { at, times: Arc::clone(&self.0) })
    }

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }
}

/// Waits until a deadline is reached. It is not woken for it: [`Heads::rang`] says when to look.
struct Deadline {
    at: u64,
    times: Arc<Times>,
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.times.rang.load(Ordering::Relaxed) >= self.at { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep for Deadline {}
