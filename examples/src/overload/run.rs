//! A server, its clients and a limit between them, over time.

use std::collections::VecDeque;

use tidegate::concurrency::{Completion, Concurrency, Permit};
use tidegate::{ManualClock, Timestamp};
use tidegate_testkit::Random;

use super::Server;
use super::event::{Event, Plan};

/// How often the state is noted, in microseconds.
const NOTED: u64 = 100_000;

/// What happens to a server.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The server.
    pub server: Server,
    /// How much is asked of it, as a share of what it can do, for how many seconds; one after the other.
    pub load: Vec<(f64, u64)>,
    /// When it stops and when it goes on, in seconds.
    pub outage: Option<(u64, u64)>,
    /// How long a client waits for its answer, in microseconds. The server does not notice that it is gone.
    pub patience: u64,
    /// What the noise comes from.
    pub seed: u64,
}

/// What was seen in a tenth of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The limit at its end.
    pub limit: u32,
    /// How many were in flight at its end.
    pub in_flight: u32,
    /// How many were answered in time.
    pub answered: u32,
    /// How long those took together, in microseconds.
    pub took: u64,
    /// How many were turned away.
    pub shed: u32,
    /// How many were given up by their clients.
    pub wasted: u32,
}

impl Moment {
    /// How long one is, in seconds.
    pub const SECONDS: f64 = NOTED as f64 / 1e6;

    /// Several as one.
    pub(super) fn together(moments: &[Moment]) -> Moment {
        moments.iter().fold(Moment::default(), |sum, moment| Moment {
            limit: moment.limit,
            in_flight: moment.in_flight,
            answered: sum.answered + moment.answered,
            took: sum.took + moment.took,
            shed: sum.shed + moment.shed,
            wasted: sum.wasted + moment.wasted,
        })
    }
}

impl Scene {
    /// Lets it happen under a limit, which is made on the clock of the scene.
    pub fn play(&self, limit: Concurrency) -> Vec<Moment> {
        let clock = ManualClock::default();
        let mut run = Run {
            scene: self,
            pool: limit.clock(clock.clone()),
            clock,
            random: Random::new(self.seed),
            plan: Plan::default(),
            requests: Vec::new(),
            queue: VecDeque::new(),
            idle: self.server.workers,
            moments: Vec::new(),
            moment: Moment::default(),
        };
        run.go();
        run.moments
    }

    fn length(&self) -> u64 {
        self.load.iter().map(|(_, seconds)| seconds * 1_000_000).sum()
    }

    fn stands_still(&self, now: u64) -> bool {
        self.outage.is_some_and(|(from, to)| (from * 1_000_000..to * 1_000_000).contains(&now))
    }

    /// How many microseconds there are between two arrivals, in the mean.
    fn pause(&self, now: u64) -> u64 {
        let mut until = 0;
        let load = self.load.iter().find(|(_, seconds)| {
            until += seconds * 1_000_000;
            now < until
        });
        let (share, _) = load.or(self.load.last()).expect("a scene has a load");
        (1e6 / (share * self.server.capacity())) as u64
    }
}

struct Run<'a> {
    scene: &'a Scene,
    pool: Concurrency,
    clock: ManualClock,
    random: Random,
    plan: Plan,
    requests: Vec<Request>,
    /// Those that wait for a worker.
    queue: VecDeque<usize>,
    idle: u32,
    moments: Vec<Moment>,
    moment: Moment,
}

struct Request {
    admitted: u64,
    /// Until it is answered or given up.
    permit: Option<Permit>,
}

impl Run<'_> {
    fn go(&mut self) {
        self.plan.add(0, Event::Arrives);
        self.plan.add(NOTED, Event::Noted);
        if let Some((_, to)) = self.scene.outage {
            self.plan.add(to * 1_000_000, Event::Resumes);
        }
        let end = self.scene.length();
        while let Some((now, event)) = self.plan.next().filter(|(now, _)| *now <= end) {
            self.clock.set(Timestamp::from_micros(now));
            match event {
                Event::Arrives => self.arrives(now),
                Event::LeavesWorker(request) => {
                    self.idle += 1;
                    self.plan.add(now + self.scene.server.wait, Event::Answered(request));
                    self.work(now);
                }
                Event::Answered(request) => {
                    if let Some(permit) = self.requests[request].permit.take() {
                        permit.release(Completion::Success);
                        self.moment.answered += 1;
                        self.moment.took += now - self.requests[request].admitted;
                    }
                }
                Event::TimesOut(request) => {
                    if let Some(permit) = self.requests[request].permit.take() {
                        permit.release(Completion::Dropped);
                        self.moment.wasted += 1;
                    }
                }
                Event::Resumes => self.work(now),
                Event::Noted => self.note(now),
            }
        }
    }

    fn arrives(&mut self, now: u64) {
        let pause = self.scene.pause(now);
        self.plan.add(now + self.random.between(0, 2 * pause), Event::Arrives);
        let Ok(permit) = self.pool.try_acquire() else {
            self.moment.shed += 1;
            return;
        };
        let request = self.requests.len();
        self.requests.push(Request { admitted: now, permit: Some(permit) });
        self.queue.push_back(request);
        self.plan.add(now + self.scene.patience, Event::TimesOut(request));
        self.work(now);
    }

    /// Gives idle workers something to do.
    fn work(&mut self, now: u64) {
        if self.scene.stands_still(now) {
            return;
        }
        while self.idle > 0
            && let Some(request) = self.queue.pop_front()
        {
            self.idle -= 1;
            self.plan.add(now + self.scene.server.one_work(&mut self.random), Event::LeavesWorker(request));
        }
    }

    fn note(&mut self, now: u64) {
        self.moments.push(Moment { limit: self.pool.limit(), in_flight: self.pool.in_flight(), ..self.moment });
        self.moment = Moment::default();
        self.plan.add(now + NOTED, Event::Noted);
    }
}
