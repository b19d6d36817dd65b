//! Clocks and timers: the only place where time is read.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod counter;
// Without a system, the clock is that of JavaScript.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
#[path = "js_date.rs"]
mod counter;

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) use counter::TickCounter;
use tidegate_core::{BoxFuture, Timestamp};

/// How far time may seem to go back although the clock was not set.
#[cfg(feature = "tokio")]
pub(crate) const JITTER: Duration = Duration::from_millis(1);

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// A clock with a timer, which [`acquire`](crate::Limiter::acquire) and
/// [`TimeoutStore`](crate::resilience::TimeoutStore) wait with.
pub trait Sleeper: Clock {
    /// Returns a future that ends when that much time has passed on this clock.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;

    /// Returns whether it can sleep here. tokio's timer cannot outside of a runtime of tokio's. Defaults to yes.
    fn can_sleep(&self) -> bool {
        true
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        C::now(self)
    }
}

impl<C: Sleeper + ?Sized> Sleeper for Arc<C> {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        C::sleep(self, span)
    }

    fn can_sleep(&self) -> bool {
        C::can_sleep(self)
    }
}

/// Returns the output of `wanted`, or `None` when `limit` ends first.
pub(crate) async fn complete_before<T>(limit: impl Future<Output = ()>, wanted: impl Future<Output = T>) -> Option<T> {
    let (mut wanted, mut limit) = (pin!(wanted), pin!(limit));
    poll_fn(|context| match wanted.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Runs futures concurrently until all have ended, and returns their outputs in order.
pub(crate) async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        if futures.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl SystemClock {
    /// Returns the counter that it reads, for callers on a fast path.
    pub(crate) fn counter(self) -> &'static TickCounter {
        counter::counter()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        counter::counter().now()
    }
}

/// A clock with an arbitrary start that cannot be set: for spans, not for the time of day.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SteadyClock;

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        counter::steady()
    }
}

/// A clock that cannot be set, with tokio's timer, which the runtime must have enabled: for spans, not for the time of day.
#[cfg(feature = "tokio")]
#[derive(Debug, Clone, Copy, Default)]
pub struct SteadySleeper;

#[cfg(feature = "tokio")]
impl Clock for SteadySleeper {
    fn now(&self) -> Timestamp {
        SteadyClock.now()
    }
}

#[cfg(feature = "tokio")]
impl Sleeper for SteadySleeper {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        TokioSleeper.sleep(span)
    }

    fn can_sleep(&self) -> bool {
        TokioSleeper.can_sleep()
    }
}

/// The system's clock with tokio's timer, which the runtime must have enabled.
#[cfg(feature = "tokio")]
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioSleeper;

#[cfg(feature = "tokio")]
impl Clock for TokioSleeper {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }
}

#[cfg(feature = "tokio")]
impl Sleeper for TokioSleeper {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }

    fn can_sleep(&self) -> bool {
        tokio::runtime::Handle::try_current().is_ok()
    }
}

/// A clock that moves only when it is set or advanced, for tests and simulations. Clones are the same clock.
///
/// ```
/// use tidegate::{Clock, ManualClock, Timestamp, seconds};
///
/// let clock = ManualClock::new(Timestamp::from_millis(5_000));
/// clock.advance(seconds(2));
/// assert_eq!(clock.now(), Timestamp::from_millis(7_000));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Mutex<ManualState>>);

/// The time of a manual clock, and its sleepers.
#[derive(Default)]
struct ManualState {
    now: Timestamp,
    /// Wakers by deadline; the number separates those of the same deadline.
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    next: u64,
}

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        ManualClock(Arc::new(Mutex::new(ManualState { now, ..ManualState::default() })))
    }

    /// Advances the clock, and wakes the sleepers that are due.
    pub fn advance(&self, span: Duration) {
        self.change(|now| now.saturating_add(span));
    }

    /// Sets the clock, also backwards, and wakes the sleepers that are due.
    pub fn set(&self, now: Timestamp) {
        self.change(|_| now);
    }

    fn change(&self, change: impl FnOnce(Timestamp) -> Timestamp) {
        let woken = {
            let mut manual = self.lock();
            let now = change(manual.now);
            manual.now = now;
            let later = manual.sleepers.split_off(&(Timestamp::from_micros(now.as_micros().saturating_add(1)), 0));
            std::mem::replace(&mut manual.sleepers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Returns how many sleepers wait, so that a test can advance the clock once they do.
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    fn lock(&self) -> MutexGuard<'_, ManualState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }
}

impl Sleeper for ManualClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let mut manual = self.lock();
        manual.next += 1;
        let until = (manual.now.saturating_add(span), manual.next);
        drop(manual);
        Box::pin(ManualSleep { clock: self.clone(), until })
    }
}

/// A sleep on a manual clock.
struct ManualSleep {
    clock: ManualClock,
    until: (Timestamp, u64),
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut manual = self.clock.lock();
        if manual.now >= self.until.0 {
            return Poll::Ready(());
        }
        manual.sleepers.insert(self.until, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.until);
    }
}
