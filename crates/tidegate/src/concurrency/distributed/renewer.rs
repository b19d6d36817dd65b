//! The task that renews and releases the leases of one limit.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Decision, Key, Lease, OnStoreError, Reason, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::lease::{HeldLease, LeaseTimes};
use super::mailbox::{Mailbox, Message};
use crate::clock::{JITTER, Sleeper, complete_before, join_all};
use crate::resilience::REQUESTS_PER_TIMEOUT;
use crate::{Call, Error, Limiter};

/// The number of leases that are released at once: several calls in parallel, each with as many leases as share a
/// timeout. Releases must keep up with callers that acquire in parallel, without using every connection of a pool or
/// opening a breaker.
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
    /// The leases to renew.
    leases: HashMap<Lease, HeldLease>,
    /// The leases in the order of their due times.
    due: BTreeSet<(Timestamp, Lease)>,
    /// The latest time that was seen.
    latest: Timestamp,
}

impl Drop for Renewer {
    /// Runs when the runtime has ended, or when nothing can send messages any more.
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            let receiver = std::mem::replace(&mut self.receiver, unbounded_channel().1);
            let leases = self.leases.drain().map(|(lease, held)| Message::Renew(lease, held));
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
                Message::Renew(lease, held) => self.keep(lease, held),
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
        Some(at.since(now).min(self.times().interval()))
    }

    fn make_all_due(&mut self, now: Timestamp) {
        let deadline = self.times().deadline(now);
        for held in self.leases.values_mut() {
            held.due = now;
            held.deadline.set_earlier(deadline);
        }
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
                Message::Renew(lease, held) => self.keep(lease, held),
                Message::Release(key, lease) => {
                    if let Some(held) = self.leases.remove(&lease) {
                        self.due.remove(&(held.due, lease));
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

    /// Renews the leases that are due first, in one call.
    async fn renew_due(&mut self) {
        let due = self.take_due();
        let unknown = self.extend(due, |limiter, limit, key, lease| limiter.renew(limit, key, lease)).await;
        // The store has lost these leases, or has never had them: it takes them again while there is room.
        let lost = self.extend(unknown, |limiter, limit, key, lease| {
            limiter.admit(limit, key).lease(lease).on_store_error(OnStoreError::Closed).into()
        });
        for lease in lost.await {
            if let Some(held) = self.leases.remove(&lease) {
                held.deadline.set_earlier(self.sleeper.now());
            }
            #[cfg(feature = "tracing")]
            tracing::warn!(limit = &*self.limit, "a lease was lost while its permit was held");
        }
    }

    /// Takes the leases that are due first. Their number is at most the `max_batch_len` of each of them.
    fn take_due(&mut self) -> Vec<Lease> {
        let (mut taken, mut max_len) = (Vec::new(), REQUESTS_PER_TIMEOUT);
        while let Some((_, lease)) = self.due.first() {
            max_len = max_len.min(self.leases[lease].max_batch_len);
            if taken.len() >= max_len {
                break;
            }
            taken.extend(self.due.pop_first().map(|(_, lease)| lease));
        }
        taken
    }

    /// Makes a call for each of these leases, to extend it. Returns those that were denied, and schedules the next renewal of
    /// the others: soon if the store has failed.
    async fn extend(
        &mut self,
        leases: Vec<Lease>,
        call: impl for<'a> Fn(&'a Limiter, &'a str, &'a Key<'static>, Lease) -> Call<'a>,
    ) -> Vec<Lease> {
        if leases.is_empty() {
            return leases;
        }
        let (times, sent) = (self.times(), self.sleeper.now());
        let calls = leases.iter().map(|lease| call(&self.limiter, &self.limit, &self.leases[lease].key, *lease));
        let (answers, len) = (self.limiter.batch(calls).await, leases.len());
        let now = self.sleeper.now();
        let mut denied = Vec::new();
        for (lease, answer) in leases.into_iter().zip(answers) {
            let Some(held) = self.leases.get_mut(&lease) else { continue };
            let wait = match answer {
                answer if is_store_failure(&answer) => {
                    held.shorten_batch(len);
                    times.retry_interval()
                }
                Ok(decision) if decision.is_unconditional() => {
                    held.lengthen_batch();
                    held.deadline.set(times.deadline(sent), now);
                    times.interval()
                }
                Ok(_) => {
                    denied.push(lease);
                    continue;
                }
                Err(_) => times.interval(),
            };
            // From the sending: a call that has timed out has waited already.
            self.schedule(lease, sent.saturating_add(wait));
        }
        denied
    }

    fn keep(&mut self, lease: Lease, held: HeldLease) {
        let (times, now) = (self.times(), self.sleeper.now());
        // The clock may have been set back since the lease was admitted.
        let due = held.due.min(now.saturating_add(times.interval()));
        held.deadline.set_earlier(times.deadline(now));
        self.leases.insert(lease, held);
        self.schedule(lease, due);
    }

    fn schedule(&mut self, lease: Lease, due: Timestamp) {
        if let Some(held) = self.leases.get_mut(&lease) {
            held.due = due;
            self.due.insert((due, lease));
        }
    }

    fn times(&self) -> LeaseTimes {
        LeaseTimes::new(&self.limiter, &self.limit)
    }
}

/// Returns whether the store has not answered: the call failed, or the limit's failure policy has decided.
fn is_store_failure(answer: &Result<Decision, Error>) -> bool {
    match answer {
        Ok(decision) => decision.reason() == Some(Reason::Store),
        Err(error) => error.is_retryable(),
    }
}
