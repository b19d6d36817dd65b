//! Broken and slow stores.

use tidegate::http::{Gate, RateLimit};
use tidegate::{Limit, Limiter, OnStoreError, StoreError, StoreErrorKind};

use super::fixtures::{Notes, aside, memory, until, window};
use super::http_client::get;
use super::{Adapter, App};
use crate::{Applicability, Faults, FaultyStore};

/// A limit of two a minute over a store that breaks on command.
fn breaking(policy: OnStoreError) -> (Limiter, Faults) {
    let store = FaultyStore::new(memory());
    let faults = store.faults();
    let limit = Limit::new(window(2)).on_store_error(policy);
    (Limiter::builder().limit("api", limit).store(store).build().expect("a limiter"), faults)
}

fn unplugged() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "unplugged")
}

/// With a dead store and the policy `open`, everybody is served and nobody is told of a quota. The hook is told.
pub fn a_dead_store_admits_when_open<A: Adapter>() -> Applicability {
    let (limiter, faults) = breaking(OnStoreError::Open);
    let notes = Notes::default();
    let on_error = notes.clone();
    let enforcer = limiter
        .enforcer("api")
        .unwrap()
        .on_error(move |_, outcome| on_error.add(format!("{}", outcome.is_without_store())));
    let address = App::new(RateLimit::new(enforcer).into()).start::<A>();
    faults.fail(unplugged());
    for _ in 0..3 {
        let reply = get(address, "/", &[]);
        assert_eq!((reply.status, &*reply.body, reply.told()), (200, "ok", vec![]));
    }
    assert_eq!(notes.take(), ["true"; 3]);
    faults.pass();
    assert_eq!(get(address, "/", &[]).header("ratelimit").as_deref(), Some(r#""api";r=1;t=60"#));
    Applicability::Ran
}

/// With a dead store and the policy `closed`, nobody is served.
pub fn a_dead_store_refuses_when_closed<A: Adapter>() -> Applicability {
    let (limiter, faults) = breaking(OnStoreError::Closed);
    let app = App::new(Gate::new(limiter.enforcer("api").unwrap()));
    let address = app.start::<A>();
    faults.fail(unplugged());
    let reply = get(address, "/", &[]);
    assert_eq!((reply.status, reply.told(), app.served()), (503, vec![], 0));
    assert_eq!(reply.problem()["retryable"], true);
    faults.pass();
    assert_eq!(get(address, "/", &[]).header("ratelimit").as_deref(), Some(r#""api";r=1;t=60"#));
    Applicability::Ran
}

/// A store that does not answer at once is waited for, before the handler and, where the charge is late, after it.
pub fn a_slow_store_is_waited_for<A: Adapter>() -> Applicability {
    let (limiter, faults) = breaking(OnStoreError::Closed);
    let late = RateLimit::new(limiter.enforcer("api").unwrap()).charge_when(|_, _| true);
    for (limits, is_late) in [(RateLimit::new(limiter.enforcer("api").unwrap()), false), (late, true)] {
        let app = App::new(limits.into());
        let address = app.start::<A>();
        faults.hang();
        let reply = aside(move || get(address, "/", &[]));
        until(|| faults.held_calls() == 1);
        assert_eq!(app.served(), 0, "served before it was decided");
        if is_late {
            faults.release();
            until(|| app.served() == 1 && faults.held_calls() == 1);
        }
        faults.pass();
        faults.release();
        let reply = reply.join().expect("a reply");
        assert_eq!((reply.status, app.served()), (200, 1));
        let left = if is_late { r#""api";r=0;t=60"# } else { r#""api";r=1;t=60"# };
        assert_eq!(reply.header("ratelimit").as_deref(), Some(left));
    }
    // One of each: the limit is used up.
    let app = App::new(Gate::new(limiter.enforcer("api").unwrap()));
    assert_eq!(get(app.start::<A>(), "/", &[]).status, 429);
    Applicability::Ran
}
