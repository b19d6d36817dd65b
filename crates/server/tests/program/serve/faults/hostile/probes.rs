//! Clients that ask for one unit at a time, on one connection of one port.

use std::io::{BufRead, BufReader, Write};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use serde_json::{Value, json};
use tokio::runtime;

use crate::serve::grpc::{channel, descriptor, request};
use crate::serve::program::Program;
use crate::serve::resp::{command, connect};
use crate::serve::url;

/// The answer to a request for one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Allowed, and so many are left.
    Allowed(u64),
    Denied,
    /// The server did not decide: its store failed.
    Failed,
}

impl Answer {
    pub(super) fn is_allowed(self) -> bool {
        matches!(self, Answer::Allowed(_))
    }
}

/// Takes one unit of a limit's key.
type Ask = dyn FnMut(&str, &str) -> Answer + Send;

/// A client on one port.
pub(super) struct Probe {
    pub(super) port: &'static str,
    ask: Box<Ask>,
}

impl Probe {
    /// Connects to HTTP, gRPC and the Redis protocol.
    pub(super) fn on_every_port(program: &Program) -> [Self; 3] {
        [
            Probe { port: "http", ask: Box::new(http(program)) },
            Probe { port: "grpc", ask: Box::new(grpc(program)) },
            Probe { port: "resp", ask: Box::new(resp(program)) },
        ]
    }

    /// Takes one unit of a key. Over gRPC, the limit is one of the domain `shop`.
    pub(super) fn ask(&mut self, limit: &str, key: &str) -> Answer {
        (self.ask)(limit, key)
    }
}

fn http(program: &Program) -> impl FnMut(&str, &str) -> Answer + Send + use<> {
    let (client, url) = (reqwest::blocking::Client::new(), url(program, "/v1/limit"));
    move |limit, key| {
        let answer = client.post(&url).json(&json!({ "limit": limit, "key": key })).send().expect("an answer");
        let answer: Value = answer.json().expect("JSON");
        match (answer["allowed"].as_bool(), answer["remaining"].as_u64()) {
            (Some(true), Some(left)) => Answer::Allowed(left),
            (Some(false), _) => Answer::Denied,
            _ if answer["status"] == 503 => Answer::Failed,
            _ => panic!("unexpected: {answer}"),
        }
    }
}

fn grpc(program: &Program) -> impl FnMut(&str, &str) -> Answer + Send + use<> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut client = RateLimitServiceClient::new(runtime.block_on(channel(program)));
    move |limit, key| {
        let rule = limit.strip_prefix("shop.").expect("a limit of the domain");
        let request = request("shop", &[descriptor(rule, key)]);
        match runtime.block_on(client.should_rate_limit(request)) {
            Ok(answer) if answer.get_ref().overall_code == 1 => {
                Answer::Allowed(answer.get_ref().statuses[0].limit_remaining.into())
            }
            Ok(_) => Answer::Denied,
            Err(status) if status.code() == tonic::Code::Unavailable => Answer::Failed,
            Err(status) => panic!("unexpected: {status}"),
        }
    }
}

fn resp(program: &Program) -> impl FnMut(&str, &str) -> Answer + Send + use<> {
    let mut stream = connect(program);
    let mut replies = BufReader::new(stream.try_clone().expect("a socket")).lines();
    move |limit, key| {
        stream.write_all(&command(&["TG.LIMIT", limit, key])).expect("sent");
        let mut line = || replies.next().expect("a reply").expect("a reply");
        let first = line();
        if first.starts_with("-UNAVAILABLE") {
            return Answer::Failed;
        }
        assert_eq!(first, "*5");
        let [allowed, _, remaining, _, _] = [(); 5].map(|()| line());
        match &*allowed {
            ":1" => Answer::Allowed(remaining[1..].parse().expect("a number")),
            _ => Answer::Denied,
        }
    }
}
