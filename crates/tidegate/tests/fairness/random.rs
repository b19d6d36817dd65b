//! Random acquires, releases, cancellations and pauses, compared with the reference model.

use std::time::Duration;

use tidegate::concurrency::{Completion, FairConcurrency, Permit, RejectReason};
use tidegate::{Clock, ManualClock};
use tidegate_testkit::Random;

use crate::crowd::{Crowd, clock, fair};
use crate::model::{Answer, Model, Name};

/// The names of the callers. Some have weights of their own.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A run of equal events for the library and for the model.
struct RandomRun {
    random: Random,
    fair: FairConcurrency,
    clock: ManualClock,
    crowd: Crowd,
    model: Model,
    permits: Vec<(Name, Permit)>,
    /// The waiting callers and their tenants.
    waiting: Vec<(usize, Name)>,
    /// Whether every tenant has had its share since the last change of the tenants and the limit.
    undisturbed: bool,
}

impl RandomRun {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let clock = clock();
        let model = Model {
            limit: random.between(1, 12),
            weights: (0..random.below(4)).map(|_| random.between(1, 6)).collect(),
            default_weight: random.between(1, 3),
            max_tenants: random.below(4) as usize,
            queue: random.between(1, 4) as usize,
            total_queue: random.between(1, 8) as usize,
            idle_after: random.between(1, 20),
            now: clock.now().as_micros() / 1_000,
            events: 0,
            tenants: Vec::new(),
        };
        let mut builder = fair(model.limit as u32, &clock)
            .default_weight(model.default_weight as u32)
            .max_tenants(model.max_tenants)
            .queue(model.queue)
            .total_queue(model.total_queue)
            .idle_after(Duration::from_millis(model.idle_after));
        for (name, weight) in NAMES.iter().zip(&model.weights) {
            builder = builder.weight(*name, *weight as u32);
        }
        let (crowd, permits, waiting) = Default::default();
        RandomRun { random, fair: builder.build(), clock, crowd, model, permits, waiting, undisturbed: true }
    }

    fn step(&mut self) {
        let number = self.random.below(NAMES.len() as u64) as usize;
        match self.random.below(20) {
            0..6 => self.try_acquire(number),
            6..11 => self.acquire(number),
            11..16 => self.release(),
            16 => self.cancel(),
            17..19 => self.advance(),
            _ => self.set_limit(),
        }
        self.compare();
    }

    fn try_acquire(&mut self, number: usize) {
        let (name, before) = self.arrive(number);
        let answer = self.fair.try_acquire(NAMES[number]);
        self.check_served(before, false);
        self.record_rejection(name, answer.is_ok());
        assert_eq!(answer.is_ok(), self.model.enter(name), "{:?}", self.model);
        match answer {
            Ok(permit) => self.permits.push((name, permit)),
            Err(refused) => assert_eq!(refused.reason(), RejectReason::Busy),
        }
    }

    fn acquire(&mut self, number: usize) {
        let within = self.random.pick(&[0, 3, 10, 1_000]);
        let (name, before) = self.arrive(number);
        let caller = self.crowd.join(&self.fair, NAMES[number], Duration::from_millis(within));
        let mut answers = self.crowd.answers();
        let own = answers.iter().position(|(other, _)| *other == caller).map(|at| answers.remove(at).1);
        self.check_answer(answers, before, Vec::new());
        self.record_rejection(name, matches!(own, Some(Ok(_))));
        match (self.model.enter_or_queue(name, caller, self.model.now + within), own) {
            (Answer::Permit, Some(Ok(permit))) => self.permits.push((name, permit)),
            (Answer::QueueFull, Some(Err(refused))) => assert_eq!(refused.reason(), RejectReason::QueueFull),
            (Answer::Queued, Some(Err(refused))) if within == 0 => {
                assert_eq!(refused.reason(), RejectReason::TooLong);
                self.model.cancel(caller);
            }
            (Answer::Queued, None) => self.waiting.push((caller, name)),
            (expected, own) => panic!("{expected:?}, and not {own:?}: {:?}", self.model),
        }
    }

    fn release(&mut self) {
        if self.permits.is_empty() {
            return;
        }
        let at = self.random.below(self.permits.len() as u64) as usize;
        let (name, permit) = self.permits.swap_remove(at);
        match self.random.pick(&[None, Some(Completion::Success), Some(Completion::Dropped)]) {
            None => drop(permit),
            Some(work) => permit.release(work),
        }
        let given = self.model.release(name);
        let cancel = self.random.one_in(3);
        self.check_served(given, cancel);
    }

    fn cancel(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.random.below(self.waiting.len() as u64) as usize;
        let (caller, _) = self.waiting.swap_remove(at);
        self.crowd.leave(caller);
        self.model.cancel(caller);
    }

    fn advance(&mut self) {
        let span = self.random.pick(&[1, 2, 5, 30]);
        let before = self.model.tenants.len();
        let (given, late) = self.model.advance(self.model.now + span);
        self.undisturbed &= self.model.tenants.len() == before;
        self.crowd.advance(&self.clock, Duration::from_millis(span));
        let answers = self.crowd.answers();
        self.check_answer(answers, given, late);
    }

    fn set_limit(&mut self) {
        let limit = self.random.between(1, 12);
        self.undisturbed &= limit == self.model.limit;
        let given = self.model.set_limit(limit);
        self.fair.set_limit(limit as u32);
        self.check_served(given, false);
    }

    /// Adds a caller to the model. Returns its tenant, and the callers that get a slot by that.
    fn arrive(&mut self, number: usize) -> (Name, Vec<usize>) {
        let before = self.model.tenants.len();
        let arrived = self.model.arrive(number);
        self.undisturbed &= self.model.tenants.len() == before;
        arrived
    }

    /// Asserts that these callers get slots. Sometimes one of them leaves before it notices.
    fn check_served(&mut self, mut given: Vec<usize>, cancel: bool) {
        while let Some(caller) = given.first().copied().filter(|_| cancel) {
            given.remove(0);
            self.crowd.leave(caller);
            let name = self.forget(caller);
            given.extend(self.model.release(name));
            if self.random.one_in(2) {
                break;
            }
        }
        self.crowd.run();
        let answers = self.crowd.answers();
        self.check_answer(answers, given, Vec::new());
    }

    /// Asserts that exactly these callers got slots, and that these have waited too long.
    fn check_answer(
        &mut self,
        answers: Vec<(usize, Result<Permit, tidegate::concurrency::Rejected>)>,
        mut given: Vec<usize>,
        mut late: Vec<usize>,
    ) {
        let (mut permitted, mut refused) = (Vec::new(), Vec::new());
        for (caller, answer) in answers {
            let name = self.forget(caller);
            match answer {
                Ok(permit) => {
                    permitted.push(caller);
                    self.permits.push((name, permit));
                }
                Err(why) => {
                    assert_eq!(why.reason(), RejectReason::TooLong);
                    refused.push(caller);
                }
            }
        }
        for list in [&mut permitted, &mut refused, &mut given, &mut late] {
            list.sort_unstable();
        }
        assert_eq!((permitted, refused), (given, late), "{:?}", self.model);
    }

    fn forget(&mut self, caller: usize) -> Name {
        let at = self.waiting.iter().position(|(waiting, _)| *waiting == caller).expect("waiting");
        self.waiting.swap_remove(at).1
    }

    /// Records a rejection by its meaning, without the model's rule, because the model has not decided yet.
    fn record_rejection(&self, name: Name, admitted: bool) {
        let model = &self.model;
        let tenant = model.find(name).expect("it has asked");
        let free = model.limit.saturating_sub(model.in_flight());
        assert!(free > 0 || !admitted, "never more than the limit");
        if admitted {
            return;
        }
        if model.is_below(tenant) {
            assert_eq!(free, 0, "refused below its guarantee with slots free");
            let others_have_more = model.tenants.iter().any(|other| other.in_flight > model.guarantee(other));
            assert!(others_have_more, "rejected below its guarantee, and no tenant has more than its own");
            assert!(!self.undisturbed, "rejected below its guarantee, and no tenant came or went");
        }
        let others = model.tenants.iter().filter(|other| other.name != name);
        let reserved: u64 = others.map(|other| model.guarantee(other).saturating_sub(other.in_flight)).sum();
        assert!(free <= reserved, "refused with slots free that are not reserved");
    }

    /// Asserts that all visible state matches the model, and that no caller waits that may have a slot.
    fn compare(&mut self) {
        let RandomRun { fair, model, .. } = self;
        assert_eq!(u64::from(fair.in_flight()), model.in_flight());
        assert_eq!((fair.waiting(), fair.tenants()), (model.waiting(), model.tenants.len()));
        for (number, name) in NAMES.iter().enumerate() {
            let share = fair.share(*name).map(|share| (u64::from(share.guarantee), share.in_flight, share.waiting));
            let expected = model
                .find(model.name_of(number))
                .map(|tenant| (model.guarantee(tenant), tenant.in_flight as u32, tenant.waiting.len()));
            assert_eq!(share, expected, "{name}: {model:?}");
        }
        let free = model.limit.saturating_sub(model.in_flight());
        let lacks = |tenant: &crate::model::Tenant| model.guarantee(tenant).saturating_sub(tenant.in_flight);
        let reserved: u64 = model.tenants.iter().map(lacks).sum();
        for tenant in model.tenants.iter().filter(|tenant| !tenant.waiting.is_empty()) {
            assert!(free == 0 || (!model.is_below(tenant) && free <= reserved), "waits in vain: {tenant:?} {model:?}");
        }
        // From here on, as long as no tenant comes or goes, every tenant can have its share.
        self.undisturbed |= model.in_flight() + reserved <= model.limit;
    }

    /// All callers leave, in any order.
    fn finish(mut self) {
        while !(self.permits.is_empty() && self.waiting.is_empty()) {
            match self.random.one_in(2) {
                true => self.cancel(),
                false => self.release(),
            }
            self.compare();
        }
        assert_eq!((self.fair.in_flight(), self.fair.waiting()), (0, 0));
        self.clock.advance(Duration::from_millis(self.model.idle_after));
        assert_eq!(self.fair.tenants(), 0, "absent tenants are removed");
        assert_eq!(self.clock.sleepers(), 0);
    }
}

#[test]
fn random_instances_behave_like_the_model() {
    for seed in 0..20_000 {
        let mut run = RandomRun::new(seed);
        for _ in 0..run.random.between(10, 60) {
            run.step();
        }
        run.finish();
    }
}
