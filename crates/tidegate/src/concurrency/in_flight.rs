//! The number of permits in flight, which never exceeds a ceiling.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// A counter of permits in flight.
#[derive(Debug, Default)]
pub(super) struct InFlightCounter(AtomicU32);

impl InFlightCounter {
    /// Adds one, if that makes at most `ceiling`. Returns the new count, or the current one as an error.
    #[inline]
    pub(super) fn enter(&self, ceiling: u32) -> Result<u32, u32> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            if now >= ceiling {
                return Err(now);
            }
            // Acquire: a caller sees the writes of the caller whose place it takes.
            match self.0.compare_exchange_weak(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(now + 1),
                Err(other) => now = other,
            }
        }
    }

    /// Subtracts one.
    #[inline]
    pub(super) fn leave(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "more left than entered");
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Every order in which threads can meet at the counter, explored by loom.
///
/// Run by `cargo xtask test` as `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;
    use tidegate_core::Timestamp;

    use super::InFlightCounter;
    use crate::concurrency::permit::{PermitSource, PermitTicket};
    use crate::concurrency::{Completion, Permit};

    /// A room for one. Visits are counted without synchronization. A visit is lost if two visitors are in at once, or
    /// if the second does not see the first one's write.
    struct Room {
        in_flight: InFlightCounter,
        visits: AtomicU32,
    }

    impl PermitSource for Room {
        fn release(&self, _: &PermitTicket, _: Completion) {
            self.in_flight.leave();
        }
    }

    fn visit(room: &Arc<Room>) -> bool {
        let Ok(in_flight) = room.in_flight.enter(1) else { return false };
        let permit =
            Permit::new(Arc::clone(room) as Arc<dyn PermitSource>, PermitTicket::new(Timestamp::EPOCH, in_flight));
        room.visits.store(room.visits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        permit.release(Completion::Success);
        true
    }

    #[test]
    fn one_enters_at_a_time_and_the_count_ends_at_zero() {
        loom::model(|| {
            let room = Arc::new(Room { in_flight: InFlightCounter::default(), visits: AtomicU32::new(0) });
            let other = Arc::clone(&room);
            let visitor = thread::spawn(move || visit(&other));
            let mine = visit(&room);
            let theirs = visitor.join().unwrap();
            assert!(mine || theirs, "a lone visitor enters");
            assert_eq!(room.visits.load(Ordering::Relaxed), u32::from(mine) + u32::from(theirs));
            assert_eq!(room.in_flight.count(), 0);
        });
    }

    #[test]
    fn three_threads_share_two_places() {
        loom::model(|| {
            let in_flight = Arc::new(InFlightCounter::default());
            let threads = [0, 1].map(|_| {
                let in_flight = Arc::clone(&in_flight);
                thread::spawn(move || in_flight.enter(2).map(|now| assert!(now <= 2)).map(|()| in_flight.leave()))
            });
            let mine = in_flight.enter(2).map(|now| assert!(now <= 2)).map(|()| in_flight.leave());
            let entered = threads.map(|thread| thread.join().unwrap()).iter().filter(|entered| entered.is_ok()).count();
            assert!(entered + usize::from(mine.is_ok()) >= 2, "a free place was refused");
            assert_eq!(in_flight.count(), 0);
        });
    }
}
