//! A model check of the bound: every order of steps of two processes, the network and time, in small cases. The store is the
//! core's own `step`, a process is its balance, and the bound is a second quota, which must admit everything that they admit.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Quota, State, Timestamp, seconds, step};

use super::balance::{Balance, RETURN_MARGIN, RefillSize, RefillStep, Rules};

const PROCESSES: usize = 2;
const PACE: Duration = Duration::from_millis(10);
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// The difference of each process's clock to the store's.
const AHEAD: [Duration; PROCESSES] = [Duration::ZERO, seconds(13)];

/// A small case: two processes where one was expected, so that each may take the whole capacity.
struct Case {
    rules: Rules,
    tick: Duration,
    ticks: u32,
    /// The number of steps of a run.
    steps: usize,
    /// The quota that must admit everything.
    bound: Quota,
}

/// A refill on its way to the store, or back.
#[derive(Debug, Clone)]
struct Refill {
    size: RefillSize,
    units: u64,
    answer: Option<Decision>,
}

#[derive(Debug, Clone)]
struct Process {
    balance: Balance,
    refill: Option<Refill>,
    /// A return on its way, and when it was sent.
    refund: Option<(u64, Timestamp)>,
}

/// The state of all processes, the network and the store.
#[derive(Debug, Clone)]
struct World {
    /// The store's clock.
    now: Timestamp,
    state: State,
    processes: [Process; PROCESSES],
    /// The admitted requests, counted under the bound and under the quota itself.
    admitted: [State; 2],
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Tick,
    /// A process gets a request.
    Take(usize),
    /// The refill reaches the store.
    Arrive(usize),
    /// The answer reaches the process.
    Answer(usize),
    /// The refill is lost, before or after it has reached the store.
    Lose(usize),
    /// A process returns its balance.
    Return(usize),
    /// The return reaches the store.
    Refund(usize),
}

/// The result of all orders.
struct Explored {
    worlds: usize,
    /// A request was admitted that the quota would not have admitted at that time.
    beyond_quota: bool,
}

impl Case {
    fn every_step() -> Vec<Step> {
        let of = [Step::Take, Step::Arrive, Step::Answer, Step::Lose, Step::Return, Step::Refund];
        (0..PROCESSES).flat_map(|process| of.map(|step| step(process))).chain([Step::Tick]).collect()
    }

    /// Returns the world after a step, and whether the quota itself would have admitted it, or `None` when the step is not
    /// possible.
    fn after(&self, world: &World, step: Step) -> Option<(World, bool)> {
        let (mut world, rules) = (world.clone(), &self.rules);
        let local = |process: usize| world.now.saturating_add(AHEAD[process]);
        match step {
            Step::Tick => {
                world.now = world.now.saturating_add(self.tick);
                // The assumption about the network: a return arrives within the margin.
                let mut refunds = world.processes.iter().filter_map(|process| process.refund);
                let late = refunds.any(|(_, sent)| world.now.since(sent) >= RETURN_MARGIN);
                if late || world.now > START.saturating_add(self.tick * self.ticks) {
                    return None;
                }
            }
            Step::Take(number) => {
                let (now, process) = (local(number), &mut world.processes[number]);
                match process.balance.take(rules, 1, now) {
                    Some(decision) if decision.allowed() => return Some(self.admit(world)),
                    None if process.refill.is_none() => {
                        let size = process.balance.begin_refill(rules, 1, 0, now);
                        process.refill = Some(Refill { size, units: size.units, answer: None });
                    }
                    _ => return None,
                }
            }
            Step::Arrive(number) => {
                let refill = world.processes[number].refill.as_mut().filter(|refill| refill.answer.is_none())?;
                refill.answer = Some(decide(&rules.quota, &mut world.state, Op::Limit(cost(refill.units)), world.now));
            }
            Step::Answer(number) => {
                let (now, process) = (local(number), &mut world.processes[number]);
                let answer = process.refill.as_ref()?.answer?;
                let Refill { size, units, .. } = process.refill.take()?;
                match size.step(units, &answer) {
                    RefillStep::Granted(units) => process.balance.refill_granted(rules, units, &answer, now),
                    RefillStep::Retry(units) => process.refill = Some(Refill { size, units, answer: None }),
                    RefillStep::Denied(retry) => process.balance.refill_denied(size.min, retry, PACE, &answer, now),
                    RefillStep::Fallback => unreachable!("this store never fails"),
                }
            }
            Step::Lose(number) => {
                world.processes[number].refill.take()?;
                world.processes[number].balance.refill_failed();
            }
            Step::Return(number) => {
                let (now, process) = (local(number), &mut world.processes[number]);
                let units = process.balance.take_idle(rules, Duration::ZERO, now);
                if units == 0 || process.refund.is_some() {
                    return None;
                }
                process.refund = Some((units, world.now));
            }
            Step::Refund(number) => {
                let (units, _) = world.processes[number].refund.take()?;
                let _ = decide(&rules.quota, &mut world.state, Op::Refund(cost(units)), world.now);
            }
        }
        Some((world, true))
    }

    /// Admits one request, which the bound must allow.
    fn admit(&self, mut world: World) -> (World, bool) {
        let mut admits = |index: usize, quota: &Quota| {
            decide(quota, &mut world.admitted[index], Op::Reserve(Cost::ONE), world.now).retry_after().is_none()
        };
        let (within_bound, within_quota) = (admits(0, &self.bound), admits(1, &self.rules.quota));
        assert!(within_bound, "admitted beyond the bound: {world:#?}");
        (world, within_quota)
    }

    /// Runs every order of steps.
    fn run(&self) -> Explored {
        let process = |ahead| {
            let balance = Balance::with_largest_batch(&self.rules, START.saturating_add(ahead));
            Process { balance, refill: None, refund: None }
        };
        let admitted = [State::New, State::New];
        let mut worlds = vec![World { now: START, state: State::New, processes: AHEAD.map(process), admitted }];
        let (mut seen, mut beyond_quota) = (HashSet::new(), false);
        for _ in 0..self.steps {
            let mut later = Vec::new();
            for (world, step) in
                worlds.iter().flat_map(|world| Self::every_step().into_iter().map(move |step| (world, step)))
            {
                let Some((world, within_quota)) = self.after(world, step) else { continue };
                beyond_quota |= !within_quota;
                if seen.insert(world.hashed()) {
                    later.push(world);
                }
            }
            worlds = later;
        }
        Explored { worlds: seen.len(), beyond_quota }
    }
}

impl World {
    /// Hashes the whole state.
    fn hashed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.now.hash(&mut hasher);
        for Process { balance, refill, refund } in &self.processes {
            (balance, refund).hash(&mut hasher);
            let answer = |answer: &Decision| (answer.allowed(), answer.retry_after(), answer.reset_after());
            refill.as_ref().map(|refill| (refill.units, refill.answer.as_ref().map(answer))).hash(&mut hasher);
        }
        for state in self.admitted.iter().chain([&self.state]) {
            match state {
                State::FixedWindow { deficit, last } => (u128::from(*deficit), last).hash(&mut hasher),
                State::TokenBucket { deficit, last } => (deficit, last).hash(&mut hasher),
                _ => 0.hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

fn decide(quota: &Quota, state: &mut State, op: Op, now: Timestamp) -> Decision {
    step(quota, state, op, now).decision
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[test]
fn no_window_ever_admits_more_than_its_limit() {
    let quota = Quota::fixed_window(2, seconds(20)).unwrap();
    let rules = Rules::new(&quota, NonZeroU32::MIN).unwrap();
    let Explored { worlds, beyond_quota } = Case { rules, tick: seconds(10), ticks: 3, steps: 12, bound: quota }.run();
    assert!(worlds > 10_000, "{worlds}");
    assert!(!beyond_quota);
}

#[test]
fn no_bucket_ever_admits_more_than_its_bound() {
    let quota = Quota::token_bucket(1, seconds(4)).unwrap().capacity(2).unwrap();
    let rules = Rules::new(&quota, NonZeroU32::MIN).unwrap();
    // A bucket admits capacity + rate * t, so the rest of the bound is this one's capacity.
    let bound = quota.capacity(2 + PROCESSES as u64 * rules.max).unwrap();
    let Explored { worlds, beyond_quota } = Case { rules, tick: seconds(4), ticks: 4, steps: 12, bound }.run();
    assert!(worlds > 10_000, "{worlds}");
    // Otherwise no unit was spent later than it was taken, and the check would show nothing.
    assert!(beyond_quota);
}
