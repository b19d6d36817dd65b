//! The store under test of the suite and the oracle.

use std::fmt;
use std::future::Future;
use std::io::{self, Write};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

use tidegate_core::{BoxFuture, Scope, TestableStore};

use crate::block_on;

/// Runs a future to its end, blocking the thread it is called on.
pub type Runner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// A store under test: the store, the prefix of its keys, and the runner of its futures.
///
/// ```
/// use tidegate_testkit::{MapStore, Subject};
///
/// let subject = Subject::new(MapStore::new()).with_prefix("run-42");
/// assert_eq!(subject.scope("a_case", "login").limit(), "login");
/// ```
pub struct Subject<S> {
    store: Arc<S>,
    prefix: String,
    run: Runner,
}

// Not derived: a subject can be cloned even if its store cannot.
impl<S> Clone for Subject<S> {
    fn clone(&self) -> Self {
        Subject { store: self.store.clone(), prefix: self.prefix.clone(), run: self.run.clone() }
    }
}

impl<S> fmt::Debug for Subject<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl<S: TestableStore + 'static> Subject<S> {
    /// Creates a subject of this store, without a prefix, run by [`block_on`].
    pub fn new(store: impl Into<Arc<S>>) -> Self {
        Subject { store: store.into(), prefix: String::new(), run: Arc::new(block_on) }
    }

    /// Sets the prefix of the keys. A store that outlives the test needs a prefix that was never used before.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the runner of futures, for a store that needs a runtime. It is called on many threads at once and must
    /// block. For tokio, use `move |future| handle.block_on(future)` with the handle of a runtime that has threads of
    /// its own.
    #[must_use]
    pub fn with_runner(mut self, run: impl Fn(BoxFuture<'static, ()>) + Send + Sync + 'static) -> Self {
        self.run = Arc::new(run);
        self
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the scope of a limit that only the case `case` uses.
    pub fn scope(&self, case: &str, limit: &str) -> Scope {
        Scope::new(&format!("{}{case}", self.prefix), limit)
    }

    /// Runs a future to its end on this thread.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let slot = Arc::new(Mutex::new(None));
        let result = slot.clone();
        (self.run)(Box::pin(async move {
            let output = future.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
        }));
        let output = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        output.expect("a runner runs its future to the end")
    }

    /// Runs `callers` futures at once, each on its own thread and all started together.
    pub fn run_concurrently<T, F>(&self, callers: usize, work: impl Fn(usize, Arc<S>) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let start = Arc::new(Barrier::new(callers));
        let threads: Vec<_> = (0..callers)
            .map(|index| {
                let (subject, start, future) = (self.clone(), start.clone(), work(index, self.store.clone()));
                thread::spawn(move || {
                    start.wait();
                    subject.run(future)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a caller panicked")).collect()
    }
}

/// The outcome of a case that passed: whether it applied to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a case that is not applicable has to be listed"]
pub enum Applicability {
    /// The case ran and passed.
    Ran,
    /// The store does not claim the capability of the case, for this reason.
    NotApplicable(&'static str),
}

impl Applicability {
    /// Lists a case that was not applicable, by name, so that it is never a silent pass.
    pub fn report(self, case: &str) {
        if let Applicability::NotApplicable(reason) = self {
            // Directly to stderr: the test harness hides the output of a passing test.
            let _ = writeln!(io::stderr(), "not applicable: {case}: {reason}");
        }
    }
}
