//! `BufferBudget`: one bound for all bytes that wait in the process, with fair shares for its connections.
//!
//! A connection counts what it takes by itself, its requests, their bodies and responses, and input that is not a whole request
//! yet. While the budget lasts, a connection takes as much as it needs. Then it takes no more than its share, the budget divided by
//! the open connections, and connections that hold more than that are closed to make room for it.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Unit, counter, describe_counter, describe_gauge, gauge};
use tokio::sync::Notify;

use super::metered_stream::Http1Input;

/// What a connection takes before its first request: its task, the state of its protocol, and its first buffers.
pub(crate) const CONNECTION_BYTES: usize = 16 << 10;
/// What TLS takes in addition: its state, and a record that is incomplete.
pub(crate) const TLS_BYTES: usize = 16 << 10;
/// What HTTP takes for a request with a short head, a short body and a short response.
const REQUEST_BYTES: usize = 4 << 10;
/// What stays with a connection for each request that it had at a time: tables grow, and never shrink.
const SLOT_BYTES: usize = 2 << 10;

/// How far connections that are being closed may take the process beyond the budget, until their tasks have had a turn.
const MAX_LEAVING_BYTES: usize = 32 << 20;

/// The gauge of the bytes that are counted.
const BUFFERED: &str = "tidegate_buffered_bytes";
/// The counter of what the budget had no room for, by what was refused.
const REFUSALS: &str = "tidegate_buffer_refusals_total";

/// The part of the budget that requests leave to what cannot be refused as cheaply: connections, their input, and the tables that
/// even refused requests grow.
const HEADROOM: usize = 16;

/// The bound for the bytes that wait in the process.
pub(crate) struct BufferBudget {
    max: usize,
    /// The bound for requests.
    max_with_requests: usize,
    used: AtomicUsize,
    /// The part of `used` that no connection holds: pages that responses share.
    shared: AtomicUsize,
    /// The part of `used` that belongs to connections being closed.
    leaving: AtomicUsize,
    connections: Mutex<Connections>,
    open: AtomicUsize,
    metrics: RefusalCounters,
}

/// The open connections, in no order.
#[derive(Default)]
struct Connections {
    accounts: Vec<Arc<BufferAccount>>,
    /// Where the next search begins.
    next: usize,
}

struct RefusalCounters {
    requests: Counter,
    connections: Counter,
    closed: Counter,
}

impl RefusalCounters {
    fn new() -> Self {
        describe_gauge!(
            BUFFERED,
            Unit::Bytes,
            "Bytes that connections and pages hold, as --max-buffered-bytes counts them."
        );
        describe_counter!(REFUSALS, "What --max-buffered-bytes had no room for, by what was refused.");
        let counter = |what: &'static str| counter!(REFUSALS, "refused" => what);
        RefusalCounters {
            requests: counter("request"),
            connections: counter("connection"),
            closed: counter("open_connection"),
        }
    }
}

impl BufferBudget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(BufferBudget {
            max,
            max_with_requests: max - max / HEADROOM,
            used: AtomicUsize::new(0),
            shared: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            connections: Mutex::default(),
            open: AtomicUsize::new(0),
            metrics: RefusalCounters::new(),
        })
    }

    /// Passes the bytes in use to the metrics.
    pub(crate) fn export(&self) {
        gauge!(BUFFERED).set(self.used() as f64);
    }

    /// Returns how many bytes connections and pages hold.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Opens the account of a connection that takes `bytes` by itself; `None` if there is no room.
    pub(crate) fn connect(self: &Arc<Self>, bytes: usize) -> Option<OpenAccount> {
        self.open.fetch_add(1, Relaxed);
        let account = {
            let mut connections = self.connections();
            let account = Arc::new(BufferAccount {
                budget: Arc::clone(self),
                used: AtomicUsize::new(0),
                index: AtomicUsize::new(connections.accounts.len()),
                evicted: AtomicUsize::new(0),
                eviction: Notify::new(),
                is_closed: AtomicBool::new(false),
                requests: Mutex::default(),
                input: Mutex::default(),
            });
            connections.accounts.push(Arc::clone(&account));
            OpenAccount(account)
        };
        if account.0.try_add(bytes, self.max) {
            return Some(account);
        }
        self.metrics.connections.increment(1);
        None
    }

    /// Counts a page that responses share, for as long as the charge lives. Connections make room for it.
    pub(crate) fn charge_shared(self: &Arc<Self>, bytes: usize) -> SharedCharge {
        self.shared.fetch_add(bytes, Relaxed);
        self.used.fetch_add(bytes, Relaxed);
        self.make_room(self.max);
        SharedCharge { budget: Arc::clone(self), bytes }
    }

    /// Returns the most bytes of pages that responses share.
    pub(crate) fn max_shared(&self) -> usize {
        self.max / 4
    }

    /// What each connection has a right to, of so many bytes.
    fn share(&self, max: usize) -> usize {
        max.saturating_sub(self.shared.load(Relaxed)) / self.open.load(Relaxed).max(1)
    }

    fn is_within(&self, max: usize) -> bool {
        self.used() <= max.saturating_add(self.leaving.load(Relaxed).min(MAX_LEAVING_BYTES))
    }

    /// Closes connections beyond their share until the rest is within so many bytes, and returns whether it is.
    ///
    /// If a connection within its share does not fit, another one is beyond its own.
    fn make_room(&self, max: usize) -> bool {
        if self.is_within(max) {
            return true;
        }
        let mut connections = self.connections();
        let share = self.share(max);
        for _ in 0..connections.accounts.len() {
            if self.is_within(max) {
                return true;
            }
            connections.next = (connections.next + 1) % connections.accounts.len();
            let account = &connections.accounts[connections.next];
            if account.used.load(Relaxed) > share {
                account.evict();
            }
        }
        self.is_within(max)
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts bytes that no connection holds.
pub(crate) struct SharedCharge {
    budget: Arc<BufferBudget>,
    bytes: usize,
}

impl Drop for SharedCharge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
        self.budget.shared.fetch_sub(self.bytes, Relaxed);
    }
}

/// The account of a connection that is open. Dropping it closes the account, whose charges may live a little longer.
pub(crate) struct OpenAccount(Arc<BufferAccount>);

impl OpenAccount {
    pub(crate) fn account(&self) -> &Arc<BufferAccount> {
        &self.0
    }
}

impl Drop for OpenAccount {
    fn drop(&mut self) {
        let budget = &self.0.budget;
        budget.open.fetch_sub(1, Relaxed);
        self.0.is_closed.store(true, Relaxed);
        let mut connections = budget.connections();
        let index = self.0.index.load(Relaxed);
        connections.accounts.swap_remove(index);
        if let Some(moved) = connections.accounts.get(index) {
            moved.index.store(index, Relaxed);
        }
    }
}

/// What one connection holds of the budget.
pub(crate) struct BufferAccount {
    budget: Arc<BufferBudget>,
    used: AtomicUsize,
    /// Its place among the open connections, whose lock is held for a change.
    index: AtomicUsize,
    /// What it held when it was to be closed; 0 before.
    evicted: AtomicUsize,
    eviction: Notify,
    is_closed: AtomicBool,
    requests: Mutex<Requests>,
    input: Mutex<Http1Input>,
}

/// The requests of an HTTP connection.
#[derive(Default)]
struct Requests {
    /// Those whose bytes are in memory.
    held: usize,
    /// The most of them at a time.
    peak: usize,
    /// The part of `held` whose responses have ended, and are not sent yet.
    unsent: usize,
    unsent_bytes: usize,
}

impl BufferAccount {
    /// Waits until the connection has to close.
    pub(crate) async fn evicted(&self) {
        self.eviction.notified().await;
    }

    /// Counts a request of HTTP with so many bytes in its head; `None` if there is no room.
    pub(crate) fn try_begin_request(self: &Arc<Self>, head_bytes: usize) -> Option<BufferCharge> {
        let is_peak = {
            let mut requests = self.requests();
            requests.held += 1;
            // Every connection has one for its first request.
            let is_peak = requests.held > requests.peak.max(1);
            requests.peak = requests.peak.max(requests.held);
            is_peak
        };
        if is_peak && !self.try_add(SLOT_BYTES, self.budget.max) {
            // Refusals would grow the tables of the connection, too.
            self.evict();
            return None;
        }
        let bytes = REQUEST_BYTES + head_bytes;
        if !self.try_add(bytes, self.budget.max_with_requests) {
            self.budget.metrics.requests.increment(1);
            self.end_request(0);
            return None;
        }
        Some(BufferCharge(Arc::new(Charge { account: Arc::clone(self), bytes: AtomicUsize::new(bytes) })))
    }

    /// Keeps the bytes of a response that has ended until they are sent.
    fn end_request(&self, bytes: usize) {
        let mut requests = self.requests();
        requests.unsent += 1;
        requests.unsent_bytes += bytes;
        if self.is_closed.load(Relaxed) {
            self.release_sent(requests);
        }
    }

    /// Releases the bytes of all responses that have ended, because they are sent.
    pub(super) fn flushed(&self) {
        let requests = self.requests();
        if requests.unsent > 0 {
            self.release_sent(requests);
        }
    }

    fn release_sent(&self, mut requests: MutexGuard<'_, Requests>) {
        let (sent, bytes) = (std::mem::take(&mut requests.unsent), std::mem::take(&mut requests.unsent_bytes));
        requests.held -= sent;
        drop(requests);
        self.subtract(bytes);
    }

    /// Changes a part of what the connection holds, and returns whether there was room.
    pub(crate) fn try_resize(&self, part: &mut usize, bytes: usize) -> bool {
        match bytes.cmp(part) {
            Ordering::Equal => return true,
            Ordering::Greater if !self.try_add(bytes - *part, self.budget.max) => return false,
            Ordering::Greater => {}
            Ordering::Less => self.subtract(*part - bytes),
        }
        *part = bytes;
        true
    }

    /// Counts more bytes if the whole is at most `max` then, or the connection is within its share of that.
    fn try_add(&self, bytes: usize, max: usize) -> bool {
        let own = self.used.fetch_add(bytes, Relaxed) + bytes;
        let total = self.budget.used.fetch_add(bytes, Relaxed) + bytes;
        if total <= max || (own <= self.budget.share(max) && self.budget.make_room(max)) {
            return true;
        }
        self.subtract(bytes);
        false
    }

    fn subtract(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        self.budget.used.fetch_sub(bytes, Relaxed);
    }

    /// Has the connection closed.
    fn evict(&self) {
        let used = self.used.load(Relaxed);
        if self.evicted.compare_exchange(0, used, Relaxed, Relaxed).is_ok() {
            self.budget.leaving.fetch_add(used, Relaxed);
            self.budget.metrics.closed.increment(1);
            self.eviction.notify_one();
        }
    }

    /// Returns the input of an HTTP/1 connection.
    pub(super) fn input(&self) -> MutexGuard<'_, Http1Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BufferAccount {
    fn drop(&mut self) {
        let used = *self.used.get_mut();
        self.subtract(used);
        self.budget.leaving.fetch_sub(*self.evicted.get_mut(), Relaxed);
    }
}

/// The bytes of one request and its response, counted until the last clone is dropped and all is sent.
#[derive(Clone)]
pub(crate) struct BufferCharge(Arc<Charge>);

struct Charge {
    account: Arc<BufferAccount>,
    bytes: AtomicUsize,
}

impl BufferCharge {
    /// Counts more bytes, and returns whether there was room.
    pub(crate) fn try_grow(&self, more: usize) -> bool {
        if more > 0 {
            let (account, budget) = (&self.0.account, &self.0.account.budget);
            if !account.try_add(more, budget.max_with_requests) {
                budget.metrics.requests.increment(1);
                return false;
            }
            self.0.bytes.fetch_add(more, Relaxed);
        }
        true
    }

    /// Counts fewer bytes, which are no longer in memory.
    pub(super) fn shrink(&self, bytes: usize) {
        self.0.bytes.fetch_sub(bytes, Relaxed);
        self.0.account.subtract(bytes);
    }

    /// Notes that a part of the body has left the buffer of the connection.
    pub(super) fn note_body(&self, bytes: usize) {
        self.0.account.input().note_body(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.end_request(*self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 20;

    fn is_evicted(open: &OpenAccount) -> bool {
        open.account().evicted.load(Relaxed) > 0
    }

    /// Opens an account that holds so many bytes.
    fn open_with(budget: &Arc<BufferBudget>, bytes: usize) -> OpenAccount {
        budget.connect(bytes).expect("room")
    }

    #[test]
    fn connection_takes_all_while_no_other_needs_it() {
        let budget = BufferBudget::new(MAX);
        let (open, mut part) = (open_with(&budget, 10), 0);
        assert!(open.account().try_resize(&mut part, MAX - 10));
        assert!(!open.account().try_resize(&mut part, MAX - 9), "one byte too many");
        assert_eq!((part, budget.used()), (MAX - 10, MAX));
        assert!(open.account().try_resize(&mut part, 5));
        assert_eq!(budget.used(), 15);
        drop(open);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn connection_beyond_its_share_makes_room_for_one_within() {
        let budget = BufferBudget::new(MAX);
        let (small, large) = (open_with(&budget, MAX / 8), open_with(&budget, MAX / 8 * 7));
        let newcomer = open_with(&budget, MAX / 4);
        assert_eq!((is_evicted(&small), is_evicted(&large), is_evicted(&newcomer)), (false, true, false));
        // Until it is closed, no other connection has to leave for the bytes that it takes with it.
        let another = open_with(&budget, MAX / 8);
        assert!(![&small, &newcomer, &another].into_iter().any(is_evicted));
        drop(large);
        assert_eq!(budget.used(), MAX / 2);
        assert_eq!(budget.leaving.load(Relaxed), 0);
    }

    #[test]
    fn connection_beyond_its_share_is_refused_and_closes_no_other() {
        let budget = BufferBudget::new(MAX);
        let others = [(); 3].map(|()| open_with(&budget, MAX / 4));
        let open = open_with(&budget, MAX / 8);
        let mut part = 0;
        assert!(!open.account().try_resize(&mut part, MAX / 4));
        assert!(open.account().try_begin_request(MAX / 4).is_none());
        assert!(open.account().try_begin_request(0).is_some(), "it is within its share");
        assert!(!others.iter().any(is_evicted));
    }

    #[test]
    fn connections_are_refused_once_each_has_no_more_than_it_takes_by_itself() {
        let budget = BufferBudget::new(MAX);
        let open: Vec<_> = std::iter::from_fn(|| budget.connect(CONNECTION_BYTES)).collect();
        assert_eq!(open.len(), MAX / CONNECTION_BYTES);
        assert!(!open.iter().any(is_evicted));
        drop(open);
        assert_eq!((budget.used(), budget.open.load(Relaxed)), (0, 0));
    }

    #[test]
    fn response_is_counted_until_it_is_sent() {
        let budget = BufferBudget::new(MAX);
        let open = open_with(&budget, 0);
        let charge = open.account().try_begin_request(100).expect("room");
        assert!(charge.try_grow(1_000));
        let piece = charge.clone();
        drop(charge);
        open.account().flushed();
        assert_eq!(budget.used(), REQUEST_BYTES + 1_100, "a piece of it is on its way");
        drop(piece);
        assert_eq!(budget.used(), REQUEST_BYTES + 1_100, "it is not sent yet");
        open.account().flushed();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn charge_that_outlives_its_connection_is_released() {
        let budget = BufferBudget::new(MAX);
        let open = open_with(&budget, 10);
        let charge = open.account().try_begin_request(0).expect("room");
        drop(open);
        assert!(budget.used() > 0);
        drop(charge);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn requests_at_a_time_leave_their_slots() {
        let budget = BufferBudget::new(MAX);
        let open = open_with(&budget, 0);
        for _ in 0..2 {
            let charges: Vec<_> = (0..5).map(|_| open.account().try_begin_request(0).expect("room")).collect();
            drop(charges);
            open.account().flushed();
            assert_eq!(budget.used(), 4 * SLOT_BYTES);
        }
    }

    #[test]
    fn connection_without_room_for_a_slot_is_closed() {
        let budget = BufferBudget::new(MAX);
        let open = open_with(&budget, 0);
        let charges: Vec<_> = std::iter::from_fn(|| open.account().try_begin_request(0)).take(1_000).collect();
        assert!((100..300).contains(&charges.len()), "{}", charges.len());
        assert!(!is_evicted(&open), "refused");
        while open.account().try_begin_request(0).is_none() && !is_evicted(&open) {}
        assert!(is_evicted(&open), "refusals take slots, too");
    }

    #[test]
    fn shared_pages_are_counted_once_and_connections_make_room() {
        let budget = BufferBudget::new(MAX);
        let (large, small) = (open_with(&budget, MAX / 2), open_with(&budget, MAX / 4));
        let page = budget.charge_shared(MAX / 2);
        assert_eq!((is_evicted(&large), is_evicted(&small)), (true, false));
        drop((page, large));
        assert_eq!(budget.used(), MAX / 4);
    }
}
