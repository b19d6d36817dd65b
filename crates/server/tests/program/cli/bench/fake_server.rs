//! Fake servers with scripted responses, which count requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::{Request, Response, Status};

/// The response of a fake server to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Allow,
    Deny,
    /// An error, in these words: a status and a detail over HTTP, a line over the Redis protocol.
    Fail(&'static str, &'static str),
    /// Closes the connection without a response.
    HangUp,
    /// Never answers.
    Ignore,
}

/// A server with scripted responses.
pub(super) struct FakeServer {
    pub(super) url: String,
    seen: Arc<RequestCounter>,
}

/// The counts of the requests that a server has received.
pub(super) struct RequestCounter {
    act: fn(u64) -> Action,
    requests: AtomicU64,
    /// The allowed, denied and other responses.
    outcomes: [AtomicU64; 3],
    /// The last request, as text.
    last: Mutex<String>,
}

impl RequestCounter {
    fn new(act: fn(u64) -> Action) -> Self {
        RequestCounter { act, requests: AtomicU64::new(0), outcomes: Default::default(), last: Mutex::default() }
    }

    fn act(&self, request: String) -> Action {
        let act = (self.act)(self.requests.fetch_add(1, Ordering::SeqCst));
        let index = match act {
            Action::Allow => 0,
            Action::Deny => 1,
            _ => 2,
        };
        self.outcomes[index].fetch_add(1, Ordering::SeqCst);
        *self.last.lock().expect("nobody panics") = request;
        act
    }
}

impl FakeServer {
    /// Starts a server that speaks HTTP.
    pub(super) fn http(act: fn(u64) -> Action) -> Self {
        FakeServer::start("http", act, |stream, seen| while answer_http(stream, seen).is_some() {})
    }

    /// Starts a server that speaks the Redis protocol.
    pub(super) fn resp(act: fn(u64) -> Action) -> Self {
        FakeServer::start("redis", act, |stream, seen| while answer_resp(stream, seen).is_some() {})
    }

    /// Starts a server that speaks Envoy's protocol.
    pub(super) fn grpc(act: fn(u64) -> Action) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(RequestCounter::new(act));
        let service = RateLimitServiceServer::new(FakeEnvoyService(Arc::clone(&seen)));
        listener.set_nonblocking(true).expect("it can");
        // The port is bound already: a connection waits for the first accept.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("it is nonblocking");
                let incoming = tonic::transport::server::TcpIncoming::from(listener);
                tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await
            })
        });
        FakeServer { url: format!("grpc://{address}"), seen }
    }

    /// Returns the allowed, denied and other responses of this server.
    pub(super) fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| self.seen.outcomes[index].load(Ordering::SeqCst))
    }

    pub(super) fn last(&self) -> String {
        self.seen.last.lock().expect("nobody panics").clone()
    }

    fn start(scheme: &str, act: fn(u64) -> Action, serve: fn(&mut BufReader<TcpStream>, &RequestCounter)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("{scheme}://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::new(RequestCounter::new(act));
        let of_server = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&of_server);
                std::thread::spawn(move || serve(&mut BufReader::new(stream), &seen));
            }
        });
        FakeServer { url, seen }
    }
}

/// Answers one request. Returns `None` at the end of the connection.
fn answer_http(stream: &mut BufReader<TcpStream>, seen: &RequestCounter) -> Option<()> {
    let mut request = String::new();
    let mut length = 0;
    loop {
        let start = request.len();
        if stream.read_line(&mut request).ok()? == 0 {
            return None;
        }
        let line = request[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    request.push_str(std::str::from_utf8(&body).ok()?);
    let decision = |allowed: bool| ("200 OK", format!("{{\"allowed\":{allowed},\"limit\":5,\"reason\":null}}"));
    let (status, body) = match seen.act(request) {
        Action::Allow => decision(true),
        Action::Deny => decision(false),
        Action::Fail(status, detail) => (status, format!("{{\"title\":\"t\",\"detail\":\"{detail}\"}}")),
        Action::HangUp => return None,
        Action::Ignore => loop {
            std::thread::park();
        },
    };
    // In one write: a second small write would wait for the client to acknowledge the first.
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(reply.as_bytes()).ok()
}

/// Answers one command. Returns `None` at the end of the connection.
fn answer_resp(stream: &mut BufReader<TcpStream>, seen: &RequestCounter) -> Option<()> {
    let count = read_count(stream, '*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; read_count(stream, '$')? + 2];
        stream.read_exact(&mut word).ok()?;
        words.push(String::from_utf8(word).ok()?.trim_end().to_owned());
    }
    // CL.THROTTLE says 0 where TG.LIMIT says 1.
    let first = |allow: bool| i32::from(allow == (words[0] == "TG.LIMIT"));
    let decision = |allow: bool| format!("*5\r\n:{}\r\n:5\r\n:4\r\n:-1\r\n:2\r\n", first(allow));
    let reply = match seen.act(words.join(" ")) {
        Action::Allow => decision(true),
        Action::Deny => decision(false),
        Action::Fail(kind, message) => format!("-{kind} {message}\r\n"),
        Action::HangUp => return None,
        Action::Ignore => loop {
            std::thread::park();
        },
    };
    stream.get_mut().write_all(reply.as_bytes()).ok()
}

fn read_count(stream: &mut BufReader<TcpStream>, sign: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(sign)?.parse().ok()
}

struct FakeEnvoyService(Arc<RequestCounter>);

#[tonic::async_trait]
impl RateLimitService for FakeEnvoyService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let token = request.metadata().get("authorization").and_then(|token| token.to_str().ok()).unwrap_or("none");
        let RateLimitRequest { domain, descriptors, hits_addend } = request.get_ref();
        let entries = &descriptors[0].entries;
        let text = format!("{domain} {}={} {hits_addend} {token}", entries[0].key, entries[0].value);
        let (code, limit) = match self.0.act(text) {
            Action::Allow => (Code::Ok, Some(RateLimit::default())),
            Action::Deny => (Code::OverLimit, Some(RateLimit::default())),
            // The domain is unknown.
            Action::Ignore => (Code::Ok, None),
            Action::Fail(_, message) => return Err(Status::unauthenticated(message)),
            Action::HangUp => return Err(Status::unavailable("gone")),
        };
        let status = DescriptorStatus { code: code.into(), current_limit: limit, ..DescriptorStatus::default() };
        let response =
            RateLimitResponse { overall_code: code.into(), statuses: vec![status], ..RateLimitResponse::default() };
        Ok(Response::new(response))
    }
}
