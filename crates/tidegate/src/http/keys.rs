//! Key functions: map a request to the key that it counts under.
//!
//! A key function takes the head of a request and returns a key, or `None`. [`both`] and [`either`] combine key
//! functions. Without a key, the request counts under the address of its client, as a [fallback key](Key::to_fallback)
//! that no client can send. Without an address either, it is rejected as a mistake in the program. So clients never
//! share a budget by accident.
//!
//! ```
//! use tidegate::Key;
//! use tidegate::http::{RequestHead, keys};
//!
//! # #[derive(Clone)] struct User { tenant: String, id: u64 }
//! // An outer layer has identified the user. Without a user, the key is the client's address, for all routes together.
//! let user = keys::extension(|user: &User| Key::from((&user.tenant, user.id)));
//! let key = keys::both(user, keys::route());
//! # fn is_key_function(_: impl Fn(&RequestHead<'_>) -> Option<Key<'static>>) {}
//! # is_key_function(key);
//! ```

use http::HeaderName;
use tidegate_core::Key;

use super::{Client, RequestHead};

/// Counts each client by its address: see [`ClientAddress`](super::ClientAddress). This is the default.
pub fn client() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |head| head.client().map(Client::key)
}

/// Counts all clients together.
pub fn global() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |_| Some(Key::GLOBAL)
}

/// Counts each value of a header, such as an API key that an outer layer has checked. An unchecked value protects
/// nothing: a client can send a new one with every request. Of several values, the first counts, as `HeaderMap::get`
/// returns it. There is no key when the header is missing or is not text.
pub fn header(name: HeaderName) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    move |head| {
        let value = head.headers().get(&name)?;
        Some(Key::from_parts([str::from_utf8(value.as_bytes()).ok()?]))
    }
}

/// Counts each route by its template, such as `/users/{id}`. It never uses the path itself, because a client can invent
/// any number of paths.
pub fn route() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |head| head.route().map(|route| Key::from_parts([route]))
}

/// Counts each path, for gRPC, where the path names the method. A client that invents methods gets a budget for each
/// one. Those budgets are useless to it but take space in the store. So put the layer in front of one service, and let
/// another limit count all requests of a client.
pub fn path() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone {
    |head| Some(Key::from_parts([head.uri().path()]))
}

/// Counts each value in the request's extensions, such as the user from an outer layer. Outside of that layer there is
/// no value, and clients are counted by their addresses. In frameworks with their own extensions, the value must be in
/// an [`Extensions`](super::Extensions) among those.
pub fn extension<T, F>(key: F) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Key<'static> + Clone,
{
    move |head| head.extensions().get::<T>().map(&key)
}

/// Joins the parts of two keys. There is no key when one of them is missing.
pub fn both<A, B>(first: A, second: B) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone
where
    A: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
    B: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
{
    move |head| Some(first(head)?.join(&second(head)?))
}

/// Counts by the first key, or else by the second as a [reserved key](Key::to_reserved). A client that chooses its
/// first key cannot make it equal to the second key of another client.
pub fn either<A, B>(first: A, second: B) -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone
where
    A: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
    B: Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone,
{
    move |head| first(head).or_else(|| Some(second(head)?.to_reserved()))
}
