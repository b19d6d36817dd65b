//! Well-behaved clients, which check their responses while other clients misbehave.
//!
//! Each client takes one unit of a limit of [`RULES`](super::RULES) at a time, on its own connection. It returns
//! whether the unit was allowed, and the remainder.

use std::io::{BufRead, BufReader, Write};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use serde_json::{Value, json};
use tokio::runtime;

use crate::serve::grpc::{channel, descriptor, request};
use crate::serve::program::Program;
use crate::serve::resp::{command, connect};
use crate::serve::url;

pub(super) fn http_client(program: &Program, rule: &str) -> impl FnMut() -> (bool, u64) + Send + use<> {
    let (client, url) = (reqwest::blocking::Client::new(), url(program, "/v1/limit"));
    let body = json!({"limit": format!("shop.{rule}"), "key": "u"}).to_string();
    move || {
        let answer = client.post(&url).body(body.clone()).send().expect("an answer");
        let decision: Value = answer.json().expect("a decision");
        (decision["allowed"].as_bool().expect("a decision"), decision["remaining"].as_u64().expect("a number"))
    }
}

pub(super) fn grpc_client(program: &Program, rule: &str) -> impl FnMut() -> (bool, u64) + Send + use<> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut client = RateLimitServiceClient::new(runtime.block_on(channel(program)));
    let request = request("shop", &[descriptor(rule, "u")]);
    move || {
        let answer = runtime.block_on(client.should_rate_limit(request.clone())).expect("an answer").into_inner();
        (answer.overall_code == 1, answer.statuses[0].limit_remaining.into())
    }
}

pub(super) fn resp_client(program: &Program, rule: &str) -> impl FnMut() -> (bool, u64) + Send + use<> {
    let mut stream = connect(program);
    let mut replies = BufReader::new(stream.try_clone().expect("a socket")).lines();
    let command = command(&["TG.LIMIT", &format!("shop.{rule}"), "u"]);
    move || {
        stream.write_all(&command).expect("sent");
        let reply: Vec<_> = replies.by_ref().take(6).map(|line| line.expect("a reply")).collect();
        assert_eq!((reply.len(), &*reply[0]), (6, "*5"), "{reply:?}");
        (reply[1] == ":1", reply[3][1..].parse().expect("a number"))
    }
}
