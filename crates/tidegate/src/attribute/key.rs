//! Types that `key = ...` accepts.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tidegate_core::Key;

/// A type that `key = ...` accepts: text, numbers, addresses, keys, and references to them. Implement it for your own
/// types, such as a user ID. It borrows, because the function needs its arguments afterwards.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    label = "expected text, a number, an address, a `tidegate::Key`, or a tuple that is written out",
    note = "implement `tidegate::attribute::AsKey` for it to make it one"
)]
pub trait AsKey {
    /// Returns the key.
    fn as_key(&self) -> Key<'_>;
}

macro_rules! impl_as_key {
    ($($type:ty),*) => { $(
        impl AsKey for $type {
            fn as_key(&self) -> Key<'_> {
                Key::from(self)
            }
        }
    )* };
}

impl_as_key! { str, String, Key<'_>, IpAddr, Ipv4Addr, Ipv6Addr }
impl_as_key! { u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize }

macro_rules! impl_as_key_by_reference {
    ($($type:ty),*) => { $(
        impl<T: AsKey + ?Sized> AsKey for $type {
            fn as_key(&self) -> Key<'_> {
                T::as_key(self)
            }
        }
    )* };
}

impl_as_key_by_reference! { &T, &mut T, Box<T>, Arc<T> }

impl<T: AsKey + ToOwned + ?Sized> AsKey for Cow<'_, T> {
    fn as_key(&self) -> Key<'_> {
        T::as_key(self)
    }
}
