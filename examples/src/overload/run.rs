//! Runs of a server, its clients and a limit between them, over time.

use std::collections::VecDeque;

use tidegate::concurrency::{Completion, Concurrency, Permit};
use tidegate::{ManualClock, Timestamp};
use tidegate_testkit::Random;

use super::Server;
use super::event::{Event, EventQueue};

/// The interval between two moments, in microseconds.
const SAMPLE_INTERVAL: u64 = 100_000;

/// A scenario: a server, its load and its outage.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The server.
    pub server: Server,
    /// Its load in steps: a share of its capacity, and the duration in seconds.
    pub load: Vec<(f64, u64)>,
    /// The begin and the end of its outage, in seconds.
    pub outage: Option<(u64, u64)>,
    /// The timeout of a client, in microseconds. The server does not notice that a client has given up.
    pub client_timeout: u64,
    /// The seed of the noise.
    pub seed: u64,
}

/// The figures of a tenth of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The limit at the end.
    pub limit: u32,
    /// The number of requests in flight at the end.
    pub in_flight: u32,
    /// The number of requests answered in time.
    pub answered: u32,
    /// The sum of their latencies, in microseconds.
    pub took: u64,
    /// The number of rejected requests.
    pub shed: u32,
    /// The number of requests that their clients gave up.
    pub wasted: u32,
}

impl Moment {
    /// The length of a moment, in seconds.
    pub const SECONDS: f64 = SAMPLE_INTERVAL as f64 / 1e6;

    /// Merges several moments into one.
    pub(super) fn merge(moments: &[Moment]) -> Moment {
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
    /// Simulates the scene under a limit that is created on the clock of the scene.
    pub fn play(&self, limit: Concurrency) -> Vec<Moment> {
        let clock = ManualClock::default();
        let mut run = Simulation {
            scene: self,
            pool: limit.clock(clock.clone()),
            clock,
            random: Random::new(self.seed),
            events: EventQueue::default(),
            requests: Vec::new(),
            queue: VecDeque::new(),
            idle: self.server.workers,
            moments: Vec::new(),
            moment: Moment::default(),
        };
        run.run_to_end();
        run.moments
    }

    fn length(&self) -> u64 {
        self.load.iter().map(|(_, seconds)| seconds * 1_000_000).sum()
    }

    fn is_paused(&self, now: u64) -> bool {
        self.outage.is_some_and(|(from, to)| (from * 1_000_000..to * 1_000_000).contains(&now))
    }

    /// Returns the mean interval between two arrivals, in microseconds.
    fn arrival_interval(&self, now: u64) -> u64 {
        let mut until = 0;
        let load = self.load.iter().find(|(_, seconds)| {
            until += seconds * 1_000_000;
            now < until
        });
        let (share, _) = load.or(self.load.last()).expect("a scene has a load");
        (1e6 / (share * self.server.capacity())) as u64
    }
}

struct Simulation<'a> {
    scene: &'a Scene,
    pool: Concurrency,
    clock: ManualClock,
    random: Random,
    events: EventQueue,
    requests: Vec<Request>,
    /// The requests that wait for a worker.
    queue: VecDeque<usize>,
    idle: u32,
    moments: Vec<Moment>,
    moment: Moment,
}

struct Request {
    admitted: u64,
    /// The permit, until the request is answered or given up.
    permit: Option<Permit>,
}

impl Simulation<'_> {
    fn run_to_end(&mut self) {
        self.events.add(0, Event::Arrival);
        self.events.add(SAMPLE_INTERVAL, Event::Sample);
        if let Some((_, to)) = self.scene.outage {
            self.events.add(to * 1_000_000, Event::Resume);
        }
        let end = self.scene.length();
        while let Some((now, event)) = self.events.next().filter(|(now, _)| *now <= end) {
            self.clock.set(Timestamp::from_micros(now));
            match event {
                Event::Arrival => self.handle_arrival(now),
                Event::WorkDone(request) => {
                    self.idle += 1;
                    self.events.add(now + self.scene.server.wait, Event::Response(request));
                    self.start_work(now);
                }
                Event::Response(request) => {
                    if let Some(permit) = self.requests[request].permit.take() {
                        permit.release(Completion::Success);
                        self.moment.answered += 1;
                        self.moment.took += now - self.requests[request].admitted;
                    }
                }
                Event::Timeout(request) => {
                    if let Some(permit) = self.requests[request].permit.take() {
                        permit.release(Completion::Dropped);
                        self.moment.wasted += 1;
                    }
                }
                Event::Resume => self.start_work(now),
                Event::Sample => self.record(now),
            }
        }
    }

    fn handle_arrival(&mut self, now: u64) {
        let interval = self.scene.arrival_interval(now);
        self.events.add(now + self.random.between(0, 2 * interval), Event::Arrival);
        let Ok(permit) = self.pool.try_acquire() else {
            self.moment.shed += 1;
            return;
        };
        let request = self.requests.len();
        self.requests.push(Request { admitted: now, permit: Some(permit) });
        self.queue.push_back(request);
        self.events.add(now + self.scene.client_timeout, Event::Timeout(request));
        self.start_work(now);
    }

    /// Starts work on idle workers.
    fn start_work(&mut self, now: u64) {
        if self.scene.is_paused(now) {
            return;
        }
        while self.idle > 0
            && let Some(request) = self.queue.pop_front()
        {
            self.idle -= 1;
            self.events.add(now + self.scene.server.random_work(&mut self.random), Event::WorkDone(request));
        }
    }

    fn record(&mut self, now: u64) {
        self.moments.push(Moment { limit: self.pool.limit(), in_flight: self.pool.in_flight(), ..self.moment });
        self.moment = Moment::default();
        self.events.add(now + SAMPLE_INTERVAL, Event::Sample);
    }
}
