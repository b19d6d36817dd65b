//! The task that renews and releases the leases of one limit.

use std::collections::{BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Key, Lease, OnStoreError, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::mailbox::{Mailbox, Message};
use crate::clock::{JITTER, Sleeper, complete_before};
use crate::resilience::REQUESTS_PER_TIMEOUT;
use crate::{Call, Limiter};

/// A lease is renewed after this part of its time to live.
const RENEWALS_PER_TTL: u32 = 4;

/// How many leases are released at once: several calls in parallel, each with as many as share a timeout. Releases must keep
/// up with callers that acquire in parallel, without using every connection of a pool or opening a breaker.
const MAX_RELEASES: usize = 4 * REQUESTS_PER_TIMEOUT;

/// How many messages are read at once: a permit sends one to renew its lease and one to release it.
const MAX_MESSAGES: usize = 2 * MAX_RELEASES;

/// Renews and releases the leases of one limit. Nothing else does, so that a renewal never follows a release.
pub(super) struct Renewer {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    mailbox: Weak<Mailbox>,
    receiver: UnboundedReceiver<Message>,
    /// Messages that are read and not handled yet.
    messages: Vec<Message>,
    /// Leases that are being released.
    releasing: Vec<(Key<'static>, Lease)>,
    /// The leases to renew, and when each is due.
    leases: HashMap<Lease, (Timestamp, Key<'static>)>,
    /// The same in the order in which they are due.
    due: BTreeSet<(Timestamp, Lease)>,
    /// The latest time that was seen.
    latest: Timestamp,
}

impl Drop for Renewer {
    /// Runs when the runtime has ended, or when nothing can send messages any more.
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            let receiver = std::mem::replace(&mut self.receiver, unbounded_channel().1);
            let leases = self.leases.drain().map(|(lease, (_, key))| Message::Renew(key, lease));
            let releasing = self.releasing.drain(..).map(|(key, lease)| Message::Release(key, lease));
            mailbox.close(receiver, leases.chain(releasing).chain(self.messages.drain(..)));
        }
    }
}

impl Renewer {
    /// Starts a renewer unless there is one. Its task ends when nothing can send messages any more.
    pub(super) fn start(limiter: &Limiter, limit: &Arc<str>, sleeper: &Arc<dyn Sleeper>, mailbox: &Arc<Mailbox>) {
        let Some((receiver, messages)) = mailbox.open() else { return };
        let renewer = Renewer {
            limiter: limiter.clone(),
            limit: Arc::clone(limit),
            sleeper: Arc::clone(sleeper),
            mailbox: Arc::downgrade(mailbox),
            receiver,
            messages,
            releasing: Vec::new(),
            leases: HashMap::new(),
            due: BTreeSet::new(),
            latest: sleeper.now(),
        };
        tokio::spawn(renewer.run());
    }

    async fn run(mut self) {
        self.take_over();
        loop {
            // Renewals and messages take turns: there may always be more of either.
            let wait = self.until_due();
            let is_due = wait == Some(Duration::ZERO);
            if is_due || !self.messages.is_empty() {
                if self.messages.is_empty() {
                    self.messages.extend(std::iter::from_fn(|| self.receiver.try_recv().ok()).take(MAX_MESSAGES));
                }
                self.handle_messages().await;
                if is_due {
                    self.renew_due().await;
                }
                continue;
            }
            // `recv_many` takes messages only when it completes, so the timeout loses none.
            let receive = self.receiver.recv_many(&mut self.messages, MAX_MESSAGES);
            let count = match wait {
                None => Some(receive.await),
                Some(wait) => complete_before(self.sleeper.sleep(wait), receive).await,
            };
            if count == Some(0) {
                return;
            }
        }
    }

    /// Takes over the leases of an earlier renewer. All of them are due: how long they have waited is unknown.
    fn take_over(&mut self) {
        for message in std::mem::take(&mut self.messages) {
            match message {
                Message::Renew(key, lease) => self.keep(key, lease),
                message => self.messages.push(message),
            }
        }
        self.make_all_due(self.sleeper.now());
    }

    /// Returns how long until a lease is due, if there is one.
    fn until_due(&mut self) -> Option<Duration> {
        let now = self.sleeper.now();
        if self.latest.since(now) > JITTER {
            // The clock was set back, and how long leases have waited is unknown.
            self.make_all_due(now);
            self.latest = now;
        } else {
            self.latest = self.latest.max(now);
        }
        let (at, _) = *self.due.first()?;
        Some(at.since(now).min(self.interval()))
    }

    fn make_all_due(&mut self, now: Timestamp) {
        self.leases.values_mut().for_each(|(at, _)| *at = now);
        self.due = self.leases.keys().map(|lease| (now, *lease)).collect();
    }

    /// Handles the first of the messages.
    async fn handle_messages(&mut self) {
        let mut flushed = Vec::new();
        let mut messages = std::mem::take(&mut self.messages).into_iter();
        while self.releasing.len() < MAX_RELEASES
            && let Some(message) = messages.next()
        {
            match message {
                Message::Renew(key, lease) => self.keep(key, lease),
                Message::Release(key, lease) => {
                    if let Some((at, _)) = self.leases.remove(&lease) {
                        self.due.remove(&(at, lease));
                    }
                    self.releasing.push((key, lease));
                }
                Message::Flush(done) => flushed.push(done),
            }
        }
        self.messages = messages.collect();
        let (first, others) = self.releasing.split_at(self.releasing.len().min(REQUESTS_PER_TIMEOUT));
        // A half-open breaker admits one call, and all others once that has succeeded.
        self.release(first).await;
        join_all(others.chunks(REQUESTS_PER_TIMEOUT).map(|leases| self.release(leases))).await;
        self.releasing.clear();
        for done in flushed {
            // An error means that the caller is gone.
            let _ = done.send(());
        }
    }

    /// Releases leases. A lease that cannot be released expires.
    async fn release(&self, leases: &[(Key<'static>, Lease)]) {
        let calls = leases.iter().map(|(key, lease)| self.limiter.release(&self.limit, key, *lease));
        self.limiter.batch(calls).await;
    }

    /// Renews the leases that are due first, as many as share one timeout: of a longer list, a slow store would never get to
    /// the end.
    async fn renew_due(&mut self) {
        let mut due = Vec::with_capacity(REQUESTS_PER_TIMEOUT.min(self.due.len()));
        while due.len() < REQUESTS_PER_TIMEOUT
            && let Some((_, lease)) = self.due.pop_first()
        {
            due.extend(self.leases.get(&lease).map(|(_, key)| (key.clone(), lease)));
        }
        let denied = self.renew(due, |call| call).await;
        // While the store fails, a limit with local decisions has room for a part of the leases only. The others are not lost:
        // only the store knows them, and it may work again before they expire.
        for (_, lease) in self.renew(denied, |call| call.on_store_error(OnStoreError::Closed)).await {
            self.leases.remove(&lease);
            #[cfg(feature = "tracing")]
            tracing::warn!(limit = &*self.limit, "a lease has expired while its permit was held");
        }
    }

    /// Renews leases, and returns those that were denied. The others are kept, also those for which the store failed.
    async fn renew(
        &mut self,
        leases: Vec<(Key<'static>, Lease)>,
        configure: impl Fn(Call<'_>) -> Call<'_>,
    ) -> Vec<(Key<'static>, Lease)> {
        let calls = leases.iter().map(|(key, lease)| configure(self.limiter.renew(&self.limit, key, *lease)));
        let answers = self.limiter.batch(calls).await;
        let mut denied = Vec::new();
        for ((key, lease), answer) in leases.into_iter().zip(answers) {
            match answer {
                Ok(decision) if !decision.allowed() => denied.push((key, lease)),
                _ => self.keep(key, lease),
            }
        }
        denied
    }

    fn keep(&mut self, key: Key<'static>, lease: Lease) {
        let at = self.sleeper.now().saturating_add(self.interval());
        self.leases.insert(lease, (at, key));
        self.due.insert((at, lease));
    }

    /// Returns the time between two renewals of a lease.
    fn interval(&self) -> Duration {
        // A limit that was removed has no leases to renew, and may be added again.
        let ttl = self.limiter.quota(&self.limit).map_or(Duration::from_secs(1), |quota| quota.parts().period);
        ttl / RENEWALS_PER_TTL
    }
}

/// Runs futures concurrently until all have ended.
async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let all = poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    all.await;
}
