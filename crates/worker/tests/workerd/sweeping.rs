//! The alarm forgets what is as good as new, and nothing else.

use std::sync::Arc;

use serde_json::json;
use tidegate_servers::wait_until;
use tidegate_testkit::{Applicability, Subject, suite};

use crate::edge::Edge;
use crate::run;
use crate::swept::Swept;

/// The cases of the suite that count what a store holds need one of their own.
#[test]
fn the_suites_cases_about_forgetting_hold() {
    for case in [
        "idle_keys_are_forgotten",
        "busy_keys_are_not_forgotten",
        "forgetting_changes_no_decision",
        "idle_leases_are_forgotten",
    ] {
        let subject = Subject::new(Swept::new(Arc::new(Edge::start()))).run_with(run);
        assert_eq!(run(suite::run(&subject, case)), Some(Applicability::Ran), "{case}");
    }
}

const DAY: u64 = 86_400_000_000;
const NOW: u64 = 1_700_006_400_000_000;

fn take(edge: &Edge, key: &str, period_us: u64) -> bool {
    let quota = json!({"algorithm": "fixed_window", "rate": 1, "period_us": period_us});
    let request = json!({"limit": "api", "key": key, "op": "limit", "quota": quota});
    let (status, answer) =
        edge.post("/v1/apply", json!({"mode": "each", "requests": [request], "at_us": NOW}).to_string());
    assert_eq!(status, 200, "{answer}");
    answer["decisions"][0]["allowed"].as_bool().unwrap()
}

/// 2,400 keys in one object are three pages. A key that is spent stays spent, however long nobody asks for it.
#[test]
fn an_object_is_swept_in_pages() {
    let edge = Edge::told(json!({"TIDEGATE_SHARDS": "1"}));
    for page in 0..3 {
        let quota = json!({"algorithm": "token_bucket", "rate": 1, "period_us": DAY});
        let requests: Vec<_> = (0..800)
            .map(|n| json!({"limit": "api", "key": format!("{page}-{n}"), "op": "limit", "quota": quota}))
            .collect();
        let call = json!({"mode": "each", "requests": requests, "at_us": NOW}).to_string();
        assert_eq!(edge.post("/v1/apply", call).0, 200);
    }
    assert!(take(&edge, "spent", 300 * DAY));
    assert_eq!(edge.swept(NOW + DAY - 1), 2_401, "a microsecond early");
    assert_eq!(edge.swept(NOW + DAY), 1);
    assert_eq!(edge.swept(NOW + 2 * DAY), 1, "idle for longer than a day");
    assert!(!take(&edge, "spent", 300 * DAY));
}

/// The alarm itself, which comes every hour, and here every 200 ms.
#[test]
fn the_alarm_comes_and_comes_again() {
    let edge = Edge::told(json!({"TIDEGATE_SHARDS": "2", "TIDEGATE_SWEEP_MS": "200"}));
    for key in ["a", "b", "c", "d"] {
        for round in 0..2 {
            // As good as new before the first alarm, or only after it.
            let quota = json!({"algorithm": "token_bucket", "rate": 1, "period_us": 1_000 * (1 + 999 * round)});
            let request = json!({"limit": format!("api-{round}"), "key": key, "op": "limit", "quota": quota});
            let (status, answer) = edge.post("/v1/apply", json!({"mode": "each", "requests": [request]}).to_string());
            assert_eq!(status, 200, "{answer}");
        }
    }
    assert_eq!(edge.login("stays").0, 200);
    // A sweep by the time of a test forgets nothing of these, and says how many are left.
    assert!(wait_until(|| edge.swept(0) == 1), "{} left", edge.swept(0));
    let (_, decision) = edge.login("stays");
    assert_eq!(decision["remaining"], 3);
}
