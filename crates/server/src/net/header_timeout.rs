//! The timeout of request headers: one timer for a whole HTTP/1 connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant as StdInstant};

use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, sleep_until};

/// The timer of one HTTP/1 connection. Every request has its own deadline, and nearly none is ever reached: one timer for each
/// would cost more than reading the headers. So there is one timer per connection, re-armed to the latest deadline when it
/// fires. That misses no deadline, because every deadline is equally far away when it is set.
pub(crate) struct HeaderTimeout {
    deadlines: Arc<Deadlines>,
    timeout: Duration,
    /// `None` until there is a deadline.
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// The deadlines of a connection, in microseconds since its start.
struct Deadlines {
    started: Instant,
    /// The latest deadline; 0 before there is one.
    latest: AtomicU64,
    /// When the timer fired last.
    fired: AtomicU64,
}

impl HeaderTimeout {
    /// Every deadline is `timeout` away when it is set.
    pub(crate) fn new(timeout: Duration) -> Self {
        let deadlines = Deadlines { started: Instant::now(), latest: AtomicU64::new(0), fired: AtomicU64::new(0) };
        HeaderTimeout { deadlines: Arc::new(deadlines), timeout, timer: None }
    }

    /// Returns the timer that sets the deadlines.
    pub(crate) fn timer(&self) -> impl Timer + Send + Sync + 'static {
        DeadlineTimer(Arc::clone(&self.deadlines))
    }

    /// Whether the timer has fired, so that a deadline may have passed.
    pub(crate) fn has_fired(&mut self, context: &mut Context<'_>) -> bool {
        let Deadlines { started, latest, fired } = &*self.deadlines;
        let latest = latest.load(Ordering::Relaxed);
        if latest == 0 {
            return false;
        }
        let at = |micros| *started + Duration::from_micros(micros);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at(latest))));
        if timer.as_mut().poll(context).is_pending() {
            return false;
        }
        let now = Instant::now();
        let micros = micros(now - *started);
        fired.store(micros, Ordering::Relaxed);
        // Every deadline from now on is a whole timeout away.
        timer.as_mut().reset(if latest > micros { at(latest) } else { now + self.timeout });
        true
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The timer that hyper sets deadlines with.
struct DeadlineTimer(Arc<Deadlines>);

impl Timer for DeadlineTimer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + time)
    }

    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn Sleep>> {
        let at = micros(Instant::from_std(deadline) - self.0.started);
        self.0.latest.fetch_max(at, Ordering::Relaxed);
        Box::pin(Deadline { at, deadlines: Arc::clone(&self.0) })
    }

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }
}

/// Waits for a deadline. It is never woken: the connection polls it when [`HeaderTimeout::has_fired`].
struct Deadline {
    at: u64,
    deadlines: Arc<Deadlines>,
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.deadlines.fired.load(Ordering::Relaxed) >= self.at { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep for Deadline {}
