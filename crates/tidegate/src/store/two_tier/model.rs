//! A model check of the bound on a two-tier store: every interleaving of a few processes, the network and time.
//!
//! Cases are small. The store is the core's own `step`, and a process is its balance. The bound is a second quota,
//! which must admit everything that they admit.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Quota, State, Timestamp, seconds, step};

use super::balance::{Balance, BatchRules, RETURN_MARGIN, RefillSize, RefillStep};

const PACE: Duration = Duration::from_millis(10);
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// The difference of each process's clock to the store's.
const CLOCK_OFFSETS: [Duration; 2] = [Duration::ZERO, seconds(13)];

/// A small case: one process was expected, so that each may take the whole capacity.
struct Scenario {
    processes: usize,
    rules: BatchRules,
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

/// The state of one process.
#[derive(Debug, Clone)]
struct Process {
    balance: Balance,
    refill: Option<Refill>,
    /// A return on its way, and when it was sent.
    refund: Option<(u64, Timestamp)>,
}

/// The state of all processes, the network and the store.
#[derive(Debug, Clone)]
struct SystemState {
    /// The store's clock.
    now: Timestamp,
    state: State,
    processes: Vec<Process>,
    /// The admitted requests, counted under the bound and under the quota itself.
    admitted: [State; 2],
}

/// One step of a process, the network or time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Tick,
    /// A process gets a request.
    Request(usize),
    /// The refill reaches the store.
    RefillArrives(usize),
    /// The answer reaches the process.
    AnswerArrives(usize),
    /// The refill is lost, before or after it has reached the store.
    LoseRefill(usize),
    /// A process returns its balance.
    ReturnUnits(usize),
    /// The return reaches the store, and its answer the process.
    RefundArrives(usize),
    /// The return reaches the store, and its answer is lost.
    LoseRefundAnswer(usize),
}

/// The result of exploring all orders of steps.
struct Exploration {
    states: usize,
    /// A request was admitted that the quota would not have admitted at that time.
    beyond_quota: bool,
    /// As much was admitted in some span as the bound allows.
    reached_bound: bool,
}

/// A request that was admitted.
#[derive(Default)]
struct Admission {
    beyond_quota: bool,
    reached_bound: bool,
}

impl Scenario {
    fn all_steps(&self) -> Vec<Step> {
        let of = [
            Step::Request,
            Step::RefillArrives,
            Step::AnswerArrives,
            Step::LoseRefill,
            Step::ReturnUnits,
            Step::RefundArrives,
            Step::LoseRefundAnswer,
        ];
        (0..self.processes).flat_map(|process| of.map(|step| step(process))).chain([Step::Tick]).collect()
    }

    /// Returns the system after a step, and the request that it admitted, or `None` when the step is not possible.
    fn apply(&self, system: &SystemState, step: Step) -> Option<(SystemState, Admission)> {
        let (mut system, rules) = (system.clone(), &self.rules);
        let local = |process: usize| system.now.saturating_add(CLOCK_OFFSETS[process]);
        match step {
            Step::Tick => {
                system.now = system.now.saturating_add(self.tick);
                // The assumption about the network: a return arrives within the margin.
                let mut refunds = system.processes.iter().filter_map(|process| process.refund);
                let late = refunds.any(|(_, sent)| system.now.since(sent) >= RETURN_MARGIN);
                if late || system.now > START.saturating_add(self.tick * self.ticks) {
                    return None;
                }
            }
            Step::Request(number) => {
                let (now, process) = (local(number), &mut system.processes[number]);
                match process.balance.take(rules, 1, now) {
                    Some(decision) if decision.allowed() => return Some(self.admit(system)),
                    None if process.refill.is_none() && process.balance.can_refill(rules, 1, now) => {
                        let size = process.balance.begin_refill(rules, 1, 0, now);
                        process.refill = Some(Refill { size, units: size.units, answer: None });
                    }
                    _ => return None,
                }
            }
            Step::RefillArrives(number) => {
                let refill = system.processes[number].refill.as_mut().filter(|refill| refill.answer.is_none())?;
                refill.answer =
                    Some(decide(&rules.quota, &mut system.state, Op::Limit(cost(refill.units)), system.now));
            }
            Step::AnswerArrives(number) => {
                let (now, process) = (local(number), &mut system.processes[number]);
                let answer = process.refill.as_ref()?.answer?;
                let Refill { size, units, .. } = process.refill.take()?;
                match size.step(units, &answer) {
                    RefillStep::Granted(units) => process.balance.refill_granted(rules, units, &answer, now),
                    RefillStep::Retry(units) => process.refill = Some(Refill { size, units, answer: None }),
                    RefillStep::Denied(retry) => process.balance.refill_denied(size.min, retry, PACE, &answer, now),
                    RefillStep::Fallback => unreachable!("this store never fails"),
                }
            }
            Step::LoseRefill(number) => {
                system.processes[number].refill.take()?;
                system.processes[number].balance.refill_failed();
            }
            Step::ReturnUnits(number) => {
                let (now, process) = (local(number), &mut system.processes[number]);
                let units = process.balance.take_idle(rules, Duration::ZERO, now);
                if units == 0 || process.refund.is_some() {
                    return None;
                }
                process.refund = Some((units, system.now));
            }
            Step::RefundArrives(number) | Step::LoseRefundAnswer(number) => {
                let process = &mut system.processes[number];
                let (units, _) = process.refund.take()?;
                let _ = decide(&rules.quota, &mut system.state, Op::Refund(cost(units)), system.now);
                if matches!(step, Step::RefundArrives(_)) {
                    process.balance.return_arrived(units);
                }
            }
        }
        Some((system, Admission::default()))
    }

    /// Admits one request, which the bound must allow.
    fn admit(&self, mut system: SystemState) -> (SystemState, Admission) {
        let mut count = |index: usize, quota: &Quota| {
            decide(quota, &mut system.admitted[index], Op::Reserve(Cost::ONE), system.now)
        };
        let (of_bound, of_quota) = (count(0, &self.bound), count(1, &self.rules.quota));
        assert!(of_bound.retry_after().is_none(), "admitted beyond the bound: {system:#?}");
        let (beyond_quota, reached_bound) = (of_quota.retry_after().is_some(), of_bound.remaining() == 0);
        (system, Admission { beyond_quota, reached_bound })
    }

    /// Runs every order of steps.
    fn run(&self) -> Exploration {
        let process = |offset| {
            let balance = Balance::with_largest_batch(&self.rules, START.saturating_add(offset));
            Process { balance, refill: None, refund: None }
        };
        let processes = CLOCK_OFFSETS[..self.processes].iter().map(|offset| process(*offset)).collect();
        let admitted = [State::New, State::New];
        let mut states = vec![SystemState { now: START, state: State::New, processes, admitted }];
        let (mut visited, mut beyond_quota, mut reached_bound) = (HashSet::new(), false, false);
        for _ in 0..self.steps {
            let mut next = Vec::new();
            for (system, step) in
                states.iter().flat_map(|system| self.all_steps().into_iter().map(move |step| (system, step)))
            {
                let Some((system, admission)) = self.apply(system, step) else { continue };
                beyond_quota |= admission.beyond_quota;
                reached_bound |= admission.reached_bound;
                if visited.insert(system.state_hash()) {
                    next.push(system);
                }
            }
            states = next;
        }
        Exploration { states: visited.len(), beyond_quota, reached_bound }
    }
}

impl SystemState {
    /// Hashes the whole state.
    fn state_hash(&self) -> u64 {
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
fn window_never_admits_more_than_its_limit() {
    let bound = Quota::fixed_window(2, seconds(20)).unwrap();
    let rules = BatchRules::new(&bound, NonZeroU32::MIN).unwrap();
    let Exploration { states, beyond_quota, .. } =
        Scenario { processes: 2, rules, tick: seconds(10), ticks: 3, steps: 12, bound }.run();
    assert!(states > 10_000, "{states}");
    assert!(!beyond_quota);
}

/// Returns the rules of a quota, and the bound when that many processes take batches of it. A bucket admits capacity + rate * t,
/// so the rest of the bound is the capacity of another bucket.
fn bucket(quota: Quota, processes: u64) -> (BatchRules, Quota) {
    let rules = BatchRules::new(&quota, NonZeroU32::MIN).unwrap();
    (rules, quota.capacity(u64::from(quota.parts().capacity) + processes * rules.max).unwrap())
}

#[test]
fn bucket_never_admits_more_than_its_bound() {
    let (rules, bound) = bucket(Quota::token_bucket(1, seconds(4)).unwrap().capacity(2).unwrap(), 2);
    let Exploration { states, beyond_quota, .. } =
        Scenario { processes: 2, rules, tick: seconds(4), ticks: 4, steps: 12, bound }.run();
    assert!(states > 10_000, "{states}");
    // Otherwise every unit was spent when it was taken, and the check would show nothing.
    assert!(beyond_quota);
}

/// One process, and steps enough for a balance, a return that the next refill overtakes, and a full store.
#[test]
fn overtaken_return_adds_nothing_to_the_bound_of_a_bucket() {
    let (rules, bound) = bucket(Quota::token_bucket(2, seconds(2)).unwrap(), 1);
    let Exploration { states, reached_bound, .. } =
        Scenario { processes: 1, rules, tick: seconds(2), ticks: 3, steps: 24, bound }.run();
    assert!(states > 1_000, "{states}");
    assert!(reached_bound);
}
