//! Who waits for a call that it can share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::cluster_routing::Slot;
use tidegate_core::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::answer::Answer;
use super::ask::Ask;
use super::each::MOST;

/// How many tasks take along those who wait, each with one call in flight.
const TASKS: usize = 2;

/// How many may wait before those are looked for who have given up.
const MANY: usize = 1_024;

/// What a call that is shared says about one key; none when a call about that key alone has to.
pub(super) type Reply = Result<Option<Answer>, StoreError>;

/// Somebody who waits.
pub(super) struct Job {
    pub(super) ask: Arc<Ask>,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What becomes of somebody who asks.
pub(super) enum Entered {
    /// It goes at once, and counts until it has [landed](Lanes::land).
    Flies,
    /// It waits for a task, which has to be started there if a runtime is named.
    Waits(oneshot::Receiver<Reply>, Option<Handle>),
    /// It goes at once and does not count: there is no runtime for a task.
    Apart,
}

/// The calls in flight, and who waits: by place, because a call is about one of them. Nobody holds the lock for longer than
/// it takes to move some jobs.
pub(super) struct Lanes {
    /// How many callers make calls of their own at a time.
    beyond: usize,
    /// Where the store was made, which is where its connection works, too: tasks run there, whoever asks.
    runtime: Option<Handle>,
    lanes: Mutex<HashMap<Option<Slot>, Lane>>,
}

#[derive(Default)]
struct Lane {
    flying: usize,
    tasks: usize,
    waiting: VecDeque<Job>,
    /// With how many waiting those are looked for who have given up.
    many: usize,
}

impl Lanes {
    pub(super) fn new(beyond: usize) -> Self {
        Lanes { beyond, runtime: Handle::try_current().ok(), lanes: Mutex::default() }
    }

    pub(super) fn enter(&self, slot: Option<Slot>, ask: &Arc<Ask>) -> Entered {
        let mut lanes = self.lock();
        let lane = lanes.entry(slot).or_default();
        // While tasks are at work, who comes later does not overtake those who wait.
        if lane.tasks == 0 && lane.flying < self.beyond {
            lane.flying += 1;
            return Entered::Flies;
        }
        let mut runtime = None;
        if lane.tasks < TASKS {
            runtime = self.runtime.clone().or_else(|| Handle::try_current().ok());
            lane.tasks += usize::from(runtime.is_some());
            if lane.tasks == 0 {
                return Entered::Apart;
            }
        }
        let (reply, waits) = oneshot::channel();
        lane.push(Job { ask: Arc::clone(ask), reply });
        Entered::Waits(waits, runtime)
    }

    /// A caller's own call has ended.
    pub(super) fn land(&self, slot: Option<Slot>) {
        self.change(slot, |lane| lane.flying -= 1);
    }

    /// Whom a task takes along with its next call. With nobody, it ends.
    pub(super) fn take(&self, slot: Option<Slot>) -> Vec<Job> {
        self.change(slot, |lane| {
            let jobs = lane.take();
            lane.tasks -= usize::from(jobs.is_empty());
            jobs
        })
    }

    /// A task was ended by its runtime. Without another one nobody would take along those who wait: they are let go.
    pub(super) fn abandon(&self, slot: Option<Slot>) {
        let abandoned = self.change(slot, |lane| {
            lane.tasks -= 1;
            if lane.tasks == 0 { std::mem::take(&mut lane.waiting) } else { VecDeque::new() }
        });
        // Outside of the lock: whoever is told may ask again at once.
        drop(abandoned);
    }

    /// Changes a lane in which there is somebody.
    fn change<T>(&self, slot: Option<Slot>, change: impl FnOnce(&mut Lane) -> T) -> T {
        let mut lanes = self.lock();
        let lane = lanes.entry(slot).or_default();
        let changed = change(lane);
        // An idle one costs nothing.
        if lane.flying == 0 && lane.tasks == 0 {
            lanes.remove(&slot);
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Slot>, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn push(&mut self, job: Job) {
        // While a server does not answer, callers give up and others come: those who wait are all that is kept.
        if self.waiting.len() >= self.many.max(MANY) {
            self.waiting.retain(|job| !job.reply.is_closed());
            self.many = 2 * self.waiting.len();
        }
        self.waiting.push_back(job);
    }

    /// Those who go with the next call, in order: with one time for all of them, and without who has given up.
    fn take(&mut self) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::with_capacity(self.waiting.len().min(MOST));
        while jobs.len() < MOST
            && let Some(job) =
                self.waiting.pop_front_if(|job| jobs.first().is_none_or(|first| first.ask.at == job.ask.at))
        {
            if !job.reply.is_closed() {
                jobs.push(job);
            }
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script;

    #[test]
    fn who_has_given_up_is_not_kept() {
        let mut lane = Lane::default();
        let mut push = |name: String| {
            let ask =
                Ask { name, script: &script::LOOK, quota: Vec::new(), numbers: Vec::new(), at: None, is_heavy: false };
            let (reply, waits) = oneshot::channel();
            lane.push(Job { ask: Arc::new(ask), reply });
            waits
        };
        let mut waiting = Vec::new();
        for number in 0..50_000 {
            let waits = push(number.to_string());
            if number % 1_000 == 0 {
                waiting.push(waits);
            }
        }
        assert!(lane.waiting.len() <= MANY + 1, "{}", lane.waiting.len());
        let names: Vec<_> = lane.take().into_iter().map(|job| job.ask.name.clone()).collect();
        assert_eq!(names, (0..50).map(|number| (number * 1_000).to_string()).collect::<Vec<_>>());
    }
}
