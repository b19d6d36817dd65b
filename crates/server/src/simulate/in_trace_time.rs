//! A store outside of this process, asked in a trace's time.

use std::future::Future;
use std::sync::Arc;

use tidegate::{All, Capabilities, Clock, Decision, ManualClock, Request, Store, StoreError, Testing};
use tokio::runtime::Handle;

use super::leftovers::{Leftovers, in_time};

/// Asks a store at the time that the trace's clock shows, under a prefix of the replay's own.
///
/// It answers where it is asked, and waits there for the store: a trace goes on one line at a time, so nobody else is
/// kept waiting. And to the limiter it is just as the memory store is. A limiter draws the parts of a spread limit anew
/// when it has to ask a second time, because there was no answer at once; so it would draw others than with memory. The
/// prefix is changed here and not in the limiter for the same reason: which part of a sharded limit a key meets goes by
/// the prefix as well.
pub(super) struct InTraceTime<S> {
    store: S,
    clock: ManualClock,
    leftovers: Arc<Leftovers>,
    runtime: Handle,
}

impl<S: Testing> InTraceTime<S> {
    /// Asks `store` on `runtime`. Only from outside of it: whoever asks is kept waiting.
    pub(super) fn new(store: S, clock: ManualClock, leftovers: Arc<Leftovers>, runtime: Handle) -> Self {
        InTraceTime { store, clock, leftovers, runtime }
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }

    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let mut used = self.leftovers.used().await;
        used.add(request);
        in_time(self.store.apply_at(&used.moved(request), self.clock.now())).await
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        let mut used = self.leftovers.used().await;
        requests.iter().for_each(|request| used.add(request));
        let moved: Vec<_> = requests.iter().map(|request| used.moved(request)).collect();
        in_time(self.store.apply_all_at(&moved, self.clock.now())).await
    }
}

impl<S: Testing> Store for InTraceTime<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Whoever asks is kept until there is an answer.
    fn answers_at_once(&self) -> bool {
        true
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        Some(self.wait(self.decide(request)))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.wait(self.decide(request))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.wait(self.decide_all(requests))
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        // The testing entry takes one at a time.
        requests.iter().map(|request| self.wait(self.decide(request))).collect()
    }

    async fn close(&self) {
        self.wait(self.store.close());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use clap::Parser;
    use tidegate::sqlite::SqliteStore;
    use tidegate::{Limiter, Quota, Timestamp, seconds};
    use tokio::runtime::Builder;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn at_once<T>(answer: impl Future<Output = T>) -> T {
        match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("the answer is not there at once"),
        }
    }

    /// The program has no verb for this yet; a store has it all the same.
    #[test]
    fn all_or_nothing_is_asked_in_the_time_of_the_trace_and_removed_too() {
        let folder = std::env::temp_dir().join(format!("tidegate-in-trace-time-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        let url = format!("sqlite:{}", path.display());
        let cli = Cli::parse_from(["tidegate", "simulate", "--config", "c", "--trace", "-", "--store", &url]);
        let Some(Verb::Simulate(simulate)) = cli.verb else { panic!("it is that verb") };

        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (clock, sqlite) = (ManualClock::default(), SqliteStore::open(&path).unwrap());
        let leftovers = Arc::new(Leftovers::new(&simulate.store, sqlite.clone()));
        let store = InTraceTime::new(sqlite, clock.clone(), Arc::clone(&leftovers), runtime.handle().clone());
        let [a, b] = [1, 2].map(|rate| Quota::token_bucket(rate, seconds(1)).unwrap());
        let limiter = Limiter::builder().limit("a", a).limit("b", b).store(store).build().unwrap();
        let both = || at_once(limiter.all([limiter.limit("a", "u"), limiter.limit("b", "u")])).unwrap();
        let left = |limit: &str| limiter.check(limit, "u").now().expect("at once").unwrap().remaining();

        assert!(both().allowed());
        assert!(!both().allowed());
        assert_eq!((left("a"), left("b")), (0, 1));
        clock.set(Timestamp::from_millis(1_000));
        assert!(both().allowed());

        let removed = runtime.block_on(async {
            let mut used = leftovers.used().await;
            leftovers.clear(&mut used).await.unwrap()
        });
        let held = runtime.block_on(SqliteStore::open(&path).unwrap().held_at(Timestamp::EPOCH));
        assert_eq!((removed, held), (2, Some(0)));
        let _ = std::fs::remove_dir_all(folder);
    }
}
