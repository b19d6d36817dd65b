//! Several calls at once, each on its own.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::{Decision, Key, Op, Quota, Request};

use super::call::Call;
use super::decides::Decides;
use super::limits::{Limits, Named};
use super::route::{Asked, Route};
use super::{Error, Inner, Limiter};

impl Limiter {
    /// Answers several calls, each on its own and in order: as if each were awaited before the next, for the price of as
    /// few calls of the store as can be.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, seconds};
    /// # async fn example(limiter: &Limiter) {
    /// for answer in limiter.each([limiter.limit("api", "ann"), limiter.check("api", "bob")]).await {
    ///     println!("{answer:?}");
    /// }
    /// # }
    /// ```
    ///
    /// A call that fails fails alone. An `acquire` is refused: the calls behind it would wait, too.
    pub async fn each<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Vec<Result<Decision, Error>> {
        let calls: Vec<_> = calls.into_iter().collect();
        let mut run = Run { inner: &self.inner, waiting: Vec::new(), answers: Vec::with_capacity(calls.len()) };
        // Once, so that all of them are about the same.
        let limits = self.inner.limits.load();
        let places: Vec<_> = calls.iter().map(|call| self.place(&limits, call)).collect();
        for place in &places {
            match place {
                Ok(placed) => run.add(placed).await,
                Err(error) => {
                    run.finish().await;
                    run.answers.push(Err(error.clone()));
                }
            }
        }
        run.finish().await;
        run.answers
    }

    fn place<'c>(&self, limits: &'c Limits, call: &'c Call<'_>) -> Result<Placed<'c>, Error> {
        if !Arc::ptr_eq(call.inner, &self.inner) {
            return Err(Error::unsupported(call.name, "the call belongs to another limiter"));
        }
        let named = limits.get(call.name)?;
        match call.checked_op()? {
            Some(op) => Ok(Placed { named, call, op }),
            None => Err(Error::unsupported(call.name, "an `acquire` would keep the calls behind it waiting")),
        }
    }
}

/// A call with which nothing is wrong.
struct Placed<'a> {
    named: &'a Arc<Named>,
    call: &'a Call<'a>,
    op: Op,
}

/// The calls that go to the store together, and the answers before them.
struct Run<'a> {
    inner: &'a Arc<Inner>,
    waiting: Vec<(Asked<'a>, Key<'a>, Cow<'a, Quota>)>,
    answers: Vec<Result<Decision, Error>>,
}

impl<'a> Run<'a> {
    async fn add(&mut self, placed: &'a Placed<'a>) {
        let asked = placed.call.asked(placed.named, placed.op);
        let answer = match asked.route(self.inner) {
            Ok(Route::One(key, quota)) => return self.waiting.push((asked, key, quota)),
            Ok(Route::Answer(decision)) => Ok(asked.finish(decision)),
            // It looks before it takes, so it goes alone.
            Ok(Route::Spread(spread)) => {
                self.finish().await;
                let answer = spread.ask(asked, &*self.inner.store).await;
                answer.map(|decision| asked.finish(decision)).map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        self.finish().await;
        self.answers.push(answer);
    }

    /// Asks the store for those that wait.
    async fn finish(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        let requests: Vec<Request<'_>> =
            waiting.iter().map(|(asked, key, quota)| asked.request(key, quota, asked.op)).collect();
        let decided = self.inner.store.decide_each(&requests).await;
        let answers = decided.into_iter().zip(&waiting);
        self.answers.extend(
            answers.map(|(answer, (asked, ..))| answer.map(|decision| asked.finish(decision)).map_err(Error::Store)),
        );
    }
}
