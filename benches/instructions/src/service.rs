//! Request handling of `tidegate serve`, without a socket.

// The server's own parser file. It does not depend on the rest of the server, which would take long to build.
#[allow(dead_code)] // the bounds of clients without a token
#[path = "../../../crates/server/src/doors/resp/parse.rs"]
mod parse;

use tidegate::api::{self, DecisionResponse, LimitRequest};

use crate::fixtures::{large_quota, limiter, texts};
use crate::{Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[("service/json", decide_json), ("service/resp/parse", parse_resp)];

/// Handles `POST /v1/limit`, from the body of the request to the body of the response.
fn decide_json() -> Path {
    let limiter = limiter(&[("api", large_quota())]);
    let body = |text: String| format!(r#"{{"limit":"api","key":"{text}","cost":1}}"#).into_bytes();
    let bodies: Vec<_> = texts().into_iter().map(body).collect();
    Box::new(move |key| {
        let answer = counted_call(|| {
            let request: LimitRequest<'_> = api::parse(&bodies[key], LimitRequest::EXAMPLE).ok()?;
            let decision =
                limiter.limit(&request.limit, request.key.checked().ok()?).cost(request.cost.0).try_now().ok()?;
            Some(DecisionResponse::from(&decision).to_json())
        });
        answer.is_some_and(|answer| answer.starts_with(br#"{"allowed":true"#))
    })
}

/// Parses a command of the Redis protocol into words.
fn parse_resp() -> Path {
    let command =
        |key: String| format!("*5\r\n$8\r\nTHROTTLE\r\n$24\r\n{key}\r\n$2\r\n10\r\n$3\r\n100\r\n$2\r\n60\r\n");
    // The words point into the commands, so the commands must outlive every call.
    let commands: &'static [Vec<u8>] =
        texts().into_iter().map(|key| command(key).into_bytes()).collect::<Vec<_>>().leak();
    let mut arguments = parse::Arguments::new();
    Box::new(move |key| {
        let command = commands[key].as_slice();
        let used = counted_call(|| parse::parse(command, parse::Bounds::AUTHENTICATED, &mut arguments));
        matches!(used, Ok(Some(used)) if used == command.len()) && arguments.len() == 5
    })
}
