//! Exported metrics.

use std::fs;
use std::path::Path;

use tidegate_servers::{Redis, required_env, wait_until};

use crate::otlp::receiver::OtlpReceiver;
use crate::otlp::{Program, post_limit, temp_path, write_config};

#[test]
fn every_decision_is_exported_with_its_outcome_at_the_end() {
    let receiver = OtlpReceiver::start();
    let program = Program::start(&["--config", &write_config("memory.toml"), "--otlp", &receiver.url()]);
    (0..7).for_each(|_| drop(post_limit(&program, "api", "u1")));
    (0..3).for_each(|_| drop(post_limit(&program, "login", "u1")));
    post_limit(&program, "login", "mallory");
    // The export interval of a minute has not passed, so the only export is the one at the shutdown.
    assert!(program.stop().0.success());

    let ours = |point: &(String, i64)| point.0.starts_with("limit=api") || point.0.starts_with("limit=login");
    let decisions: Vec<_> = receiver.points("tidegate.decisions").into_iter().filter(ours).collect();
    let expected = [
        ("limit=api outcome=allowed", 5),
        ("limit=api outcome=denied reason=rate", 2),
        ("limit=login outcome=allowed", 2),
        ("limit=login outcome=denied reason=deny", 1),
        ("limit=login outcome=denied reason=rate", 1),
    ];
    assert_eq!(decisions, expected.map(|(labels, count)| (labels.to_owned(), count)));
    assert_eq!(receiver.points("tidegate.memory.keys"), [(String::new(), 2)]);
    assert!(receiver.points("tidegate.memory.bytes")[0].1 > 0);
    assert_eq!(receiver.points("tidegate.breaker.state"), [], "memory has none");

    let senders = receiver.resources();
    let version = env!("CARGO_PKG_VERSION");
    assert!(senders.len() >= 2, "metrics and traces");
    for sender in senders {
        assert!(sender.contains(&format!("service.name=tidegate service.version={version}")), "{sender}");
    }
}

/// With its defaults, the SDK merges all rows beyond 2,000.
#[test]
fn thousands_of_limits_are_exported_separately() {
    let limit = |n| format!("[limits.l{n}]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1d\"\n");
    let (receiver, path) = (OtlpReceiver::start(), temp_path("many.toml"));
    fs::write(&path, (0..1_500).map(limit).collect::<String>()).expect("written");
    let program = Program::start(&["--config", &path, "--otlp", &receiver.url()]);
    (0..2).for_each(|_| drop(post_limit(&program, "l1499", "u1")));
    assert!(program.stop().0.success());
    let decisions = receiver.points("tidegate.decisions");
    assert_eq!(decisions.iter().filter(|(labels, _)| labels.starts_with("limit=l")).count(), 3_000);
    assert!(decisions.contains(&("limit=l1499 outcome=denied reason=rate".to_owned(), 1)));
}

#[cfg(feature = "_real-servers")]
#[test]
fn a_broken_store_is_exported_while_the_server_runs() {
    let (server, cli) = (required_env("TIDEGATE_REDIS_SERVER"), required_env("TIDEGATE_REDIS_CLI"));
    let mut redis = Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("Redis starts");
    let receiver = OtlpReceiver::start();
    let arguments = ["--config", &write_config("redis.toml"), "--otlp", &receiver.url(), "--store", &redis.url()];
    let variables = [("OTEL_METRIC_EXPORT_INTERVAL", "50"), ("OTEL_SERVICE_NAME", "edge")];
    let program = Program::start_with_env(&arguments, &variables);
    post_limit(&program, "api", "u1");
    let has_point = |name: &str, value: i64| receiver.points(name) == [("store=redis".to_owned(), value)];
    assert!(wait_until(|| has_point("tidegate.store.errors", 0) && has_point("tidegate.breaker.state", 0)));
    assert_eq!(receiver.points("tidegate.memory.keys"), [], "it is not the store");

    redis.kill();
    (0..20).for_each(|_| drop(post_limit(&program, "api", "u1")));
    // As many failures as open the circuit, and none after that, because the breaker skips the store.
    let errors = |receiver: &OtlpReceiver| receiver.points("tidegate.store.errors")[0].1;
    assert!(wait_until(|| errors(&receiver) >= 5));
    assert!(wait_until(|| receiver.points("tidegate.breaker.state")[0].1 > 0), "it never opens");
    let admitted = ("limit=api outcome=allowed reason=store".to_owned(), 20);
    assert!(wait_until(|| receiver.points("tidegate.decisions").contains(&admitted)));
    assert!(receiver.resources().iter().all(|sender| sender.contains("service.name=edge")), "the operator names it");
}
