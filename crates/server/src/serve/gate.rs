//! What every transport asks: the limits, and whoever watches them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use http::HeaderMap;
use tidegate::http::{Client, ForwardingWarning};
use tidegate::{All, BuildError, Call, Decision, Error, Key, Limiter, Quota};
use tokio::sync::Mutex;
use tracing::warn;

use super::served::{Served, is_brought};
use super::store::Backing;
use super::watch::Watch;
use crate::json::Op;

/// One thing that is asked of one limit.
#[derive(Debug, Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) op: Op,
    pub(crate) limit: &'a str,
    pub(crate) key: Key<'a>,
    pub(crate) cost: u64,
    /// The quota that the request brings with it.
    pub(crate) quota: Option<&'a Quota>,
    /// The key of who asks for the deny lists, where `key` may be less.
    pub(crate) whole_key: Option<&'a Key<'a>>,
}

impl<'a> Ask<'a> {
    /// The question, to this limiter.
    pub(crate) fn to(&'a self, limiter: &'a Limiter) -> Call<'a> {
        let (name, key) = (self.limit, self.key.borrow());
        let call = match self.op {
            Op::Limit => limiter.limit(name, key),
            Op::Check => limiter.check(name, key),
            Op::Reserve => limiter.reserve(name, key),
            Op::Refund => limiter.refund(name, key),
            Op::Reset => limiter.reset(name, key),
            Op::Admit(lease) => limiter.admit(name, key).lease(lease).into(),
            Op::Renew(lease) => limiter.renew(name, key, lease),
            Op::Release(lease) => limiter.release(name, key, lease),
        };
        let call = call.cost(self.cost);
        let call = match self.whole_key {
            Some(key) => call.whole_key(key),
            None => call,
        };
        match self.quota {
            Some(quota) => call.quota(quota),
            None => call,
        }
    }
}

/// What every transport asks. There is one in the process, behind an `Arc`.
pub(crate) struct Gate {
    pub(crate) limiter: Limiter,
    /// For requests that bring their quota with them, on the same store.
    brought: Limiter,
    pub(crate) backing: Backing,
    pub(crate) watch: Watch,
    /// The config as it is now.
    pub(crate) served: ArcSwap<Served>,
    /// Held while another config takes its place.
    adopting: Mutex<()>,
    /// Of a proxy that the config says nothing of.
    warning: ForwardingWarning,
    /// Whether tests may pass the time.
    pub(crate) testing: bool,
    draining: AtomicBool,
}

impl Gate {
    /// Serves a config from a store.
    pub(crate) fn new(backing: Backing, served: Served, testing: bool) -> Result<Self, BuildError> {
        let limiter = backing.give(served.limiter()).build()?;
        let brought = backing.give(served.brought()).build()?;
        let watch = Watch::new(served.names());
        let (served, draining) = (ArcSwap::from_pointee(served), AtomicBool::new(false));
        let (warning, adopting) = (ForwardingWarning::new(), Mutex::new(()));
        Ok(Gate { limiter, brought, backing, watch, served, adopting, warning, testing, draining })
    }

    /// The same, watched in another way.
    pub(crate) fn watching(mut self, change: impl FnOnce(Watch) -> Watch) -> Self {
        self.watch = change(self.watch);
        self
    }

    /// Serves another config from now on. What keys have used is kept.
    pub(crate) async fn adopt(&self, served: Served) -> Result<(), BuildError> {
        let adopting = self.adopting.lock().await;
        // What takes long with many limits comes before and after: in between, a rule's limit may be gone.
        let (limiter, brought) = (served.limiter(), served.brought());
        let (accounts, served) = (self.watch.accounts_of(served.names()), Arc::new(served));
        // Before somebody is decided by them.
        let followed = self.watch.follow_also(&accounts);
        if let Err(error) = self.limiter.replace_all(limiter) {
            self.watch.follow(followed);
            return Err(error);
        }
        let before = self.served.swap(Arc::clone(&served));
        drop(adopting);
        self.watch.follow(accounts);
        self.brought.replace_all(brought)?;
        self.watch.reloaded();
        let (settled, new) = (before.config.defaults(), served.config.defaults());
        if settled.prefix != new.prefix {
            warn!(before = settled.prefix, now = new.prefix, "the prefix is another: every key begins anew");
        }
        if (settled.store_timeout, settled.expected_replicas) != (new.store_timeout, new.expected_replicas) {
            warn!(
                "store_timeout and expected_replicas are settled at the start: they change when the server is started again"
            );
        }
        Ok(())
    }

    /// Waits while another config takes the place of the one that is served.
    pub(crate) async fn adopted(&self) {
        drop(self.adopting.lock().await);
    }

    /// The client of a request with these headers from `peer`, for which the limits are asked by a proxy, or here.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.served.load().client_address.find_noticing(&self.warning, peer, headers)
    }

    /// Whether the server is about to end, so that nobody new should be sent here.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Lets the store give back what it holds. Nothing is answered any more.
    pub(crate) async fn close(&self) {
        self.limiter.close().await;
        self.brought.close().await;
    }

    /// Says that this is about to be asked.
    pub(crate) fn prefetch(&self, ask: &Ask<'_>) {
        self.call(ask).prefetch();
    }

    /// The answer without waiting; none when the store has to be waited for, and nothing was done then.
    #[inline]
    pub(crate) fn now(&self, ask: &Ask<'_>) -> Option<Result<Decision, Error>> {
        let answer = self.call(ask).now()?;
        self.watch.saw(ask, &answer);
        Some(answer)
    }

    /// The answer, waited for where it has to be.
    pub(crate) async fn ask(&self, ask: &Ask<'_>) -> Result<Decision, Error> {
        let answer = self.call(ask).await;
        self.watch.saw(ask, &answer);
        answer
    }

    /// The answers to several, each on its own and in order.
    pub(crate) async fn each(&self, asks: &[Ask<'_>]) -> Vec<Result<Decision, Error>> {
        let mut answers = Vec::with_capacity(asks.len());
        for run in asks.chunk_by(|one, next| std::ptr::eq(self.limiter_for(one), self.limiter_for(next))) {
            answers.extend(self.limiter_for(&run[0]).each(run.iter().map(|ask| self.call(ask))).await);
        }
        asks.iter().zip(&answers).for_each(|(ask, answer)| self.watch.saw(ask, answer));
        answers
    }

    /// Takes all or nothing; each has to be [`Op::Limit`].
    pub(crate) async fn all(&self, asks: &[Ask<'_>]) -> Result<All, Error> {
        let answer = self.limiter.all(asks.iter().map(|ask| self.call(ask))).await;
        self.watch.saw_all(asks, answer.as_ref().map_err(Error::clone));
        answer
    }

    fn limiter_for(&self, ask: &Ask<'_>) -> &Limiter {
        if ask.quota.is_some() && is_brought(ask.limit) { &self.brought } else { &self.limiter }
    }

    fn call<'a>(&'a self, ask: &'a Ask<'a>) -> Call<'a> {
        ask.to(self.limiter_for(ask))
    }
}

/// Those that count of several that were asked together: when they were denied, those that denied it. The others took nothing.
pub(crate) fn counted<'a, 'b>(asks: &'a [Ask<'b>], all: &'a All) -> impl Iterator<Item = (&'a Ask<'b>, &'a Decision)> {
    asks.iter().zip(all.decisions()).filter(|(_, one)| all.allowed() || !one.allowed())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tidegate::MemoryStore;
    use tidegate::config::envoy::Domains;
    use tidegate::config::{Config, Syntax};

    use super::*;

    /// One limit.
    fn served(name: usize) -> Served {
        let text = format!("[limits.n{name}]\nalgorithm = \"fixed_window\"\nrate = 5\nperiod = \"1d\"\n");
        let config = Config::parse(&text, Syntax::Toml, "test.toml").expect("a config");
        Served::new(config, Domains::default(), Vec::new(), Vec::new(), false)
    }

    /// Somebody asks for each limit again and again until there is one.
    #[tokio::test]
    async fn the_first_decision_by_a_new_limit_is_counted() {
        const LIMITS: usize = 1_000;
        let backing = Backing::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let gate = Arc::new(Gate::new(backing, served(0), false).expect("a gate"));
        let (asked, found) = (Arc::clone(&gate), Arc::new(AtomicUsize::new(0)));
        let finds = Arc::clone(&found);
        let asking = std::thread::spawn(move || {
            for name in (0..LIMITS).map(|name| format!("n{name}")) {
                let ask =
                    Ask { op: Op::Limit, limit: &name, key: Key::from("u"), cost: 1, quota: None, whole_key: None };
                while asked.now(&ask).is_none_or(|answer| answer.is_err()) {}
                finds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for name in 1..LIMITS {
            while found.load(Ordering::Relaxed) < name {
                std::thread::yield_now();
            }
            gate.adopt(served(name)).await.expect("adopted");
        }
        asking.join().expect("every limit was there");
        let accounts = gate.watch.accounts();
        let missed = accounts.iter().filter(|one| one.name.starts_with('n') && one.tally.counts().allowed() != 1);
        assert_eq!(missed.count(), 0);
    }
}
