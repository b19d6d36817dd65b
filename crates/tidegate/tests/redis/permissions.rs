//! Permissions of a server user: those that the guide names, and no others.

use tidegate::redis::RedisStore;
use tidegate::{Limiter, Quota, minutes, seconds};

use crate::support::{run, unique_prefix};
use tidegate_servers::required_env;

/// The commands that `docs/book/src/reference/redis.md` says to grant.
const GRANTED: &str = "+eval +evalsha +get +psetex +setrange +del +time";
const FOR_LEASES: &str = "+zadd +zcount +zrangebyscore +zrem +zremrangebyscore +zrevrange +zscore +pexpire";

#[test]
fn permissions_in_the_guide_are_sufficient() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reference/redis.md"))
        .unwrap();
    assert!(guide.contains(GRANTED) && guide.contains(FOR_LEASES), "the guide says something else");

    for url in ["TIDEGATE_REDIS_URL", "TIDEGATE_VALKEY_URL"].map(required_env) {
        let (prefix, user) = (unique_prefix(), unique_prefix());
        let mut admin = redis::Client::open(&*url).unwrap().get_connection().unwrap();
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg(&user).arg("on").arg(">secret").arg(format!("~{prefix}*"));
        let granted: Vec<_> = GRANTED.split(' ').chain(FOR_LEASES.split(' ')).collect();
        command.arg(granted).exec(&mut admin).unwrap();
        let store = run(RedisStore::connect(url.replace("redis://", &format!("redis://{user}:secret@")))).unwrap();

        let limits = Limiter::builder().prefix(&prefix).limit("a", Quota::token_bucket(5, minutes(1)).unwrap());
        let limits = limits.limit("b", Quota::sliding_log(5, seconds(60)).unwrap());
        let limits = limits.limit("c", Quota::concurrency(2, seconds(60)).unwrap());
        let limiter = limits.bare_store(store).build().unwrap();
        run(async {
            for limit in ["a", "b"] {
                assert!(limiter.limit(limit, "u1").await?.allowed());
                assert!(limiter.limit(limit, "u1").await?.allowed());
                let _ = limiter.check(limit, "u1").await?;
                let _ = limiter.reserve(limit, "u1").await?;
                let _ = limiter.refund(limit, "u1").await?;
            }
            assert!(limiter.limit_all([limiter.limit("a", "u1"), limiter.limit("b", "u1")]).await?.allowed());
            let _ = limiter.reset("a", "u1").await?;
            for _ in 0..2 {
                let lease = limiter.admit("c", "u1").await?.lease().expect("a place is free");
                assert!(limiter.renew("c", "u1", lease).await?.allowed());
                assert!(limiter.admit("c", "u1").await?.decision().allowed());
                assert!(!limiter.admit("c", "u1").await?.decision().allowed());
                let _ = limiter.check("c", "u1").await?;
                assert!(limiter.release("c", "u1", lease).await?.allowed());
                let _ = limiter.reset("c", "u1").await?;
            }
            Ok::<_, tidegate::Error>(())
        })
        .unwrap();
        redis::cmd("ACL").arg("DELUSER").arg(&user).exec(&mut admin).unwrap();
    }
}
