//! Cases about failed and slow stores.

use tidegate::http::{Gate, RateLimit};
use tidegate::{Limit, Limiter, OnStoreError, StoreError, StoreErrorKind};

use super::fixtures::{EventLog, memory_store, per_minute, spawn, wait_until};
use super::http_client::get;
use super::{Adapter, App};
use crate::{Applicability, Faults, FaultyStore};

/// Creates a limit of two a minute over a store that fails on command.
fn breakable_limiter(policy: OnStoreError) -> (Limiter, Faults) {
    let store = FaultyStore::new(memory_store());
    let faults = store.faults();
    let limit = Limit::new(per_minute(2)).on_store_error(policy);
    (Limiter::builder().limit("api", limit).store(store).build().expect("a limiter"), faults)
}

fn unavailable() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "unplugged")
}

/// With a failed store and the policy `open`, every request is served without limit headers. The hook runs.
pub fn failed_store_admits_when_open<A: Adapter>() -> Applicability {
    let (limiter, faults) = breakable_limiter(OnStoreError::Open);
    let notes = EventLog::default();
    let on_error = notes.clone();
    let enforcer = limiter
        .enforcer("api")
        .unwrap()
        .on_error(move |_, outcome| on_error.add(format!("{}", outcome.is_without_store())));
    let address = App::new(RateLimit::new(enforcer).into()).start::<A>();
    faults.fail(unavailable());
    for _ in 0..3 {
        let reply = get(address, "/", &[]);
        assert_eq!((reply.status, &*reply.body, reply.limit_headers()), (200, "ok", vec![]));
    }
    assert_eq!(notes.take(), ["true"; 3]);
    faults.pass();
    assert_eq!(get(address, "/", &[]).header("ratelimit").as_deref(), Some(r#""api";r=1;t=60"#));
    Applicability::Ran
}

/// With a failed store and the policy `closed`, no request is served.
pub fn failed_store_denies_when_closed<A: Adapter>() -> Applicability {
    let (limiter, faults) = breakable_limiter(OnStoreError::Closed);
    let app = App::new(Gate::new(limiter.enforcer("api").unwrap()));
    let address = app.start::<A>();
    faults.fail(unavailable());
    let reply = get(address, "/", &[]);
    assert_eq!((reply.status, reply.limit_headers(), app.served()), (503, vec![], 0));
    assert_eq!(reply.problem()["retryable"], true);
    faults.pass();
    assert_eq!(get(address, "/", &[]).header("ratelimit").as_deref(), Some(r#""api";r=1;t=60"#));
    Applicability::Ran
}

/// The response waits for a slow store: before the handler, or after it for a late charge.
pub fn slow_store_delays_the_response<A: Adapter>() -> Applicability {
    let (limiter, faults) = breakable_limiter(OnStoreError::Closed);
    let late = RateLimit::new(limiter.enforcer("api").unwrap()).charge_when(|_, _| true);
    for (limits, is_late) in [(RateLimit::new(limiter.enforcer("api").unwrap()), false), (late, true)] {
        let app = App::new(limits.into());
        let address = app.start::<A>();
        faults.hang();
        let reply = spawn(move || get(address, "/", &[]));
        wait_until(|| faults.held_calls() == 1);
        assert_eq!(app.served(), 0, "served before it was decided");
        if is_late {
            faults.release();
            wait_until(|| app.served() == 1 && faults.held_calls() == 1);
        }
        faults.pass();
        faults.release();
        let reply = reply.join().expect("a reply");
        assert_eq!((reply.status, app.served()), (200, 1));
        let left = if is_late { r#""api";r=0;t=60"# } else { r#""api";r=1;t=60"# };
        assert_eq!(reply.header("ratelimit").as_deref(), Some(left));
    }
    // One of each, so the limit is used up.
    let app = App::new(Gate::new(limiter.enforcer("api").unwrap()));
    assert_eq!(get(app.start::<A>(), "/", &[]).status, 429);
    Applicability::Ran
}
