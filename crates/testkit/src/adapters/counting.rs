//! Cases about costs, charging, joint limits, shadow mode and hooks.

use tidegate::http::{RateLimit, RequestHead, keys};

use super::fixtures::{EventLog, api_limiter, limiter_builder, per_minute};
use super::http_client::get;
use super::{Adapter, App};
use crate::Applicability;

fn cost(head: &RequestHead<'_>) -> u64 {
    let cost = head.headers().get("x-cost").and_then(|cost| cost.to_str().ok()?.parse().ok());
    cost.unwrap_or(1)
}

/// A request takes the units of its cost.
pub fn request_cost_is_consumed<A: Adapter>() -> Applicability {
    let address = App::new(RateLimit::new(api_limiter(10).enforcer("api").unwrap()).cost_of(cost).into()).start::<A>();
    for (cost, status, left) in [("4", 200, 6), ("7", 429, 6), ("6", 200, 0)] {
        let reply = get(address, "/", &[("x-cost", cost)]);
        assert_eq!(
            (reply.status, reply.header("ratelimit")),
            (status, Some(format!(r#""api";r={left};t=60"#))),
            "{cost}"
        );
    }
    Applicability::Ran
}

/// A cost above the capacity is denied without a retry time.
pub fn cost_above_capacity_is_not_retryable<A: Adapter>() -> Applicability {
    let address = App::new(RateLimit::new(api_limiter(10).enforcer("api").unwrap()).cost_of(cost).into()).start::<A>();
    let reply = get(address, "/", &[("x-cost", "11")]);
    assert_eq!((reply.status, reply.header("retry-after")), (429, None));
    assert_eq!(reply.problem()["retryable"], false);
    Applicability::Ran
}

/// Only some responses count, by their status and their headers.
pub fn only_matching_responses_are_charged<A: Adapter>() -> Applicability {
    let limits = RateLimit::new(api_limiter(2).enforcer("api").unwrap())
        .charge_when(|status, headers| status == 401 && headers.get("x-app").is_some_and(|value| value == "mine"));
    let address = App::new(limits.into()).start::<A>();
    for (path, status, left) in
        [("/", 200, 2), ("/fails", 401, 1), ("/", 200, 1), ("/fails", 401, 0), ("/", 429, 0), ("/fails", 429, 0)]
    {
        let reply = get(address, path, &[]);
        let header = reply.header("ratelimit").unwrap_or_default();
        assert!(reply.status == status && header.starts_with(&format!(r#""api";r={left}"#)), "{path}: {reply:?}");
    }
    Applicability::Ran
}

/// A request that one limit denies takes nothing from the other.
pub fn two_limits_are_taken_jointly<A: Adapter>() -> Applicability {
    let limiter =
        limiter_builder().limit("burst", per_minute(1)).limit("daily", per_minute(5)).build().expect("a limiter");
    let limits = RateLimit::new(limiter.enforcer("burst").unwrap().and("daily").unwrap());
    let user = keys::header(tidegate::http::HeaderName::from_static("x-user"));
    // Each user has its own burst; all users share the day.
    let limits = limits.key_each(move |head| Some(vec![user(head)?, tidegate::Key::GLOBAL]));
    let address = App::new(limits.into()).start::<A>();
    for (user, status, daily) in [("alice", 200, 4), ("alice", 429, 4), ("alice", 429, 4), ("bob", 200, 3)] {
        let reply = get(address, "/", &[("x-user", user)]);
        let header = reply.header("ratelimit").unwrap_or_default();
        assert_eq!(reply.status, status, "{user}");
        assert!(
            header.contains(r#""burst";r=0;t=60"#) && header.contains(&format!(r#""daily";r={daily};t=60"#)),
            "{header}"
        );
    }
    Applicability::Ran
}

/// In shadow mode, every request is decided and none is denied.
pub fn shadow_mode_denies_nothing<A: Adapter>() -> Applicability {
    let app = App::new(RateLimit::new(api_limiter(1).enforcer("api").unwrap().shadow(true)).into());
    let address = app.start::<A>();
    for _ in 0..3 {
        let reply = get(address, "/", &[]);
        assert_eq!((reply.status, reply.header("retry-after")), (200, None));
        assert_eq!(reply.header("ratelimit").as_deref(), Some(r#""api";r=0;t=60"#));
    }
    assert_eq!(app.served(), 3);
    Applicability::Ran
}

/// The `on_limited` hook runs for each limited request, and for no other.
pub fn hooks_receive_limited_requests<A: Adapter>() -> Applicability {
    let (limited, failed) = (EventLog::default(), EventLog::default());
    let (on_limited, on_error) = (limited.clone(), failed.clone());
    let enforcer = api_limiter(1)
        .enforcer("api")
        .unwrap()
        .on_limited(move |caller, outcome| {
            on_limited.add(format!(
                "{:?} {:?}",
                caller.address(),
                outcome.limit_decisions().first().map(|limit| limit.policy())
            ))
        })
        .on_error(move |_, outcome| on_error.add(format!("{:?}", outcome.error())));
    let address = App::new(RateLimit::new(enforcer).into()).start::<A>();
    assert_eq!((get(address, "/", &[]).status, limited.take()), (200, vec![]));
    for _ in 0..2 {
        assert_eq!(get(address, "/", &[]).status, 429);
        assert_eq!(limited.take(), [r#"Some(127.0.0.1) Some("api")"#]);
    }
    assert_eq!(failed.take(), [""; 0]);
    Applicability::Ran
}
