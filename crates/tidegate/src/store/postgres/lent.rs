//! A connection of the pool for one call.

use std::ops::Deref;

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
}

impl Lent {
    pub(super) fn new(connection: Object, can_cancel: bool) -> Self {
        Lent { connection: Some(connection), can_cancel }
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
            let token = connection.cancel_token();
            // Once, for a batch, too: the connection ends, which the server notices when it tells how the first statement
            // did. Whether it could be told: if not, it gives up by itself.
            runtime.spawn(async move { drop(token.cancel_query(NoTls).await) });
        }
        drop(Object::take(connection));
    }
}
