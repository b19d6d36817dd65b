//! Who watches the limits: what was decided, for metrics, logs and the dashboard. Bounded, whatever clients send.

mod account;
mod calls;
mod denials;
mod history;
mod keys;
pub(crate) mod recorder;
mod reloads;
mod sketch;
mod tally;
mod timed;
mod top;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate::{All, Clock, Decision, Error, SystemClock, Timestamp};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::gate::{Ask, Gate, counted};
use super::shutdown::Shutdown;
pub(crate) use account::Account;
pub(crate) use calls::Calls;
use history::History;
pub(crate) use history::{SECONDS, Sample};
use keys::Keys;
use reloads::Reloads;
pub(crate) use sketch::{Counter, Kind};
pub(crate) use tally::Counts;
pub(crate) use timed::Timed;

const SECOND: Duration = Duration::from_secs(1);

/// What is kept of limits, by their names.
type Accounts = HashMap<String, Arc<Account>, ahash::RandomState>;

/// What was decided, by limit.
pub(crate) struct Watch {
    /// Those that are served, found as fast as can be. Clients only look names up here, so that nobody can choose names
    /// that collide: only whoever writes the config could.
    followed: ArcSwap<Accounts>,
    /// Every limit there has been, so that one that comes back goes on counting where it was.
    known: Mutex<BTreeMap<String, Arc<Account>>>,
    /// The last minutes of all limits together.
    history: Mutex<History>,
    keys: Keys,
    pub(crate) reloads: Reloads,
    pub(crate) started: Timestamp,
    running_since: Instant,
    seconds: AtomicU64,
}

impl Watch {
    pub(crate) fn new(names: Vec<String>) -> Self {
        let watch = Watch {
            followed: ArcSwap::from_pointee(Accounts::with_hasher(hasher())),
            known: Mutex::default(),
            history: Mutex::default(),
            keys: Keys::default(),
            reloads: Reloads::new(),
            started: SystemClock.now(),
            running_since: Instant::now(),
            seconds: AtomicU64::new(0),
        };
        watch.follow(watch.accounts_of(names));
        watch
    }

    /// Whether only a hash of each key is kept and shown.
    pub(crate) fn hide_keys(mut self, hidden: bool) -> Self {
        self.keys.hidden = hidden;
        self
    }

    /// Whether keys are logged as they are.
    pub(crate) fn log_keys(mut self, logged: bool) -> Self {
        self.keys.logged = logged;
        self
    }

    /// What is kept of limits of these names, or will be once they are [followed](Self::follow).
    pub(crate) fn accounts_of(&self, names: Vec<String>) -> Accounts {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let account = |name: String| match known.get(&name) {
            Some(account) => (name, Arc::clone(account)),
            None => (name.clone(), Arc::new(Account::new(name))),
        };
        let mut accounts = Accounts::with_capacity_and_hasher(names.len(), hasher());
        accounts.extend(names.into_iter().map(account));
        accounts
    }

    /// Watches these limits, too, until it is said which are [followed](Self::follow) from there on. Returns those that were.
    pub(crate) fn follow_also(&self, accounts: &Accounts) -> Arc<Accounts> {
        let followed = self.followed.load_full();
        let mut both = Accounts::clone(&followed);
        both.extend(accounts.iter().map(|(name, account)| (name.clone(), Arc::clone(account))));
        self.followed.store(Arc::new(both));
        followed
    }

    /// Watches these limits from now on. What was counted of the others is kept.
    pub(crate) fn follow(&self, accounts: impl Into<Arc<Accounts>>) {
        let accounts = accounts.into();
        self.followed.store(Arc::clone(&accounts));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(accounts.iter().map(|(name, account)| (name.clone(), Arc::clone(account))));
    }

    /// Sees an answer.
    #[inline]
    pub(crate) fn saw(&self, ask: &Ask<'_>, answer: &Result<Decision, Error>) {
        // Of a limit that a reload has just taken away nothing was wrong: Envoy's requests are decided anew.
        if !ask.op.takes() || matches!(answer, Err(Error::UnknownLimit(_))) {
            return;
        }
        if let Some(account) = self.followed.load().get(ask.limit) {
            account.saw(&ask.key, answer, &self.keys);
        }
    }

    /// Sees the answer to several that were to be taken together.
    pub(crate) fn saw_all(&self, asks: &[Ask<'_>], answer: Result<&All, Error>) {
        match answer {
            Ok(all) => counted(asks, all).for_each(|(ask, decision)| self.saw(ask, &Ok(*decision))),
            Err(error) => asks.iter().for_each(|ask| self.saw(ask, &Err(error.clone()))),
        }
    }

    /// A config was read and is served.
    pub(crate) fn reloaded(&self) {
        self.reloads.succeeded();
    }

    /// A config was read and is not served.
    pub(crate) fn reload_failed(&self, errors: &str) {
        self.reloads.failed(errors);
    }

    /// What is kept of every limit there has been.
    pub(crate) fn accounts(&self) -> Vec<Arc<Account>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The last minutes of all limits together, a sample a second, the newest last.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.history.lock().map(|history| history.samples().iter().copied().collect()).unwrap_or_default()
    }

    /// What is kept of the limits that are served.
    pub(crate) fn served(&self) -> Vec<Arc<Account>> {
        self.followed.load().values().cloned().collect()
    }

    /// Whether only a hash of each key is shown.
    pub(crate) fn hides_keys(&self) -> bool {
        self.keys.hidden
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.running_since.elapsed()
    }

    /// Ends a second.
    fn tick(&self) {
        let seconds = self.seconds.fetch_add(1, Ordering::Relaxed) + 1;
        let mut total = Counts::default();
        for account in self.accounts() {
            total = total.plus(&account.tick());
            if seconds.is_multiple_of(SECONDS as u64) {
                account.top.turn();
            }
        }
        if let Ok(mut history) = self.history.lock() {
            history.tick(total);
        }
    }
}

/// Ends every second, until it ends.
pub(super) async fn tick(gate: Arc<Gate>, mut shutdown: Shutdown) {
    let mut seconds = interval_at(Instant::now() + SECOND, SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = seconds.tick() => {
                gate.watch.tick();
                gate.backing.calls().inspect(|calls| calls.tick());
                // What was recorded is kept one by one until then.
                recorder::handle().run_upkeep();
            }
            () = shutdown.begun() => {
                // What was left out of the log in this second is said as well.
                gate.watch.tick();
                return;
            }
        }
    }
}

fn hasher() -> ahash::RandomState {
    ahash::RandomState::with_seeds(1, 2, 3, 4)
}

#[cfg(test)]
mod tests {
    use tidegate::{Key, Reason};

    use super::*;
    use crate::json::Op;

    fn ask<'a>(op: Op, limit: &'a str, key: &'a str) -> Ask<'a> {
        Ask { op, limit, key: Key::from(key), cost: 1, quota: None, whole_key: None }
    }

    fn watch(names: &[&str]) -> Watch {
        Watch::new(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn counts(watch: &Watch, name: &str) -> Counts {
        let accounts = watch.accounts();
        accounts.iter().find(|account| account.name == name).expect("known").tally.counts()
    }

    #[test]
    fn what_takes_is_seen_and_nothing_else() {
        let watch = watch(&["api"]);
        let denied = Ok(Decision::denied_by_list(5));
        for op in [Op::Limit, Op::Check, Op::Reserve, Op::Refund, Op::Reset] {
            watch.saw(&ask(op, "api", "u1"), &denied);
        }
        watch.saw(&ask(Op::Limit, "elsewhere", "u1"), &denied);
        assert_eq!(counts(&watch, "api").denied(), 2);
        let by_list = counts(&watch, "api").each().find(|(.., count)| *count == 2);
        assert_eq!(by_list, Some(("denied", Some(Reason::Deny.as_str()), 2)));
        assert_eq!(watch.accounts().len(), 1, "a name that a client made up is kept nowhere");
    }

    #[test]
    fn a_limit_that_comes_back_goes_on_counting() {
        let watch = watch(&["api", "login"]);
        let admitted = Ok(Decision::admitted_without_store(5));
        watch.saw(&ask(Op::Limit, "api", "u1"), &admitted);
        watch.follow(watch.accounts_of(vec!["login".to_owned()]));
        watch.saw(&ask(Op::Limit, "api", "u1"), &admitted);
        assert_eq!(counts(&watch, "api").without_store(), 1, "what is not served is not counted, and not forgotten");
        watch.follow(watch.accounts_of(vec!["api".to_owned()]));
        watch.saw(&ask(Op::Limit, "api", "u1"), &admitted);
        assert_eq!(counts(&watch, "api").without_store(), 2);
    }

    #[test]
    fn only_who_is_denied_is_among_the_top() {
        let watch = watch(&["api"]);
        watch.saw(&ask(Op::Limit, "api", "good"), &Ok(Decision::admitted_without_store(5)));
        watch.saw(&ask(Op::Limit, "api", "bad"), &Ok(Decision::denied_by_list(5)));
        let top: Vec<String> = watch.accounts()[0].top.counters().into_iter().map(|one| one.shown.text).collect();
        assert_eq!(top, ["bad"]);
    }
}
