//! Key functions: the key that a request is counted under.
//!
//! A key function takes what of a request decides about it and gives the key, or none. They are put together with
//! [`both`] and [`either`]. A request for which a key function has none is counted under the address of its client,
//! [set apart](Key::to_fallback) from all that clients can send; if that is not known either, it is refused as a mistake
//! in the program. So nobody shares a budget by accident.
//!
//! ```
//! use tidegate::Key;
//! use tidegate::http::{RequestHead, keys};
//!
//! # #[derive(Clone)] struct User { tenant: String, id: u64 }
//! // Who it is was found out by an outer layer. Without a user: the client's address, of all routes together.
//! let user = keys::extension(|user: &User| Key::from((&user.tenant, user.id)));
//! let key = keys::both(user, keys::route());
//! # fn is_key_function(_: impl Fn(&RequestHead<'_>) -> Option<Key<'static>>) {}
//! # is_key_function(key);
//! ```

use http::HeaderName;
use tidegate_core::Key;

use super::{Client, RequestHead};

/// The client, by its address: see [`ClientAddress`](super::ClientAddress). What requests are counted under unless said
/// otherwise.
pub fn client() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |head| head.client().map(Client::key)
}

/// Everybody together.
pub fn global() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |_| Some(Key::GLOBAL)
}

/// The value of a header, such as an API key that an outer layer has checked: a client can send any value it likes, and
/// a new one for every request. If there are several, the first, which is what `HeaderMap::get` has given to whoever
/// checked it. None when there is none, and for one that is not text.
pub fn header(name: HeaderName) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    move |head| {
        let value = head.headers().get(&name)?;
        Some(Key::from_parts([str::from_utf8(value.as_bytes()).ok()?]))
    }
}

/// The template of the route, such as `/users/{id}`, and never the path that was sent: of those a client can make up as
/// many as it likes.
pub fn route() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |head| head.route().map(|route| Key::from_parts([route]))
}

/// The path that was sent. For gRPC, where it names the method. Who makes up methods gets a budget for each, that leads
/// nowhere, and takes a place in the store: put the layer in front of one service rather than of all, and let another limit
/// count everything that a client asks for.
pub fn path() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |head| Some(Key::from_parts([head.uri().path()]))
}

/// What an outer layer has put into the request's extensions, such as the user. Outside of the layer that puts it there nothing is
/// ever found, and clients are counted by their addresses. In frameworks with extensions of their own, it is for a
/// [`Extensions`](super::Extensions) among those.
pub fn extension<T, F>(key: F) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Key<'static> + Clone,
{
    move |head| head.extensions().get::<T>().map(&key)
}

/// The parts of both keys; none when one of them is missing.
pub fn both<A, B>(first: A, second: B) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone
where
    A: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
    B: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
{
    move |head| Some(first(head)?.join(&second(head)?))
}

/// The first key, or else the second, [set apart](Key::to_reserved): whoever has the first cannot make it equal to
/// somebody else's second.
pub fn either<A, B>(first: A, second: B) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone
where
    A: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
    B: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
{
    move |head| first(head).or_else(|| Some(second(head)?.to_reserved()))
}
