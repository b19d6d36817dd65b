//! Every order in which threads can meet at the counter, explored by loom.
//!
//! Run by `cargo xtask test` as `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate --lib loom_tests`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::counter::Counter;
use super::permit::{Source, Ticket};
use super::{Permit, Work};
use tidegate_core::Timestamp;

/// Who gets in is alone, and writes down a visit without any care of its own: one is lost when two are in at once, or when
/// the second does not see what the first has written.
struct Room {
    counter: Counter,
    visits: AtomicU32,
}

impl Source for Room {
    fn take_back(&self, _: &Ticket, _: Work) {
        self.counter.leave();
    }
}

fn visit(room: &Arc<Room>) -> bool {
    let Ok(in_flight) = room.counter.enter(1) else { return false };
    let permit = Permit::new(Arc::clone(room) as Arc<dyn Source>, Ticket::new(Timestamp::EPOCH, in_flight));
    room.visits.store(room.visits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    permit.release(Work::Done);
    true
}

#[test]
fn one_at_a_time_and_none_in_the_end() {
    loom::model(|| {
        let room = Arc::new(Room { counter: Counter::default(), visits: AtomicU32::new(0) });
        let other = Arc::clone(&room);
        let visitor = thread::spawn(move || visit(&other));
        let mine = visit(&room);
        let theirs = visitor.join().unwrap();
        assert!(mine || theirs, "who comes alone gets in");
        assert_eq!(room.visits.load(Ordering::Relaxed), u32::from(mine) + u32::from(theirs));
        assert_eq!(room.counter.count(), 0);
    });
}

#[test]
fn three_meet_at_two_places() {
    loom::model(|| {
        let counter = Arc::new(Counter::default());
        let threads = [0, 1].map(|_| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.enter(2).map(|now| assert!(now <= 2)).map(|()| counter.leave()))
        });
        let mine = counter.enter(2).map(|now| assert!(now <= 2)).map(|()| counter.leave());
        let entered = threads.map(|thread| thread.join().unwrap()).iter().filter(|entered| entered.is_ok()).count();
        assert!(entered + usize::from(mine.is_ok()) >= 2, "somebody was refused a free place");
        assert_eq!(counter.count(), 0);
    });
}
