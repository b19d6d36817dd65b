//! A connection of the pool for one call.

use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::Object;
use tidegate_core::StoreError;
use tokio::runtime::Handle;
use tokio_postgres::NoTls;

use super::error::is_read_only;

/// A connection of the pool for one call. Unless it is given back it leaves the pool: a call that was given up in the
/// middle, as by a timeout, may still wait for somebody's lock there, and whoever got it next would wait behind it.
pub(super) struct Lent {
    /// None once it was given back.
    connection: Option<Object>,
    /// Whether the server can be told that a call was given up: it is known how to connect to it.
    can_cancel: bool,
    /// Whether several statements are sent at once.
    pub(super) is_batch: bool,
}

/// When the statements of a batch that was given up are cancelled once more.
const CANCEL_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Lent {
    pub(super) fn new(connection: Object, can_cancel: bool) -> Self {
        Lent { connection: Some(connection), can_cancel, is_batch: false }
    }

    /// Gives it back, once the answers have come; not one to a server that takes no writes any more: only a new one, made to
    /// where the name leads then, helps.
    pub(super) fn back<'a, T: 'a>(mut self, answers: impl IntoIterator<Item = &'a Result<T, StoreError>>) {
        let is_left = answers.into_iter().any(|answer| answer.as_ref().is_err_and(is_read_only));
        let connection = self.connection.take();
        if is_left {
            drop(connection.map(Object::take));
        }
    }
}

impl Deref for Lent {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.connection.as_ref().expect("it is there until it is given back")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // The server would go on with it otherwise, for as long as it waits for a lock, while the pool makes another
        // connection for the next call: there would be no end to them.
        if self.can_cancel
            && let Ok(runtime) = Handle::try_current()
        {
            let (token, is_batch) = (connection.cancel_token(), self.is_batch);
            // Errors are ignored: a server that cannot be told gives up by itself.
            runtime.spawn(async move {
                let _ = token.cancel_query(NoTls).await;
                // The server reports the first statement in two writes, and the second one fails because the connection has
                // ended. On a busy machine it may come too early for that, and the next statement of the batch begins.
                if is_batch {
                    tokio::time::sleep(CANCEL_AGAIN_AFTER).await;
                    let _ = token.cancel_query(NoTls).await;
                }
            });
        }
        drop(Object::take(connection));
    }
}
