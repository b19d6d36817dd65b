//! Functions and methods with `#[limit]`.

use std::fmt::Display;
use std::pin::pin;

use tidegate::attribute::LimitError;
use tidegate::{Limiter, limit};
use tidegate_testkit::block_on;

use crate::support::{left, limiter};

#[limit("send", key = user, limiter = limiter)]
async fn send(limiter: &Limiter, user: String, text: String) -> Result<String, LimitError> {
    // Both by value: the attribute only borrows them.
    Ok(user + &text)
}

#[test]
fn function_runs_until_its_limit_is_exhausted() {
    let limiter = limiter(&[("send", 2)]);
    for _ in 0..2 {
        assert_eq!(block_on(send(&limiter, "alice".into(), "!".into())).unwrap(), "alice!");
    }
    assert!(block_on(send(&limiter, "alice".into(), "!".into())).is_err());
    assert!(block_on(send(&limiter, "bob".into(), "!".into())).is_ok());
}

#[test]
fn nothing_is_taken_before_the_call_is_awaited() {
    let limiter = limiter(&[("send", 2)]);
    drop(send(&limiter, "alice".into(), String::new()));
    assert_eq!(left(&limiter, "send", "alice"), 2);
}

struct Mailer {
    limiter: Limiter,
    domain: String,
    sent: Vec<String>,
}

impl Mailer {
    #[limit("send", key = (self.domain, to), limiter = self.limiter)]
    async fn by_reference(&self, to: &str) -> Result<String, LimitError> {
        Ok(format!("{to}@{}", self.domain))
    }

    #[limit("send", key = self.domain, limiter = self.limiter)]
    async fn by_mutable_reference(&mut self, to: &str) -> Result<usize, LimitError> {
        self.sent.push(to.to_owned());
        Ok(self.sent.len())
    }

    #[limit("send", key = self.domain, limiter = self.limiter)]
    async fn by_value(self) -> Result<Vec<String>, LimitError> {
        Ok(self.sent)
    }
}

#[test]
fn methods_can_use_self() {
    let limiter = limiter(&[("send", 2)]);
    let mut mailer = Mailer { limiter: limiter.clone(), domain: "example.org".into(), sent: Vec::new() };
    assert_eq!(block_on(mailer.by_reference("alice")).unwrap(), "alice@example.org");
    assert_eq!(left(&limiter, "send", ("example.org", "alice")), 1);
    assert_eq!(block_on(mailer.by_mutable_reference("bob")).unwrap(), 1);
    assert_eq!(block_on(mailer.by_value()).unwrap(), ["bob"]);
    assert_eq!(left(&limiter, "send", "example.org"), 0);
}

trait Sends {
    async fn send(&self, to: u64) -> Result<u64, LimitError>;
}

impl Sends for Mailer {
    #[limit("send", key = to, limiter = self.limiter)]
    async fn send(&self, to: u64) -> Result<u64, LimitError> {
        Ok(to)
    }
}

#[test]
fn methods_of_traits_can_be_limited() {
    let limiter = limiter(&[("send", 1)]);
    let mailer = Mailer { limiter, domain: String::new(), sent: Vec::new() };
    assert_eq!(block_on(mailer.send(7)).unwrap(), 7);
    assert!(block_on(mailer.send(7)).is_err());
}

#[limit("send", key = to.to_string(), limiter = limiter)]
async fn generic<'a, T, const N: usize>(
    limiter: &Limiter,
    to: &'a T,
    texts: [&'a str; N],
) -> Result<&'a str, LimitError>
where
    T: Display + ?Sized,
{
    Ok(texts[N - 1])
}

#[test]
fn functions_can_be_generic_and_return_borrows() {
    let limiter = limiter(&[("send", 1)]);
    assert_eq!(block_on(generic(&limiter, "alice", ["a", "b"])).unwrap(), "b");
    assert!(block_on(generic(&limiter, "alice", ["a"])).is_err());
    assert!(block_on(generic(&limiter, &7, ["a"])).is_ok());
}

/// A type that is `Send` and not `Sync`.
struct NotSync(std::cell::Cell<u64>);

#[limit("send", key = number.0.get(), limiter = limiter)]
async fn not_sync(limiter: Limiter, number: NotSync) -> Result<u64, LimitError> {
    Ok(number.0.into_inner())
}

#[test]
fn future_is_send_with_any_key() {
    fn is_send<F: Future + Send>(future: F) -> F {
        future
    }
    let limiter = limiter(&[("send", 1)]);
    let future = pin!(is_send(not_sync(limiter, NotSync(std::cell::Cell::new(3)))));
    assert_eq!(block_on(future).unwrap(), 3);
}

#[limit("send", key = "all", cost = texts.len() as u64, limiter = limiter)]
async fn send_all(limiter: &Limiter, texts: Vec<&str>) -> Result<Vec<usize>, LimitError> {
    Ok(texts.into_iter().map(str::len).collect())
}

#[test]
fn cost_can_depend_on_the_arguments() {
    let limiter = limiter(&[("send", 5)]);
    assert_eq!(block_on(send_all(&limiter, vec!["a", "bc", "def"])).unwrap(), [1, 2, 3]);
    assert_eq!(left(&limiter, "send", "all"), 2);
    assert!(block_on(send_all(&limiter, vec!["a"; 3])).is_err());
    assert_eq!(left(&limiter, "send", "all"), 2);
}

#[limit("send", key = user.ok_or(KeyError::NoUser)?, limiter = limiter)]
async fn send_for_user(limiter: &Limiter, user: Option<&str>) -> Result<(), KeyError> {
    let _ = user;
    Ok(())
}

#[derive(Debug, PartialEq)]
enum KeyError {
    NoUser,
    Denied,
}

impl From<LimitError> for KeyError {
    fn from(_: LimitError) -> Self {
        KeyError::Denied
    }
}

#[test]
fn failing_key_expression_returns_early() {
    let limiter = limiter(&[("send", 1)]);
    assert_eq!(block_on(send_for_user(&limiter, None)), Err(KeyError::NoUser));
    assert_eq!(block_on(send_for_user(&limiter, Some("alice"))), Ok(()));
    assert_eq!(block_on(send_for_user(&limiter, Some("alice"))), Err(KeyError::Denied));
}

#[limit("send", key = limited_call, limiter = limiter)]
async fn with_names_of_the_attribute(
    limiter: &Limiter,
    limited_call: u64,
    limit_error: u64,
) -> Result<u64, LimitError> {
    Ok(limited_call + limit_error)
}

#[test]
fn argument_names_do_not_clash_with_generated_code() {
    assert_eq!(block_on(with_names_of_the_attribute(&limiter(&[("send", 1)]), 1, 2)).unwrap(), 3);
}
