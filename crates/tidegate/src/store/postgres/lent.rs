//! A connection of the pool for one call.

use std::ops::Deref;

use deadpool_postgres::Object;

/// A connection of the pool for one call. Unless it is given back it leaves the pool: a call that was given up in the
/// middle, as by a timeout, may still wait for somebody's lock there, and whoever got it next would wait behind it.
pub(super) struct Lent(Option<Object>);

impl Lent {
    pub(super) fn new(connection: Object) -> Self {
        Lent(Some(connection))
    }

    /// Gives it back, once the answer has come.
    pub(super) fn back(mut self) {
        drop(self.0.take());
    }
}

impl Deref for Lent {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0.as_ref().expect("it is there until it is given back")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}
