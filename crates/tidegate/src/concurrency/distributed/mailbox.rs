//! The mailbox of the renewer: it keeps messages while there is no renewer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Key, Lease};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::lease::HeldLease;

/// A message to the renewer.
#[derive(Debug)]
pub(super) enum Message {
    /// Renew the lease from now on.
    Renew(Lease, HeldLease),
    /// Stop renewing the lease, and release it.
    Release(Key<'static>, Lease),
    /// Report when every earlier message is done.
    Flush(oneshot::Sender<()>),
}

/// A mailbox that outlives its renewer. That may end with its runtime while permits are held on other runtimes: then the
/// messages are kept for the next renewer.
#[derive(Default)]
pub(super) struct Mailbox(Mutex<MailboxState>);

#[derive(Default)]
struct MailboxState {
    /// None before the first renewer.
    sender: Option<UnboundedSender<Message>>,
    /// Messages that no renewer has completed, with one `Renew` for each lease that is held.
    kept: Vec<Message>,
}

impl Mailbox {
    /// Registers a renewer. Returns its receiver and the kept messages, or `None` while there is another renewer.
    pub(super) fn open(&self) -> Option<(UnboundedReceiver<Message>, Vec<Message>)> {
        let mut state = self.lock();
        if state.sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return None;
        }
        let (sender, receiver) = unbounded_channel();
        state.sender = Some(sender);
        Some((receiver, std::mem::take(&mut state.kept)))
    }

    pub(super) fn send(&self, message: Message) {
        // Under the lock: a message that a closing renewer did not read is kept before those that are sent later.
        let mut state = self.lock();
        let unsent = match &state.sender {
            Some(sender) => sender.send(message).err().map(|unsent| unsent.0),
            None => Some(message),
        };
        state.kept.extend(unsent.filter(must_be_kept));
    }

    /// Unregisters a renewer, and keeps the messages that it has not completed.
    pub(super) fn close(&self, mut receiver: UnboundedReceiver<Message>, incomplete: impl Iterator<Item = Message>) {
        let mut state = self.lock();
        receiver.close();
        let unread = std::iter::from_fn(|| receiver.try_recv().ok());
        state.kept.extend(incomplete.chain(unread).filter(must_be_kept));
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `Flush` is not kept: dropping its sender tells the caller that there is no renewer.
fn must_be_kept(message: &Message) -> bool {
    !matches!(message, Message::Flush(_))
}
