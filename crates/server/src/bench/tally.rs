//! What came of the requests, counted as they are answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::client::{Answer, Refusal};

/// How many points the picture has.
pub(super) const POINTS: u32 = 50;
/// The longest latency that is told apart, in microseconds: an hour, which is longer than any run.
const LONGEST: u64 = 3_600_000_000;
/// How many kinds of errors are told apart: a server that invents new ones does not get more memory for it.
const KINDS: usize = 20;

/// Counts, for all connections. It takes the same memory however long it lasts and however many there are.
pub(super) struct Tally {
    begun: Instant,
    /// How long a point of the picture is.
    slot: Duration,
    counted: Mutex<Counted>,
}

/// What was counted.
pub(super) struct Counted {
    pub(super) servers: Vec<Counts>,
    /// Closed points of the picture.
    pub(super) points: Vec<Point>,
    /// The point that answers go into.
    open: Counts,
    /// When nothing more is sent.
    ended: Instant,
    /// When the last answer was there.
    pub(super) last: Instant,
}

/// Counts of one server, or of one point.
#[derive(Clone)]
pub(super) struct Counts {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Those of the allowed that no rule is about.
    pub(super) unmatched: u64,
    pub(super) failed: u64,
    /// The kinds of what failed, each with the first words about it.
    pub(super) errors: Vec<(Refusal, u64)>,
    /// Of what was decided, in microseconds.
    pub(super) latencies: Histogram<u64>,
}

/// A piece of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
    /// p50, p99 and the longest, in microseconds, where anything was decided.
    pub(super) latency: Option<[u64; 3]>,
}

impl Tally {
    pub(super) fn new(servers: usize, begun: Instant, duration: Duration) -> Self {
        let counted = Counted {
            servers: vec![Counts::new(); servers],
            points: Vec::with_capacity(POINTS as usize),
            open: Counts::new(),
            ended: begun + duration,
            last: begun,
        };
        Tally { begun, slot: duration / POINTS, counted: Mutex::new(counted) }
    }

    /// Counts answers of a server, each with the time from which its latency counts and the time it was there.
    pub(super) fn count(&self, server: usize, answers: impl Iterator<Item = (Answer, Instant, Instant)>) {
        let mut counted = self.counted();
        for (answer, since, now) in answers {
            self.move_on(&mut counted, now);
            let micros = now.saturating_duration_since(since).as_micros() as u64;
            let Counted { servers, open, ended, .. } = &mut *counted;
            servers[server].count(&answer, micros);
            match answer {
                // What comes when nobody asks any more is no throughput.
                Answer::Refused(_) if now > *ended => {}
                _ if now > *ended => open.latencies.saturating_record(micros),
                answer => open.count(&answer, micros),
            }
        }
    }

    /// Whether a server has ever decided.
    pub(super) fn has_decided(&self, server: usize) -> bool {
        let counted = self.counted();
        counted.servers[server].allowed + counted.servers[server].denied > 0
    }

    /// Requests, and those among them that failed.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let counted = self.counted();
        let requests = counted.servers.iter().map(Counts::requests).sum();
        (requests, counted.servers.iter().map(|server| server.failed).sum())
    }

    /// From now on nothing more is sent, and answers are only waited for.
    pub(super) fn end(&self, ended: Instant) {
        self.counted().ended = ended;
    }

    /// Closes the last point, and hands out everything.
    pub(super) fn finish(self) -> (Counted, Duration) {
        let slots = self.slots(self.counted().ended);
        let mut counted = self.counted.into_inner().unwrap_or_else(PoisonError::into_inner);
        while counted.points.len() < slots {
            counted.close();
        }
        (counted, self.slot)
    }

    /// Closes the points that are over. What is answered after the end belongs to the last one.
    fn move_on(&self, counted: &mut Counted, now: Instant) {
        counted.last = counted.last.max(now);
        let slots = self.slots(now.min(counted.ended));
        while counted.points.len() + 1 < slots {
            counted.close();
        }
    }

    /// How many points there are by then, the one among them that it is in.
    fn slots(&self, now: Instant) -> usize {
        let whole = now.saturating_duration_since(self.begun);
        whole.as_nanos().div_ceil(self.slot.as_nanos()).clamp(1, u128::from(POINTS)) as usize
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn close(&mut self) {
        let Counts { allowed, denied, failed, ref latencies, .. } = self.open;
        let latency = (!latencies.is_empty())
            .then(|| [latencies.value_at_quantile(0.5), latencies.value_at_quantile(0.99), latencies.max()]);
        self.points.push(Point { allowed, denied, failed, latency });
        self.open.clear();
    }
}

impl Counts {
    pub(super) fn new() -> Self {
        // Three digits: a figure is within 0.1 % of what was measured.
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are right");
        Counts { allowed: 0, denied: 0, unmatched: 0, failed: 0, errors: Vec::new(), latencies }
    }

    pub(super) fn requests(&self) -> u64 {
        self.allowed + self.denied + self.failed
    }

    fn count(&mut self, answer: &Answer, micros: u64) {
        match answer {
            Answer::Allowed => self.allowed += 1,
            Answer::Denied => self.denied += 1,
            Answer::Unmatched => {
                self.allowed += 1;
                self.unmatched += 1;
            }
            Answer::Refused(refusal) => return self.failed(refusal, 1),
        }
        self.latencies.saturating_record(micros);
    }

    /// Counts requests that failed for one reason.
    pub(super) fn failed(&mut self, refusal: &Refusal, times: u64) {
        self.failed += times;
        let known = self.errors.iter().position(|(known, _)| known.kind == refusal.kind);
        match known {
            None if self.errors.len() < KINDS => self.errors.push((refusal.clone(), times)),
            // The last of them stands for the rest.
            known => self.errors[known.unwrap_or(KINDS - 1)].1 += times,
        }
    }

    /// Adds those of another server.
    pub(super) fn add(&mut self, other: &Counts) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.unmatched += other.unmatched;
        other.errors.iter().for_each(|(refusal, times)| self.failed(refusal, *times));
        self.latencies.add(&other.latencies).expect("the bounds are the same");
    }

    fn clear(&mut self) {
        (self.allowed, self.denied, self.unmatched, self.failed) = (0, 0, 0, 0);
        self.errors.clear();
        self.latencies.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: String) -> Answer {
        Answer::Refused(Box::new(Refusal { kind, message: "no".to_owned(), passing: true }))
    }

    fn after(begun: Instant, millis: u64) -> Instant {
        begun + Duration::from_millis(millis)
    }

    #[test]
    fn an_answer_belongs_to_the_point_it_comes_in() {
        let begun = Instant::now();
        let tally = Tally::new(2, begun, Duration::from_secs(5));
        let answer = |answer, since, now| (answer, after(begun, since), after(begun, now));
        tally.count(0, [answer(Answer::Allowed, 0, 10), answer(Answer::Denied, 10, 99)].into_iter());
        tally.count(1, [answer(Answer::Allowed, 100, 350), answer(refused("x".into()), 0, 360)].into_iter());
        // After the end.
        tally.count(1, [answer(Answer::Allowed, 4_000, 7_000)].into_iter());
        let (counted, slot) = tally.finish();
        assert_eq!((counted.points.len(), slot), (50, Duration::from_millis(100)));
        let latency = |index: usize| counted.points[index].latency.map(|micros| micros.map(|one| one / 1_000));
        assert_eq!((latency(0), latency(1), latency(2)), (Some([10, 89, 89]), None, None));
        assert_eq!((latency(3), latency(49)), (Some([250, 250, 250]), Some([3_000, 3_000, 3_000])));
        let of =
            |index: usize| (counted.points[index].allowed, counted.points[index].denied, counted.points[index].failed);
        assert_eq!((of(0), of(1), of(3), of(49)), ((1, 1, 0), (0, 0, 0), (1, 0, 1), (0, 0, 0)));
        assert_eq!(counted.servers.iter().map(Counts::requests).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(counted.last, after(begun, 7_000));
    }

    #[test]
    fn ended_early_there_are_fewer_points() {
        for (millis, points) in [(0, 1), (50, 1), (100, 1), (101, 2), (1_234, 13), (5_000, 50)] {
            let begun = Instant::now();
            let tally = Tally::new(1, begun, Duration::from_secs(5));
            tally.end(after(begun, millis));
            // What comes then makes them no more, nor any of them higher.
            let late = [(Answer::Allowed, begun, after(begun, millis + 150))];
            tally.count(0, late.into_iter());
            let (counted, _) = tally.finish();
            assert_eq!(counted.points.len(), points, "{millis}");
            assert_eq!(counted.points[points - 1].allowed, 0);
            assert!(counted.points[points - 1].latency.is_some());
            assert_eq!(counted.servers[0].allowed, 1);
        }
    }

    #[test]
    fn new_kinds_of_errors_take_no_more_memory() {
        let mut counts = Counts::new();
        for kind in 0..1_000 {
            counts.count(&refused(kind.to_string()), 1);
        }
        assert_eq!((counts.errors.len(), counts.failed, counts.latencies.len()), (KINDS, 1_000, 0));
        assert_eq!(counts.errors.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
        let mut both = counts.clone();
        both.add(&counts);
        assert_eq!((both.errors.len(), both.failed), (KINDS, 2_000));
    }
}
