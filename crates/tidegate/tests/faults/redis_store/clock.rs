//! Clock faults: a server whose clock jumps back.

use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::store::{Op, Request, Scope, TestableStore};
use tidegate::{Cost, Decision, Key, OnStoreError, Quota, Store, Timestamp, hours, millis, minutes, seconds};
use tokio::time::Instant;

use super::server::{self, Redis, wait_until};
use crate::support::{CAPACITY, quotas_with_period, run};

const LIMIT: Op = Op::Limit(Cost::ONE);
const CHECK: Op = Op::Check(Cost::ONE);

struct Subject {
    server: Redis,
    store: RedisStore,
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
}

impl Subject {
    fn for_quotas(quotas: [Quota; 4]) -> impl Iterator<Item = Self> {
        quotas.into_iter().map(|quota| {
            let server = server::start();
            let store = run(RedisStore::connect(server.url())).unwrap();
            Subject { server, store, scope: Scope::new("fault", "clock"), key: Key::from("u"), quota }
        })
    }

    fn request(&self, op: Op) -> Request<'_> {
        let Subject { scope, key, quota, .. } = self;
        Request { scope, key, quota, op, on_store_error: OnStoreError::Closed }
    }

    fn apply_at(&self, op: Op, at: Timestamp) -> Decision {
        run(self.store.apply_at(&self.request(op), at)).unwrap()
    }

    /// Applies an operation by the server's own clock.
    fn apply(&self, op: Op) -> Decision {
        run(self.store.apply(&self.request(op))).unwrap()
    }

    /// The server's time.
    fn server_time(&self) -> Timestamp {
        let time = self.server.cli(&["TIME"]);
        let (seconds, micros) = time.split_once('\n').expect("a time");
        Timestamp::from_micros(
            seconds.trim().parse::<u64>().unwrap() * 1_000_000 + micros.trim().parse::<u64>().unwrap(),
        )
    }
}

#[test]
fn clock_jumping_back_refunds_nothing() {
    let start = Timestamp::from_millis(1_800_000_000_000);
    let back = [Duration::from_micros(1), seconds(1), hours(1), hours(24), seconds(1_800_000_000)];
    for subject in Subject::for_quotas(quotas_with_period(hours(1))) {
        let quota = subject.quota;
        // All but as many as there are jumps.
        let kept = back.len() as u64;
        assert!((kept..CAPACITY).all(|_| subject.apply_at(LIMIT, start).allowed()));
        for (taken, span) in (1..).zip(back) {
            let then = start.saturating_sub(span);
            assert_eq!(subject.apply_at(CHECK, then).remaining(), kept - taken + 1, "{quota:?}");
            let decision = subject.apply_at(LIMIT, then);
            assert_eq!((decision.allowed(), decision.remaining()), (true, kept - taken), "{quota:?}");
        }
        for then in back.map(|span| start.saturating_sub(span)) {
            let requests = [subject.request(LIMIT), subject.request(LIMIT)];
            assert!(!run(subject.store.apply_all_at(&requests, then)).unwrap().allowed(), "{quota:?}");
            let denied = subject.apply_at(LIMIT, then);
            assert_eq!((denied.allowed(), denied.remaining()), (false, 0), "{quota:?}");
            // And it says honestly when there is something again.
            let retry = then.saturating_add(denied.retry_after().expect("a time to wait for"));
            assert!(retry > start && subject.apply_at(CHECK, retry).allowed(), "{quota:?}");
        }
        let decision = subject.apply_at(LIMIT, start.saturating_add(hours(3)));
        assert_eq!((decision.allowed(), decision.remaining()), (true, CAPACITY - 1), "{quota:?}");
    }
}

/// The stored value is an hour ahead of the server's clock, as after that clock was set back by an hour.
#[test]
fn clock_set_back_an_hour_refunds_nothing() {
    for subject in Subject::for_quotas(quotas_with_period(minutes(1))) {
        let quota = subject.quota;
        let ahead = subject.server_time().saturating_add(hours(1));
        assert!((0..CAPACITY).all(|_| subject.apply_at(LIMIT, ahead).allowed()));
        for _ in 0..10 {
            let denied = subject.apply(LIMIT);
            assert_eq!((denied.allowed(), denied.remaining()), (false, 0), "{quota:?}");
            assert!(denied.retry_after().expect("a time to wait for") > hours(1) - seconds(60), "{quota:?}");
        }
        let _ = subject.apply(Op::Refund(Cost::ONE));
        assert!(subject.apply(LIMIT).allowed() && !subject.apply(LIMIT).allowed(), "{quota:?}");
        // The server must not forget it before its clock has caught up.
        let left: u128 = subject.server.cli(&["PTTL", "fault|clock|u"]).parse().expect("a lifetime");
        assert!(left > (hours(1) - seconds(60)).as_millis(), "{quota:?}: {left} ms");
    }
}

#[test]
fn service_resumes_when_the_clock_has_caught_up() {
    let ahead = millis(500);
    for subject in Subject::for_quotas(quotas_with_period(ahead)) {
        let (began, time) = (Instant::now(), subject.server_time());
        assert!((0..CAPACITY).all(|_| subject.apply_at(LIMIT, time.saturating_add(ahead)).allowed()));
        assert!(wait_until(|| subject.apply(LIMIT).allowed()), "{:?}: nothing comes back", subject.quota);
        assert!(Instant::now() - began >= ahead, "{:?}: something came back too soon", subject.quota);
    }
}
