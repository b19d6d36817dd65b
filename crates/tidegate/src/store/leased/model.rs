//! A model check: every order of what two processes, the network and time can do, in small cases. The store is the core's
//! own step, the processes are the hands themselves, and the bound is a quota of its own, which must admit whatever they do.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Quota, State, Timestamp, seconds, step};

use super::hand::{Hand, IN_TIME, Next, Wanted};
use super::rules::Rules;

const PROCESSES: usize = 2;
const PACE: Duration = Duration::from_millis(10);
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// How much the clock of each process differs from the store's.
const AHEAD: [Duration; PROCESSES] = [Duration::ZERO, seconds(13)];

/// One small case: there are two processes where one was expected, so that each may take all there is.
struct Case {
    rules: Rules,
    tick: Duration,
    ticks: u32,
    /// How many steps a run has.
    steps: usize,
    /// What has to admit everything.
    bound: Quota,
}

/// A request for a batch on its way to the store, or back.
#[derive(Debug, Clone)]
struct Refill {
    wanted: Wanted,
    units: u64,
    answer: Option<Decision>,
}

#[derive(Debug, Clone)]
struct Process {
    hand: Hand,
    refill: Option<Refill>,
    /// What is given back and on its way, and since when.
    refund: Option<(u64, Timestamp)>,
}

/// Everything there is.
#[derive(Debug, Clone)]
struct World {
    /// True time, which is the store's clock.
    now: Timestamp,
    state: State,
    processes: [Process; PROCESSES],
    /// What was admitted, as a state of the bound, and of the quota itself.
    admitted: [State; 2],
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Tick,
    /// Somebody asks a process.
    Take(usize),
    /// The refill reaches the store.
    Arrive(usize),
    /// The answer reaches the process.
    Answer(usize),
    /// The call is lost, before or after it has reached the store.
    Lose(usize),
    /// A process gives back what it has.
    GiveBack(usize),
    /// That reaches the store.
    Refund(usize),
}

/// What every order came to.
struct Found {
    worlds: usize,
    /// Something was admitted that the quota, asked at that time, would not have admitted.
    beyond_quota: bool,
}

impl Case {
    fn every_step() -> Vec<Step> {
        let of = [Step::Take, Step::Arrive, Step::Answer, Step::Lose, Step::GiveBack, Step::Refund];
        (0..PROCESSES).flat_map(|process| of.map(|step| step(process))).chain([Step::Tick]).collect()
    }

    /// The world after a step, and whether the quota itself would have admitted it; none when the step cannot be taken.
    fn after(&self, world: &World, step: Step) -> Option<(World, bool)> {
        let (mut world, rules) = (world.clone(), &self.rules);
        let local = |process: usize| world.now.saturating_add(AHEAD[process]);
        match step {
            Step::Tick => {
                world.now = world.now.saturating_add(self.tick);
                // What is assumed of the network: a return is not on its way for longer than it may be.
                let mut refunds = world.processes.iter().filter_map(|process| process.refund);
                let late = refunds.any(|(_, sent)| world.now.since(sent) >= IN_TIME);
                if late || world.now > START.saturating_add(self.tick * self.ticks) {
                    return None;
                }
            }
            Step::Take(number) => {
                let (now, process) = (local(number), &mut world.processes[number]);
                match process.hand.take(rules, 1, now) {
                    Some(decision) if decision.allowed() => return Some(self.admit(world)),
                    None if process.refill.is_none() => {
                        let wanted = process.hand.ask(rules, 1, 0, now);
                        process.refill = Some(Refill { wanted, units: wanted.units, answer: None });
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
                let Refill { wanted, units, .. } = process.refill.take()?;
                match wanted.next(units, &answer) {
                    Next::Granted(units) => process.hand.granted(rules, units, &answer, now),
                    Next::Ask(units) => process.refill = Some(Refill { wanted, units, answer: None }),
                    Next::Refused(retry) => process.hand.refused(wanted.least, retry, PACE, &answer, now),
                    Next::Broken => unreachable!("nobody is broken here"),
                }
            }
            Step::Lose(number) => {
                world.processes[number].refill.take()?;
                world.processes[number].hand.failed();
            }
            Step::GiveBack(number) => {
                let (now, process) = (local(number), &mut world.processes[number]);
                let units = process.hand.give_back(rules, Duration::ZERO, now);
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

    /// One more is admitted, which the bound has to allow.
    fn admit(&self, mut world: World) -> (World, bool) {
        let mut admits = |index: usize, quota: &Quota| {
            decide(quota, &mut world.admitted[index], Op::Reserve(Cost::ONE), world.now).retry_after().is_none()
        };
        let (within_bound, within_quota) = (admits(0, &self.bound), admits(1, &self.rules.quota));
        assert!(within_bound, "admitted beyond the bound: {world:#?}");
        (world, within_quota)
    }

    /// Tries every order of steps.
    fn run(&self) -> Found {
        let process = |ahead| {
            let hand = Hand::grown(&self.rules, START.saturating_add(ahead));
            Process { hand, refill: None, refund: None }
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
        Found { worlds: seen.len(), beyond_quota }
    }
}

impl World {
    /// A hash of everything.
    fn hashed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.now.hash(&mut hasher);
        for Process { hand, refill, refund } in &self.processes {
            (hand, refund).hash(&mut hasher);
            let answer = |answer: &Decision| (answer.allowed(), answer.retry_after(), answer.outlook().reset_after);
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
    let Found { worlds, beyond_quota } = Case { rules, tick: seconds(10), ticks: 3, steps: 12, bound: quota }.run();
    assert!(worlds > 10_000, "{worlds}");
    assert!(!beyond_quota);
}

#[test]
fn no_bucket_ever_admits_more_than_its_bound() {
    let quota = Quota::token_bucket(1, seconds(4)).unwrap().capacity(2).unwrap();
    let rules = Rules::new(&quota, NonZeroU32::MIN).unwrap();
    // A bucket admits capacity + rate * t, so this one's capacity is what is left of the bound.
    let bound = quota.capacity(2 + PROCESSES as u64 * rules.most).unwrap();
    let Found { worlds, beyond_quota } = Case { rules, tick: seconds(4), ticks: 4, steps: 12, bound }.run();
    assert!(worlds > 10_000, "{worlds}");
    // Or nothing was spent later than it was taken, and nothing shown.
    assert!(beyond_quota);
}
