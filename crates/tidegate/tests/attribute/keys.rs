//! Types and tuples as keys.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate::attribute::{AsKey, LimitError};
use tidegate::{Key, Limiter, limit};
use tidegate_testkit::block_on;

use crate::support::{left, limiter};

#[limit("send", key = key, limiter = limiter)]
async fn keyed<K: AsKey>(limiter: &Limiter, key: K) -> Result<K, LimitError> {
    Ok(key)
}

struct UserId(u64);

impl AsKey for UserId {
    fn as_key(&self) -> Key<'_> {
        Key::from(("user", self.0))
    }
}

#[test]
#[allow(clippy::needless_borrows_for_generic_args)] // references are among what is tried
fn as_key_is_the_key_of_the_value() {
    fn assert_counted_as<K: AsKey>(key: K, expected: Key<'_>) {
        let limiter = limiter(&[("send", 1)]);
        assert!(block_on(keyed(&limiter, key)).is_ok());
        assert_eq!(left(&limiter, "send", &expected), 0, "{expected:?}");
    }
    let address = IpAddr::from([192, 0, 2, 1]);
    assert_counted_as("alice", Key::from("alice"));
    assert_counted_as(&"alice", Key::from("alice"));
    assert_counted_as(&String::from("alice"), Key::from("alice"));
    assert_counted_as(Cow::Borrowed("alice"), Key::from("alice"));
    assert_counted_as(Arc::<str>::from("alice"), Key::from("alice"));
    assert_counted_as(7_u64, Key::from("7"));
    assert_counted_as(&-7_i32, Key::from("-7"));
    assert_counted_as(address, Key::from(address));
    assert_counted_as(Key::from(("a", "b")), Key::from(("a", "b")));
    assert_counted_as(&Key::GLOBAL, Key::GLOBAL);
    assert_counted_as(&UserId(7), Key::from(("user", 7_u64)));
}

#[limit("send", key = (tenant, user.0, part), limiter = limiter)]
async fn keyed_by_three(limiter: &Limiter, tenant: String, user: UserId, part: &str) -> Result<String, LimitError> {
    let UserId(id) = user;
    Ok(format!("{tenant}{id}{part}"))
}

/// A tuple from another macro, and one in parentheses.
macro_rules! limited_fn {
    ($name:ident, $tenant:ident, $user:ident, $key:expr) => {
        #[limit("send", key = $key, limiter = limiter)]
        async fn $name(limiter: &Limiter, $tenant: &str, $user: u64) -> Result<u64, LimitError> {
            let _ = $tenant;
            Ok($user)
        }
    };
}

limited_fn! { of_a_macro, tenant, user, (tenant, user) }
limited_fn! { in_parentheses, tenant, user, ((tenant, user)) }

#[test]
fn tuple_from_a_macro_is_a_tuple() {
    let limiter = limiter(&[("send", 2)]);
    assert_eq!(block_on(of_a_macro(&limiter, "acme", 7)).unwrap(), 7);
    assert_eq!(block_on(in_parentheses(&limiter, "acme", 7)).unwrap(), 7);
    assert_eq!(left(&limiter, "send", ("acme", 7_u64)), 0);
}

#[test]
fn tuple_is_a_key_of_parts_and_borrows_them() {
    let limiter = limiter(&[("send", 1)]);
    assert_eq!(block_on(keyed_by_three(&limiter, "acme".into(), UserId(7), "x")).unwrap(), "acme7x");
    assert_eq!(left(&limiter, "send", ("acme", 7_u64, "x")), 0);
}

#[limit("send", key = (first, second), limiter = limiter)]
async fn keyed_by_two<A: AsKey, B: AsKey>(limiter: &Limiter, first: A, second: B) -> Result<(), LimitError> {
    Ok(())
}

/// Stores persist keys: the same parts must be the same key in every version.
#[test]
fn tuple_joins_keys_of_several_parts() {
    fn assert_counted_as<A: AsKey, B: AsKey>(first: A, second: B, text: &str) {
        let limiter = limiter(&[("send", 1)]);
        assert!(block_on(keyed_by_two(&limiter, first, second)).is_ok());
        assert_eq!(left(&limiter, "send", Key::from_text(text).unwrap()), 0, "{text}");
    }
    for part in ["acme", "", "a|b", "50%", "%s1", "%7c", "|", "a b", "ä"] {
        assert_counted_as(part, 7_u64, &Key::from((part, 7_u64)).to_text());
        assert_counted_as(-7_i8, part.to_owned(), &Key::from((-7_i8, part)).to_text());
        assert_counted_as(Arc::<str>::from(part), Cow::Borrowed(part), &Key::from((part, part)).to_text());
        assert_counted_as(
            Box::<str>::from(part),
            IpAddr::from([192, 0, 2, 1]),
            &Key::from((part, "192.0.2.1")).to_text(),
        );
    }
    assert_counted_as("acme", 7_u64, "acme|7");
    assert_counted_as("a|b", "", "a%7cb|%");
    assert_counted_as("acme", UserId(7), "acme|user|7");
}

#[limit("send", key = (a,), limiter = limiter)]
#[limit("send", key = (a, b, c, d, e, f), limiter = limiter)]
async fn keyed_by_one_and_by_six(limiter: &Limiter, [a, b, c, d, e, f]: [&str; 6]) -> Result<(), LimitError> {
    Ok(())
}

#[test]
fn tuple_can_have_one_or_six_parts() {
    let limiter = limiter(&[("send", 1)]);
    assert!(block_on(keyed_by_one_and_by_six(&limiter, ["a", "b", "c", "d", "e", "f"])).is_ok());
    assert_eq!(left(&limiter, "send", "a"), 0);
    assert_eq!(left(&limiter, "send", Key::from_parts(["a", "b", "c", "d", "e", "f"])), 0);
}

#[limit("send", key = tidegate::Key::GLOBAL, limiter = limiter)]
async fn keyed_globally(limiter: &Limiter) -> Result<(), LimitError> {
    Ok(())
}

#[test]
fn global_key_is_explicit() {
    let limiter = limiter(&[("send", 1)]);
    assert!(block_on(keyed_globally(&limiter)).is_ok());
    assert!(block_on(keyed_globally(&limiter)).is_err());
}
