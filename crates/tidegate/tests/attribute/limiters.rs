//! The limiter of an attribute.

use tidegate::attribute::{LimitError, set_default_limiter};
use tidegate::enforce::Outcome;
use tidegate::{Error, Limiter, limit};
use tidegate_testkit::block_on;

use crate::support::{left, limiter};

#[limit("send", key = user)]
async fn by_default(user: &str) -> Result<(), LimitError> {
    let _ = user;
    Ok(())
}

#[limit("send", key = user, limiter = limiter)]
async fn by_attribute(limiter: &Limiter, user: &str) -> Result<(), LimitError> {
    let _ = user;
    Ok(())
}

/// One test, because the default of a process can be set once.
#[test]
fn attribute_limiter_wins_over_layer_and_layer_over_default() {
    let error = block_on(by_default("alice")).unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Invalid(Error::NoLimiter)), "{error:?}");
    assert!(error.to_string().contains("set_default_limiter"), "{error}");

    let default = limiter(&[("send", 10)]);
    set_default_limiter(default.clone()).unwrap();
    set_default_limiter(limiter(&[])).unwrap_err();
    block_on(by_default("alice")).unwrap();
    assert_eq!(left(&default, "send", "alice"), 9);

    let own = limiter(&[("send", 10)]);
    block_on(by_attribute(&own, "alice")).unwrap();
    assert_eq!([left(&own, "send", "alice"), left(&default, "send", "alice")], [9, 9]);

    #[cfg(feature = "axum")]
    {
        use crate::layers::{get, layered};
        use axum::routing;

        let scope = limiter(&[("api", 10), ("send", 10)]);
        let attribute = own.clone();
        let app = axum::Router::new()
            .route("/scope", routing::get(|| by_default("alice")))
            .route("/own", routing::get(|| async move { by_attribute(&attribute, "alice").await }));
        let app = layered(&scope, "api", app);
        assert_eq!(get(&app, "/scope").status(), 200);
        let all = [&own, &scope, &default].map(|limiter| left(limiter, "send", "alice"));
        assert_eq!(all, [9, 9, 9]);
        assert_eq!(get(&app, "/own").status(), 200);
        let all = [&own, &scope, &default].map(|limiter| left(limiter, "send", "alice"));
        assert_eq!(all, [8, 9, 9]);

        // An admission without limits has no limiter.
        let admission = tidegate::tower::AdmissionLayer::new(tidegate::concurrency::Concurrency::fixed(1));
        let app = axum::Router::new().route("/", routing::get(|| by_default("alice"))).layer(admission);
        assert_eq!(get(&app, "/").status(), 200);
        assert_eq!(left(&default, "send", "alice"), 8);
    }
}

#[test]
fn unknown_limit_is_a_programming_error() {
    let error = block_on(by_attribute(&limiter(&[("other", 1)]), "alice")).unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Invalid(Error::UnknownLimit(_))), "{error:?}");
}
