//! A cluster that loses a master node, which is down or hangs.

use std::future::IntoFuture;

use tidegate::{OnStoreError, Reason};
use tokio::time::Instant;

use super::server::{self, Cluster, wait_until};
use crate::support::{CAPACITY, keys, run};

const KEYS: usize = 12;

#[test]
fn failover_of_lost_master_refunds_nothing() {
    assert_failover_refunds_nothing(Cluster::kill_first_master);
}

/// Its connections stay, so only calls without an answer show that another node has its slots.
#[test]
fn failover_of_hung_master_refunds_nothing() {
    assert_failover_refunds_nothing(Cluster::pause_first_master);
}

fn assert_failover_refunds_nothing(lose_first_master: fn(&mut Cluster)) {
    let mut cluster = Cluster::start();
    let service = server::cluster_service(cluster.urls());
    let load = service.start_load(KEYS);
    let used_up = |policy: OnStoreError, key: &String| {
        let left = run(service.limiter.check(policy.as_str(), key).into_future());
        left.is_ok_and(|left| (left.limit(), left.remaining(), left.reason()) == (CAPACITY, 0, Some(Reason::Rate)))
    };
    let all_used_up = || OnStoreError::ALL.into_iter().all(|policy| keys(KEYS).iter().all(|key| used_up(policy, key)));
    assert!(wait_until(all_used_up), "the callers do not use up what there is");
    let lost = run(wait_for_replication(&cluster.urls()[0]));
    assert!(lost.len() >= OnStoreError::ALL.len(), "hardly any key is on the first master: {lost:?}");

    let struck = Instant::now();
    lose_first_master(&mut cluster);
    let killed = Instant::now();
    cluster.wait_for_failover();
    let failed_over = Instant::now();
    service.wait_for_recovery(&keys(KEYS));
    let resumed = Instant::now();
    load.wait_until_served();

    let log = load.stop();
    for policy in OnStoreError::ALL {
        assert!(log.count_policy_answers(policy, killed, failed_over) > 0, "{policy:?}: no call has met the loss");
    }
    log.assert_local_share(struck, resumed);
    log.assert_served(resumed);
    // The replica knew what had been used, so the failover gave nothing back.
    log.assert_admitted_by_store(CAPACITY, |_| true);
}

/// Waits until a node's replica has all its writes, and returns the node's keys.
async fn wait_for_replication(url: &str) -> Vec<String> {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    // A connection waits for what it has written itself and so for all before it; some of these names are this node's.
    for number in 0..100 {
        let written = redis::cmd("SET").arg(format!("mark-{number}")).arg("").exec_async(&mut connection).await;
        if written.is_ok() {
            let replicas: u32 = redis::cmd("WAIT").arg(1).arg(400).query_async(&mut connection).await.unwrap();
            assert_eq!(replicas, 1, "the replica does not follow");
            return keys;
        }
    }
    panic!("no name belongs to this node");
}
