//! `/v1/apply`: requests that carry their own quota.

use serde_json::{Value, json};

use super::{post, start_server, url};

fn request(op: &str, cost: u64, quota: &Value) -> Value {
    json!({"prefix": "p", "limit": "api", "key": "u|1", "op": op, "cost": cost, "quota": quota})
}

#[tokio::test]
async fn apply_takes_the_quota_and_answers_in_microseconds() {
    let (program, _config) = start_server(&["--testing"]);
    let quota = json!({"algorithm": "token_bucket", "rate": 2, "period_us": 3_000_000, "capacity": 2});
    let body = json!({"mode": "each", "at_us": 1_000_000, "requests": [
        request("limit", 1, &quota), request("limit", 1, &quota), request("limit", 1, &quota), request("check", 1, &quota),
    ]});
    let (status, answer) = post(&program, "/v1/apply", &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let expected = [
        json!({"allowed": true, "limit": 2, "remaining": 1, "retry_after_us": null, "next_after_us": 1_500_000, "reset_after_us": 1_500_000, "reason": null}),
        json!({"allowed": true, "limit": 2, "remaining": 0, "retry_after_us": null, "next_after_us": 1_500_000, "reset_after_us": 3_000_000, "reason": null}),
        json!({"allowed": false, "limit": 2, "remaining": 0, "retry_after_us": 1_500_000, "next_after_us": 1_500_000, "reset_after_us": 3_000_000, "reason": "rate"}),
        json!({"allowed": false, "limit": 2, "remaining": 0, "retry_after_us": 1_500_000, "next_after_us": 1_500_000, "reset_after_us": 3_000_000, "reason": "rate"}),
    ];
    assert_eq!(answer["decisions"], json!(expected));

    // All or nothing, and the time is the test's.
    let other = json!({"limit": "other", "key": "", "op": "limit", "quota": quota});
    let all = json!({"mode": "all", "at_us": 2_499_999, "requests": [request("limit", 1, &quota), other]});
    let (_, answer) = post(&program, "/v1/apply", &all.to_string()).await;
    assert_eq!((&answer["decisions"][0]["allowed"], &answer["decisions"][1]["remaining"]), (&json!(false), &json!(2)));
    let all = json!({"mode": "all", "at_us": 2_500_000, "requests": [request("limit", 1, &quota), other]});
    let (_, answer) = post(&program, "/v1/apply", &all.to_string()).await;
    assert_eq!((&answer["decisions"][0]["allowed"], &answer["decisions"][1]["remaining"]), (&json!(true), &json!(1)));
}

#[tokio::test]
async fn a_denied_joint_request_counts_only_the_denying_limits() {
    let (program, _config) = start_server(&[]);
    let quota = json!({"algorithm": "token_bucket", "rate": 2, "period_us": 86_400_000_000_u64});
    let other = json!({"limit": "other", "key": "", "op": "limit", "quota": quota});
    let all = json!({"mode": "all", "requests": [request("limit", 2, &quota), other]}).to_string();
    for allowed in [true, false] {
        let (_, answer) = post(&program, "/v1/apply", &all).await;
        assert_eq!(
            (&answer["decisions"][0]["allowed"], &answer["decisions"][1]["remaining"]),
            (&json!(allowed), &json!(1))
        );
    }
    let page = reqwest::get(url(&program, "/metrics")).await.expect("answered").text().await.expect("a text");
    for counted in ["outcome=\"allowed\"} 2", "outcome=\"denied\",reason=\"rate\"} 1"] {
        let line = format!("tidegate_decisions_total{{limit=\"/v1/apply\",{counted}\n");
        assert!(page.contains(&line), "{line} in {page}");
    }
}

#[tokio::test]
async fn apply_takes_the_clients_lease_ids() {
    let (program, _config) = start_server(&["--testing"]);
    let quota = json!({"algorithm": "concurrency", "rate": 1, "period_us": 1_000_000});
    let on = |op: &str, lease: u64| {
        let mut request = request(op, 1, &quota);
        request["lease"] = json!(format!("{lease:016x}"));
        request
    };
    let requests = [
        on("admit", 1),
        on("admit", 2),
        on("renew", 1),
        on("release", 2),
        on("release", 1),
        request("limit", 1, &quota),
    ];
    let body = json!({"mode": "each", "at_us": 1_000_000, "requests": requests});
    let (status, answer) = post(&program, "/v1/apply", &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let decisions = answer["decisions"].as_array().expect("a list");
    let said: Vec<_> =
        decisions.iter().map(|one| (one["allowed"] == true, one["remaining"].as_u64().unwrap())).collect();
    assert_eq!(said, [(true, 0), (false, 0), (true, 0), (false, 0), (true, 1), (false, 1)]);
    assert_eq!((&decisions[1]["retry_after_us"], &decisions[1]["reason"]), (&json!(1_000_000), &json!("concurrency")));
    assert_eq!(decisions[5]["reason"], "cost_exceeds_capacity", "the contract denies what an algorithm does not have");
}

#[tokio::test]
async fn malformed_keys_quotas_and_times_are_refused() {
    let (program, _config) = start_server(&[]);
    let good = json!({"algorithm": "token_bucket", "rate": 2, "period_us": 3_000_000});
    let zero = json!({"algorithm": "token_bucket", "rate": 0, "period_us": 3_000_000});
    let leaky = json!({"algorithm": "leaky", "rate": 1, "period_us": 3_000_000});
    let mut no_key = request("limit", 1, &good);
    no_key["key"] = json!("50%");
    let cases = [
        (json!({"mode": "each", "at_us": 1, "requests": [request("limit", 1, &good)]}), "at_us: only a server"),
        (json!({"mode": "each", "requests": [request("limit", 1, &zero)]}), "quota: rate"),
        (json!({"mode": "each", "requests": [request("limit", 1, &leaky)]}), "quota: algorithm"),
        (json!({"mode": "each", "requests": [no_key]}), "key: not the text of a key"),
        (json!({"mode": "some", "requests": [request("limit", 1, &good)]}), "unknown variant"),
        (json!({"mode": "each", "requests": []}), "requests: found 0"),
        (json!({"mode": "each", "requests": [request("take", 1, &good)]}), "op: found"),
        (json!({"mode": "each", "requests": [request("admit", 1, &good)]}), "lease: missing"),
    ];
    for (body, said) in cases {
        let (status, problem) = post(&program, "/v1/apply", &body.to_string()).await;
        assert_eq!(status, 400, "{said}");
        assert!(problem["detail"].as_str().expect("a text").contains(said), "{said}: {problem}");
    }
    // A store that cannot do it returns an error for each request.
    let (_, answer) =
        post(&program, "/v1/apply", &json!({"mode": "all", "requests": [request("check", 1, &good)]}).to_string())
            .await;
    assert_eq!(answer["decisions"][0]["error"]["kind"], "unsupported");
}
